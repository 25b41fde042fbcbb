package cost

import "slices"

// cursor is a place in a document as decorations see it: the type whose fields
// are selected there and the pinned chains that lead there. Without a type, as
// below a field that the schema does not declare, no field matches; the chains
// wait for a fragment that names one.
type cursor struct {
	typ   *typeDefinition
	state int32
}

// states is the matching automaton of one compilation: a state is a set of path
// prefixes that are still live, shortest first. State 0 has none.
type states struct {
	model *Model
	sets  [][]*pathNode
	index map[string]int32
	key   []byte
	taken map[place]step
}

func newStates(m *Model) *states {
	return &states{
		model: m,
		sets:  [][]*pathNode{nil},
		index: map[string]int32{},
		taken: map[place]step{},
	}
}

// intern returns the state of a set of live prefixes.
func (s *states) intern(live []*pathNode) int32 {
	if len(live) == 0 {
		return 0
	}
	s.key = s.key[:0]
	for _, n := range live {
		s.key = append(s.key, byte(n.id), byte(n.id>>8), byte(n.id>>16), byte(n.id>>24))
	}
	if i, ok := s.index[string(s.key)]; ok {
		return i
	}
	i := int32(len(s.sets))
	s.sets = append(s.sets, slices.Clone(live))
	s.index[string(s.key)] = i
	return i
}

// step is what selecting a field at a cursor does.
type step struct {
	weight   *weight          // nil: the plain one
	declared *fieldDefinition // nil: not in the schema
	below    cursor
}

// place is a field selected at a cursor.
type place struct {
	at    cursor
	field string
}

// step selects a field. Each place is worked out once: a document may select one
// field a hundred thousand times where many chains are live.
func (s *states) step(at cursor, field string) step {
	if at.typ == nil {
		return step{}
	}
	if !s.model.fields[field] {
		// No path goes on with this field, so that none stays live below it.
		return s.declare(at.typ, field)
	}
	p := place{at: at, field: field}
	taken, ok := s.taken[p]
	if !ok {
		taken = s.match(at, field)
		s.taken[p] = taken
	}
	return taken
}

// declare is a step as far as types tell it: no chain is followed.
func (s *states) declare(typ *typeDefinition, field string) step {
	declared := typ.fields[field]
	if declared == nil {
		return step{}
	}
	return step{
		weight:   s.typeWeight(declared.returns),
		declared: declared,
		below:    cursor{typ: declared.result},
	}
}

// match is a step that follows the live chains.
func (s *states) match(at cursor, field string) step {
	taken := s.declare(at.typ, field)
	var buffer [8]*pathNode
	live := buffer[:0]
	var rules [8]*weight
	weights := append(rules[:0], taken.weight)
	visit := func(prefix *pathNode) {
		node := prefix.fields[field]
		if node == nil {
			return
		}
		weights = append(weights, node.weight)
		if len(node.fields) > 0 {
			live = append(live, node)
		}
	}
	// A chain that starts at the type under the cursor is shorter than any that
	// began above it, and live chains are kept shortest first.
	if start := s.model.types[at.typ.name]; start != nil {
		visit(start)
	}
	for _, prefix := range s.sets[at.state] {
		visit(prefix)
	}
	taken.weight = merge(weights)
	taken.below.state = s.intern(live)
	return taken
}

// typeWeight is the rule for a type, nil without one.
func (s *states) typeWeight(name string) *weight {
	if n := s.model.types[name]; n != nil {
		return n.weight
	}
	return nil
}

// narrow enters a fragment on a type: the cursor moves to that type if the
// schema knows it; the pinned chains stay live.
func (at cursor) narrow(schema *Schema, condition string) cursor {
	if condition == "" || schema == nil {
		return at
	}
	if t := schema.types[condition]; t != nil {
		at.typ = t
	}
	return at
}
