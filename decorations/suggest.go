package decorations

import (
	"fmt"
	"slices"
	"strings"

	"graphql-limit-count/cost"
)

const (
	// DefaultAssumedSize is SuggestOptions.AssumedSize where it is not set: a full page, so
	// that leaving the paginating argument out is no discount.
	DefaultAssumedSize = 100
	// DefaultMutationCost is SuggestOptions.MutationCost of the command line.
	DefaultMutationCost = 10
)

// SuggestOptions say what Suggest proposes.
type SuggestOptions struct {
	// AssumedSize is how many records a field is taken to return when a query gives no
	// paginating argument and the schema declares no default; > 0, default DefaultAssumedSize.
	AssumedSize int
	// MutationCost is what a mutation costs besides what it selects; 0 proposes nothing.
	MutationCost int
	// EachMutation charges MutationCost for every field of the mutation type, instead of once
	// per operation.
	EachMutation bool
}

// Suggest proposes decorations for a schema, each with a comment that says why:
//
//   - for every field that pages: one with a numeric argument called first, last, limit, take,
//     pageSize, perPage, count or top (also page_size, per_page) that returns a list, a
//     connection or an object that holds a list; and one that returns a connection whatever
//     its arguments are. A connection is told by its shape (Relay): a type named ...Connection
//     with edges, or with nodes and pageInfo.
//   - for mutations, as the options say.
//
// A connection's type gets one rule for all fields that return it, and only fields that page
// differently from most of these get one of their own. The order is by names: servers list
// types in any order, and two runs must print the same.
func Suggest(outline *cost.Outline, options SuggestOptions) Set {
	if options.AssumedSize <= 0 {
		options.AssumedSize = DefaultAssumedSize
	}
	s := suggester{
		options: options, mutation: outline.Mutation, sorted: sortedTypes(outline),
		types: map[string]*cost.OutlineType{}, proposed: map[string]bool{},
	}
	for _, t := range s.sorted {
		s.types[t.Name] = t
	}
	s.mutations()
	returning := s.connectionFields()
	for _, t := range s.sorted {
		if fields := returning[t.Name]; len(fields) > 0 {
			s.connection(t.Name, fields)
		}
	}
	for _, t := range s.sorted {
		s.plainFields(t)
	}
	return s.set
}

// sortedTypes are the types by their names, and so their fields and arguments.
func sortedTypes(outline *cost.Outline) []*cost.OutlineType {
	types := make([]*cost.OutlineType, len(outline.Types))
	for i, declared := range outline.Types {
		t := *declared
		t.Fields = slices.Clone(t.Fields)
		slices.SortStableFunc(t.Fields, func(a, b cost.OutlineField) int { return strings.Compare(a.Name, b.Name) })
		for j := range t.Fields {
			f := &t.Fields[j]
			f.Arguments = slices.Clone(f.Arguments)
			slices.SortStableFunc(f.Arguments, func(a, b cost.OutlineInput) int { return strings.Compare(a.Name, b.Name) })
		}
		types[i] = &t
	}
	slices.SortStableFunc(types, func(a, b *cost.OutlineType) int { return strings.Compare(a.Name, b.Name) })
	return types
}

// suggester collects the proposals.
type suggester struct {
	options  SuggestOptions
	mutation string // the mutation type
	sorted   []*cost.OutlineType
	types    map[string]*cost.OutlineType
	set      Set
	// proposed are the field paths in set.
	proposed map[string]bool
}

func (s *suggester) add(fieldPath, comment string, members map[string]any) {
	if s.proposed[fieldPath] || !cost.ValidFieldPath(fieldPath) {
		return // a schema that declares a field twice, or a name that is none
	}
	d, err := newDecoration(fieldPath, members)
	if err != nil { // no value of ours fails
		return
	}
	s.proposed[fieldPath] = true
	d.Comment = comment
	s.set.Decorations = append(s.set.Decorations, d)
}

// mutations proposes what mutations cost. The multiplier of one changes nothing; under
// node_quantifier, where only what is quantified is charged, it makes the mutation count.
func (s *suggester) mutations() {
	root := s.types[s.mutation]
	if root == nil || s.options.MutationCost <= 0 {
		return
	}
	base := func() map[string]any {
		return map[string]any{memberAddValue: integer(s.options.MutationCost), memberAssumedSize: integer(1)}
	}
	if !s.options.EachMutation {
		s.add(root.Name, fmt.Sprintf("writes: a mutation costs %d itself, once per operation", s.options.MutationCost), base())
		return
	}
	for i := range root.Fields {
		f := &root.Fields[i]
		if _, pages := s.paging(f); !pages {
			s.add(root.Name+"."+f.Name, fmt.Sprintf("writes: costs %d itself", s.options.MutationCost), base())
		}
	}
}

