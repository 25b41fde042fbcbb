package cost

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckComplete(t *testing.T) {
	for _, c := range []struct{ rule, schema, want string }{
		{"the default root", "type Query { a: Int b: [T!]! } type T { id: ID! f: Float s: String b: Boolean }", ""},
		{"a named root", "schema { query: Root } type Root { a: Int }", ""},
		{"an extended root", "extend type Query { a: Int }", ""},
		{"a union that is declared", "type Query { a: U } union U = T type T { a: Int }", ""},
		{"introspection", `{"__schema":{"queryType":{"name":"Q"},"types":[{"kind":"OBJECT","name":"Q","fields":[{"name":"a","type":{"kind":"SCALAR","name":"Int"}}]}]}}`, ""},
		{"no root", "type X { a: Int }", "the query root type Query is not declared"},
		{"a named root that is missing", "schema { query: Root } type Query { a: Int }", "the query root type Root is not declared"},
		{"a schema without queries", "schema { mutation: M } type M { a: Int }", "the query root type Query is not declared"},
		{"introspection without a root", `{"__schema":{"types":[{"kind":"OBJECT","name":"Query","fields":[]}]}}`, "the schema names no query root type"},
		{"an interface as the root", "interface Query { a: Int }", "the query root type Query is no object type with fields"},
		{"an input as the root", "input Query { a: Int }", "the query root type Query is no object type with fields"},
		{"a scalar as the root", "scalar Query", "the query root type Query is no object type with fields"},
		{"a root without fields", "type Query", "the query root type Query is no object type with fields"},
		{"an undeclared type", "type Query { b: [Prodct!] a: Prodct c: Date }",
			"fields return types that are not declared: Date (Query.c), Prodct (Query.a)"},
		{"many undeclared types", "type Query { a: A b: B c: C d: D e: E f: F g: G }",
			"fields return types that are not declared: A (Query.a), B (Query.b), C (Query.c), D (Query.d), E (Query.e) and 2 more"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			schema, err := ParseSchema([]byte(c.schema))
			require.NoError(t, err)
			if err = schema.CheckComplete(); c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
		})
	}
}
