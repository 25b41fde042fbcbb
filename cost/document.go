package cost

import (
	"github.com/graphql-go/graphql/language/ast"
	"github.com/graphql-go/graphql/language/parser"
	gqlsource "github.com/graphql-go/graphql/language/source"
)

// Document is a parsed GraphQL document. It is immutable.
type Document struct {
	operations []*operation
	fragments  []*fragment
	byName     map[string]int
	// overlong: the source holds more tokens than allowed and was not parsed.
	overlong bool
	// selections counts the fields and fragments that the source spells out.
	selections int
}

// operation is one operation definition and the fragments that it spreads.
type operation struct {
	definition *ast.OperationDefinition
	spreads    []int
}

// fragment is one fragment definition and the fragments that it spreads.
type fragment struct {
	definition *ast.FragmentDefinition
	spreads    []int
}

// Parse reads a document. The error is ErrSyntax (wrapped, with the place) for
// text that is no GraphQL or nests deeper than limits allow, and ErrNoOperation
// for a document without an operation. A document with too many tokens is
// returned all the same; Compile refuses it, in the words of the strategy.
//
// Everything that GraphQL October 2021 allows in an executable document is read,
// also null literals and directives on variable definitions, and the
// descriptions of September 2025.
func Parse(src string, limits Limits) (*Document, error) {
	n, err := Normalize(src, limits)
	if err != nil {
		return nil, err
	}
	return n.Parse()
}

// Parse reads the normalised document; see the function of that name.
func (n Normalized) Parse() (*Document, error) {
	if n.tooManyTokens {
		return &Document{overlong: true, selections: n.selections}, nil
	}
	tree, err := parser.Parse(parser.ParseParams{
		Source:  &gqlsource.Source{Body: n.lean.apply(n.text), Name: "query"},
		Options: parser.ParseOptions{NoLocation: true, NoSource: true},
	})
	if err != nil {
		// The parser's text quotes the client's document: it is not passed on.
		return nil, syntaxError(0, "unexpected token")
	}
	d := newDocument(tree)
	d.selections = n.selections
	if len(d.operations) == 0 {
		return nil, ErrNoOperation
	}
	return d, nil
}

// newDocument indexes a syntax tree. Of two fragments of one name the later counts.
func newDocument(tree *ast.Document) *Document {
	d := &Document{}
	for _, definition := range tree.Definitions {
		if f, ok := definition.(*ast.FragmentDefinition); ok {
			d.addFragment(f)
		}
	}
	for _, f := range d.fragments {
		f.spreads = d.spreads(nil, f.definition.SelectionSet)
	}
	for _, definition := range tree.Definitions {
		if o, ok := definition.(*ast.OperationDefinition); ok {
			d.operations = append(d.operations, &operation{
				definition: o,
				spreads:    d.spreads(nil, o.SelectionSet),
			})
		}
	}
	return d
}

func (d *Document) addFragment(f *ast.FragmentDefinition) {
	name := f.Name.Value
	if i, ok := d.byName[name]; ok {
		d.fragments[i] = &fragment{definition: f}
		return
	}
	if d.byName == nil {
		d.byName = map[string]int{}
	}
	d.byName[name] = len(d.fragments)
	d.fragments = append(d.fragments, &fragment{definition: f})
}

// spreads appends the defined fragments that a selection set spreads, at any
// nesting. The recursion is bounded by Limits.Depth.
func (d *Document) spreads(to []int, set *ast.SelectionSet) []int {
	if set == nil {
		return to
	}
	for _, selection := range set.Selections {
		switch s := selection.(type) {
		case *ast.Field:
			to = d.spreads(to, s.SelectionSet)
		case *ast.InlineFragment:
			to = d.spreads(to, s.SelectionSet)
		case *ast.FragmentSpread:
			if i, ok := d.byName[s.Name.Value]; ok {
				to = append(to, i)
			}
		}
	}
	return to
}

// selected returns the operations to cost: the one of that name, or all. Where
// several share the name (which no server runs) all of them count.
func (d *Document) selected(name string) []*operation {
	if name == "" || len(d.operations) == 1 {
		return d.operations
	}
	var named []*operation
	for _, o := range d.operations {
		if o.definition.Name != nil && o.definition.Name.Value == name {
			named = append(named, o)
		}
	}
	if len(named) == 0 {
		return d.operations
	}
	return named
}

// fragmentOrder lists the fragments that the operations reach, each after those
// that it spreads itself. It fails with ErrFragmentCycle.
func (d *Document) fragmentOrder(operations []*operation) ([]int, error) {
	const (
		unseen = iota
		open
		done
	)
	type frame struct{ fragment, next int }
	state := make([]uint8, len(d.fragments))
	var order []int
	var stack []frame
	enter := func(i int) error {
		switch state[i] {
		case unseen:
			state[i] = open
			stack = append(stack, frame{fragment: i})
		case open:
			return ErrFragmentCycle
		}
		return nil
	}
	for _, o := range operations {
		for _, root := range o.spreads {
			if err := enter(root); err != nil {
				return nil, err
			}
			for len(stack) > 0 {
				top := &stack[len(stack)-1]
				spreads := d.fragments[top.fragment].spreads
				if top.next == len(spreads) {
					state[top.fragment] = done
					order = append(order, top.fragment)
					stack = stack[:len(stack)-1]
					continue
				}
				top.next++
				if err := enter(spreads[top.next-1]); err != nil {
					return nil, err
				}
			}
		}
	}
	return order, nil
}
