package decorations

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"graphql-limit-count/cost"
)

// The members of a cost decoration of Kong's graphql-rate-limiting-advanced, and of what its
// Admin API answers: {"data": [...], "next": null}.
const (
	kongData    = "data"
	kongEntity  = "graphql_ratelimiting_advanced_cost_decoration" // in Kong's own dumps
	kongPath    = "type_path"
	kongService = "service"
)

// kongMembers are what Kong calls the members that bear on cost.
var kongMembers = map[string]string{
	"add_constant":  memberAddValue,
	"add_arguments": "add_arguments",
	"mul_constant":  memberMulValue,
	"mul_arguments": "mul_arguments",
}

// kongKept are members of Kong's that bear on nothing here.
var kongKept = []string{"id", "created_at", "updated_at", "tags", "ws_id"}

// isKong tells whether a document holds Kong's decorations.
func isKong(document node) bool {
	_, items, err := kongItems(document)
	if err != nil {
		return false
	}
	for _, item := range items {
		if _, ok := item.member(kongPath); ok {
			return true
		}
	}
	// An export without any decoration is Kong's by its form only.
	_, hasData := document.member(kongData)
	return hasData && len(items) == 0
}

// member returns a member of an object.
func (n node) member(name string) (node, bool) {
	members, _ := n.value.([]member)
	for _, m := range members {
		if m.name == name {
			return m.value, true
		}
	}
	return node{}, false
}

// FromKong translates the cost decorations of Kong's graphql-rate-limiting-advanced, as its
// Admin API lists them (GET /services/{service}/graphql-rate-limiting-advanced/costs), in JSON
// or YAML. service is the id of the one of Kong's services whose decorations are wanted;
// empty is only allowed when the document has those of one. The notes are what the
// translation could not say. It is an error when there are no decorations of the service, or more
// pages than the document has.
func FromKong(text []byte, service string) (Set, []Note, error) {
	document, err := readDocument(text)
	if err != nil {
		return Set{}, nil, fmt.Errorf("read Kong's decorations: %w", err)
	}
	next, items, err := kongItems(document)
	if err != nil {
		return Set{}, nil, fmt.Errorf("read Kong's decorations: %w", err)
	}
	if next != "" { // a push of a part would remove the rest
		return Set{}, nil, fmt.Errorf("read Kong's decorations: the document is only one page, the rest is at %.200s: "+
			"put the %s of all pages into one", next, kongData)
	}
	if len(items) > MaxDecorations {
		return Set{}, nil, fmt.Errorf("read Kong's decorations: %d are more than %d", len(items), MaxDecorations)
	}
	r := kongReader{service: service, lines: map[string]int{}}
	if err := r.chooseService(items); err != nil {
		return Set{}, nil, fmt.Errorf("read Kong's decorations: %w", err)
	}
	for _, item := range items {
		r.item(item)
	}
	set, err := r.finish()
	if err != nil {
		return Set{}, nil, fmt.Errorf("read Kong's decorations: %w", err)
	}
	if len(set.Decorations) == 0 && len(r.notes) == 0 {
		if len(r.services) == 0 {
			return Set{}, nil, errors.New("read Kong's decorations: there are none")
		}
		return Set{}, nil, fmt.Errorf("read Kong's decorations: there are none of service %.80q, only of %s",
			service, strings.Join(r.services, ", "))
	}
	return set, r.notes, nil
}

// kongItems finds the list of decorations, and the address of the next page.
func kongItems(document node) (next string, items []node, err error) {
	list := document
	if _, isObject := document.value.([]member); isObject {
		var ok bool
		if list, ok = document.member(kongData); !ok {
			if list, ok = document.member(kongEntity); !ok {
				return "", nil, faultf(document.line, "there is no member %s", kongData)
			}
		}
		page, _ := document.member("next")
		next, _ = page.value.(string)
	}
	items, ok := list.value.([]node)
	if !ok {
		return "", nil, faultf(list.line, "the decorations must be a list, not %s", list.kind())
	}
	return next, items, nil
}

// kongReader collects the decorations of one of Kong's services.
type kongReader struct {
	service  string
	services []string // that have decorations, in their order
	all      []kongDecoration
	lines    map[string]int // of field paths
	notes    []Note
}

