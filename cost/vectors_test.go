package cost_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// vector is a case of testdata/vectors/cost.json, as far as the engine runs it.
type vector struct {
	ID           string            `json:"id"`
	Level        string            `json:"level"`
	Schema       *string           `json:"schema"`
	Decorations  []cost.Decoration `json:"decorations"`
	ServiceBound bool              `json:"service_bound"`
	Conf         struct {
		CostStrategy cost.Strategy `json:"cost_strategy"`
	} `json:"conf"`
	Query         string                     `json:"query"`
	QueryGen      *generator                 `json:"query_gen"`
	OperationName string                     `json:"operation_name"`
	Variables     map[string]json.RawMessage `json:"variables"`
	Opts          struct {
		VariablesSupplied bool `json:"variables_supplied"`
		UseDefaults       bool `json:"use_defaults"`
	} `json:"opts"`
	Expect struct {
		RawCost       *float64 `json:"raw_cost"`
		ErrorContains string   `json:"error_contains"`
	} `json:"expect"`
}

// generator describes a long text, as the vectors' README says.
type generator struct {
	Prefix       string `json:"prefix"`
	Unit         string `json:"unit"`
	NumberedUnit string `json:"numbered_unit"`
	From         int    `json:"from"`
	Count        int    `json:"count"`
	Middle       string `json:"middle"`
	CloseUnit    string `json:"close_unit"`
	Suffix       string `json:"suffix"`
}

func (g generator) text() string {
	var b strings.Builder
	b.WriteString(g.Prefix)
	b.WriteString(strings.Repeat(g.Unit, g.Count))
	last := g.From + g.Count - 1
	if g.NumberedUnit != "" {
		for i := g.From; i <= last; i++ {
			b.WriteString(strings.NewReplacer("{i}", strconv.Itoa(i), "{p}", strconv.Itoa(i-1)).Replace(g.NumberedUnit))
		}
	}
	b.WriteString(g.Middle)
	b.WriteString(strings.Repeat(g.CloseUnit, g.Count))
	b.WriteString(strings.ReplaceAll(g.Suffix, "{last}", strconv.Itoa(last)))
	return b.String()
}

func engineVectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("../testdata/vectors/cost.json")
	require.NoError(t, err)
	// The file is read member by member: other levels have other shapes.
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &raw))
	var vectors []vector
	for _, r := range raw {
		var level struct {
			Level string `json:"level"`
		}
		require.NoError(t, json.Unmarshal(r, &level))
		if level.Level != "engine" {
			continue
		}
		var v vector
		require.NoError(t, json.Unmarshal(r, &v))
		vectors = append(vectors, v)
	}
	return vectors
}

func TestEngineVectors(t *testing.T) {
	vectors := engineVectors(t)
	require.Len(t, vectors, 135)
	for _, v := range vectors {
		t.Run(v.ID, func(t *testing.T) {
			raw, err := v.cost(t)
			if v.Expect.ErrorContains != "" {
				require.ErrorContains(t, err, v.Expect.ErrorContains)
				return
			}
			require.NoError(t, err)
			require.Equal(t, *v.Expect.RawCost, raw)
		})
	}
}

func (v vector) cost(t *testing.T) (float64, error) {
	t.Helper()
	model, err := cost.NewModel(v.Decorations)
	require.NoError(t, err)
	var schema *cost.Schema
	if v.Schema != nil {
		schema, err = cost.ParseSDL([]byte(*v.Schema))
		require.NoError(t, err)
	}
	query := v.Query
	if v.QueryGen != nil {
		query = v.QueryGen.text()
	}
	document, err := cost.Parse(query, cost.Limits{})
	if err != nil {
		return 0, err
	}
	plan, err := document.Compile(cost.Options{
		Strategy: v.Conf.CostStrategy, Model: model, Schema: schema,
		OperationName: v.OperationName,
		Variables:     v.Opts.VariablesSupplied || v.Opts.UseDefaults, Defaults: v.Opts.UseDefaults,
	})
	if err != nil {
		return 0, err
	}
	return plan.CostJSON(v.Variables), nil
}
