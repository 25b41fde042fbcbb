package cost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// Floating point sums depend on their order: 2.33 + 2.22 + 0.44 is 4.9900000000000011 from left
// to right, and 2.33 + (2.22 + 0.44) is 4.9900000000000002. The operation adds 1.
func TestSumsAreAddedFromLeftToRight(t *testing.T) {
	const inPlace, grouped = 5.9900000000000011, 5.9900000000000002
	decorations := []cost.Decoration{
		{FieldPath: "Query.a", AddValue: number(2.33)},
		{FieldPath: "Query.b", AddValue: number(2.22)},
		{FieldPath: "Query.c", AddValue: number(0.44)},
		{FieldPath: "Query.n", AddValue: number(0), AddArguments: []string{"n"}},
	}
	for _, c := range []struct {
		name, document string
		raw            float64
		charged        int64
	}{
		{"fields", `{ a b c }`, inPlace, 7},
		{"an inline fragment's fields stand in its place", `{ a ... { b c } }`, inPlace, 7},
		{"also on a type", `{ a ... on Query { b c } }`, inPlace, 7},
		{"and those of a fragment inside of it", `{ a ... { b ... { c } } }`, inPlace, 7},
		{"in front of fields too", `{ ... { a b } c }`, inPlace, 7},
		{"in the order of the document", `{ ... { b c } a }`, grouped, 6},
		{"in a fragment", `{ ...F } fragment F on Query { a ... { b c } }`, inPlace, 7},
		{"a named fragment is a sum of its own", `{ a ...F } fragment F on Query { b c }`, grouped, 6},
		{"which an inline fragment may spread", `{ a ... { ...F } } fragment F on Query { b c }`, grouped, 6},
		{"beside a variable that is known later", `query($n: Int) { a ... { b c n(n: $n) } }`, inPlace + 1, 8},
		{"behind a variable too", `query($n: Int) { a n(n: $n) b c }`, inPlace + 1, 8},
		{"whatever is a whole number", `query($n: Int) { n(n: $n) d d a ... { b c } }`, 8.990000000000002, 10},
		{"behind a field that is known later", `query($n: Int) { a q { n(n: $n) } b c }`, 7.9900000000000011, 9},
		{"around a field that has such sums below it", `query($n: Int) { n(n: $n) a d d q { n(n: $n) a b } }`, 12.88, 13},
		{"below a field", `{ q { a ... { b c } } }`, inPlace + 1, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := request{
				schema:   `type Query { a: Int b: Int c: Int n(n: Int): Int q: Query }`,
				document: c.document, decorations: decorations, variables: `{"n": 1}`,
				options: cost.Options{Strategy: cost.Complexity, Variables: true},
			}.cost(t)
			require.NoError(t, err)
			require.Equal(t, c.raw, got)
			require.Equal(t, c.charged, cost.Charged(cost.Complexity, got, 1))
		})
	}
}
