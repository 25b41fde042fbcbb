package plugins

// maxJSONNesting is how many objects and arrays may be open at once: what
// encoding/json allows.
const maxJSONNesting = 10_000

// jsonScanner reads JSON (RFC 8259) in one pass that both checks it and finds what is
// asked for. It takes exactly the texts that encoding/json takes, looks at each byte
// once, does not recurse, and copies nothing. It says only that a text is no JSON:
// what is wrong with it, in the words of APISIX's decoder, cjson.Fault tells, which may
// stop before, at what that decoder alone refuses.
type jsonScanner struct {
	text []byte
	at   int
	// closers are the brackets that close what is open, innermost last.
	closers []byte
}

// start makes text what is read.
func (s *jsonScanner) start(text []byte) {
	s.text, s.at, s.closers = text, 0, s.closers[:0]
}

// space passes over insignificant white space.
func (s *jsonScanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next passes over white space and returns the byte behind it, 0 at the end.
func (s *jsonScanner) next() byte {
	s.space()
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// take passes over white space and c, if c comes next.
func (s *jsonScanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// ended reports whether nothing but white space is left.
func (s *jsonScanner) ended() bool {
	s.space()
	return s.at == len(s.text)
}

// enter passes over an opening bracket and reports whether the nesting allows that.
func (s *jsonScanner) enter(closer byte) bool {
	s.at++
	s.closers = append(s.closers, closer)
	return len(s.closers) <= maxJSONNesting
}

// leave passes over the innermost closing bracket, if that comes next.
func (s *jsonScanner) leave() bool {
	inner := len(s.closers) - 1
	if !s.take(s.closers[inner]) {
		return false
	}
	s.closers = s.closers[:inner]
	return true
}

// value passes over white space and a value, and returns its text. ok is false when
// what comes next is no JSON.
func (s *jsonScanner) value() (text []byte, ok bool) {
	outer := len(s.closers)
	s.space()
	start := s.at
	for {
		switch c := s.next(); c {
		case '{':
			if !s.enter('}') {
				return nil, false
			}
			if !s.leave() {
				if _, ok := s.key(); !ok {
					return nil, false
				}
				continue
			}
		case '[':
			if !s.enter(']') {
				return nil, false
			}
			if !s.leave() {
				continue
			}
		default:
			if !s.scalar(c) {
				return nil, false
			}
		}
		more, ok := s.close(outer)
		if !ok {
			return nil, false
		}
		if !more {
			return s.text[start:s.at], true
		}
	}
}

// close passes over the brackets that close behind a value, down to the outer ones, and
// over the separator, and the key, before the next value. It reports whether there is
// a next value.
func (s *jsonScanner) close(outer int) (more, ok bool) {
	for len(s.closers) > outer {
		if s.leave() {
			continue
		}
		if !s.take(',') {
			return false, false
		}
		if s.closers[len(s.closers)-1] == '}' {
			_, ok := s.key()
			return true, ok
		}
		return true, true
	}
	return false, true
}

// jsonValue is a value: text is nil when there is none. Of a string, in is how it is
// written.
type jsonValue struct {
	text []byte
	in   jsonString
}

// described is value, with how a string is written.
func (s *jsonScanner) described() (v jsonValue, ok bool) {
	if s.next() == '"' {
		v.in, ok = s.string()
		v.text = v.in.quoted
		return v, ok
	}
	v.text, ok = s.value()
	return v, ok
}

// key passes over the name of a member, with its quotes, and the colon.
func (s *jsonScanner) key() (name jsonString, ok bool) {
	if s.next() != '"' {
		return jsonString{}, false
	}
	name, ok = s.string()
	return name, ok && s.take(':')
}

// eachMember passes over an object, which comes next, and visits its members in order. ok
// is false when it is no JSON.
func (s *jsonScanner) eachMember(visit func(name string, value jsonValue)) (ok bool) {
	if !s.enter('}') {
		return false
	}
	for first := true; !s.leave(); first = false {
		if !first && !s.take(',') {
			return false
		}
		name, isName := s.key()
		value, isValue := s.described()
		if !isName || !isValue {
			return false
		}
		visit(string(name.bytes(new([]byte))), value)
	}
	return true
}

// scalar passes over a value that is no object or array and begins with c.
func (s *jsonScanner) scalar(c byte) bool {
	switch c {
	case '"':
		_, ok := s.string()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *jsonScanner) literal(text string) bool {
	if len(s.text)-s.at < len(text) || string(s.text[s.at:s.at+len(text)]) != text {
		return false
	}
	s.at += len(text)
	return true
}

// number passes over -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func (s *jsonScanner) number() bool {
	if s.has('-') {
		s.at++
	}
	switch {
	case s.has('0'):
		s.at++
	case !s.digits():
		return false
	}
	if s.has('.') {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.has('e') || s.has('E') {
		s.at++
		if s.has('+') || s.has('-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

func (s *jsonScanner) has(c byte) bool { return s.at < len(s.text) && s.text[s.at] == c }

func (s *jsonScanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}
