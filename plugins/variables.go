package plugins

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
