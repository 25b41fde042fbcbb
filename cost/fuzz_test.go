package cost_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/graphql-go/graphql/language/parser"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// fuzzLimits keep the work small, so that the fuzzer sees much of it, and bound
// what the parser that is compared with is given: it recurses without end.
var fuzzLimits = cost.Limits{Depth: 60, Tokens: 2000}

// fuzzCeiling bounds one fuzzed input, on a loaded machine.
const fuzzCeiling = 5 * time.Second

func FuzzParse(f *testing.F) {
	for _, v := range engineVectors(f) {
		if v.QueryGen == nil {
			f.Add(v.Query)
		}
	}
	for seed := range uint64(40) {
		g := newCase(seed)
		f.Add(strings.Join(g.plain, " "))
		f.Add(g.layout())
	}
	for _, text := range []string{"", ",", "{", "\uFEFF{a}#", "type A{a:B}{a}", `"d"query($a:A=null@d){a(x:"\u{1F600}")}`, `{a(x:"""\"""10""")}`, "{...on on{on}}", "extend schema@d{query:Q}", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		n, err := cost.Normalize(text, fuzzLimits)
		var d *cost.Document
		if err == nil {
			d, err = n.Parse()
		}
		require.Less(t, time.Since(start), fuzzCeiling)
		if err != nil {
			require.NotContains(t, err.Error(), "unexpected token", "the parser refuses what the lexical pass lets through")
			return
		}
		costs := allCosts(t, d)
		if costs == nil {
			return
		}
		again, err := cost.Normalize(n.Text(), fuzzLimits)
		require.NoError(t, err, "%q", n.Text())
		require.Equal(t, n.Text(), again.Text())
		parsed, err := again.Parse()
		require.NoError(t, err, "%q", n.Text())
		require.Equal(t, costs, allCosts(t, parsed))

		// Where the parser takes the text itself, the cost is that of its tree; but
		// for numbers that a string spells by escapes, which are none here, and for
		// text beyond ASCII: the parser loses its place behind one in a comment.
		raw, err := parser.Parse(parser.ParseParams{Source: text})
		if err != nil || strings.Contains(text, `\`) || !ascii(text) {
			return
		}
		for i, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
			plain := reference{document: raw, strategy: s, budget: fuzzBudget, schema: fuzzSchema, decorations: fuzzDecorations, resolve: true}
			want, err := plain.cost()
			if err == nil {
				require.Equal(t, want, costs[i], "%s of %q", s, text)
			}
		}
	})
}

func ascii(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// fuzzBudget keeps the plain expansion of a fuzzed document short.
const fuzzBudget = 2000

var (
	fuzzDecorations = []cost.Decoration{
		{FieldPath: "Query.a", MulArguments: []string{"n", "first"}, AddArguments: []string{"m"}, AssumedSize: number(3)},
		{FieldPath: "A", AddValue: number(2)},
		{FieldPath: "Query.a.b", MulValue: number(2)},
		{FieldPath: "Query.products", MulArguments: []string{"first"}},
	}
	fuzzSchema = &sketch{
		types: map[string]map[string]*sketchField{
			"Query": {
				"a":        {returns: "A", wrapping: "%s", defaults: map[string]string{"n": "4"}},
				"products": {returns: "A", wrapping: "[%s]", defaults: map[string]string{}},
			},
			"A": {"b": {returns: "Query", wrapping: "%s!", defaults: map[string]string{}}},
		},
		order: []string{"Query", "A"},
		roots: map[string]string{"query": "Query"},
	}
)

// allCosts costs a document by every strategy; nil when it cannot be.
func allCosts(t *testing.T, d *cost.Document) (costs []float64) {
	t.Helper()
	model, err := cost.NewModel(fuzzDecorations)
	require.NoError(t, err)
	schema, err := cost.ParseSDL([]byte(fuzzSchema.sdl()))
	require.NoError(t, err)
	for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
		plan, err := d.Compile(cost.Options{
			Strategy: s, Model: model, Schema: schema, Variables: true, Defaults: true, MaxSelections: fuzzBudget,
		})
		if err != nil {
			return nil
		}
		raw := plan.Cost(nil)
		require.GreaterOrEqual(t, raw, 0.0)
		require.LessOrEqual(t, raw, float64(cost.MaxCost))
		require.GreaterOrEqual(t, cost.Charged(s, raw, 1), int64(1))
		costs = append(costs, raw)
	}
	return costs
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(modern))
	f.Add([]byte(`{"data":{"__schema":{"queryType":{"name":"Q"},"types":[{"name":"Q","fields":[{"name":"a","args":[{"name":"n","defaultValue":"[1]"}],"type":{"ofType":{"name":"Q"}}}]}]}}}`))
	f.Add([]byte(`{"__schema":{"types":[{}]}}`))
	for seed := range uint64(4) {
		g := newCase(seed)
		f.Add([]byte(g.schema.sdl()))
		f.Add(g.schema.introspection())
	}
	for _, v := range engineVectors(f) {
		if v.Schema != nil {
			f.Add([]byte(*v.Schema))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		schema, err := cost.ParseSchema(text)
		require.Less(t, time.Since(start), fuzzCeiling)
		if err != nil {
			require.Nil(t, schema)
			return
		}
		model, err := cost.NewModel(fuzzDecorations)
		require.NoError(t, err)
		plan, err := parse(t, `{a(n:2){b{a{b}}}}`).Compile(cost.Options{
			Strategy: cost.Complexity, Model: model, Schema: schema, Variables: true, Defaults: true,
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, plan.Cost(nil), 1.0)
	})
}

func FuzzJSONValue(f *testing.F) {
	for _, text := range append(supplied, `[[1,"],["],{"a":[1,2]}]`, `"\u0031"`, ` [ ] `, `1e308`, `-0`, `[",\"",[]]`, `123456789012345678901`, `0.1e-300`, `10099999999999999991700000`, `-1e-300`) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := cost.JSONValue(text) // anything, without a panic
		if !json.Valid(text) {
			return
		}
		switch trimmed := bytes.TrimSpace(text); trimmed[0] {
		case '[':
			var list []json.RawMessage
			require.NoError(t, json.Unmarshal(text, &list))
			require.Equal(t, cost.Number(float64(len(list))), got)
		case '"':
			var s string
			require.NoError(t, json.Unmarshal(text, &s))
			n, ok := textNumber(s)
			if !ok {
				n = -1
			}
			requireClose(t, n, got)
		case '{', 't', 'f', 'n':
			require.Equal(t, cost.Number(-1), got)
		default:
			n, ok := textNumber(string(trimmed))
			if !ok {
				n = -1
			}
			requireClose(t, n, got)
		}
	})
}

// requireClose allows for what is cut off behind the 19th digit and for numbers
// too small to matter: the last bit of a float64.
func requireClose(t *testing.T, want float64, got cost.Value) {
	t.Helper()
	const smallest = 1e-289
	for _, n := range []float64{want, math.Nextafter(want, 0), math.Nextafter(want, math.Inf(1))} {
		if got == cost.Number(n) {
			return
		}
	}
	if want >= 0 && want < smallest && got == cost.Number(math.SmallestNonzeroFloat64) {
		return
	}
	if want > 1.797693134862315e308 {
		return // either side of the largest
	}
	require.Equal(t, cost.Number(want), got)
}
