package cost

import (
	"encoding/json"
	"math"
	"unicode/utf8"
)

// Value is what the cost engine sees of an argument's value: nothing, a count,
// or something that is no count. The zero Value is nothing.
type Value struct {
	kind valueKind
	num  float64
}

type valueKind uint8

const (
	// unset gives nothing: the next source of the argument's value is asked.
	unset valueKind = iota
	// unusable ends the search without a count: null, text, a boolean, a negative number.
	unusable
	// count is a usable number.
	count
)

// Number makes a Value of a number: a count when it is finite and not negative
// (zero is a real count), else unusable.
func Number(n float64) Value {
	if n >= 0 && !math.IsInf(n, 1) {
		return Value{kind: count, num: n + 0} // -0 becomes 0
	}
	return Value{kind: unusable}
}

// Set reports whether the value is anything at all, usable or not.
func (v Value) Set() bool { return v.kind != unset }

// textValue is a count when text is a decimal number, white space around it
// allowed ("10", " 1e3 "), else unusable.
func textValue(text string) Value {
	n, ok := parseDecimal(text)
	if !ok {
		return Value{kind: unusable}
	}
	return Number(n)
}

// JSONValue makes a Value of one variable's JSON text: a number or a decimal
// string is a count, an array counts its length, anything else, also null and an
// object, is unusable. raw must be valid JSON; empty raw gives nothing.
func JSONValue(raw json.RawMessage) Value {
	raw = trimJSONSpace(raw)
	if len(raw) == 0 {
		return Value{}
	}
	switch c := raw[0]; {
	case c == '"' && isPlainJSON(raw):
		return textValue(string(raw[1 : len(raw)-1]))
	case c == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return Value{kind: unusable}
		}
		return textValue(text)
	case c == '-' || '0' <= c && c <= '9':
		return textValue(string(raw))
	case c == '[':
		return Number(float64(jsonArrayLen(raw)))
	default:
		return Value{kind: unusable}
	}
}

// isPlainJSON reports whether a JSON string is ASCII without escapes.
func isPlainJSON(raw []byte) bool {
	for _, c := range raw {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// trimJSONSpace cuts the insignificant white space around a JSON text.
func trimJSONSpace(raw []byte) []byte {
	space := func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
	for len(raw) > 0 && space(raw[0]) {
		raw = raw[1:]
	}
	for len(raw) > 0 && space(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}

// jsonArrayLen counts the elements of a valid JSON array without decoding them.
func jsonArrayLen(raw []byte) int {
	depth, commas := 0, 0
	empty := true
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '"':
			empty = false
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if depth > 0 {
				empty = false
			}
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				commas++
			}
		case ' ', '\t', '\n', '\r':
		default:
			empty = false
		}
	}
	if empty {
		return 0
	}
	return commas + 1
}
