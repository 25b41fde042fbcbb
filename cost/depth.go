package cost

import "github.com/graphql-go/graphql/language/ast"

// depthPlan costs under Depth: the deepest nesting of selection sets of any of
// the operations, at least 1. Fragments expand in place and add no level.
func (d *Document) depthPlan(operations []*operation) (*Plan, error) {
	order, err := d.fragmentOrder(operations)
	if err != nil {
		return nil, err
	}
	levels := make([]int, len(d.fragments))
	for _, i := range order {
		levels[i] = d.levelsBelow(d.fragments[i].definition.SelectionSet, levels)
	}
	deepest := 1
	for _, o := range operations {
		deepest = max(deepest, 1+d.levelsBelow(o.definition.SelectionSet, levels))
	}
	return &Plan{known: float64(deepest)}, nil
}

// levelsBelow is the number of levels of selection sets nested inside set;
// levels holds those of the fragments that set spreads.
func (d *Document) levelsBelow(set *ast.SelectionSet, levels []int) int {
	deepest := 0
	for _, selection := range set.Selections {
		switch s := selection.(type) {
		case *ast.Field:
			if s.SelectionSet != nil {
				deepest = max(deepest, 1+d.levelsBelow(s.SelectionSet, levels))
			}
		case *ast.InlineFragment:
			deepest = max(deepest, d.levelsBelow(s.SelectionSet, levels))
		case *ast.FragmentSpread:
			if i, ok := d.byName[s.Name.Value]; ok {
				deepest = max(deepest, levels[i])
			}
		}
	}
	return deepest
}
