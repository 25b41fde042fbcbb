package cost

import (
	"slices"

	"github.com/graphql-go/graphql/language/ast"
)

// Compile prepares the document for evaluation. It fails with ErrFragmentCycle
// or ErrTooManySelections when the selected operations cannot be costed, with
// ErrSyntax when the document holds too many tokens.
func (d *Document) Compile(o Options) (*Plan, error) {
	byDepth := o.Strategy == Depth || o.Strategy == ""
	if d.overlong {
		if !byDepth && int64(d.selections) > o.maxSelections() {
			return nil, ErrTooManySelections
		}
		return nil, syntaxError(0, "too many tokens")
	}
	operations := d.selected(o.OperationName)
	if byDepth {
		return d.depthPlan(operations)
	}
	if _, err := d.fragmentOrder(operations); err != nil {
		return nil, err
	}
	return d.nodePlan(operations, o)
}

// nodePlan compiles each operation by itself. The budget of selections is one
// for all of them.
func (d *Document) nodePlan(operations []*operation, o Options) (*Plan, error) {
	p := &Plan{strategy: o.Strategy}
	budget := o.maxSelections()
	var room parts
	for _, op := range operations {
		c := compiler{document: d, options: o, plan: p, budget: budget, parts: room}
		compiled, selections, err := c.operation(op)
		if err != nil {
			return nil, err
		}
		room = c.parts
		room.reset()
		if budget -= selections; budget < 0 {
			return nil, ErrTooManySelections
		}
		if compiled.root.sum == 0 {
			p.known = max(p.known, compiled.root.known)
		} else {
			p.operations = append(p.operations, compiled)
		}
	}
	return p, nil
}

// unit is a fragment in one context; it is compiled once.
type unit struct {
	fragment int
	at       cursor
}

// subtotal is the cost of the selections of a set, and how many they expand to.
type subtotal struct {
	cost       operand
	selections int64
}

// compiler compiles one operation.
type compiler struct {
	document *Document
	options  Options
	plan     *Plan
	states   *states
	units    map[unit]subtotal
	// budget is what is left of the allowed selections; work is how many were
	// looked at. Each of them is expanded at least once, so more work than
	// budget is over budget, whatever the order.
	budget, work int64

	// parts are what the plan of the operation is made of.
	parts
	// slotOf is the slot of a variable of the plan, once there are more than a few.
	slotOf map[int]int
}

// parts are the parts of a plan while they become known; operations use their memory one
// after the other.
type parts struct {
	terms   []term // all sums, flat
	sums    []sum
	weights []fieldWeight
	slots   []slot
	stack   []term // of the sums that are not finished
	// constants are those of the runs; fractional tells of each sum whether it may be no
	// whole number.
	constants  []float64
	fractional []bool
}

// reset empties the parts.
func (p *parts) reset() {
	*p = parts{p.terms[:0], p.sums[:0], p.weights[:0], p.slots[:0], p.stack[:0], p.constants[:0], p.fractional[:0]}
}

func (c *compiler) operation(op *operation) (operationPlan, int64, error) {
	definition := op.definition
	var at cursor
	w := &plainWeight
	if c.options.decorated() {
		c.states = newStates(c.options.Model)
		if at.typ = c.options.Schema.root(definition.Operation); at.typ != nil {
			if rule := c.states.typeWeight(at.typ.name); rule != nil {
				w = rule
			}
		}
	}
	if err := c.compileUnits(definition.SelectionSet, at); err != nil {
		return operationPlan{}, 0, err
	}
	children := c.set(definition.SelectionSet, at)
	root := c.sum()
	root.field(children.cost, w, nil, nil)
	c.declareDefaults(definition.VariableDefinitions)
	// Plans are kept: what they hold takes no more room than it needs.
	compiled := operationPlan{
		root: root.finish(), sums: slices.Clone(c.sums), terms: slices.Clone(c.terms),
		weights: slices.Clone(c.weights), constants: slices.Clone(c.constants), slots: slices.Clone(c.slots),
	}
	return compiled, children.selections, nil
}

// compileUnits compiles every fragment that set reaches, in every context, those
// that another spreads first. It keeps its own stack: chains of fragments are as
// long as the document.
func (c *compiler) compileUnits(set *ast.SelectionSet, at cursor) error {
	type frame struct {
		unit     unit
		expanded bool
	}
	var stack []frame
	found := func(u unit) {
		if _, done := c.units[u]; !done {
			stack = append(stack, frame{unit: u})
		}
	}
	if err := c.discover(set, at, found); err != nil {
		return err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		u := top.unit
		body := c.document.fragments[u.fragment].definition.SelectionSet
		if _, done := c.units[u]; done {
			stack = stack[:len(stack)-1]
			continue
		}
		if top.expanded {
			if c.units == nil {
				c.units = map[unit]subtotal{}
			}
			c.units[u] = c.set(body, u.at)
			stack = stack[:len(stack)-1]
			continue
		}
		top.expanded = true
		if err := c.discover(body, u.at, found); err != nil {
			return err
		}
	}
	return nil
}

