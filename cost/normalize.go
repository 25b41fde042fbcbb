package cost

import "unicode/utf8"

// Limits bound what the parser is let see. Zero fields take the defaults.
type Limits struct {
	// Depth is the nesting of braces, brackets and parentheses together; default 500.
	Depth int
	// Tokens is the number of lexical tokens; default 100 000.
	Tokens int
}

// The defaults of Limits. The parser recurses once for each level of nesting,
// and a goroutine's stack overflow is fatal; it takes some 300 bytes of memory
// for each token.
const (
	DefaultMaxDepth  = 500
	DefaultMaxTokens = 100_000
)

func (l Limits) withDefaults() Limits {
	if l.Depth <= 0 {
		l.Depth = DefaultMaxDepth
	}
	if l.Tokens <= 0 {
		l.Tokens = DefaultMaxTokens
	}
	return l
}

// lineLength is the number of bytes after which the normalised document breaks
// its line: the parser takes time quadratic in the column to describe an error.
const lineLength = 120

// Normalized is a document that costs what its source costs, in the one spelling
// that all documents share which differ only in layout, comments, descriptions and
// strings that are no numbers.
type Normalized struct {
	text string
	// lean is what of it the parser need not be given.
	lean lean
	// selections counts the fields and fragments written in the source.
	selections int
	// tooManyTokens: the source exceeds Limits.Tokens and text is cut short.
	tooManyTokens bool
}

// Text is the normalised document, cut short where the source holds too many tokens.
func (n Normalized) Text() string { return n.text }

// Overlong reports that the source holds more tokens than Limits allow: Parse gives a
// document that Compile refuses.
func (n Normalized) Overlong() bool { return n.tooManyTokens }

// normalizer is the lexical pass: it recognises the grammar of executable
// documents (GraphQL October 2021, appendix B, with September 2025's
// descriptions) within the limits, and writes the normalised document. The
// parser then never meets a document that it cannot read.
//
// It leaves out or rewrites only what cannot carry weight: white space, commas
// and comments; descriptions; type system definitions; strings that are no decimal
// numbers; directives on variable definitions; the spelling of null.
type normalizer struct {
	scan   scanner
	limits Limits

	state state
	// tail is the state after the directives that are being read.
	tail  state
	open  []bracket
	token token

	out  []byte
	line int       // where the current line of out starts
	last tokenKind // the last token written to out
	// silent: inside what is left out.
	silent bool
	// directiveFrom is where the one that is being read starts; directiveCut says that it is one
	// that the parser need not be given.
	directiveFrom int
	directiveCut  bool

	result Normalized
}

// container is what a bracket contains.
type container uint8

const (
	selections container = iota // { selections }
	arguments                   // ( name: value )
	variables                   // ( $name: Type = value )
	object                      // { name: value }
	list                        // [ values ]
	listType                    // [ Type ]
)

// bracket is an open bracket.
type bracket struct {
	container container
	close     tokenKind
	after     state // the state once it is closed
	// speak ends normalizer.silent once it is closed.
	speak bool
	// cut: the parser need not be given it; a directive's arguments with the directive.
	cut bool
	// from is where it starts in the normalised document.
	from int
	// elements are those of a list so far.
	elements int
}

// Normalize runs the lexical pass over src, which is linear and does not recurse.
// Errors are ErrSyntax (wrapped, with the place), or ErrNoOperation when src holds no
// token at all.
func Normalize(src string, limits Limits) (Normalized, error) {
	if !utf8.ValidString(src) {
		return Normalized{}, syntaxError(0, "invalid UTF-8")
	}
	n := normalizer{scan: scanner{src: src, oneReading: true}, limits: limits.withDefaults()}
	var usual [usualNesting]bracket
	n.open = usual[:0]
	n.out = make([]byte, 0, min(len(src), initialOutput)+lineLength)
	for {
		var err error
		if n.token, err = n.scan.next(); err != nil {
			return Normalized{}, err
		}
		if n.token.kind == tokenEOF {
			return n.finish()
		}
		if err := n.step(); err != nil {
			return Normalized{}, err
		}
		n.result.tooManyTokens = n.scan.tokens > n.limits.Tokens
	}
}

// usualNesting is how many brackets are open at once in a usual document.
const usualNesting = 16

// initialOutput bounds the memory set aside for a document before it is read.
const initialOutput = 1 << 16

// finish checks that the document may end here.
func (n *normalizer) finish() (Normalized, error) {
	switch {
	case n.scan.tokens == 0 && !n.scan.commas:
		return Normalized{}, ErrNoOperation
	case n.scan.tokens == 0, n.state != inDocument:
		return Normalized{}, n.unexpected("more")
	}
	n.result.text = string(n.out)
	return n.result, nil
}

// unexpected is the error for a token that is not what the grammar expects.
func (n *normalizer) unexpected(expected string) error {
	return syntaxError(n.token.start, "expected "+expected)
}

// text is the source of the current token.
func (n *normalizer) text() string { return n.scan.text(n.token) }

// keep writes the current token and moves on.
func (n *normalizer) keep(next state) error {
	n.write(n.token.kind, n.text())
	n.state = next
	return nil
}

// expect keeps a token of that kind and refuses any other.
func (n *normalizer) expect(kind tokenKind, what string, next state) error {
	if n.token.kind != kind {
		return n.unexpected(what)
	}
	return n.keep(next)
}

// enter keeps an opening bracket; inside is the state behind it, after the one
// behind the bracket that closes it.
func (n *normalizer) enter(c container, inside, after state) error {
	if len(n.open) >= n.limits.Depth {
		return syntaxError(n.token.start, "nested too deeply")
	}
	b := bracket{container: c, close: closing(n.token.kind), after: after, from: len(n.out)}
	switch c {
	case list, object:
		b.cut = !n.silent && n.result.lean.begin()
	case variables:
		n.result.lean.openVariables(b.from)
	}
	n.open = append(n.open, b)
	return n.keep(inside)
}

// leave keeps a closing bracket, which must be that of the innermost open one.
func (n *normalizer) leave() error {
	if len(n.open) == 0 || n.inner().close != n.token.kind {
		return n.unexpected("another bracket")
	}
	b := *n.inner()
	n.open = n.open[:len(n.open)-1]
	err := n.keep(b.after)
	if b.speak {
		n.silent = false
	}
	switch {
	case b.container == variables:
		n.result.lean.closeVariables(len(n.out))
	case b.cut && b.container == arguments:
		n.endDirective()
	case b.cut:
		n.result.lean.closed(&b, len(n.out))
	}
	return err
}

// inner is the innermost open bracket.
func (n *normalizer) inner() *bracket { return &n.open[len(n.open)-1] }

// closing is the bracket that closes an opening one.
func closing(opening tokenKind) tokenKind {
	switch opening {
	case '(':
		return ')'
	case '[':
		return ']'
	default:
		return '}'
	}
}

// write appends a token to the normalised document, apart from the one before
// where the two would run together, and breaks long lines.
func (n *normalizer) write(kind tokenKind, text string) {
	if n.silent || n.result.tooManyTokens {
		return
	}
	switch {
	case len(n.out)-n.line > lineLength:
		n.out = append(n.out, '\n')
		n.line = len(n.out)
	case wordy(n.last) && wordy(kind):
		n.out = append(n.out, ' ')
	}
	n.out = append(n.out, text...)
	n.last = kind
}

// wordy tells the kinds that need a separator from each other.
func wordy(k tokenKind) bool {
	switch k {
	case tokenName, tokenInt, tokenFloat, tokenString, tokenSpread:
		return true
	default:
		return false
	}
}
