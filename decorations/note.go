package decorations

import (
	"fmt"
	"strings"
)

// Note is something that a translation into decorations could not say in full.
type Note struct {
	// Line is where it stands in the source, from 1; 0 where lines are not known.
	Line int
	// Where is the type, field or argument.
	Where string
	// Text says what and why.
	Text string
	// Lost tells that nothing of the item was translated; otherwise it was translated, with
	// the difference that Text names.
	Lost bool
}

// String is the note on one line.
func (n Note) String() string {
	line := ""
	if n.Line > 0 {
		line = fmt.Sprintf("line %d: ", n.Line)
	}
	if n.Lost {
		return line + n.Where + ": not mapped: " + n.Text
	}
	return line + n.Where + ": " + n.Text
}

// namedItems is how many items of a group of notes are named.
const namedItems = 3

// FormatNotes shows notes, a line each: first what was lost, item by item, then the
// differences, where items that share one are put together.
func FormatNotes(notes []Note) string {
	var out strings.Builder
	groups := map[string][]Note{}
	var order []string
	for _, n := range notes {
		if n.Lost {
			fmt.Fprintln(&out, n)
			continue
		}
		if groups[n.Text] == nil {
			order = append(order, n.Text)
		}
		groups[n.Text] = append(groups[n.Text], n)
	}
	for _, text := range order {
		group := groups[text]
		if len(group) == 1 {
			fmt.Fprintln(&out, group[0])
			continue
		}
		var names []string
		for _, n := range group[:min(namedItems, len(group))] {
			names = append(names, n.Where)
		}
		shown := strings.Join(names, ", ")
		if more := len(group) - len(names); more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(&out, "%s: %s\n", shown, text)
	}
	return out.String()
}
