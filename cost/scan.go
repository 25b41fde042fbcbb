package cost

import "strings"

// tokenKind classifies the lexical tokens of GraphQL October 2021, section 2.1.7.
// Punctuators of one byte are their own kind.
type tokenKind uint8

const (
	tokenEOF         tokenKind = 0
	tokenName        tokenKind = 'n'
	tokenInt         tokenKind = 'i'
	tokenFloat       tokenKind = 'f'
	tokenString      tokenKind = 's'
	tokenBlockString tokenKind = 'b'
	tokenSpread      tokenKind = '.'
)

// maxWordLength bounds names and numbers, in bytes.
const maxWordLength = 1024

// byteOrderMark is U+FEFF in UTF-8; the grammar ignores it wherever it stands.
const byteOrderMark = "\uFEFF"

// token is one lexical token: its kind and its bytes in the source.
type token struct {
	kind       tokenKind
	start, end int
	// escaped marks a string that contains a backslash.
	escaped bool
}

// scanner reads tokens from a source that is valid UTF-8. It looks at each byte
// a bounded number of times and does not recurse.
type scanner struct {
	src string
	pos int
	// tokens is the number of tokens read so far.
	tokens int
	// commas tells whether a comma was skipped; a document of commas alone is
	// not an empty one.
	commas bool
	// oneReading refuses comments that servers end in different places.
	oneReading bool
}

// unread puts the token that was read last back.
func (s *scanner) unread(t token) {
	if t.kind != tokenEOF {
		s.tokens--
	}
	s.pos = t.start
}

// text is the source of a token.
func (s *scanner) text(t token) string { return s.src[t.start:t.end] }

// next returns the next token, of kind tokenEOF at the end of the source.
func (s *scanner) next() (token, error) {
	s.skipIgnored()
	if s.pos >= len(s.src) {
		return token{kind: tokenEOF, start: len(s.src), end: len(s.src)}, nil
	}
	s.tokens++
	start := s.pos
	switch c := s.src[start]; {
	case isNameStart(c):
		return s.name()
	case classes[c]&punctuator != 0:
		s.pos++
		return token{kind: tokenKind(c), start: start, end: s.pos}, nil
	case isDigit(c) || c == '-':
		return s.number()
	case c == '"':
		if strings.HasPrefix(s.src[start:], `"""`) {
			return s.blockString()
		}
		return s.string()
	case c == '.':
		if !strings.HasPrefix(s.src[start:], "...") {
			return token{}, syntaxError(start, "unexpected point")
		}
		s.pos += len("...")
		return token{kind: tokenSpread, start: start, end: s.pos}, nil
	default:
		return token{}, syntaxError(start, "unexpected character")
	}
}

// skipIgnored passes over white space, line terminators, commas, comments and
// byte order marks.
func (s *scanner) skipIgnored() {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.pos++
		case c == ',':
			s.commas = true
			s.pos++
		case c == '#':
			s.skipComment()
		case c == byteOrderMark[0] && strings.HasPrefix(s.src[s.pos:], byteOrderMark):
			s.pos += len(byteOrderMark)
		default:
			return
		}
	}
}

// Unicode's own line terminators. To GraphQL they are text of a comment, to graphql-java
// the end of it.
const (
	lineSeparator      = "\u2028"
	paragraphSeparator = "\u2029"
)

// skipComment passes over a comment up to its line terminator, or up to what next then
// refuses: a byte that is no source character, or a separator that not all servers take
// for a part of the comment.
func (s *scanner) skipComment() {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		c := s.src[s.pos]
		if c < ' ' && c != '\t' {
			return
		}
		if c == lineSeparator[0] && s.oneReading && s.atSeparator() {
			return
		}
	}
}

func (s *scanner) atSeparator() bool {
	rest := s.src[s.pos:]
	return strings.HasPrefix(rest, lineSeparator) || strings.HasPrefix(rest, paragraphSeparator)
}

func (s *scanner) name() (token, error) {
	start := s.pos
	end := start
	for end < len(s.src) && isNameContinue(s.src[end]) {
		end++
	}
	s.pos = end
	if end-start > maxWordLength {
		return token{}, syntaxError(start, "name too long")
	}
	return token{kind: tokenName, start: start, end: end}, nil
}

