package cost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/graphql-go/graphql/language/parser"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const (
	// differentialCases is the number of random cases, of which each is costed under
	// every strategy, plain and noisy. A short run, and one under the race detector, takes
	// a part of them; make test runs all of them without.
	differentialCases = 100_000
	shortPart         = 50
	// differentialParts are checked side by side, as far as there are processors.
	differentialParts = 8
	// differentialGC is how much garbage a test of nothing else may leave, in percent of
	// what is live, which is next to nothing.
	differentialGC = 1000
)

func TestCostEqualsThatOfTheRulesReadPlainly(t *testing.T) {
	cases := uint64(differentialCases)
	if testing.Short() || underRace {
		cases /= shortPart
	}
	defer debug.SetGCPercent(debug.SetGCPercent(differentialGC))
	var parts [differentialParts]map[string]int
	t.Run("cases", func(t *testing.T) {
		for part := range parts {
			parts[part] = map[string]int{}
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := uint64(part); seed < cases; seed += differentialParts {
					checkCase(t, seed, parts[part])
				}
			})
		}
	})
	outcomes := map[string]int{}
	for _, part := range parts {
		for outcome, n := range part {
			outcomes[outcome] += n
		}
	}
	// Every way to end must have been met, or the generator has lost its teeth.
	t.Log(outcomes)
	for _, outcome := range []string{"cost 0", "cost 1", "cost", "saturated", "cycle", "budget"} {
		require.Greater(t, outcomes[outcome], int(cases)/1000, outcome)
	}
}

func checkCase(t *testing.T, seed uint64, outcomes map[string]int) {
	t.Helper()
	g := newCase(seed)
	plain, noisy := strings.Join(g.plain, " "), g.layout()
	raw, err := parser.Parse(parser.ParseParams{Source: plain})
	require.NoError(t, err, "seed %d: %s", seed, plain)

	expected := reference{document: raw, schema: g.schema, decorations: g.decorations}
	schema, err := g.parseSchema()
	require.NoError(t, err)
	model, err := cost.NewModel(g.decorations)
	require.NoError(t, err)
	if g.chance(3) {
		expected.schema, schema = nil, nil
	}
	if g.chance(30) {
		expected.operation = g.pick(operations)
	}
	expected.resolve = g.chance(75)
	expected.budget = []int{20, 100, 10_000}[g.rnd.IntN(3)]
	expected.variables = decodeVariables(t, g.variables)

	a, b := parse(t, plain), parse(t, noisy)
	text := normalized(t, plain)
	require.Equal(t, text, normalized(t, text), "seed %d: again", seed)
	require.Equal(t, text, normalized(t, noisy), "seed %d:\n%s\n%s", seed, plain, noisy)
	strategies := []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier}
	if g.fractions {
		// By node_quantifier the rules multiply on the way down and a plan on the way up: in
		// fractions they differ by how they are rounded.
		strategies = strategies[:2]
	}
	for _, strategy := range strategies {
		expected.strategy = strategy
		want, wantErr := expected.cost()
		outcomes[outcome(want, wantErr)]++
		for _, document := range []*cost.Document{a, b} {
			got, gotErr := evaluate(document, expected, model, schema, g.variables)
			require.ErrorIs(t, gotErr, wantErr, "seed %d, %s: %s", seed, strategy, plain)
			require.Equal(t, want, got, "seed %d, %s: %s", seed, strategy, plain)
		}
	}
}

// parseSchema reads the schema in either of its forms.
func (g *randomCase) parseSchema() (*cost.Schema, error) {
	if g.chance(50) {
		return cost.ParseIntrospection(g.schema.introspection())
	}
	return cost.ParseSDL([]byte(g.schema.sdl()))
}

func evaluate(d *cost.Document, r reference, model *cost.Model, schema *cost.Schema, variables map[string]json.RawMessage) (float64, error) {
	plan, err := d.Compile(cost.Options{
		Strategy: r.strategy, Model: model, Schema: schema, OperationName: r.operation,
		Variables: r.resolve, Defaults: r.resolve, MaxSelections: r.budget,
	})
	if err != nil {
		return 0, err
	}
	return plan.CostJSON(variables), nil
}

// decodeVariables decodes with encoding/json; a number that float64 cannot hold
// is as absent as a boolean.
func decodeVariables(t *testing.T, raw map[string]json.RawMessage) map[string]any {
	t.Helper()
	decoded := map[string]any{}
	for name, text := range raw {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			var overflow *json.UnmarshalTypeError
			require.True(t, errors.As(err, &overflow), "%s", text)
			v = false
		}
		decoded[name] = v
	}
	return decoded
}

func outcome(raw float64, err error) string {
	switch {
	case errors.Is(err, cost.ErrFragmentCycle):
		return "cycle"
	case errors.Is(err, cost.ErrTooManySelections):
		return "budget"
	case raw == 0:
		return "cost 0"
	case raw == 1:
		return "cost 1"
	case raw == cost.MaxCost:
		return "saturated"
	default:
		return "cost"
	}
}
