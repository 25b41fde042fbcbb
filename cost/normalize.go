package cost

import (
	"strconv"
	"unicode/utf8"
)

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

// normalized is a document that costs what the source costs, in the one spelling
// that the parser is given.
type normalized struct {
	text string
	// selections counts the fields and fragments written in the source.
	selections int
	// tooManyTokens: the source exceeds Limits.Tokens and text is cut short.
	tooManyTokens bool
}

// scope is what a bracket opens; it tells a value from a field or an argument.
type scope uint8

const (
	scopeDocument   scope = iota
	scopeSelections       // { selections }
	scopeArguments        // ( name: value )
	scopeVariables        // ( $name: Type = value )
	scopeObject           // { name: value }
	scopeList             // [ values ]
	scopeType             // [ Type ]
	scopeDefinition       // anything inside a type system definition
)

// bracket is an open bracket: what it opened and what closes it.
type bracket struct {
	scope scope
	close tokenKind
}

// dropState follows a directive on a variable definition, which is left out.
type dropState uint8

const (
	dropNothing dropState = iota
	dropName              // after '@'
	dropMaybeArguments
	dropArguments
)

// normalizer is the lexical pass: it checks the source against the lexical
// grammar and the limits, and writes the normalised document.
//
// It leaves out or rewrites only what cannot carry weight: white space, commas
// and comments; descriptions; strings that are no decimal numbers; directives on
// variable definitions; the spelling of null. Whatever stands inside parentheses
// that are left out could only be argument values.
type normalizer struct {
	scan   scanner
	limits Limits
	out    []byte
	line   int       // where the current line of out starts
	last   tokenKind // the last token written to out

	open      []bracket
	variables int // the height of open at the innermost scopeVariables, 0 if none

	prev, prev2    token // the tokens before the current one
	definition     bool  // inside a definition at the top level
	typeSystem     bool  // ... which is none that can be executed
	described      bool  // a description was read, its definition must follow
	drop           dropState
	dropHeight     int  // the height of open when dropArguments began
	constantDollar bool // a '$' in a constant was replaced, its name must follow

	result normalized
	tokens int
}

// normalize runs the lexical pass over src. Errors are ErrSyntax, or
// ErrNoOperation when src holds no token at all.
func normalize(src string, limits Limits) (normalized, error) {
	if !utf8.ValidString(src) {
		return normalized{}, syntaxError(0, "invalid UTF-8")
	}
	n := normalizer{scan: scanner{src: src}, limits: limits.withDefaults()}
	n.out = make([]byte, 0, min(len(src), 1<<16)+lineLength)
	for {
		t, err := n.scan.next()
		if err != nil {
			return normalized{}, err
		}
		if t.kind == tokenEOF {
			break
		}
		if n.tokens++; n.tokens > n.limits.Tokens {
			n.result.tooManyTokens = true
		}
		if err := n.token(t); err != nil {
			return normalized{}, err
		}
		n.prev2, n.prev = n.prev, t
	}
	return n.finish()
}

func (n *normalizer) finish() (normalized, error) {
	end := len(n.scan.src)
	switch {
	case len(n.open) > 0:
		return normalized{}, syntaxError(end, "unclosed bracket")
	case n.tokens == 0 && !n.scan.commas:
		return normalized{}, ErrNoOperation
	case n.tokens == 0 || n.described || n.constantDollar || n.drop == dropName:
		return normalized{}, syntaxError(end, "unexpected end")
	}
	n.result.text = string(n.out)
	return n.result, nil
}

// scope is the innermost open scope.
func (n *normalizer) scope() scope {
	if len(n.open) == 0 {
		return scopeDocument
	}
	return n.open[len(n.open)-1].scope
}

// token takes one token: it is left out, rewritten or copied.
func (n *normalizer) token(t token) error {
	if n.constantDollar {
		n.constantDollar = false
		if t.kind != tokenName {
			return syntaxError(t.start, "expected a variable's name")
		}
		return nil
	}
	if n.described && t.kind != tokenName && t.kind != '$' {
		return syntaxError(t.start, "expected a definition after its description")
	}
	n.described = false
	if left, err := n.dropDirective(t); left || err != nil {
		return err
	}
	switch t.kind {
	case '(', '[', '{':
		return n.openBracket(t)
	case ')', ']', '}':
		return n.closeBracket(t)
	case tokenString, tokenBlockString:
		return n.stringToken(t)
	case '$':
		return n.dollar(t)
	case tokenName:
		return n.name(t)
	case tokenSpread:
		if n.scope() == scopeSelections {
			n.result.selections++
		}
	}
	n.write(t.kind, n.scan.text(t))
	return nil
}

// dropDirective leaves out directives on variable definitions (section 2.10),
// which the parser cannot read. It reports whether t was left out.
func (n *normalizer) dropDirective(t token) (bool, error) {
	switch n.drop {
	case dropName:
		if t.kind != tokenName {
			return false, syntaxError(t.start, "expected a directive's name")
		}
		n.drop = dropMaybeArguments
		return true, nil
	case dropMaybeArguments:
		if t.kind != '(' {
			n.drop = dropNothing
			break
		}
		n.drop = dropArguments
		n.dropHeight = len(n.open)
		return true, n.push(t, scopeArguments)
	case dropArguments:
		return true, n.droppedToken(t)
	}
	if t.kind == '@' && n.scope() == scopeVariables {
		n.drop = dropName
		return true, nil
	}
	return false, nil
}