// kongDecoration is one decoration before defaults are left out.
type kongDecoration struct {
	path    string
	line    int
	members map[string]any
}

func (r *kongReader) note(line int, where string, lost bool, format string, arguments ...any) {
	r.notes = append(r.notes, Note{Line: line, Where: where, Text: fmt.Sprintf(format, arguments...), Lost: lost})
}

// serviceOf is the id of an item's service, empty for a global one.
func serviceOf(item node) string {
	service, _ := item.member(kongService)
	if id, ok := service.member("id"); ok {
		service = id
	}
	text, _ := service.value.(string)
	return text
}

// chooseService takes the only service when none is asked for.
func (r *kongReader) chooseService(items []node) error {
	var services []string
	for _, item := range items {
		if id := serviceOf(item); id != "" && !slices.Contains(services, id) {
			services = append(services, id)
		}
	}
	slices.Sort(services)
	r.services = services
	switch {
	case r.service == "" && len(services) > 1:
		return fmt.Errorf("they belong to %d services, choose one of %s", len(services), strings.Join(services, ", "))
	case r.service == "" && len(services) == 1:
		r.service = services[0]
	}
	return nil
}

func (r *kongReader) item(item node) {
	path, _ := item.member(kongPath)
	fieldPath, _ := path.value.(string)
	where := fmt.Sprintf("%.200s", fieldPath)
	if service := serviceOf(item); service != "" && service != r.service {
		return
	} else if service == "" && r.service != "" {
		r.note(item.line, where, false, "it is global in Kong: give it to every other service too")
	}
	switch first := r.lines[fieldPath]; {
	case fieldPath == "":
		r.note(item.line, "a decoration", true, "it has no %s", kongPath)
		return
	case !cost.ValidFieldPath(fieldPath):
		r.note(item.line, where, true, "it is no chain of names")
		return
	case first > 0:
		r.note(item.line, where, true, "the path is decorated already, on line %d, and only one decoration of a path counts", first)
		return
	}
	members, ok := r.members(item, where, fieldPath)
	if ok {
		r.lines[fieldPath] = item.line
		r.all = append(r.all, kongDecoration{path: fieldPath, line: item.line, members: members})
	}
}

// members translates what bears on cost.
func (r *kongReader) members(item node, where, fieldPath string) (map[string]any, bool) {
	members := map[string]any{}
	list, _ := item.value.([]member)
	for _, m := range list {
		name, known := kongMembers[m.name]
		switch value := m.value.plain().(type) {
		case nil:
		case json.Number:
			if f, err := value.Float64(); known && (err != nil || f < 0) {
				r.note(m.line, where, true, "%s %s is negative, and %s cannot be", m.name, value, name)
				return nil, false
			}
			if known {
				members[name] = value
			}
		default:
			if known {
				members[name] = value
			}
		}
		if !known && m.name != kongPath && m.name != kongService && !slices.Contains(kongKept, m.name) {
			r.note(m.line, where, true, "the member %.80q is not known", m.name)
		}
	}
	d := Decoration{Line: item.line}
	members[memberFieldPath] = fieldPath
	if err := d.validate(members, nil); err != nil {
		_, fault, _ := strings.Cut(err.Error(), `": `) // without the line and the path
		r.note(item.line, where, true, "%s", fault)
		return nil, false
	}
	return members, true
}

// finish leaves defaults out. Kong always has both lists, and an empty one clears what a
// shorter path gave; it is kept only where there may be something to clear.
func (r *kongReader) finish() (Set, error) {
	var set Set
	for _, d := range r.all {
		for name, value := range d.members {
			list, isList := value.([]any)
			if isDefault(name, value) || isList && len(list) == 0 && !r.inherits(d.path, name) {
				delete(d.members, name)
			}
		}
		decoration, err := newDecoration(d.path, d.members)
		if err != nil {
			return Set{}, err
		}
		decoration.Line = d.line
		set.Decorations = append(set.Decorations, decoration)
	}
	return set, nil
}

// inherits tells whether a shorter path has a list of that name.
func (r *kongReader) inherits(path, name string) bool {
	for _, other := range r.all {
		list, _ := other.members[name].([]any)
		if len(list) > 0 && strings.Count(other.path, ".") < strings.Count(path, ".") {
			return true
		}
	}
	return false
}
