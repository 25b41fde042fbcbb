package cost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

func TestEqualSchemas(t *testing.T) {
	const base = `type Query { a(n: Int = 1, m: Int): A } type A { b: Int } scalar Int`
	for _, c := range []struct {
		name, other string
		equal       bool
	}{
		{"the same text", base, true},
		{"another order", `scalar Int type A { b: Int } type Query { a(m: Int, n: Int = 1): A }`, true},
		{"other wrappers and descriptions", `"q" type Query { a(n: Int = 1, m: [Int!]!): [A!]! } type A { "b" b: Int! } scalar Int`, true},
		{"another default", `type Query { a(n: Int = 2, m: Int): A } type A { b: Int } scalar Int`, false},
		{"another argument", `type Query { a(n: Int = 1, l: Int): A } type A { b: Int } scalar Int`, false},
		{"another result", `type Query { a(n: Int = 1, m: Int): Int } type A { b: Int } scalar Int`, false},
		{"another field", `type Query { a(n: Int = 1, m: Int): A } type A { c: Int } scalar Int`, false},
		{"one more type", base + ` scalar X`, false},
		{"another kind", `type Query { a(n: Int = 1, m: Int): A } interface A { b: Int } scalar Int`, false},
		{"another root", base + ` schema { query: A }`, false},
		{"a mutation root", base + ` schema { query: Query mutation: A }`, false},
		{"a subscription root", base + ` schema { query: Query subscription: A }`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, err := cost.ParseSDL([]byte(base))
			require.NoError(t, err)
			other, err := cost.ParseSDL([]byte(c.other))
			require.NoError(t, err)
			require.Equal(t, c.equal, one.Equal(other))
			require.Equal(t, c.equal, other.Equal(one))
			require.True(t, one.Equal(one))
			require.False(t, one.Equal(nil))
		})
	}
}
