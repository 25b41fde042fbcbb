package cost_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// shop is the schema of the hand-made cases.
const shop = `
type Query {
  products(first: Int = 50, last: Int, text: String = "7", object: I = {n: 5}, list: [Int] = [1, 2, 3], none: Int = null): Products
  node: Node
  self: Query
}
type Mutation { products(first: Int): Products }
type Subscription { products(first: Int): Products }
interface Node { id: ID, reviews(first: Int): Reviews }
type Products { nodes: [Product!]! }
type Product implements Node { id: ID, reviews(first: Int): Reviews }
type Reviews { nodes: [Review] }
type Review { body: String }
scalar ID
`

// number is a pointer to n, as decorations hold their weights.
func number(n float64) *float64 { return &n }

// request is one costing: a document and all that weights it.
type request struct {
	document    string
	decorations []cost.Decoration
	schema      string // "": shop; "none": no schema
	options     cost.Options
	variables   string // JSON
}

func (r request) cost(t *testing.T) (float64, error) {
	t.Helper()
	model, err := cost.NewModel(r.decorations)
	require.NoError(t, err)
	o := r.options
	o.Model = model
	if text := r.schema; text != "none" {
		if text == "" {
			text = shop
		}
		o.Schema, err = cost.ParseSDL([]byte(text))
		require.NoError(t, err)
	}
	plan, err := parse(t, r.document).Compile(o)
	if err != nil {
		return 0, err
	}
	var variables map[string]json.RawMessage
	if r.variables != "" {
		require.NoError(t, json.Unmarshal([]byte(r.variables), &variables))
	}
	return plan.CostJSON(variables), nil
}

func TestCharged(t *testing.T) {
	for _, c := range []struct {
		name        string
		strategy    cost.Strategy
		raw, factor float64
		want        int64
	}{
		{"depth is charged as it is", cost.Depth, 4, 1, 4},
		{"depth is the default", "", 4, 1, 4},
		{"depth is rounded up", cost.Depth, 3, 1.5, 5},
		{"depth is at least 1", cost.Depth, 1, 0.001, 1},
		{"a raw 51 is charged 52", cost.NodeQuantifier, 51, 1, 52},
		{"complexity, raw 3, is charged 4", cost.Complexity, 3, 1, 4},
		{"nothing quantified is charged 1", cost.NodeQuantifier, 0, 1, 1},
		{"the hundredth is added before the factor", cost.Complexity, 100, 0.1, 11},
		{"fractions are rounded up", cost.Complexity, 2.25, 1, 3},
		{"a raw just below an integer", cost.Complexity, 2.98, 1, 3},
		{"the largest cost", cost.Complexity, cost.MaxCost, 1, 9007199254740991},
		{"no product is larger", cost.Complexity, cost.MaxCost, 1e300, 9007199254740991},
		{"no depth is larger", cost.Depth, 500, 1e300, 9007199254740991},
		{"a factor at the edge of float64", cost.Depth, 500, math.MaxFloat64, 9007199254740991},
		{"the least factor there is", cost.Complexity, cost.MaxCost, math.SmallestNonzeroFloat64, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, cost.Charged(c.strategy, c.raw, c.factor))
		})
	}
}

func TestStrategies(t *testing.T) {
	for _, s := range []cost.Strategy{"depth", "complexity", "node_quantifier"} {
		require.True(t, s.Valid())
	}
	for _, s := range []cost.Strategy{"", "Depth", "quantifier"} {
		require.False(t, s.Valid())
	}
}

func TestDepth(t *testing.T) {
	for _, c := range []struct {
		name, document string
		want           float64
	}{
		{"one selection set is 1", `{ a b c }`, 1},
		{"the deepest counts", `{ a b { c } d { e { f { g } } } }`, 4},
		{"inline fragments add no level", `{ ... { ... on T { a { ... { b } } } } }`, 2},
		{"spreads expand in place", `{ a { ...F } } fragment F on T { b { ...G } } fragment G on T { c { d } }`, 4},
		{"an undefined fragment is nothing", `{ ...Nope a { ...Nope } }`, 2},
		{"of two fragments of one name the later counts", `{ ...F } fragment F on T { a { b { c } } } fragment F on T { a }`, 1},
		{"an unused fragment does not count", `{ a } fragment F on T { a { b } }`, 1},
		{"a cycle that no operation reaches does not matter", `{ a } fragment F on T { ...F }`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, depthOf(t, c.document))
		})
	}
}

