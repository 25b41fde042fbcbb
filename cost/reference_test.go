package cost_test

import (
	"math"
	"strings"

	"github.com/graphql-go/graphql/language/ast"

	"graphql-limit-count/cost"
)

// reference costs a document as plainly as the rules read: it expands every
// fragment in place, follows every chain of fields as text and keeps nothing. It
// walks the tree that the parser makes of the document as the client sent it.
type reference struct {
	document    *ast.Document
	schema      *sketch // nil: no schema
	decorations []cost.Decoration
	strategy    cost.Strategy
	operation   string
	resolve     bool
	variables   map[string]any
	budget      int
}

// surroundings are what the rules know of the place of a selection set.
type surroundings struct {
	typ    string   // the type under the cursor, "" without one
	chains []string // "Type.field.field" for every chain that leads here
}

// rule is what the decorations of one node come to.
type rule struct {
	add, mul         float64
	addArgs, mulArgs []string
	assumed          *float64
}

// cost is the expected raw cost, or the expected error.
func (r *reference) cost() (float64, error) {
	operations := r.selected()
	if len(operations) == 0 {
		return 0, cost.ErrNoOperation
	}
	for _, o := range operations {
		if r.cyclic(o.SelectionSet, nil) {
			return 0, cost.ErrFragmentCycle
		}
	}
	if r.strategy != cost.Depth {
		expanded := 0
		for _, o := range operations {
			expanded += r.expanded(o.SelectionSet)
		}
		if expanded > r.budget {
			return 0, cost.ErrTooManySelections
		}
	}
	dearest := 0.0
	for _, o := range operations {
		dearest = math.Max(dearest, r.operationCost(o))
	}
	return dearest, nil
}

func (r *reference) selected() (operations []*ast.OperationDefinition) {
	var named []*ast.OperationDefinition
	for _, d := range r.document.Definitions {
		if o, ok := d.(*ast.OperationDefinition); ok {
			operations = append(operations, o)
			if r.operation != "" && o.Name != nil && o.Name.Value == r.operation {
				named = append(named, o)
			}
		}
	}
	if len(named) > 0 {
		return named
	}
	return operations
}

// fragment is the last definition of that name, nil without one.
func (r *reference) fragment(name string) (found *ast.FragmentDefinition) {
	for _, d := range r.document.Definitions {
		if f, ok := d.(*ast.FragmentDefinition); ok && f.Name.Value == name {
			found = f
		}
	}
	return found
}

// cyclic reports whether a fragment below set spreads itself.
func (r *reference) cyclic(set *ast.SelectionSet, inside []string) bool {
	if set == nil {
		return false
	}
	for _, s := range set.Selections {
		if spread, ok := s.(*ast.FragmentSpread); ok {
			name := spread.Name.Value
			for _, open := range inside {
				if open == name {
					return true
				}
			}
			f := r.fragment(name)
			if f != nil && r.cyclic(f.SelectionSet, append(inside[:len(inside):len(inside)], name)) {
				return true
			}
		} else if r.cyclic(r.body(s), inside) {
			return true
		}
	}
	return false
}

// body is the selection set that a selection brings with it, nil without one.
func (r *reference) body(s ast.Selection) *ast.SelectionSet {
	switch s := s.(type) {
	case *ast.Field:
		return s.SelectionSet
	case *ast.InlineFragment:
		return s.SelectionSet
	case *ast.FragmentSpread:
		if f := r.fragment(s.Name.Value); f != nil {
			return f.SelectionSet
		}
	}
	return nil
}

func (r *reference) expanded(set *ast.SelectionSet) (n int) {
	if set == nil {
		return 0
	}
	for _, s := range set.Selections {
		n += 1 + r.expanded(r.body(s))
	}
	return n
}

func (r *reference) levels(set *ast.SelectionSet) (deepest int) {
	if set == nil {
		return 0
	}
	for _, s := range set.Selections {
		below := r.levels(r.body(s))
		if f, ok := s.(*ast.Field); ok && f.SelectionSet != nil {
			below++
		}
		deepest = max(deepest, below)
	}
	return deepest
}

func (r *reference) operationCost(o *ast.OperationDefinition) float64 {
	if r.strategy == cost.Depth {
		return float64(1 + r.levels(o.SelectionSet))
	}
	at := surroundings{}
	if r.schema != nil {
		at.typ = r.schema.roots[o.Operation]
	}
	root := rule{add: 1, mul: 1}
	r.decorate(&root, at.typ)
	if r.strategy == cost.Complexity {
		mul := root.mul
		if root.assumed != nil {
			mul *= *root.assumed
		}
		return capped(capped(r.nodes(o, o.SelectionSet, at)*mul) + root.add)
	}
	if root.assumed != nil {
		times := capped(root.mul * *root.assumed)
		return capped(root.add + r.records(o, o.SelectionSet, at, times))
	}
	return r.records(o, o.SelectionSet, at, 1)
}

// nodes is the complexity of a selection set.
func (r *reference) nodes(o *ast.OperationDefinition, set *ast.SelectionSet, at surroundings) (sum float64) {
	for _, s := range r.each(set, at) {
		if s.field == nil {
			sum = capped(sum + r.nodes(o, s.set, s.below))
			continue
		}
		add, mul, _ := r.weigh(o, s)
		below := 0.0
		if s.set != nil {
			below = r.nodes(o, s.set, s.below)
		}
		sum = capped(sum + capped(capped(below*mul)+add))
	}
	return sum
}

