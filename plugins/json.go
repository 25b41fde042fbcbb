package plugins

import (
	"bytes"
	"encoding/json"
)

// checkJSON reports what makes text no JSON, or what follows the value.
func checkJSON(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var ignored json.RawMessage
	return json.Unmarshal(text, &ignored)
}

// trimJSON cuts insignificant white space. A valid text has something left.
func trimJSON(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// unquote decodes a valid JSON string.
func unquote(text []byte) string {
	if body := text[1 : len(text)-1]; bytes.IndexByte(body, '\\') < 0 && isASCII(body) {
		return string(body)
	}
	var s string
	// A valid string always decodes; invalid UTF-8 becomes U+FFFD.
	_ = json.Unmarshal(text, &s)
	return s
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// eachMember visits the members of a valid JSON object, in order, up to the first
// error of the visitor.
func eachMember(object []byte, visit func(key string, value []byte) error) error {
	c := jsonCursor{text: object, at: 1}
	for c.more('}') {
		key := c.value()
		c.skip(':')
		if err := visit(unquote(key), c.value()); err != nil {
			return err
		}
		c.skip(',')
	}
	return nil
}

// eachElement visits the elements of a valid JSON array, as eachMember does.
func eachElement(array []byte, visit func(value []byte) error) error {
	c := jsonCursor{text: array, at: 1}
	for c.more(']') {
		if err := visit(c.value()); err != nil {
			return err
		}
		c.skip(',')
	}
	return nil
}

// jsonCursor walks over valid JSON, once and without decoding it.
type jsonCursor struct {
	text []byte
	at   int
}

func (c *jsonCursor) space() {
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

// more reports whether something comes before the closing bracket.
func (c *jsonCursor) more(closing byte) bool {
	c.space()
	return c.at < len(c.text) && c.text[c.at] != closing
}

// skip passes over a separator, if it is there.
func (c *jsonCursor) skip(separator byte) {
	if c.space(); c.at < len(c.text) && c.text[c.at] == separator {
		c.at++
	}
}

// value passes over the next value and returns its text.
func (c *jsonCursor) value() []byte {
	c.space()
	start, depth := c.at, 0
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case '"':
			c.string()
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			if depth == 0 {
				return c.text[start:c.at]
			}
			depth--
			c.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.text[start:c.at]
			}
			c.at++
			continue
		default:
			c.at++
			continue
		}
		if depth == 0 {
			return c.text[start:c.at]
		}
	}
	return c.text[start:c.at]
}

func (c *jsonCursor) string() {
	for c.at++; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '\\':
			c.at++
		case '"':
			c.at++
			return
		}
	}
}
