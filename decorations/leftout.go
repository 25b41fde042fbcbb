package decorations

import (
	"fmt"
	"strings"
	"unicode"
)

// memberLeftOut is a member of the documents that the admin endpoint answers with. In a
// document that is read it says nothing.
const memberLeftOut = "left_out"

// LeftOut is a decoration of a store that is not part of a document, because no document with
// it could be sent back: another program wrote what is no valid decoration.
type LeftOut struct {
	// ID is the decoration's.
	ID string `json:"id"`
	// FieldPath is its path, empty where it has none.
	FieldPath string `json:"field_path,omitempty"`
	// Why says what is wrong with it.
	Why string `json:"why"`
}

// String says on one line what was left out and why.
func (l LeftOut) String() string {
	where := fmt.Sprintf("decoration %q", l.ID)
	if l.FieldPath != "" {
		where += " of " + l.FieldPath
	}
	line := fmt.Sprintf("%s is left out, it is without effect and a push removes it: %s", where, l.Why)
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
}

// Whole is the set with what was left out of it, as far as that is known: what a push replaces.
func (s Set) Whole() Set {
	whole := Set{ServiceID: s.ServiceID}
	for _, l := range s.LeftOut {
		whole.Decorations = append(whole.Decorations, Decoration{ID: l.ID, FieldPath: l.FieldPath, Value: []byte("{}")})
	}
	whole.Decorations = append(whole.Decorations, s.Decorations...)
	return whole
}

// leftOutComment is the comment at the head of a YAML document.
func (s Set) leftOutComment() string {
	lines := make([]string, len(s.LeftOut))
	for i, l := range s.LeftOut {
		lines[i] = l.String()
	}
	return comment(strings.Join(lines, "\n"))
}
