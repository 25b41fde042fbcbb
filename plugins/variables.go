package plugins

import (
	"bytes"
	"slices"

	"graphql-limit-count/cost"
)

// variables passes over the object of variables that comes next, and returns its text.
// repeated is a name that it holds twice, nothing (quoted is nil) if there is none: some
// decoders keep the first of two values, some the last. Only the object's own names
// matter: nothing inside of a variable bears on what a request costs but how long a list
// is. ok is false when what comes next is no JSON.
func (d *decision) variables() (text []byte, repeated jsonString, ok bool) {
	s, names := &d.room.scan, &d.room.names
	names.reset()
	start := s.at
	if !s.enter('}') {
		return nil, repeated, false
	}
	for first := true; !s.leave(); first = false {
		if !first && !s.take(',') {
			return nil, repeated, false
		}
		name, ok := s.key()
		if !ok {
			return nil, repeated, false
		}
		if c := s.next(); c == '{' || c == '[' {
			_, ok = s.value()
		} else {
			ok = s.scalar(c)
		}
		if !ok {
			return nil, repeated, false
		}
		if !names.add(name.bytes(&d.room.text)) && repeated.quoted == nil {
			repeated = name
		}
	}
	return s.text[start:s.at], repeated, true
}

// holdsObject reports whether a string, if there is one, has an object in it, which
// some upstreams decode once more: behind a comment or a byte order mark as well, and
// twice where it holds a string again.
func (d *decision) holdsObject(text jsonString) bool {
	return text.quoted != nil && bytes.ContainsAny(text.bytes(&d.room.text), `{\`)
}

// listsObjects reports whether variables are a list with objects in it, for each of which
// some upstreams run the operation.
func listsObjects(variables []byte) bool {
	return len(variables) > 0 && variables[0] == '[' && bytes.IndexByte(variables, '{') >= 0
}

// textOf is what a string holds, another value's own text, and "" for none and for null.
func (d *decision) textOf(v jsonValue) string {
	switch {
	case v.in.quoted != nil:
		return string(v.in.bytes(&d.room.text))
	case string(v.text) == "null":
		return ""
	default:
		return string(v.text)
	}
}

// values are the request's values of the variables that a plan reads.
func (d *decision) values(op *operation, plan *cost.Plan) []cost.Value {
	count := len(plan.Variables())
	if count == 0 || op.variables == nil {
		return nil
	}
	values := slices.Grow(d.room.values[:0], count)[:count]
	clear(values)
	d.room.values = values
	s := &d.room.scan
	s.start(op.variables)
	s.take('{')
	for !s.take('}') {
		s.take(',')
		key, isKey := s.key()
		value, isValue := s.value()
		if !isKey || !isValue {
			break // does not happen: the object was found to be JSON when it was read
		}
		if i := plan.Index(key.bytes(&d.room.text)); i >= 0 {
			values[i] = cost.JSONValue(value)
		}
	}
	return values
}
