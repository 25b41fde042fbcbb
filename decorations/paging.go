package decorations

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"graphql-limit-count/cost"
)

const (
	memberMulArguments = "mul_arguments"
	memberAssumedSize  = "assumed_size"
)

// pagingNames are the arguments that say how many records are asked for, in lower case and
// without underscores.
var pagingNames = map[string]bool{
	"first": true, "last": true, "limit": true, "take": true, "pagesize": true, "perpage": true,
	"count": true, "top": true,
}

// ambiguousNames are those of pagingNames that, inside an object, as often are a filter.
var ambiguousNames = map[string]bool{"count": true, "top": true}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// page is how a field pages.
type page struct {
	// arguments are the paginating ones, by name.
	arguments []string
	// size is what is assumed without any of them.
	size int
	// declared names the argument whose default size is; empty when none declares one.
	declared string
	// inside is a paginating member of an argument that is an object, such as
	// pagination.limit. It is not looked into.
	inside string
}

// key is equal for fields that a single rule can stand for.
func (p page) key() string {
	return fmt.Sprint(p.arguments, p.size, p.declared != "")
}

// members are those of a decoration; without arguments none is what mul_arguments says, or
// nil to leave it out.
func (p page) members(none []any) map[string]any {
	members := map[string]any{memberAssumedSize: integer(p.size)}
	switch {
	case len(p.arguments) > 0:
		members[memberMulArguments] = p.arguments
	case none != nil:
		members[memberMulArguments] = none
	}
	return members
}

// reason says why a field is decorated as it is.
func (p page) reason() string {
	reason := ""
	switch {
	case len(p.arguments) > 0:
		reason = "pages with " + strings.Join(p.arguments, ", ")
	case p.inside != "":
		reason = "pages with " + p.inside + ", which stands inside an object and cannot be counted"
	default:
		reason = "has no paginating argument that is known"
	}
	if p.declared == "" {
		return fmt.Sprintf("%s; %d is assumed where none is given", reason, p.size)
	}
	reason += fmt.Sprintf("; %s is %d by default", p.declared, p.size)
	if len(p.arguments) > 1 {
		reason += ", which multiplies also when another one is given"
	}
	return reason
}

// paging tells how a field pages; ok is false when it does not.
func (s *suggester) paging(f *cost.OutlineField) (p page, ok bool) {
	result := f.Type.Named()
	connection := s.isConnection(result)
	p.size = s.options.AssumedSize
	if !connection && !f.Type.List() && !s.holdsList(result) {
		return p, false
	}
	for i := range f.Arguments {
		a := &f.Arguments[i]
		switch {
		case pagingNames[plainName(a.Name)] && s.isNumeric(a.Type):
			p.arguments = append(p.arguments, a.Name)
			if size, err := strconv.Atoi(a.Default); err == nil && size >= 0 && p.declared == "" {
				p.declared, p.size = a.Name, size
			}
		case p.inside == "":
			p.inside = s.pagingMember(a)
		}
	}
	return p, connection || len(p.arguments) > 0 || p.inside != ""
}

// isNumeric reports whether a type takes a number: Int, Float, or a scalar of the schema's own
// whose name says so (PositiveInt, BigInt, Long).
func (s *suggester) isNumeric(t cost.TypeText) bool {
	name := t.Named()
	if t.List() {
		return false
	}
	switch name {
	case "Int", "Float":
		return true
	}
	declared := s.types[name]
	if declared == nil || declared.Kind != cost.KindScalar {
		return false
	}
	for _, part := range []string{"Int", "Long", "Number", "Short"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// pagingMember names the paginating member of an argument that is an object.
func (s *suggester) pagingMember(a *cost.OutlineInput) string {
	t := s.types[a.Type.Named()]
	if t == nil || t.Kind != cost.KindInput || a.Type.List() {
		return ""
	}
	for _, f := range t.Fields {
		if name := plainName(f.Name); pagingNames[name] && !ambiguousNames[name] && s.isNumeric(f.Type) {
			return a.Name + "." + f.Name
		}
	}
	return ""
}

func integer(n int) json.Number { return json.Number(strconv.Itoa(n)) }
