package cost

import (
	"encoding/json"
	"fmt"
)

// jsonReader walks over a text that is known to be valid JSON and keeps nothing of what it
// passes: encoding/json would build a tree of all of it first, which for a hostile answer is
// thirty times the text.
type jsonReader struct {
	text []byte
	pos  int
	// names holds every string once: few names make up a schema.
	names map[string]string
}

func newJSONReader(text []byte) *jsonReader {
	return &jsonReader{text: text, names: map[string]string{}}
}

// next returns the first byte of the next token without passing over it, 0 at the end.
func (r *jsonReader) next() byte {
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; c {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// object passes over an object and calls member for each of its members, with the reader
// before the value, which member passes over. Null is an object without members; into names
// the place in an error about anything else.
func (r *jsonReader) object(into string, member func(name []byte) error) error {
	if ok, err := r.open('{', into); !ok {
		return err
	}
	for r.next() != '}' {
		name := r.stringBytes()
		r.next()
		r.pos++ // the colon
		if err := member(name); err != nil {
			return err
		}
		r.comma()
	}
	r.pos++
	return nil
}

// array passes over an array and calls element before each of its elements, as object does.
func (r *jsonReader) array(into string, element func() error) error {
	if ok, err := r.open('[', into); !ok {
		return err
	}
	for r.next() != ']' {
		if err := element(); err != nil {
			return err
		}
		r.comma()
	}
	r.pos++
	return nil
}

// open passes over an opening bracket, or over null; ok is true for the bracket.
func (r *jsonReader) open(bracket byte, into string) (ok bool, err error) {
	switch c := r.next(); c {
	case bracket:
		r.pos++
		return true, nil
	case 'n':
		r.skip()
		return false, nil
	default:
		return false, unexpectedJSON(c, into)
	}
}

func (r *jsonReader) comma() {
	if r.next() == ',' {
		r.pos++
	}
}

// str reads a string; null is the empty one.
func (r *jsonReader) str(into string) (string, error) {
	switch c := r.next(); c {
	case '"':
		name := r.stringBytes()
		known, ok := r.names[string(name)]
		if !ok {
			known = string(name)
			r.names[known] = known
		}
		return known, nil
	case 'n':
		r.skip()
		return "", nil
	default:
		return "", unexpectedJSON(c, into)
	}
}

// stringBytes reads the string that the reader stands before. The result is valid until the
// text is.
func (r *jsonReader) stringBytes() []byte {
	r.next()
	start := r.pos
	plain := r.skipString()
	raw := r.text[start:r.pos]
	if plain {
		return raw[1 : len(raw)-1]
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil // not for valid JSON
	}
	return []byte(text)
}

// skipString passes over a string and reports whether it stands for itself.
func (r *jsonReader) skipString() (plain bool) {
	plain = true
	for r.pos++; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			return plain
		case c == '\\':
			plain = false
			r.pos++
		case c >= 0x80:
			plain = false
		}
	}
	return plain
}

// skip passes over a value.
func (r *jsonReader) skip() {
	depth := 0
	for {
		switch r.next() {
		case 0:
			return
		case '"':
			r.skipString()
		case '{', '[':
			depth++
			r.pos++
			continue
		case '}', ']':
			depth--
			r.pos++
		case ',', ':':
			r.pos++
			continue
		default:
			r.word()
		}
		if depth == 0 {
			return
		}
	}
}

// word reads a number, true, false or null. The result is valid as long as the text is.
func (r *jsonReader) word() []byte {
	r.next()
	start := r.pos
	for r.pos < len(r.text) && !endsWord(r.text[r.pos]) {
		r.pos++
	}
	return r.text[start:r.pos]
}

// endsWord reports whether a number, true, false or null ends before c.
func endsWord(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\t', '\r', '\n':
		return true
	default:
		return false
	}
}

// unexpectedJSON is encoding/json's error for a value of the wrong kind.
func unexpectedJSON(first byte, into string) error {
	kind := "number"
	switch first {
	case '"':
		kind = "string"
	case '{':
		kind = "object"
	case '[':
		kind = "array"
	case 't', 'f':
		kind = "bool"
	}
	return fmt.Errorf("json: cannot unmarshal %s into %s", kind, into)
}
