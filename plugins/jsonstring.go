package plugins

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonString is a string as it lies in a text that was found to be JSON.
type jsonString struct {
	quoted []byte
	// escaped: it contains a backslash; wide: it contains bytes beyond ASCII.
	escaped, wide bool
}

// What a word of eight bytes is compared with, byte by byte.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	wordSize = 8
)

// below has the high bit of each byte of a word set that is less than n, at most 128;
// bytes behind the first such may be wrong. So has equals for bytes that are c. (Mycroft's
// test for a zero byte; see Warren, Hacker's Delight, section 6-1.)
func below(word uint64, n byte) uint64 {
	return (word - lowBits*uint64(n)) &^ word & highBits
}

func equals(word uint64, c byte) uint64 { return below(word^lowBits*uint64(c), 1) }

// string passes over a string, the opening quote of which comes next.
func (s *jsonScanner) string() (found jsonString, ok bool) {
	start := s.at
	var all uint64 // the bytes seen, one over the other
	for at := s.at + 1; ; {
		for len(s.text)-at >= wordSize {
			word := binary.LittleEndian.Uint64(s.text[at:])
			if special := equals(word, '"') | equals(word, '\\') | below(word, ' '); special != 0 {
				skip := bits.TrailingZeros64(special)
				all |= word & (1<<(skip-wordSize+1) - 1) // the bytes before it
				at += skip / wordSize
				break
			}
			all |= word
			at += wordSize
		}
		for at < len(s.text) && !isSpecial(s.text[at]) {
			all |= uint64(s.text[at])
			at++
		}
		if at == len(s.text) {
			return jsonString{}, false
		}
		switch s.text[at] {
		case '"':
			s.at = at + 1
			found.quoted, found.wide = s.text[start:s.at], all&highBits != 0
			return found, true
		case '\\':
			length := escapeLength(s.text[at:])
			if length == 0 {
				return jsonString{}, false
			}
			found.escaped = true
			at += length
		default: // a control character
			return jsonString{}, false
		}
	}
}

// isSpecial reports whether a byte means something inside of a string.
func isSpecial(c byte) bool { return c == '"' || c == '\\' || c < ' ' }

// The lengths of escapes.
const (
	shortEscape   = len(`\n`)
	unicodeEscape = len(`\u0000`)
)

// escapeLength is the length of the escape that text begins with, 0 if it is none.
func escapeLength(text []byte) int {
	if len(text) < shortEscape {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return shortEscape
	case 'u':
		if len(text) >= unicodeEscape && hexRune(text[shortEscape:unicodeEscape]) >= 0 {
			return unicodeEscape
		}
	}
	return 0
}

// hexRune is the number that hexadecimal digits are, -1 if they are none.
func hexRune(digits []byte) rune {
	var r rune
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// bytes is the text of the string: where it lies when it holds no escape, else written
// behind what is in *room. What is no UTF-8, and half a surrogate pair, becomes U+FFFD,
// as in encoding/json.
func (s jsonString) bytes(room *[]byte) []byte {
	body := s.quoted[1 : len(s.quoted)-1]
	if !s.escaped && (!s.wide || utf8.Valid(body)) {
		return body
	}
	start := len(*room)
	out := *room
	for len(body) > 0 {
		plain := bytes.IndexByte(body, '\\')
		if plain < 0 {
			plain = len(body)
		}
		if out = appendUTF8(out, body[:plain], s.wide); plain == len(body) {
			break
		}
		r, size := unescape(body[plain:])
		out = utf8.AppendRune(out, r)
		body = body[plain+size:]
	}
	*room = out
	return out[start:len(out):len(out)]
}

// appendUTF8 appends text with U+FFFD for each byte that is no UTF-8; there is none
// unless the text is wide.
func appendUTF8(to, text []byte, wide bool) []byte {
	if !wide || utf8.Valid(text) {
		return append(to, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		to = utf8.AppendRune(to, r)
		text = text[size:]
	}
	return to
}

// unescape decodes the valid escape that text begins with.
func unescape(text []byte) (r rune, size int) {
	switch c := text[1]; c {
	case 'b':
		return '\b', shortEscape
	case 'f':
		return '\f', shortEscape
	case 'n':
		return '\n', shortEscape
	case 'r':
		return '\r', shortEscape
	case 't':
		return '\t', shortEscape
	case 'u':
		return unescapeRune(text)
	default:
		return rune(c), shortEscape
	}
}

// unescapeRune decodes one \u0000, or two that are a surrogate pair.
func unescapeRune(text []byte) (r rune, size int) {
	r = hexRune(text[shortEscape:unicodeEscape])
	if !utf16.IsSurrogate(r) {
		return r, unicodeEscape
	}
	if rest := text[unicodeEscape:]; len(rest) >= unicodeEscape && rest[0] == '\\' && rest[1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(rest[shortEscape:unicodeEscape])); pair != utf8.RuneError {
			return pair, 2 * unicodeEscape
		}
	}
	return utf8.RuneError, unicodeEscape
}
