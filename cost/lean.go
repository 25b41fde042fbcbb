package cost

import "strconv"

// lean notes what the parser need not be given of the normalised document, because no
// cost depends on it: the parser takes a hundred bytes and some hundred nanoseconds for
// each token. That is aliases, directives, the types of variables, and the variables
// that have no default; a list is replaced by its length, for which it counts, and an
// object by an empty one, which gives as little. So the parser never meets a nested
// value.
type lean struct {
	cuts []cut
	// within: inside what is cut.
	within bool
	// selection is where the last name in a selection set starts, which an alias turns
	// out to be; definition that of the variable that is being defined, and definitions
	// that of all of them, the first of whose cuts is firstCut; defaults tells whether one
	// has a default, and typed where its type starts, 0 when that has been cut.
	selection, definition, definitions int
	firstCut                           int
	typed                              int
	defaults                           bool
}

// cut is a part of the normalised document and what takes its place.
type cut struct {
	from, to int
	with     string
}

// begin begins a cut, unless inside of one; whoever is told that it began ends it.
func (l *lean) begin() (began bool) {
	began = !l.within
	l.within = true
	return began
}

// end ends a cut.
func (l *lean) end(from, to int, with string) {
	l.within = false
	l.cuts = append(l.cuts, cut{from, to, with})
}

// closed ends the cut of a list or an object.
func (l *lean) closed(b *bracket, to int) {
	with := "{}"
	if b.container == list {
		with = " " + strconv.Itoa(b.elements) + " "
	}
	l.end(b.from, to, with)
}

// define begins a variable definition.
func (l *lean) define(from int) { l.definition = from }

// fallback begins the default of the variable that is being defined.
func (l *lean) fallback(to int) {
	l.cuts = append(l.cuts, cut{l.typed, to, "T"})
	l.typed, l.defaults = 0, true
}

// defined ends a variable definition, if there is one.
func (l *lean) defined(to int) {
	if l.typed > 0 {
		l.cuts = append(l.cuts, cut{l.definition, to, ""})
		l.typed = 0
	}
}

// openVariables begins the variable definitions.
func (l *lean) openVariables(from int) {
	l.definitions, l.firstCut, l.defaults = from, len(l.cuts), false
}

// closeVariables ends the variable definitions: without a default all of them can go.
func (l *lean) closeVariables(to int) {
	if !l.defaults {
		l.cuts = append(l.cuts[:l.firstCut], cut{l.definitions, to, " "})
	}
}

// apply returns text with the cuts made.
func (l *lean) apply(text string) []byte {
	out := make([]byte, 0, len(text)+len(" "))
	at := 0
	for _, c := range l.cuts {
		out = append(out, text[at:c.from]...)
		out = append(out, c.with...)
		at = c.to
	}
	return append(out, text[at:]...)
}