// droppedToken keeps count of brackets inside arguments that are left out.
func (n *normalizer) droppedToken(t token) error {
	switch t.kind {
	case '(':
		return syntaxError(t.start, "unexpected parenthesis")
	case '[':
		return n.push(t, scopeList)
	case '{':
		return n.push(t, scopeObject)
	case ')', ']', '}':
		if err := n.pop(t); err != nil {
			return err
		}
		if len(n.open) == n.dropHeight {
			n.drop = dropNothing
		}
	}
	return nil
}

// openBracket writes an opening bracket and enters the scope that it opens.
func (n *normalizer) openBracket(t token) error {
	if err := n.push(t, n.opens(t)); err != nil {
		return err
	}
	n.write(t.kind, n.scan.text(t))
	return nil
}

// opens tells what scope an opening bracket opens where it stands.
func (n *normalizer) opens(t token) scope {
	outer := n.scope()
	if n.typeSystem || outer == scopeDefinition {
		return scopeDefinition
	}
	switch t.kind {
	case '(':
		if outer == scopeDocument && !(n.prev.kind == tokenName && n.prev2.kind == '@') {
			return scopeVariables
		}
		return scopeArguments
	case '[':
		if outer == scopeType || outer == scopeVariables && n.prev.kind != '=' {
			return scopeType
		}
		return scopeList
	default:
		if outer == scopeDocument || outer == scopeSelections {
			n.definition = true
			return scopeSelections
		}
		return scopeObject
	}
}

func (n *normalizer) push(t token, s scope) error {
	if len(n.open) >= n.limits.Depth {
		return syntaxError(t.start, "nested too deeply")
	}
	n.open = append(n.open, bracket{scope: s, close: closing(t.kind)})
	if s == scopeVariables {
		n.variables = len(n.open)
	}
	return nil
}

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

func (n *normalizer) closeBracket(t token) error {
	if err := n.pop(t); err != nil {
		return err
	}
	if len(n.open) == 0 && t.kind == '}' {
		n.definition, n.typeSystem = false, false
	}
	n.write(t.kind, n.scan.text(t))
	return nil
}

func (n *normalizer) pop(t token) error {
	if len(n.open) == 0 || n.open[len(n.open)-1].close != t.kind {
		return syntaxError(t.start, "unbalanced bracket")
	}
	if t.kind == ')' && n.prev.kind == '(' {
		return syntaxError(t.start, "empty parentheses")
	}
	n.open = n.open[:len(n.open)-1]
	if len(n.open) < n.variables {
		n.variables = 0
	}
	return nil
}

// stringToken leaves out descriptions (October 2021: on type definitions,
// September 2025: on operations, fragments and variables too) and writes values:
// a decimal number in one spelling, any other text as the empty string.
func (n *normalizer) stringToken(t token) error {
	description := n.scope() == scopeDocument && !n.definition ||
		n.scope() == scopeVariables && n.prev.kind != '='
	if description {
		n.described = true
		return nil
	}
	text := `""`
	if v, ok := parseDecimal(n.scan.stringBody(t)); ok && !t.escaped && Number(v).kind == count {
		text = `"` + strconv.FormatFloat(v, 'g', -1, 64) + `"`
	}
	n.write(tokenString, text)
	return nil
}

// dollar writes a '$', unless it stands in a constant: a variable as the default
// of another gives nothing, as an empty object does, which the parser can read.
func (n *normalizer) dollar(t token) error {
	inConstant := n.variables > 0 && (len(n.open) > n.variables || n.prev.kind == '=')
	if inConstant {
		n.constantDollar = true
		n.write('{', "{}")
		return nil
	}
	n.write(t.kind, "$")
	return nil
}

// name writes a name, and a null that is a value as an enum value: both are no
// count and end the search for one.
func (n *normalizer) name(t token) error {
	text := n.scan.text(t)
	switch n.scope() {
	case scopeDocument:
		n.definitionName(text)
	case scopeSelections:
		n.countField()
	}
	if text == "null" && n.valuePosition() {
		text = "NULL"
	}
	n.write(tokenName, text)
	return nil
}

// definitionName notes what kind of definition starts at the top level.
func (n *normalizer) definitionName(text string) {
	switch text {
	case "query", "mutation", "subscription", "fragment":
		if !n.definition || n.typeSystem && n.keywordPosition() {
			n.definition, n.typeSystem = true, false
		}
	default:
		if !n.definition {
			n.definition, n.typeSystem = true, true
		}
	}
}

// keywordPosition reports whether a name at the top level of a type system
// definition without braces (scalar, union, directive) can start the next one.
func (n *normalizer) keywordPosition() bool {
	if n.prev.kind != tokenName {
		return n.prev.kind == ')'
	}
	switch n.scan.text(n.prev) {
	case "scalar", "type", "interface", "union", "enum", "input", "extend", "implements", "on", "directive":
		return false
	}
	return true
}

// countField counts a name that is a field written in a selection set, an alias
// and its field once.
func (n *normalizer) countField() {
	typeCondition := n.prev2.kind == tokenSpread && n.prev.kind == tokenName
	switch {
	case typeCondition, n.prev.kind == tokenSpread, n.prev.kind == '@', n.prev.kind == ':':
	default:
		n.result.selections++
	}
}

// valuePosition reports whether the current token is a value.
func (n *normalizer) valuePosition() bool {
	switch n.scope() {
	case scopeArguments, scopeObject:
		return n.prev.kind == ':'
	case scopeList:
		return true
	case scopeVariables:
		return n.prev.kind == '='
	default:
		return false
	}
}

// write appends a token to the normalised document, apart from the one before
// where the two would run together, and breaks long lines.
func (n *normalizer) write(kind tokenKind, text string) {
	if n.result.tooManyTokens {
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
	if text == "{}" {
		n.last = '}'
	}
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