// discover reports the fragments that set spreads and the contexts it does so in.
func (c *compiler) discover(set *ast.SelectionSet, at cursor, found func(unit)) error {
	if set == nil {
		return nil
	}
	if c.work += int64(len(set.Selections)); c.work > c.budget {
		return ErrTooManySelections
	}
	for _, selection := range set.Selections {
		var err error
		switch s := selection.(type) {
		case *ast.Field:
			if s.SelectionSet == nil {
				continue
			}
			err = c.discover(s.SelectionSet, c.step(at, s).below, found)
		case *ast.InlineFragment:
			err = c.discover(s.SelectionSet, c.narrow(at, s.TypeCondition), found)
		case *ast.FragmentSpread:
			if u, ok := c.spread(s, at); ok {
				found(u)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spread is the unit that a fragment spread stands for; an undefined fragment
// stands for nothing.
func (c *compiler) spread(s *ast.FragmentSpread, at cursor) (unit, bool) {
	i, ok := c.document.byName[s.Name.Value]
	if !ok {
		return unit{}, false
	}
	condition := c.document.fragments[i].definition.TypeCondition
	return unit{fragment: i, at: c.narrow(at, condition)}, true
}

func (c *compiler) narrow(at cursor, condition *ast.Named) cursor {
	if c.states == nil || condition == nil {
		return at
	}
	return at.narrow(c.options.Schema, condition.Name.Value)
}

// set compiles a selection set whose fragments are compiled already. The
// recursion is bounded by Limits.Depth.
func (c *compiler) set(set *ast.SelectionSet, at cursor) subtotal {
	total := c.sum()
	selections := c.addSet(&total, set, at)
	return subtotal{cost: total.finish(), selections: selections}
}

// addSet adds the selections of a set to the total and returns how many they
// expand to. Those of an inline fragment are summands like the fields around it,
// for floating point sums depend on their grouping; a named fragment is one
// subtotal wherever it is spread.
func (c *compiler) addSet(total *builder, set *ast.SelectionSet, at cursor) int64 {
	selections := int64(len(set.Selections))
	for _, selection := range set.Selections {
		switch s := selection.(type) {
		case *ast.Field:
			selections += c.field(total, s, at)
		case *ast.InlineFragment:
			selections += c.addSet(total, s.SelectionSet, c.narrow(at, s.TypeCondition))
		case *ast.FragmentSpread:
			if u, ok := c.spread(s, at); ok {
				total.add(c.units[u].cost)
				selections += c.units[u].selections
			}
		}
		selections = min(selections, MaxCost)
	}
	return selections
}

// field adds one field to the total and returns how many selections are below it.
func (c *compiler) field(total *builder, f *ast.Field, at cursor) int64 {
	taken := c.step(at, f)
	var children subtotal
	if f.SelectionSet != nil {
		children = c.set(f.SelectionSet, taken.below)
	}
	w := taken.weight
	if w == nil {
		w = &plainWeight
	}
	total.field(children.cost, w, f.Arguments, taken.declared)
	return children.selections
}

// step selects a field; without decorations nothing is matched.
func (c *compiler) step(at cursor, f *ast.Field) step {
	if c.states == nil {
		return step{}
	}
	return c.states.step(at, f.Name.Value)
}

// source is where an argument's value comes from: a value that is known, or a
// variable and what counts when that gives nothing.
type source struct {
	slot  int // index of the variable, -1 for none
	value Value
}

// argument finds the source of a field's argument.
func (c *compiler) argument(name string, arguments []*ast.Argument, declared *fieldDefinition) source {
	from := source{slot: -1}
	for _, a := range arguments {
		if a.Name.Value != name {
			continue
		}
		if variable, ok := a.Value.(*ast.Variable); !ok {
			from.value = literal(a.Value)
		} else if c.options.Variables {
			from.slot = c.slot(variable.Name.Value)
		}
		break
	}
	if !from.value.Set() && c.options.Defaults && declared != nil {
		from.value = declared.fallback(name)
	}
	return from
}

// slot returns the index of a variable among those that the operation reads.
func (c *compiler) slot(name string) int {
	variable := c.plan.variable(name)
	if i := c.slotIndex(variable); i >= 0 {
		return i
	}
	c.slots = append(c.slots, slot{variable: variable})
	switch n := len(c.slots); {
	case c.slotOf != nil:
		c.slotOf[variable] = n - 1
	case n > fewVariables:
		c.slotOf = make(map[int]int, 2*n)
		for i, s := range c.slots {
			c.slotOf[s.variable] = i
		}
	}
	return len(c.slots) - 1
}

// slotIndex is the slot of a variable of the plan, -1 if the operation does not read it.
func (c *compiler) slotIndex(variable int) int {
	if c.slotOf != nil {
		if i, ok := c.slotOf[variable]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(c.slots, func(s slot) bool { return s.variable == variable })
}

// declareDefaults notes the operation's defaults for the variables that it reads;
// of two definitions of one variable the later default counts.
func (c *compiler) declareDefaults(definitions []*ast.VariableDefinition) {
	if !c.options.Defaults || len(c.slots) == 0 {
		return
	}
	for _, d := range definitions {
		if d.DefaultValue == nil {
			continue
		}
		if i := c.slotIndex(indexOf(c.plan, d.Variable.Name.Value)); i >= 0 {
			c.slots[i].fallback = literal(d.DefaultValue)
		}
	}
}

// literal is the value of a literal in a document. An object gives nothing; a
// list counts its length.
func literal(v ast.Value) Value {
	switch v := v.(type) {
	case *ast.IntValue:
		return textValue(v.Value)
	case *ast.FloatValue:
		return textValue(v.Value)
	case *ast.StringValue:
		return textValue(v.Value)
	case *ast.ListValue:
		return Number(float64(len(v.Values)))
	case *ast.ObjectValue:
		return Value{}
	default: // booleans and enum values, which null is written as
		return Value{kind: unusable}
	}
}
