package cost_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

func TestModelErrorsNameThePath(t *testing.T) {
	for _, c := range []struct {
		name        string
		decorations []cost.Decoration
		want        string
	}{
		{"no path", []cost.Decoration{{}}, `field_path "" is not a chain of names`},
		{"an empty name", []cost.Decoration{{FieldPath: "A..b"}}, `field_path "A..b" is not a chain of names`},
		{"a point at the end", []cost.Decoration{{FieldPath: "A."}}, `field_path "A." is not a chain of names`},
		{"a digit first", []cost.Decoration{{FieldPath: "A.1"}}, `field_path "A.1" is not a chain of names`},
		{"a space", []cost.Decoration{{FieldPath: "A. b"}}, `field_path "A. b" is not a chain of names`},
		{"a path twice", []cost.Decoration{{FieldPath: "A.b"}, {FieldPath: "A"}, {FieldPath: "A.b"}}, `field_path "A.b" is decorated twice`},
		{"a negative add_value", []cost.Decoration{{FieldPath: "A", AddValue: number(-1)}}, `field_path "A": add_value must be a finite number >= 0`},
		{"an infinite mul_value", []cost.Decoration{{FieldPath: "A", MulValue: number(math.Inf(1))}}, `field_path "A": mul_value must be a finite number >= 0`},
		{"an assumed_size that is no number", []cost.Decoration{{FieldPath: "A", AssumedSize: number(math.NaN())}}, `field_path "A": assumed_size must be a finite number >= 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			model, err := cost.NewModel(c.decorations)
			require.EqualError(t, err, c.want)
			require.Nil(t, model)
		})
	}
}

func TestEmptyModels(t *testing.T) {
	var none *cost.Model
	require.True(t, none.Empty())
	empty, err := cost.NewModel(nil)
	require.NoError(t, err)
	require.True(t, empty.Empty())
	some, err := cost.NewModel([]cost.Decoration{{FieldPath: "A"}})
	require.NoError(t, err)
	require.False(t, some.Empty())
}

func TestValidFieldPath(t *testing.T) {
	for _, path := range []string{"A", "_", "Query.a1", "a.b.c.__typename"} {
		require.True(t, cost.ValidFieldPath(path), path)
	}
	for _, path := range []string{"", ".", "A.", ".a", "A-b", "A.é", "A b", "1A", "A.*"} {
		require.False(t, cost.ValidFieldPath(path), path)
	}
}

func TestDecorationsKeepEmptyListsInJSON(t *testing.T) {
	for _, text := range []string{
		`{"field_path":"A.b"}`,
		`{"field_path":"A.b","add_value":0,"add_arguments":[],"mul_value":2.5,"mul_arguments":["first"],"assumed_size":10}`,
	} {
		var d cost.Decoration
		require.NoError(t, json.Unmarshal([]byte(text), &d))
		again, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
}