// chargedEach reports whether the fields of a type are charged as mutations.
func (s *suggester) chargedEach(t *cost.OutlineType) bool {
	return s.options.EachMutation && s.options.MutationCost > 0 && t.Name == s.mutation
}

// fieldOf is a field and the type that declares it.
type fieldOf struct {
	path string
	page page
}

// connectionFields lists the fields that return each connection type.
func (s *suggester) connectionFields() map[string][]fieldOf {
	returning := map[string][]fieldOf{}
	s.eachField(func(t *cost.OutlineType, f *cost.OutlineField) {
		if result := f.Type.Named(); s.isConnection(result) && !s.chargedEach(t) {
			p, _ := s.paging(f)
			returning[result] = append(returning[result], fieldOf{t.Name + "." + f.Name, p})
		}
	})
	return returning
}

// eachField visits the fields of all object and interface types, without those of
// introspection.
func (s *suggester) eachField(visit func(*cost.OutlineType, *cost.OutlineField)) {
	for _, t := range s.sorted {
		s.eachFieldOf(t, func(f *cost.OutlineField) { visit(t, f) })
	}
}

func (s *suggester) eachFieldOf(t *cost.OutlineType, visit func(*cost.OutlineField)) {
	if !hasFields(t) || strings.HasPrefix(t.Name, "__") {
		return
	}
	for i := range t.Fields {
		visit(&t.Fields[i])
	}
}

// hasFields reports whether a type's fields can be selected. Introspection that did not ask
// for kinds lists the fields of such types only.
func hasFields(t *cost.OutlineType) bool {
	return t.Kind == cost.KindObject || t.Kind == cost.KindInterface || t.Kind == ""
}

// connection proposes one rule for all fields that return a connection type, and rules of
// their own for those that page differently.
func (s *suggester) connection(name string, fields []fieldOf) {
	common := mostCommon(fields)
	alike := 0
	for _, f := range fields {
		if f.page.key() == common.key() {
			alike++
		}
	}
	s.add(name, s.connectionComment(fields, common, alike), common.members(nil))
	for _, f := range fields {
		if f.page.key() != common.key() {
			s.add(f.path, "pages differently from other fields that return "+name+": "+f.page.reason(), f.page.members([]any{}))
		}
	}
}

// shownFields is how many fields a comment names.
const shownFields = 2

func (s *suggester) connectionComment(fields []fieldOf, common page, alike int) string {
	var names []string
	for _, f := range fields {
		if f.page.key() == common.key() && len(names) < shownFields {
			names = append(names, f.path)
		}
	}
	what := strings.Join(names, ", ")
	if more := alike - len(names); more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return "connection of " + what + ": " + common.reason()
}

// mostCommon is the page that most fields have; of equally common ones the first.
func mostCommon(fields []fieldOf) page {
	counts := map[string]int{}
	for _, f := range fields {
		counts[f.page.key()]++
	}
	best := fields[0].page
	for _, f := range fields {
		if counts[f.page.key()] > counts[best.key()] {
			best = f.page
		}
	}
	return best
}

// plainFields proposes rules for the fields of a type that page without connections.
func (s *suggester) plainFields(t *cost.OutlineType) {
	s.eachFieldOf(t, func(f *cost.OutlineField) {
		if s.isConnection(f.Type.Named()) && !s.chargedEach(t) {
			return
		}
		p, pages := s.paging(f)
		if !pages {
			return
		}
		members := p.members(nil)
		reason := p.reason()
		if s.chargedEach(t) {
			members[memberAddValue] = integer(s.options.MutationCost)
			reason = fmt.Sprintf("writes: costs %d itself; %s", s.options.MutationCost, reason)
		}
		s.add(t.Name+"."+f.Name, reason, members)
	})
}

// isConnection tells a connection by its shape (Relay's Cursor Connections Specification).
func (s *suggester) isConnection(name string) bool {
	t := s.types[name]
	if t == nil || !hasFields(t) || !strings.HasSuffix(name, "Connection") {
		return false
	}
	return t.Field("edges") != nil || t.Field("nodes") != nil && t.Field("pageInfo") != nil
}

// holdsList reports whether a type is an object with a list in it, as pages without cursors
// are: {items: [Product!]!, total: Int!}.
func (s *suggester) holdsList(name string) bool {
	t := s.types[name]
	if t == nil || !hasFields(t) {
		return false
	}
	return slices.ContainsFunc(t.Fields, func(f cost.OutlineField) bool { return f.Type.List() })
}