// number reads an IntValue or FloatValue; the character after it may not be a
// digit, a point or the start of a name (section 2.9.1).
func (s *scanner) number() (token, error) {
	start, kind := s.pos, tokenInt
	i := s.pos
	if s.src[i] == '-' {
		i++
	}
	digits := skipDigits(s.src, i)
	if digits == i || s.src[i] == '0' && digits > i+1 {
		return token{}, syntaxError(start, "malformed number")
	}
	i = digits
	if i < len(s.src) && s.src[i] == '.' {
		kind = tokenFloat
		fraction := skipDigits(s.src, i+1)
		if fraction == i+1 {
			return token{}, syntaxError(start, "malformed number")
		}
		i = fraction
	}
	if i < len(s.src) && (s.src[i] == 'e' || s.src[i] == 'E') {
		kind = tokenFloat
		exponent := skipSign(s.src, i+1)
		if i = skipDigits(s.src, exponent); i == exponent {
			return token{}, syntaxError(start, "malformed number")
		}
	}
	if i < len(s.src) && (isNameStart(s.src[i]) || s.src[i] == '.') {
		return token{}, syntaxError(start, "malformed number")
	}
	if i-start > maxWordLength {
		return token{}, syntaxError(start, "number too long")
	}
	s.pos = i
	return token{kind: kind, start: start, end: i}, nil
}

func (s *scanner) string() (token, error) {
	start, escaped := s.pos, false
	for i := start + 1; i < len(s.src); {
		switch c := s.src[i]; {
		case c == '"':
			s.pos = i + 1
			return token{kind: tokenString, start: start, end: s.pos, escaped: escaped}, nil
		case c == '\\':
			n := escapeLength(s.src[i:])
			if n == 0 {
				return token{}, syntaxError(i, "malformed escape")
			}
			escaped = true
			i += n
		case c < ' ' && c != '\t':
			return token{}, syntaxError(i, "unterminated string")
		default:
			i++
		}
	}
	return token{}, syntaxError(start, "unterminated string")
}

// escapeLength is the length of the escape sequence that s starts with, 0 when
// it is none. \u{...} is the variable-width form of September 2025.
func escapeLength(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		return unicodeEscapeLength(s)
	default:
		return 0
	}
}

func unicodeEscapeLength(s string) int {
	const fixed = len(`\uXXXX`)
	if strings.HasPrefix(s, `\u{`) {
		i := len(`\u{`)
		for i < len(s) && isHexDigit(s[i]) {
			i++
		}
		if i == len(`\u{`) || i >= len(s) || s[i] != '}' {
			return 0
		}
		return i + 1
	}
	if len(s) < fixed {
		return 0
	}
	for i := len(`\u`); i < fixed; i++ {
		if !isHexDigit(s[i]) {
			return 0
		}
	}
	return fixed
}

func (s *scanner) blockString() (token, error) {
	const quotes = `"""`
	start, escaped := s.pos, false
	for i := start + len(quotes); i < len(s.src); {
		switch c := s.src[i]; {
		case c == '"' && strings.HasPrefix(s.src[i:], quotes):
			s.pos = i + len(quotes)
			return token{kind: tokenBlockString, start: start, end: s.pos, escaped: escaped}, nil
		case c == '\\' && strings.HasPrefix(s.src[i+1:], quotes):
			escaped = true
			i += len(`\"""`)
		case c < ' ' && c != '\t' && c != '\n' && c != '\r':
			return token{}, syntaxError(i, "unexpected character")
		default:
			i++
		}
	}
	return token{}, syntaxError(start, "unterminated block string")
}

// stringBody is the text between the quotes of a string token, escapes untouched.
func (s *scanner) stringBody(t token) string {
	quotes := 1
	if t.kind == tokenBlockString {
		quotes = 3
	}
	return s.src[t.start+quotes : t.end-quotes]
}

// The classes of bytes that tokens are told apart by.
const (
	nameStart uint8 = 1 << iota
	nameContinue
	punctuator // that is a token of its own
)

// classes are those of each byte.
var classes = func() (classes [256]uint8) {
	for c := range 26 {
		classes['a'+c] = nameStart | nameContinue
		classes['A'+c] = nameStart | nameContinue
	}
	classes['_'] = nameStart | nameContinue
	for c := '0'; c <= '9'; c++ {
		classes[c] = nameContinue
	}
	for _, c := range "!$&():=@[]{|}" {
		classes[c] = punctuator
	}
	return classes
}()

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHexDigit(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isNameStart(c byte) bool { return classes[c]&nameStart != 0 }

func isNameContinue(c byte) bool { return classes[c]&nameContinue != 0 }
