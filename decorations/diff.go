package decorations

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Changes are what separates two sets of a service. Its JSON form is part of the admin
// endpoint's answer to a bulk write.
type Changes struct {
	// Added, Changed and Removed are ordered by field path; those of Changed have the new one.
	Added   []Decoration `json:"added"`
	Changed []Change     `json:"changed"`
	Removed []Decoration `json:"removed"`
	// Unchanged is how many decorations both sets have.
	Unchanged int `json:"unchanged"`
}

// Change is a decoration whose members differ.
type Change struct {
	ID        string `json:"id,omitempty"`
	FieldPath string `json:"field_path"`
	// Members are those that differ, in the order in which documents write them.
	Members []MemberChange `json:"members"`
}

// MemberChange is one member's two values.
type MemberChange struct {
	Name string `json:"name"`
	// Old and New are JSON; nil (null in JSON) where the decoration leaves the member out.
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new"`
}

// Result is the admin endpoint's answer to a bulk write.
type Result struct {
	Changes
	// Warnings are what the service's schema does not have, a sentence each.
	Warnings []string `json:"warnings"`
	// DryRun tells that nothing was written.
	DryRun bool `json:"dry_run"`
}

// Empty reports whether the sets are the same.
func (c Changes) Empty() bool {
	return len(c.Added)+len(c.Changed)+len(c.Removed) == 0
}

// WithIDs gives the decorations their ids: one without an id takes that of the decoration of
// current that has its field path, else one that makeID makes for its field path. It is an error when that
// id is another decoration's of s.
func (s Set) WithIDs(current Set, makeID func(fieldPath string) string) (Set, error) {
	present := current.byPath()
	taken := map[string]string{}
	for _, d := range s.Decorations {
		if d.ID != "" {
			taken[d.ID] = d.FieldPath
		}
	}
	identified := Set{ServiceID: s.ServiceID, Decorations: slices.Clone(s.Decorations)}
	for i := range identified.Decorations {
		d := &identified.Decorations[i]
		if d.ID != "" {
			continue
		}
		if d.ID = present[d.FieldPath].ID; d.ID == "" {
			d.ID = makeID(d.FieldPath)
		}
		if holder, ok := taken[d.ID]; ok {
			return Set{}, fmt.Errorf("id %s is given to %s but is that of the decoration of %s, which has none in the document",
				d.ID, holder, d.FieldPath)
		}
		taken[d.ID] = d.FieldPath
	}
	return identified, nil
}

func (s Set) byPath() map[string]Decoration {
	decorations := make(map[string]Decoration, len(s.Decorations))
	for _, d := range s.Decorations {
		decorations[d.FieldPath] = d
	}
	return decorations
}

// Same reports whether two decorations say the same: the same members, where a default that
// is written out equals one that is left out and numbers are compared by value. Ids and
// comments are not looked at.
func (d Decoration) Same(other Decoration) bool {
	return len(memberChanges(d, other)) == 0
}

// Diff tells what must be added to, changed in and removed from current to get wanted. A
// decoration of wanted is the one of current that has its id or, where it has none, its
// field path. Values that are no JSON objects are compared as text.
func Diff(current, wanted Set) Changes {
	changes := Changes{Added: []Decoration{}, Changed: []Change{}, Removed: []Decoration{}}
	present := current.byPath()
	byID := make(map[string]Decoration, len(current.Decorations))
	for _, d := range current.Decorations {
		byID[d.ID] = d
	}
	kept := map[string]bool{}
	for _, d := range wanted.Decorations {
		old, ok := present[d.FieldPath]
		if d.ID != "" {
			old, ok = byID[d.ID]
		}
		if !ok || kept[old.FieldPath] {
			changes.Added = append(changes.Added, d)
			continue
		}
		kept[old.FieldPath] = true
		if members := memberChanges(old, d); len(members) > 0 {
			changes.Changed = append(changes.Changed, Change{ID: old.ID, FieldPath: d.FieldPath, Members: members})
		} else {
			changes.Unchanged++
		}
	}
	for _, d := range current.Decorations {
		if !kept[d.FieldPath] {
			changes.Removed = append(changes.Removed, d)
		}
	}
	byPath := func(a, b Decoration) int { return cmp.Compare(a.FieldPath, b.FieldPath) }
	slices.SortStableFunc(changes.Added, byPath)
	slices.SortStableFunc(changes.Removed, byPath)
	slices.SortStableFunc(changes.Changed, func(a, b Change) int { return cmp.Compare(a.FieldPath, b.FieldPath) })
	return changes
}

// memberChanges compares two decorations member by member.
func memberChanges(old, wanted Decoration) []MemberChange {
	before, oldErr := old.members()
	after, newErr := wanted.members()
	if oldErr != nil || newErr != nil {
		if string(old.Value) == string(wanted.Value) {
			return nil
		}
		return []MemberChange{{Name: "value", Old: quoted(old.Value), New: quoted(wanted.Value)}}
	}
	names := slices.Clone(memberOrder)
	for _, object := range []map[string]any{before, after} {
		for _, name := range sortedNames(object) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var changes []MemberChange
	for _, name := range names {
		a, b := shownMember(name, before), shownMember(name, after)
		if !reflect.DeepEqual(byValue(a), byValue(b)) {
			changes = append(changes, MemberChange{Name: name, Old: rawMember(name, before), New: rawMember(name, after)})
		}
	}
	return changes
}

// quoted is a value that is no JSON as JSON text.
func quoted(value []byte) json.RawMessage { return json.RawMessage(jsonText(string(value))) }

// absent stands for a member that is left out; a member may be null.
type absent struct{}

func shownMember(name string, object map[string]any) any {
	value, ok := object[name]
	if !ok || isDefault(name, value) {
		return absent{}
	}
	return value
}

func rawMember(name string, object map[string]any) json.RawMessage {
	value, ok := object[name]
	if !ok {
		return nil
	}
	return json.RawMessage(jsonText(value))
}

// byValue replaces numbers by their values.
func byValue(value any) any {
	switch value := value.(type) {
	case json.Number:
		if f, err := value.Float64(); err == nil {
			return f
		}
		return value
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = byValue(item)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, item := range value {
			object[name] = byValue(item)
		}
		return object
	default:
		return value
	}
}

// String shows the changes, a line for each: + added, - removed, ~ changed, with the members
// that differ. It ends with a line that counts them.
func (c Changes) String() string {
	var out strings.Builder
	for _, d := range c.Removed {
		fmt.Fprintf(&out, "- %s\n", d.line())
	}
	for _, change := range c.Changed {
		fmt.Fprintf(&out, "~ %s\n", change.FieldPath)
		for _, m := range change.Members {
			fmt.Fprintf(&out, "    %s: %s -> %s\n", m.Name, shownValue(m.Old), shownValue(m.New))
		}
	}
	for _, d := range c.Added {
		fmt.Fprintf(&out, "+ %s\n", d.line())
	}
	fmt.Fprintf(&out, "%d added, %d changed, %d removed, %d unchanged\n",
		len(c.Added), len(c.Changed), len(c.Removed), c.Unchanged)
	return out.String()
}

func shownValue(value json.RawMessage) string {
	if value == nil || string(value) == "null" {
		return "(none)"
	}
	return string(value)
}

// line is a decoration on one line.
func (d Decoration) line() string {
	names, members, err := d.shown()
	if err != nil {
		return d.FieldPath
	}
	parts := []string{d.FieldPath}
	for _, name := range names {
		if name != memberFieldPath {
			parts = append(parts, name+": "+jsonText(members[name]))
		}
	}
	return strings.Join(parts, "  ")
}