func TestOperations(t *testing.T) {
	const document = `query A { a } query B { a { b } } mutation C { a { b { c } } } query B { a { b { c { d } } } }`
	for _, c := range []struct {
		name, document, operation string
		depth, complexity         float64
	}{
		{"without a name the dearest counts", document, "", 4, 5},
		{"the named one counts", document, "A", 1, 2},
		{"whatever its kind", document, "C", 3, 4},
		{"of two of one name the dearer counts", document, "B", 4, 5},
		{"a name that matches none is no name", document, "D", 4, 5},
		{"names are matched exactly", document, "a", 4, 5},
		{"the only operation counts, whatever the name", `query A { a }`, "B", 1, 2},
		{"an anonymous one among others", `{ a { b } } query A { a }`, "A", 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request{document: c.document, options: cost.Options{OperationName: c.operation}}
			for s, want := range map[cost.Strategy]float64{
				"": c.depth, cost.Depth: c.depth, cost.Complexity: c.complexity, cost.NodeQuantifier: 0,
			} {
				r.options.Strategy = s
				got, err := r.cost(t)
				require.NoError(t, err)
				require.Equal(t, want, got, s)
			}
		})
	}
}

func TestACycleIsRefusedWhateverTheStrategy(t *testing.T) {
	for name, document := range map[string]string{
		"a fragment in itself":            `{ ...F } fragment F on T { ...F }`,
		"two in each other":               `{ ...F } fragment F on T { a { ...G } } fragment G on T { ... { ...F } }`,
		"below a field":                   `{ a { b { ...F } } } fragment F on T { c { ...F } }`,
		"entered from outside":            `{ ...E } fragment E on T { ...F } fragment F on T { ...G } fragment G on T { ...F }`,
		"in any operation that is costed": `query A { a } query B { ...F } fragment F on T { ...F }`,
		"spread again after it was done":  `{ ...E ...F } fragment E on T { a } fragment F on T { ...E ...F }`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
				_, err := request{document: document, options: cost.Options{Strategy: s}}.cost(t)
				require.ErrorIs(t, err, cost.ErrFragmentCycle, s)
				require.EqualError(t, err, "fragment spreads must not form cycles")
			}
		})
	}
	t.Run("but not in an operation that is not", func(t *testing.T) {
		r := request{document: `query A { a } query B { ...F } fragment F on T { ...F }`}
		for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
			r.options = cost.Options{Strategy: s, OperationName: "A"}
			_, err := r.cost(t)
			require.NoError(t, err)
		}
	})
}

func TestBudgetOfSelections(t *testing.T) {
	for _, c := range []struct {
		name, document string
		selections     int
	}{
		{"fields", `{ a { b } c }`, 3},
		{"inline fragments are selections too", `{ ... { a } ... on T { b } }`, 4},
		{"spreads are selections too, and expand", `{ ...F ...F } fragment F on T { a b }`, 6},
		{"undefined fragments are selections", `{ ...F a }`, 2},
		{"unused fragments are none", `{ a } fragment F on T { b c d }`, 1},
		{"all operations that are costed count", `query A { a } query B { b { c } }`, 3},
		{"nested spreads multiply", `{ ...F ...F } fragment F on T { ...G ...G } fragment G on T { a a }`, 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range []cost.Strategy{cost.Complexity, cost.NodeQuantifier} {
				r := request{document: c.document, options: cost.Options{Strategy: s, MaxSelections: c.selections}}
				_, err := r.cost(t)
				require.NoError(t, err)
				if c.selections > 1 {
					r.options.MaxSelections = c.selections - 1
					_, err = r.cost(t)
					require.ErrorIs(t, err, cost.ErrTooManySelections)
				}
			}
			_, err := request{document: c.document, options: cost.Options{MaxSelections: 1}}.cost(t)
			require.NoError(t, err, "depth has no budget")
		})
	}
	t.Run("only the operation that is named counts", func(t *testing.T) {
		r := request{document: `query A { a } query B { b { c } }`}
		r.options = cost.Options{Strategy: cost.Complexity, OperationName: "A", MaxSelections: 1}
		_, err := r.cost(t)
		require.NoError(t, err)
	})
	t.Run("the default is 100 000", func(t *testing.T) {
		// 25 000 spreads of three fields are 100 000 selections.
		spreads := strings.Repeat("...F ", 25_000)
		r := request{document: "{" + spreads + "} fragment F on T{a b c}", options: cost.Options{Strategy: cost.Complexity}}
		_, err := r.cost(t)
		require.NoError(t, err)
		r.document = "{" + spreads + "d} fragment F on T{a b c}"
		_, err = r.cost(t)
		require.ErrorIs(t, err, cost.ErrTooManySelections)
		require.EqualError(t, err, "the query expands too many selections")
	})
}

