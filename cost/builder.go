package cost

import (
	"math"
	"slices"

	"github.com/graphql-go/graphql/language/ast"
)

// builder adds up a selection set, folding what is known. Its terms are the last ones of
// the compiler's stack, as sets are compiled one inside of the other.
type builder struct {
	compiler *compiler
	known    float64
	from     int // where its terms start
	// fractional: a summand may be no whole number, so that sums are rounded and folding
	// some of them behind a term would give another total.
	fractional bool
}

// sum begins to add up a selection set.
func (c *compiler) sum() builder { return builder{compiler: c, from: len(c.stack)} }

// term adds a summand behind what was folded so far, which keeps its place among the
// terms: floating point sums depend on their order.
func (b *builder) term(t term, fractional bool) {
	b.flush()
	b.compiler.push(t)
	b.fractional = b.fractional || fractional
}

// constant adds a known summand. What stands in front of all terms is folded, and so are
// whole numbers, whose sums are exact whatever their grouping.
func (b *builder) constant(n float64) {
	b.fractional = b.fractional || !whole(n)
	if b.fractional && len(b.compiler.stack) > b.from && n != 0 {
		b.flush()
	}
	b.known = saturate(b.known + n)
}

func whole(n float64) bool { return n == math.Trunc(n) }

// usualParts is how many terms a usual document that reads variables comes to; it has
// some weights less.
const usualParts = 16

func (c *compiler) push(t term) {
	if c.stack == nil {
		c.stack, c.terms = make([]term, 0, usualParts), make([]term, 0, usualParts)
	}
	c.stack = append(c.stack, t)
}

// add adds an operand as it is.
func (b *builder) add(o operand) {
	switch {
	case o.sum > 0:
		b.term(term{below: o}, b.compiler.fractional[o.sum-1])
	default:
		b.constant(o.known)
	}
}

// flush makes what was folded so far a term, or one more of a run: a document may have a
// hundred thousand constants that must not be folded.
func (b *builder) flush() {
	if b.known == 0 {
		return
	}
	c := b.compiler
	n := b.known
	b.known = 0
	if len(c.stack) > b.from {
		switch last := &c.stack[len(c.stack)-1]; {
		case last.weight < 0 && last.below.sum-last.weight == len(c.constants):
			// Else a set below, compiled while n waited, has put its runs behind this one.
			c.constants = append(c.constants, n)
			last.weight--
			return
		case last.weight == 0 && last.below.sum == 0:
			c.constants = append(c.constants, last.below.known, n)
			*last = term{below: operand{sum: len(c.constants) - 2}, weight: -2}
			return
		}
	}
	c.push(term{below: constant(n)})
}

// field adds a field with that below it. declared may be nil.
func (b *builder) field(below operand, w *weight, arguments []*ast.Argument, declared *fieldDefinition) {
	s := b.compiler.options.Strategy
	if len(w.addArguments)+len(w.mulArguments) == 0 && below.sum == 0 && w.assumed == nil {
		plain := fieldWeight{add: w.add, mul: w.mul}
		b.constant(plain.apply(s, below.known))
		return
	}
	resolved := b.weight(w, arguments, declared)
	if len(resolved.adds)+len(resolved.muls) > 0 {
		b.weigh(below, resolved)
		return
	}
	resolved = resolved.resolve(nil)
	switch {
	case below.sum == 0:
		b.constant(resolved.apply(s, below.known))
	case s == NodeQuantifier && !resolved.quantified:
		b.add(below)
	default:
		b.weigh(below, resolved)
	}
}

// weigh adds a field that depends on variables.
func (b *builder) weigh(below operand, w fieldWeight) {
	c := b.compiler
	if c.weights == nil {
		c.weights = make([]fieldWeight, 0, usualParts)
	}
	c.weights = append(c.weights, w)
	fractional := w.fractional() || !whole(below.known) || below.sum > 0 && c.fractional[below.sum-1]
	b.term(term{below: below, weight: len(c.weights)}, fractional)
}

// fractional reports whether the weight may be no whole number. What requests supply counts
// as whole: paginating arguments are Ints to servers, and of a fraction only the last bit of
// a sum would be another.
func (w *fieldWeight) fractional() bool {
	fraction := func(s source) bool { return !whole(s.value.num) }
	return !whole(w.add) || !whole(w.mul) || w.assumed != nil && !whole(*w.assumed) ||
		slices.ContainsFunc(w.adds, fraction) || slices.ContainsFunc(w.muls, fraction)
}

// weight looks up a field's arguments and folds those that read no variable,
// unless one before them does: products saturate, so their order matters.
func (b *builder) weight(w *weight, arguments []*ast.Argument, declared *fieldDefinition) fieldWeight {
	f := fieldWeight{add: w.add, mul: w.mul, assumed: w.assumed}
	for _, name := range w.addArguments {
		from := b.compiler.argument(name, arguments, declared)
		if from.slot >= 0 || len(f.adds) > 0 {
			f.adds = append(f.adds, from)
		} else if from.value.kind == count {
			f.add = saturate(f.add + from.value.num)
		}
	}
	for _, name := range w.mulArguments {
		from := b.compiler.argument(name, arguments, declared)
		if from.slot >= 0 || len(f.muls) > 0 {
			f.muls = append(f.muls, from)
		} else if from.value.kind == count {
			f.multiply(from.value.num)
		}
	}
	return f
}

// finish is the operand that stands for the total.
func (b *builder) finish() operand {
	c := b.compiler
	if len(c.stack) == b.from {
		return constant(b.known)
	}
	b.flush()
	from := len(c.terms)
	c.terms = append(c.terms, c.stack[b.from:]...)
	c.stack = c.stack[:b.from]
	c.sums = append(c.sums, sum{from: from, to: len(c.terms)})
	c.fractional = append(c.fractional, b.fractional)
	return operand{sum: len(c.sums)}
}
