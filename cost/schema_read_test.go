package cost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const readSDL = `
schema { query: Root mutation: Changes }
type Root { products(first: Int = 10, after: String): Products! search(limit: Int): [Result!] node(id: ID!): Node }
type Changes { buy(count: Int): Order }
type Order { lines(first: Int): [Product!]! }
type Products { nodes: [Product] }
type Product implements Node { id: ID! reviews(first: Int): [String!] owner: Owner }
union Result = Product | Order
union Owner = Order
interface Node { id: ID! }
`

func TestReadingASchema(t *testing.T) {
	s, err := cost.ParseSchema([]byte(readSDL))
	require.NoError(t, err)
	require.Equal(t, "Root", s.RootType("query"))
	require.Equal(t, "Changes", s.RootType("mutation"))
	require.Empty(t, s.RootType("subscription"))
	require.True(t, s.HasArgument("Root", "products", "first"))
	require.True(t, s.HasArgument("Root", "products", "after"), "also one without a default")
	require.False(t, s.HasArgument("Root", "products", "last"))
	require.False(t, s.HasArgument("Root", "nothing", "first"))
	require.False(t, s.HasArgument("Nothing", "products", "first"))
}

func TestMissingNamesWhatASchemaDoesNotHave(t *testing.T) {
	for _, c := range []struct {
		rule string
		d    cost.Decoration
		want []string
	}{
		{"a type", cost.Decoration{FieldPath: "Product"}, nil},
		{"no type", cost.Decoration{FieldPath: "Prodct"}, []string{"Prodct: the schema has no type Prodct"}},
		{"a field", cost.Decoration{FieldPath: "Root.products", MulArguments: []string{"first"}}, nil},
		{"no field", cost.Decoration{FieldPath: "Root.product"}, []string{"Root.product: type Root has no field product"}},
		{"no field of an interface", cost.Decoration{FieldPath: "Node.owner"}, []string{"Node.owner: type Node has no field owner"}},
		{"a field that belongs to every type", cost.Decoration{FieldPath: "Root.__typename"}, nil},
		{"no argument", cost.Decoration{FieldPath: "Root.products", MulArguments: []string{"frist"}, AddArguments: []string{"after", "x"}},
			[]string{"Root.products: add_arguments names x, which is no argument there", "Root.products: mul_arguments names frist, which is no argument there"}},
		{"an argument of a field that returns the type", cost.Decoration{FieldPath: "Product", MulArguments: []string{"first"}}, nil},
		{"no argument of any field that returns the type", cost.Decoration{FieldPath: "Products", MulArguments: []string{"limit"}},
			[]string{"Products: mul_arguments names limit, which is no argument there"}},
		{"a chain", cost.Decoration{FieldPath: "Root.products.nodes.reviews", MulArguments: []string{"first"}}, nil},
		{"a chain that breaks", cost.Decoration{FieldPath: "Root.products.node.reviews"},
			[]string{"Root.products.node.reviews: type Products has no field node"}},
		{"a chain through an interface", cost.Decoration{FieldPath: "Root.node.reviews", MulArguments: []string{"anything"}}, nil},
		{"a chain through a union", cost.Decoration{FieldPath: "Root.search.lines.reviews"}, nil},
		{"a chain through a union to a field of no type", cost.Decoration{FieldPath: "Root.search.line"},
			[]string{"Root.search.line: no type of the schema has a field line"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s, err := cost.ParseSchema([]byte(readSDL))
			require.NoError(t, err)
			require.Equal(t, c.want, s.Missing(c.d))
		})
	}
}

const outlineSDL = `"""
of the shop
"""
schema @link(url: "x") { query: Query }
directive @cost(weight: String! = "1" @a) repeatable on FIELD_DEFINITION | OBJECT
"all" type Query implements Root & Other @cost(weight: "2") {
  "the products"
  products(
    first: Int = 10 @cost(weight: "0.5"), # a comment
    filter: [ Filter ! ] = { tags: ["a", "b"] on: true }
  ): [ Product! # items
  ]! @listSize(assumedSize: 50, slicingArguments: ["first", "last"]) @deprecated
  one: Product
}
input Filter @x { tags: [String!] = [] @cost(weight: "3") on: Boolean }
enum Color @y { RED @cost(weight: "1") GREEN }
union Any @z = | Query | Product
scalar Date @specifiedBy(url: "u")
type Product { id: ID! }
extend type Product @cost(weight: "4") { name: String }
`

