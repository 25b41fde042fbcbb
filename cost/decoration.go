package cost

import (
	"fmt"
	"math"
	"strings"
)

// Decoration weights the fields that its path names. Its JSON form is that of
// the admin endpoint; members that do not bear on cost are not read.
type Decoration struct {
	// FieldPath is a chain of names: a type (every field that returns it, and the
	// operation of a root type), a type and a field, or a longer chain that is
	// pinned to exactly those fields below that type.
	FieldPath string `json:"field_path"`
	// AddValue is added to a node's cost; >= 0, default 1.
	AddValue *float64 `json:"add_value,omitempty"`
	// AddArguments name the arguments whose values are added to AddValue. nil is
	// inherited from a shorter path of the same field, an empty list clears.
	AddArguments []string `json:"add_arguments,omitzero"`
	// MulValue multiplies what is below a node; >= 0, default 1.
	MulValue *float64 `json:"mul_value,omitempty"`
	// MulArguments name the arguments whose values multiply MulValue; nil and
	// empty as in AddArguments.
	MulArguments []string `json:"mul_arguments,omitzero"`
	// AssumedSize is the multiplier when none of MulArguments has a usable value;
	// >= 0, nil is inherited.
	AssumedSize *float64 `json:"assumed_size,omitempty"`
}

// defaultWeight is add_value and mul_value where a decoration leaves them out.
const defaultWeight = 1

// Model is a service's cost model: its decorations as a tree over field paths.
// It is immutable; two models are the same if their pointers are.
type Model struct {
	// types holds the first names of paths: the rules of types, and the starts
	// of the chains below them.
	types map[string]*pathNode
	// fields holds every name that a path goes on with after its first.
	fields map[string]bool
}

// pathNode is one prefix of field paths.
type pathNode struct {
	id     int
	weight *weight // nil when no decoration ends here
	fields map[string]*pathNode
}

// weight is what decorations say of one field, after merging.
type weight struct {
	add, mul     float64
	addArguments []string
	mulArguments []string
	assumed      *float64
}

// plainWeight is that of a node without decorations.
var plainWeight = weight{add: defaultWeight, mul: defaultWeight}

// NewModel builds a model. The error names the field_path at fault: malformed,
// given twice, or with a weight that is negative or not finite.
func NewModel(decorations []Decoration) (*Model, error) {
	m := &Model{types: map[string]*pathNode{}, fields: map[string]bool{}}
	nodes := 0
	for _, d := range decorations {
		if err := d.check(); err != nil {
			return nil, err
		}
		fields := m.types
		var node *pathNode
		for name := range strings.SplitSeq(d.FieldPath, ".") {
			if node != nil {
				m.fields[name] = true
			}
			if node = fields[name]; node == nil {
				nodes++
				node = &pathNode{id: nodes, fields: map[string]*pathNode{}}
				fields[name] = node
			}
			fields = node.fields
		}
		if node.weight != nil {
			return nil, fmt.Errorf("field_path %q is decorated twice", d.FieldPath)
		}
		node.weight = d.weight()
	}
	return m, nil
}

// Empty reports whether the model has no decorations; a nil model has none.
func (m *Model) Empty() bool { return m == nil || len(m.types) == 0 }

func (d Decoration) check() error {
	if !ValidFieldPath(d.FieldPath) {
		return fmt.Errorf("field_path %q is not a chain of names", d.FieldPath)
	}
	for _, w := range []struct {
		name  string
		value *float64
	}{{"add_value", d.AddValue}, {"mul_value", d.MulValue}, {"assumed_size", d.AssumedSize}} {
		if w.value != nil && !(*w.value >= 0 && !math.IsInf(*w.value, 1)) {
			return fmt.Errorf("field_path %q: %s must be a finite number >= 0", d.FieldPath, w.name)
		}
	}
	return nil
}

func (d Decoration) weight() *weight {
	w := plainWeight
	if d.AddValue != nil {
		w.add = saturate(*d.AddValue)
	}
	if d.MulValue != nil {
		w.mul = saturate(*d.MulValue)
	}
	w.addArguments, w.mulArguments, w.assumed = d.AddArguments, d.MulArguments, d.AssumedSize
	return &w
}

// ValidFieldPath reports whether path is a chain of GraphQL names joined by points.
func ValidFieldPath(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || !isNameStart(name[0]) {
			return false
		}
		for i := range len(name) {
			if !isNameContinue(name[i]) {
				return false
			}
		}
	}
	return true
}

// merge lays the weights of longer paths over those of shorter ones, which come
// first; nil is that of a path without a decoration. add and mul always have a
// value, so the longer path's win; what it leaves out else is inherited.
func merge(weights []*weight) *weight {
	var merged *weight
	shared := true // with the model, which must not change
	for _, longer := range weights {
		switch {
		case longer == nil:
			continue
		case merged == nil:
			merged = longer
			continue
		case shared:
			merged, shared = new(*merged), false
		}
		merged.add, merged.mul = longer.add, longer.mul
		if longer.addArguments != nil {
			merged.addArguments = longer.addArguments
		}
		if longer.mulArguments != nil {
			merged.mulArguments = longer.mulArguments
		}
		if longer.assumed != nil {
			merged.assumed = longer.assumed
		}
	}
	return merged
}