// records is the node_quantifier cost of a selection set that is resolved so
// many times.
func (r *reference) records(o *ast.OperationDefinition, set *ast.SelectionSet, at surroundings, resolved float64) (sum float64) {
	for _, s := range r.each(set, at) {
		times := resolved
		if s.field != nil {
			if add, mul, quantified := r.weigh(o, s); quantified {
				sum = capped(sum + capped(resolved*add))
				times = capped(resolved * mul)
			}
		}
		if s.set != nil {
			sum = capped(sum + r.records(o, s.set, s.below, times))
		}
	}
	return sum
}

// selection is one selection in its surroundings; field is nil for a named fragment.
type selection struct {
	field    *ast.Field
	set      *ast.SelectionSet
	below    surroundings
	rule     rule
	declared *sketchField
}

// each is the selections of a set, those of inline fragments in their place.
func (r *reference) each(set *ast.SelectionSet, at surroundings) (all []selection) {
	for _, s := range set.Selections {
		switch s := s.(type) {
		case *ast.Field:
			all = append(all, r.field(s, at))
		case *ast.InlineFragment:
			all = append(all, r.each(s.SelectionSet, r.narrow(at, s.TypeCondition))...)
		case *ast.FragmentSpread:
			if f := r.fragment(s.Name.Value); f != nil {
				all = append(all, selection{set: f.SelectionSet, below: r.narrow(at, f.TypeCondition)})
			}
		}
	}
	return all
}

func (r *reference) narrow(at surroundings, condition *ast.Named) surroundings {
	if condition != nil && r.schema != nil && r.schema.types[condition.Name.Value] != nil {
		at.typ = condition.Name.Value
	}
	return at
}

func (r *reference) field(f *ast.Field, at surroundings) selection {
	s := selection{field: f, set: f.SelectionSet, rule: rule{add: 1, mul: 1}}
	if r.schema == nil || at.typ == "" {
		return s
	}
	name := f.Name.Value
	s.declared = r.schema.types[at.typ][name]
	if s.declared != nil {
		r.decorate(&s.rule, s.declared.returns)
	}
	chains := []string{at.typ + "." + name} // shortest first
	for _, chain := range at.chains {
		chains = append(chains, chain+"."+name)
	}
	for _, chain := range chains {
		r.decorate(&s.rule, chain)
	}
	s.below.chains = chains
	if s.declared != nil && r.schema.types[s.declared.returns] != nil {
		s.below.typ = s.declared.returns
	}
	return s
}

// decorate lays the decoration of that path, if there is one, over the rule.
func (r *reference) decorate(to *rule, path string) {
	if r.schema == nil {
		return
	}
	for _, d := range r.decorations {
		if d.FieldPath != path {
			continue
		}
		to.add, to.mul = 1, 1
		if d.AddValue != nil {
			to.add = *d.AddValue
		}
		if d.MulValue != nil {
			to.mul = *d.MulValue
		}
		if d.AddArguments != nil {
			to.addArgs = d.AddArguments
		}
		if d.MulArguments != nil {
			to.mulArgs = d.MulArguments
		}
		if d.AssumedSize != nil {
			to.assumed = d.AssumedSize
		}
	}
}

// weigh is a field's weight with its arguments.
func (r *reference) weigh(o *ast.OperationDefinition, s selection) (add, mul float64, quantified bool) {
	add, mul = s.rule.add, s.rule.mul
	for _, name := range s.rule.addArgs {
		if n, ok := r.quantifier(o, s, name); ok {
			add = capped(add + n)
		}
	}
	for _, name := range s.rule.mulArgs {
		if n, ok := r.quantifier(o, s, name); ok {
			mul = capped(mul * n)
			quantified = true
		}
	}
	if !quantified && s.rule.assumed != nil {
		return add, capped(mul * *s.rule.assumed), true
	}
	return add, mul, quantified
}

// quantifier is the usable value of an argument, by the order of its sources.
func (r *reference) quantifier(o *ast.OperationDefinition, s selection, name string) (float64, bool) {
	for _, a := range s.field.Arguments {
		if a.Name.Value != name {
			continue
		}
		variable, ok := a.Value.(*ast.Variable)
		if !ok {
			if _, object := a.Value.(*ast.ObjectValue); object {
				break
			}
			return literalNumber(a.Value)
		}
		if !r.resolve {
			break
		}
		if v, supplied := r.variables[variable.Name.Value]; supplied {
			return suppliedNumber(v)
		}
		var declared ast.Value
		for _, d := range o.VariableDefinitions {
			if d.Variable.Name.Value == variable.Name.Value && d.DefaultValue != nil {
				declared = d.DefaultValue
			}
		}
		if _, object := declared.(*ast.ObjectValue); declared != nil && !object {
			return literalNumber(declared)
		}
		break
	}
	if !r.resolve || s.declared == nil {
		return 0, false
	}
	switch text := s.declared.defaults[name]; {
	case strings.HasPrefix(text, "["):
		return float64(len(strings.Fields(strings.Trim(text, "[]")))), true
	case strings.HasPrefix(text, `"`):
		return 0, false
	default:
		return textNumber(text)
	}
}
