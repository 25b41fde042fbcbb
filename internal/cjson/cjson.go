// Package cjson tells what is wrong with a JSON text in the words of lua-cjson, APISIX's
// decoder, so that clients read of a malformed body what they read elsewhere at the gateway.
package cjson

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxNesting is how deeply lua-cjson, APISIX's decoder, lets arrays and objects nest.
const maxNesting = 1000

// Fault tells what is wrong with the grammar of a JSON text: "Expected <what> but found
// <token> at character <n>", counted in bytes from 1; "" when nothing is. It takes no more
// than RFC 8259 allows, where APISIX's decoder also lets NaN, hexadecimal numbers and control
// characters pass, and refuses what that refuses: deep nesting, halves of surrogate pairs and
// bytes that are no UTF-8. It reads the text once, without recursion.
func Fault(text []byte) string {
	s := &scanner{text: text}
	s.run()
	return s.fault
}

// What the grammar asks for at a place, as the decoder names it.
const (
	wantValue       = "value"
	wantKey         = "object key string"
	wantColon       = "colon"
	wantObjectComma = "comma or object end"
	wantArrayComma  = "comma or array end"
	wantEnd         = "the end"
)

// Tokens, as the decoder names them.
const (
	tokenObjectBegin = "T_OBJ_BEGIN"
	tokenObjectEnd   = "T_OBJ_END"
	tokenArrayBegin  = "T_ARR_BEGIN"
	tokenArrayEnd    = "T_ARR_END"
	tokenString      = "T_STRING"
	tokenNumber      = "T_NUMBER"
	tokenBoolean     = "T_BOOLEAN"
	tokenNull        = "T_NULL"
	tokenColon       = "T_COLON"
	tokenComma       = "T_COMMA"
	tokenEnd         = "T_END"
)

// punctuation are the tokens of one character.
var punctuation = [256]string{
	'{': tokenObjectBegin, '}': tokenObjectEnd,
	'[': tokenArrayBegin, ']': tokenArrayEnd,
	':': tokenColon, ',': tokenComma,
}

// words are the tokens that are spelled out.
var words = []struct{ text, token string }{
	{"true", tokenBoolean}, {"false", tokenBoolean}, {"null", tokenNull},
}

type scanner struct {
	text  []byte
	pos   int    // of the next byte to read
	open  []byte // the brackets that are open, '{' or '['
	fault string
}

// run reads tokens and keeps track of what the grammar wants next. closing tells whether
// the bracket that is open may end here instead, as in [] and {}.
func (s *scanner) run() {
	want, closing := wantValue, false
	for s.fault == "" {
		token, at := s.next()
		if closing && s.closes(token) {
			s.open = s.open[:len(s.open)-1]
			want, closing = s.afterValue()
			continue
		}
		switch {
		case want == wantEnd && token == tokenEnd:
			return
		case want == wantKey && token == tokenString:
			want, closing = wantColon, false
		case want == wantColon && token == tokenColon:
			want = wantValue
		case want == wantObjectComma && token == tokenComma:
			want, closing = wantKey, false
		case want == wantArrayComma && token == tokenComma:
			want, closing = wantValue, false
		case want == wantValue && token == tokenObjectBegin:
			want, closing = wantKey, s.descend('{')
		case want == wantValue && token == tokenArrayBegin:
			want, closing = wantValue, s.descend('[')
		case want == wantValue && isScalar(token):
			want, closing = s.afterValue()
		default:
			s.expected(want, token, at)
		}
	}
}

func isScalar(token string) bool {
	return token == tokenString || token == tokenNumber || token == tokenBoolean || token == tokenNull
}

// closes tells whether token ends the innermost open bracket.
func (s *scanner) closes(token string) bool {
	if len(s.open) == 0 {
		return false
	}
	if s.open[len(s.open)-1] == '{' {
		return token == tokenObjectEnd
	}
	return token == tokenArrayEnd
}

// afterValue is what may follow a value where the scanner stands.
func (s *scanner) afterValue() (want string, closing bool) {
	switch {
	case len(s.open) == 0:
		return wantEnd, false
	case s.open[len(s.open)-1] == '{':
		return wantObjectComma, true
	}
	return wantArrayComma, true
}

