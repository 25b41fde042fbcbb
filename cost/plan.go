package cost

import (
	"encoding/json"
	"reflect"
)

// Plan is a document compiled for a strategy, a model and a schema: what does
// not depend on variables is folded into constants, the rest is a list of sums
// in the order of evaluation. It is immutable.
type Plan struct {
	strategy  Strategy
	variables []string
	// variableIndex is where names are in variables, once there are more than a few.
	variableIndex map[string]int
	// known is the cost of the dearest operation of those that read no variable;
	// operations are the others.
	known      float64
	operations []operationPlan
}

// variable returns the index of a variable in Variables, adding it when it is new.
func (p *Plan) variable(name string) int {
	if i := indexOf(p, name); i >= 0 {
		return i
	}
	p.variables = append(p.variables, name)
	switch n := len(p.variables); {
	case p.variableIndex != nil:
		p.variableIndex[name] = n - 1
	case n > fewVariables:
		p.variableIndex = make(map[string]int, 2*n)
		for i, name := range p.variables {
			p.variableIndex[name] = i
		}
	}
	return len(p.variables) - 1
}

// operationPlan is the compiled form of one operation.
type operationPlan struct {
	root  operand
	sums  []sum
	terms []term
	// weights are those of the terms that are fields, constants those of the runs.
	weights   []fieldWeight
	constants []float64
	slots     []slot
}

// operand is a number: known, or the result of a sum.
type operand struct {
	known float64
	sum   int // index into operationPlan.sums plus 1; 0 means known
}

func constant(n float64) operand { return operand{known: n} }

// sum is the range of the terms that it adds up.
type sum struct{ from, to int }

// term is one summand: an operand as it is, or a field with that below it. Constants that
// must not be folded are a run: -weight of them, the first at operationPlan.constants[below.sum].
type term struct {
	below  operand
	weight int // index into operationPlan.weights plus 1; 0 means the operand as it is
}

// fieldWeight is a field's weight as far as it is known.
type fieldWeight struct {
	add, mul   float64
	quantified bool
	// adds and muls are the arguments not folded in, for they read variables.
	adds, muls []source
	assumed    *float64
}

// slot is one variable that an operation reads: its index in Plan.variables and
// the default that the operation declares.
type slot struct {
	variable int
	fallback Value
}

// Variables names the variables that bear on the cost, in the order in which
// Cost takes their values. The slice must not be changed.
func (p *Plan) Variables() []string { return p.variables }

// fewVariables is how many names are found sooner one by one than in a map.
const fewVariables = 8

// Index returns where a name is in Variables(), -1 if it is not there.
func (p *Plan) Index(name []byte) int { return indexOf(p, name) }

func indexOf[T string | []byte](p *Plan, name T) int {
	if p.variableIndex != nil {
		if i, ok := p.variableIndex[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range p.variables {
		if p.variables[i] == string(name) {
			return i
		}
	}
	return -1
}

// Cost is the raw cost of the dearest selected operation, 0 to MaxCost. values
// are the request's values for Variables(), in that order; the zero Value, and
// any beyond the end of values, is a variable that was not supplied.
func (p *Plan) Cost(values []Value) float64 {
	dearest := p.known
	for i := range p.operations {
		dearest = max(dearest, p.operations[i].cost(p.strategy, values))
	}
	return dearest
}

// CostJSON is Cost with the request's variables as a decoded JSON object; nil is
// none.
func (p *Plan) CostJSON(variables map[string]json.RawMessage) float64 {
	values := make([]Value, len(p.variables))
	for i, name := range p.variables {
		values[i] = JSONValue(variables[name])
	}
	return p.Cost(values)
}

// scratchSize is the number of sums and variables that are evaluated without
// allocating.
const scratchSize = 32

func (p *operationPlan) cost(s Strategy, supplied []Value) float64 {
	var valueBuffer [scratchSize]Value
	var resultBuffer [scratchSize]float64
	values := valueBuffer[:0]
	for _, slot := range p.slots {
		v := slot.fallback
		if slot.variable < len(supplied) && supplied[slot.variable].Set() {
			v = supplied[slot.variable]
		}
		values = append(values, v)
	}
	results := resultBuffer[:0]
	for _, sum := range p.sums {
		total := 0.0
		for _, t := range p.terms[sum.from:sum.to] {
			if t.weight >= 0 {
				total = saturate(total + p.value(t, s, results, values))
				continue
			}
			for _, n := range p.constants[t.below.sum : t.below.sum-t.weight] {
				total = saturate(total + n)
			}
		}
		results = append(results, total)
	}
	return p.root.value(results)
}

func (o operand) value(results []float64) float64 {
	if o.sum == 0 {
		return o.known
	}
	return results[o.sum-1]
}

func (p *operationPlan) value(t term, s Strategy, results []float64, values []Value) float64 {
	below := t.below.value(results)
	if t.weight == 0 {
		return below
	}
	return p.weights[t.weight-1].resolve(values).apply(s, below)
}

// resolve folds in the arguments that read variables.
func (w *fieldWeight) resolve(values []Value) fieldWeight {
	resolved := fieldWeight{add: w.add, mul: w.mul, quantified: w.quantified}
	for _, a := range w.adds {
		if v := a.resolve(values); v.kind == count {
			resolved.add = saturate(resolved.add + v.num)
		}
	}
	for _, m := range w.muls {
		if v := m.resolve(values); v.kind == count {
			resolved.multiply(v.num)
		}
	}
	if !resolved.quantified && w.assumed != nil {
		resolved.multiply(*w.assumed)
	}
	return resolved
}

func (w *fieldWeight) multiply(by float64) {
	w.mul = saturate(w.mul * by)
	w.quantified = true
}

func (s source) resolve(values []Value) Value {
	if s.slot >= 0 && values[s.slot].Set() {
		return values[s.slot]
	}
	return s.value
}

// apply is the cost of a field whose selections cost below. Under NodeQuantifier
// a field without a count passes on what is below it, weights untouched.
func (w fieldWeight) apply(s Strategy, below float64) float64 {
	if s == NodeQuantifier && !w.quantified {
		return below
	}
	return saturate(saturate(below*w.mul) + w.add)
}

// What a plan's parts take in memory, in bytes.
var (
	operationBytes = int(reflect.TypeFor[operationPlan]().Size())
	sumBytes       = int(reflect.TypeFor[sum]().Size())
	termBytes      = int(reflect.TypeFor[term]().Size())
	weightBytes    = int(reflect.TypeFor[fieldWeight]().Size())
	sourceBytes    = int(reflect.TypeFor[source]().Size())
	slotBytes      = int(reflect.TypeFor[slot]().Size())
	constantBytes  = int(reflect.TypeFor[float64]().Size())
	// A variable's name, and its place in a map that is half empty.
	variableBytes = 3 * int(reflect.TypeFor[string]().Size())
)

// Size is about how many bytes the plan takes in memory.
func (p *Plan) Size() int {
	size := 0
	for _, name := range p.variables {
		size += variableBytes + len(name)
	}
	for i := range p.operations {
		op := &p.operations[i]
		size += operationBytes + len(op.sums)*sumBytes + len(op.terms)*termBytes + len(op.slots)*slotBytes + len(op.constants)*constantBytes
		for j := range op.weights {
			size += weightBytes + (len(op.weights[j].adds)+len(op.weights[j].muls))*sourceBytes
		}
	}
	return size
}