func TestOutlineKeepsWhatTheAuthorWrote(t *testing.T) {
	o, err := cost.ReadOutline([]byte(outlineSDL))
	require.NoError(t, err)
	weight := func(line int, literal string) []cost.Directive {
		return []cost.Directive{{Name: "cost", Arguments: []cost.DirectiveArgument{{Name: "weight", Value: literal}}, Line: line}}
	}
	require.Equal(t, &cost.Outline{Query: "Query", Types: []*cost.OutlineType{
		{Kind: cost.KindObject, Name: "Query", Interfaces: []string{"Root", "Other"}, Directives: weight(6, `"2"`), Line: 6, Fields: []cost.OutlineField{
			{Name: "products", Type: "[Product!]!", Line: 8, Arguments: []cost.OutlineInput{
				{Name: "first", Type: "Int", Default: "10", Directives: weight(9, `"0.5"`), Line: 9},
				{Name: "filter", Type: "[Filter!]", Default: `{tags:["a" "b"]on:true}`, Line: 10},
			}, Directives: []cost.Directive{
				{Name: "listSize", Line: 12, Arguments: []cost.DirectiveArgument{
					{Name: "assumedSize", Value: "50"}, {Name: "slicingArguments", Value: `["first" "last"]`},
				}},
				{Name: "deprecated", Line: 12},
			}},
			{Name: "one", Type: "Product", Line: 13},
		}},
		{Kind: cost.KindInput, Name: "Filter", Directives: []cost.Directive{{Name: "x", Line: 15}}, Line: 15, Fields: []cost.OutlineField{
			{Name: "tags", Type: "[String!]", Default: "[]", Directives: weight(15, `"3"`), Line: 15},
			{Name: "on", Type: "Boolean", Line: 15},
		}},
		{Kind: cost.KindEnum, Name: "Color", Directives: []cost.Directive{{Name: "y", Line: 16}}, Line: 16, Fields: []cost.OutlineField{
			{Name: "RED", Directives: weight(16, `"1"`), Line: 16}, {Name: "GREEN", Line: 16},
		}},
		{Kind: cost.KindUnion, Name: "Any", Directives: []cost.Directive{{Name: "z", Line: 17}}, Members: []string{"Query", "Product"}, Line: 17},
		{Kind: cost.KindScalar, Name: "Date", Line: 18, Directives: []cost.Directive{
			{Name: "specifiedBy", Line: 18, Arguments: []cost.DirectiveArgument{{Name: "url", Value: `"u"`}}},
		}},
		{Kind: cost.KindObject, Name: "Product", Directives: weight(20, `"4"`), Line: 19, Fields: []cost.OutlineField{
			{Name: "id", Type: "ID!", Line: 19}, {Name: "name", Type: "String", Line: 20},
		}},
	}}, o)
	require.Equal(t, "Product", o.Type("Query").Field("products").Type.Named())
	require.True(t, o.Type("Query").Field("products").Type.List())
	require.False(t, o.Type("Query").Field("one").Type.List())
	require.Nil(t, o.Type("Nothing"))
}