// descend opens a bracket; it returns true, because one may close at once.
func (s *scanner) descend(bracket byte) bool {
	s.open = append(s.open, bracket)
	if len(s.open) > maxNesting {
		s.fault = fmt.Sprintf("Found too many nested data structures (%d) at character %d", len(s.open), s.pos)
	}
	return true
}

func (s *scanner) expected(want, found string, at int) {
	s.fault = fmt.Sprintf("Expected %s but found %s at character %d", want, found, at+1)
}

// next reads a token and returns where it, or the fault inside it, begins. What is no token
// is returned as the decoder describes it, which nothing ever wants.
func (s *scanner) next() (token string, at int) {
	for s.pos < len(s.text) && isSpace(s.text[s.pos]) {
		s.pos++
	}
	if s.pos == len(s.text) {
		return tokenEnd, s.pos
	}
	at = s.pos
	c := s.text[at]
	if token := punctuation[c]; token != "" {
		s.pos++
		return token, at
	}
	if c == '"' {
		return s.string()
	}
	if c == '-' || isDigit(c) {
		return s.number()
	}
	for _, word := range words {
		if bytes.HasPrefix(s.text[at:], []byte(word.text)) {
			s.pos += len(word.text)
			return word.token, at
		}
	}
	return "invalid token", at
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() (string, int) {
	at := s.pos
	s.skip('-', '-')
	leading := s.pos
	digits := s.digits()
	valid := digits == 1 || digits > 1 && s.text[leading] != '0'
	if s.skip('.', '.') {
		valid = s.digits() > 0 && valid
	}
	if s.skip('e', 'E') {
		s.skip('+', '-')
		valid = s.digits() > 0 && valid
	}
	if !valid {
		return "invalid number", at
	}
	return tokenNumber, at
}

// skip passes one of the two given bytes, if one is next.
func (s *scanner) skip(one, other byte) bool {
	if s.pos < len(s.text) && (s.text[s.pos] == one || s.text[s.pos] == other) {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) digits() int {
	from := s.pos
	for s.pos < len(s.text) && isDigit(s.text[s.pos]) {
		s.pos++
	}
	return s.pos - from
}

// string reads a string and returns the place of the fault in it, if there is one.
func (s *scanner) string() (string, int) {
	at := s.pos
	s.pos++
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return tokenString, at
		case c < ' ':
			return "invalid control character", s.pos
		case c == '\\':
			if fault := s.escape(); fault != "" {
				return fault, s.pos
			}
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.text[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return "invalid UTF-8", s.pos
			}
			s.pos += size
		}
	}
	return "unexpected end of string", s.pos
}

// escapeLength and unicodeLength are the bytes of \n and of \u0000.
const (
	escapeLength  = 2
	unicodeLength = 6
)

// escape passes one escape sequence, or stays at its backslash and returns the fault.
func (s *scanner) escape() string {
	rest := s.text[s.pos:]
	if len(rest) < escapeLength {
		s.pos = len(s.text)
		return "unexpected end of string"
	}
	if strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0 {
		s.pos += escapeLength
		return ""
	}
	if rest[1] != 'u' {
		return "invalid escape code"
	}
	unit, ok := codeUnit(rest)
	if !ok || unit >= surrogateLow && unit < surrogateEnd {
		return "invalid unicode escape code"
	}
	s.pos += unicodeLength
	if unit < surrogateHigh || unit >= surrogateEnd {
		return ""
	}
	if low, ok := codeUnit(rest[unicodeLength:]); !ok || low < surrogateLow || low >= surrogateEnd {
		s.pos -= unicodeLength
		return "invalid unicode escape code"
	}
	s.pos += unicodeLength
	return ""
}

// UTF-16 surrogates: high ones from surrogateHigh, low ones from surrogateLow.
const (
	surrogateHigh = 0xd800
	surrogateLow  = 0xdc00
	surrogateEnd  = 0xe000
)

// codeUnit reads \uXXXX at the beginning of text.
func codeUnit(text []byte) (int, bool) {
	if len(text) < unicodeLength || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit := 0
	for _, c := range text[escapeLength:unicodeLength] {
		digit := strings.IndexByte("0123456789abcdef", lower(c))
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | digit
	}
	return unit, true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