func TestEveryStepSaturates(t *testing.T) {
	huge := []cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first", "last"}, AddArguments: []string{"last"}}}
	for _, c := range []struct {
		name, document string
		decorations    []cost.Decoration
		complexity     float64
		quantifier     float64
	}{
		{"a product", `{products(first:1e200,last:1e200){nodes{id}}}`, huge, cost.MaxCost, cost.MaxCost},
		{"a sum", `{products(first:0,last:1e308){nodes{id}}}`, huge, cost.MaxCost, cost.MaxCost},
		{"a saturated multiplier times nothing is nothing", `{products(first:1e308)}`,
			[]cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}}}, 2, 1},
		{"zero below a saturated multiplier is zero", `{products(first:1e308){nodes{id}}}`,
			[]cost.Decoration{
				{FieldPath: "Query.products", MulArguments: []string{"first"}, AddValue: number(0)},
				{FieldPath: "Products.nodes", MulValue: number(0), AddValue: number(0)},
			}, 1, 0},
		{"the largest weights", `{products(first:1){nodes{id}}}`,
			[]cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}, AddValue: number(math.MaxFloat64), MulValue: number(math.MaxFloat64)}},
			cost.MaxCost, cost.MaxCost},
		{"the largest assumed size", `{products{nodes{id}}}`,
			[]cost.Decoration{{FieldPath: "Query.products", AssumedSize: number(math.MaxFloat64)}}, cost.MaxCost, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request{document: c.document, decorations: c.decorations}
			r.options.Strategy = cost.Complexity
			got, err := r.cost(t)
			require.NoError(t, err)
			require.Equal(t, c.complexity, got)
			r.options.Strategy = cost.NodeQuantifier
			got, err = r.cost(t)
			require.NoError(t, err)
			require.Equal(t, c.quantifier, got)
		})
	}
	t.Run("doubling fragments saturate where the budget allows", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("{self{...F}}fragment F on Query{")
		b.WriteString(strings.Repeat("self{", 60) + "self" + strings.Repeat("}", 60) + "}")
		got, err := request{
			document: b.String(), decorations: []cost.Decoration{{FieldPath: "Query.self", MulValue: number(2)}},
			options: cost.Options{Strategy: cost.Complexity},
		}.cost(t)
		require.NoError(t, err)
		require.Equal(t, float64(cost.MaxCost), got)
	})
}

func TestTheReadmesExample(t *testing.T) {
	got, err := request{
		document: `{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }`,
		decorations: []cost.Decoration{
			{FieldPath: "Query.products", MulArguments: []string{"first"}},
			{FieldPath: "Product.reviews", MulArguments: []string{"first"}},
		},
		options: cost.Options{Strategy: cost.NodeQuantifier},
	}.cost(t)
	require.NoError(t, err)
	require.Equal(t, 51.0, got)
	require.Equal(t, int64(52), cost.Charged(cost.NodeQuantifier, got, 1))
}