func TestOutlineOfIntrospectionIsThatOfItsSDL(t *testing.T) {
	o, err := cost.ReadOutline([]byte(`{"data": {"__schema": {
		"queryType": {"name": "Query"}, "mutationType": null, "types": [
		{"kind": "OBJECT", "name": "Query", "interfaces": [{"name": "Root"}], "fields": [{"name": "products",
			"args": [{"name": "first", "type": {"kind": "SCALAR", "name": "Int"}, "defaultValue": "10"}],
			"type": {"kind": "NON_NULL", "ofType": {"kind": "LIST", "ofType": {"kind": "NON_NULL", "ofType": {"kind": "OBJECT", "name": "Product"}}}}}]},
		{"kind": "INPUT_OBJECT", "name": "Filter", "inputFields": [{"name": "on", "type": {"kind": "SCALAR", "name": "Boolean"}, "defaultValue": "true"}]},
		{"kind": "ENUM", "name": "Color", "enumValues": [{"name": "RED"}]},
		{"kind": "UNION", "name": "Any", "possibleTypes": [{"name": "Query"}]},
		{"kind": "INTERFACE", "name": "Root", "possibleTypes": [{"name": "Query"}], "fields": []}]}}}`))
	require.NoError(t, err)
	require.Equal(t, &cost.Outline{Query: "Query", Types: []*cost.OutlineType{
		{Kind: cost.KindObject, Name: "Query", Interfaces: []string{"Root"}, Fields: []cost.OutlineField{
			{Name: "products", Type: "[Product!]!", Arguments: []cost.OutlineInput{{Name: "first", Type: "Int", Default: "10"}}},
		}},
		{Kind: cost.KindInput, Name: "Filter", Fields: []cost.OutlineField{{Name: "on", Type: "Boolean", Default: "true"}}},
		{Kind: cost.KindEnum, Name: "Color", Fields: []cost.OutlineField{{Name: "RED"}}},
		{Kind: cost.KindUnion, Name: "Any", Members: []string{"Query"}},
		{Kind: cost.KindInterface, Name: "Root"},
	}}, o)
}

func TestOutlineTakesDefaultsThatAreNoStrings(t *testing.T) {
	for given, want := range map[string]string{
		`"10"`: "10", `"\"a\""`: `"a"`, `10`: "10", `1.5`: "1.5", `-2e1`: "-2e1", `true`: "true", `false`: "false",
		`null`: "", `[1, "a"]`: "", `{"a": 1}`: "",
	} {
		o, err := cost.ReadOutline([]byte(`{"__schema": {"types": [
			{"name": "Query", "fields": [{"name": "a", "args": [{"name": "n", "defaultValue": ` + given + `, "type": {"name": "Int"}}]}]},
			{"name": "Filter", "inputFields": [{"name": "n", "defaultValue": ` + given + `, "type": {"name": "Int"}}]}]}}`))
		require.NoError(t, err, given)
		require.Equal(t, []cost.OutlineInput{{Name: "n", Type: "Int", Default: want}}, o.Type("Query").Field("a").Arguments, given)
		require.Equal(t, []cost.OutlineField{{Name: "n", Type: "Int", Default: want}}, o.Type("Filter").Fields, given)
	}
}

func TestOutlineRefusesWhatIsNoSchema(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"SDL that breaks off", "type A {", `parse schema: line 1: expected "}", found "the end"`},
		{"bytes that are not UTF-8", "type A { \xff }", "parse schema: not valid UTF-8"},
		{"introspection that breaks off", `{"data":`, "failed to decode the introspection response: unexpected end of JSON input"},
		{"introspection without types", `{"data": {"__schema": {"types": []}}}`, "the introspection response has no __schema.types"},
		{"an answer without data", `{"errors": []}`, "the introspection response has no __schema.types"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := cost.ReadOutline([]byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// FuzzOutline: what ParseSchema takes has an outline with the same types and fields.
func FuzzOutline(f *testing.F) {
	for _, seed := range []string{readSDL, outlineSDL, "type A { a(b: B = [1 {c: 2}] @d): [C] @e(f: \"\"\"g\"\"\") }", `{"__schema":{"types":[{"name":"A"}]}}`,
		"extend type A @b(c:#\n1)", "directive @a(b: C @d) on A type E { f: G }"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := cost.ParseSchema(text)
		if err != nil {
			return
		}
		o, err := cost.ReadOutline(text)
		if err != nil {
			require.Contains(t, err.Error(), "introspection", "SDL is read by the same parser")
			return
		}
		for _, declared := range o.Types {
			if declared.Name == "" {
				continue
			}
			require.True(t, s.HasType(declared.Name))
			if declared.Kind != cost.KindObject && declared.Kind != cost.KindInterface {
				continue
			}
			seen := map[string]bool{}
			for _, field := range declared.Fields {
				returns, ok := s.FieldType(declared.Name, field.Name)
				require.True(t, ok)
				if !seen[field.Name] {
					require.Equal(t, returns, field.Type.Named())
				}
				seen[field.Name] = true
				for _, argument := range field.Arguments {
					require.True(t, s.HasArgument(declared.Name, field.Name, argument.Name) || strings.Count(string(text), field.Name) > 1)
				}
			}
		}
	})
}
