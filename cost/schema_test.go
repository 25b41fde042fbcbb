package cost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// modern holds what schemas of large public APIs hold.
const modern = `
"""
The schema.
"""
schema @link(url: "https://specs.apollo.dev/federation/v2.3", import: ["@key", { name: "@shareable" }]) {
  query: Root
  mutation: Writes
}

directive @key(fields: FieldSet!, resolvable: Boolean = true) repeatable on OBJECT | INTERFACE
directive @possibleTypes(
  """
  Concrete types.
  """
  concreteTypes: [String!]!
  abstractType: String = null
) on INPUT_FIELD_DEFINITION | ARGUMENT_DEFINITION
directive @preview(toggledBy: String!) on | ARGUMENT_DEFINITION
  | FIELD_DEFINITION

scalar FieldSet
"""ISO-8601 \""" date"""
scalar DateTime @specifiedBy(url: "https://example.org")

interface Node { id: ID! }
interface Actor implements Node & UniformResourceLocatable @key(fields: "id") {
  id: ID!
  login: String!
}
interface UniformResourceLocatable implements Node { id: ID! url: URI! }

type Root {
  "Look up a repository." repository("The owner" owner: String!, followRenames: Boolean = true @preview(toggledBy: "x")): Repository @deprecated(reason: "old")
  search(first: Int = 10, type: SearchType! = ISSUE, filter: Filter = {states: [OPEN], nested: {deep: [[1]]}}, after: String = "", ids: [ID!]! = ["a", "b"], ratio: Float = 1.5e1, off: Int = -1, flag: Boolean = true): [[SearchResult!]!]!
  type: String
  query: Root
}
type Writes { add(input: AddInput!): AddPayload }
type AddPayload
type Repository implements & Node & Actor @key(fields: "id") @key(fields: "login") { id: ID! login: String! issues(first: Int): IssueConnection! }
type IssueConnection { nodes: [Issue], totalCount: Int! }
type Issue { title: String }
union SearchResult = | Issue | Repository
union Empty
enum SearchType @tag(name: "x") { "an issue" ISSUE REPOSITORY @deprecated }
input AddInput { name: String! = "x" @tag(name: "y") "The tags" tags: [String!] = [] nested: Filter }
input Filter { states: [State] }
enum State { OPEN }

extend schema @link(url: "u") { subscription: Events }
extend type Root @key(fields: "x") { viewer: Repository! search(first: Int = 99): Issue }
extend type Repository implements Extra
extend interface Node { extra: Int }
extend union SearchResult @d = Writes
extend enum State { CLOSED }
extend input Filter { text: String = "t" }
extend scalar DateTime @d
type Events { issueAdded(last: Int = 3): Issue }
`

func TestSDLOfModernSchemas(t *testing.T) {
	schema, err := cost.ParseSDL([]byte(modern))
	require.NoError(t, err)
	for _, c := range []struct{ typ, field, want string }{
		{"Root", "repository", "Repository"}, {"Root", "search", "SearchResult"}, {"Root", "viewer", "Repository"},
		{"Root", "type", "String"}, {"Root", "query", "Root"}, {"Repository", "issues", "IssueConnection"},
		{"IssueConnection", "nodes", "Issue"}, {"Actor", "login", "String"}, {"Node", "extra", "Int"}, {"Events", "issueAdded", "Issue"},
	} {
		got, ok := schema.FieldType(c.typ, c.field)
		require.True(t, ok, c.typ+"."+c.field)
		require.Equal(t, c.want, got)
	}
	for _, name := range []string{"Root", "AddPayload", "SearchResult", "Empty", "SearchType", "AddInput", "DateTime", "Node"} {
		require.True(t, schema.HasType(name), name)
	}
	for _, name := range []string{"Query", "String", "key", "Extra", ""} {
		require.False(t, schema.HasType(name), name)
	}
	for _, path := range [][2]string{{"Root", "none"}, {"None", "id"}, {"State", "OPEN"}, {"AddInput", "name"}} {
		_, ok := schema.FieldType(path[0], path[1])
		require.False(t, ok, path)
	}
}

func TestDefaultsThatSchemasDeclare(t *testing.T) {
	for argument, want := range map[string]float64{
		"first": 10, "type": none, "filter": none, "after": none, "ids": 2, "ratio": 15, "off": none, "flag": none, "undeclared": none,
	} {
		t.Run(argument, func(t *testing.T) {
			r := request{
				schema: modern, document: `{search{x}}`,
				decorations: []cost.Decoration{{FieldPath: "Root.search", MulArguments: []string{argument}}},
				options:     cost.Options{Strategy: cost.Complexity, Variables: true, Defaults: true},
			}
			got, err := r.cost(t)
			require.NoError(t, err)
			if want == none {
				require.Equal(t, 3.0, got)
			} else {
				require.Equal(t, 2+want, got)
			}
		})
	}
}

func TestRootTypes(t *testing.T) {
	for _, c := range []struct {
		name, sdl                     string
		query, mutation, subscription string // the types, "" for none
	}{
		{"by their default names", `type Query {a: A} type Mutation {a: A} type Subscription {a: A}`, "Query", "Mutation", "Subscription"},
		{"as the schema says", `schema {query: Q mutation: M subscription: S} type Q {a: A} type M {a: A} type S {a: A}`, "Q", "M", "S"},
		{"not by default names beside a schema", `schema {query: Q} type Q {a: A} type Mutation {a: A}`, "Q", "", ""},
		{"the schema may come last", `type Q {a: A} type Query {a: A} schema {query: Q}`, "Q", "", ""},
		{"an extension adds to a schema", `schema {query: Q} extend schema {mutation: M} type Q {a: A} type M {a: A}`, "Q", "M", ""},
		{"an extension adds to the default names", `extend schema @link(url: "u") {mutation: M} type Query {a: A} type M {a: A} type Subscription {a: A}`, "Query", "M", "Subscription"},
		{"an extension may only bear directives", `extend schema @link(url: "u") type Query {a: A}`, "Query", "", ""},
		{"a root that is not declared", `schema {query: Q mutation: M} type M {a: A}`, "", "M", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for operation, root := range map[string]string{"query": c.query, "mutation": c.mutation, "subscription": c.subscription} {
				r := request{schema: c.sdl, document: operation + "{a}", options: cost.Options{Strategy: cost.Complexity}}
				for i, name := range []string{"Q", "M", "S", "Query", "Mutation", "Subscription"} {
					r.decorations = append(r.decorations, cost.Decoration{FieldPath: name + ".a", AddValue: number(float64(10 + i))})
					if name == root {
						root = string(rune('0' + i))
					}
				}
				got, err := r.cost(t)
				require.NoError(t, err)
				want := 2.0
				if root != "" {
					want = 1 + 10 + float64(root[0]-'0')
				}
				require.Equal(t, want, got, operation)
			}
		})
	}
}

func TestSDLErrorsSayWhere(t *testing.T) {
	deep := strings.Repeat("[", 502)
	for _, c := range []struct{ name, sdl, want string }{
		{"nothing", ``, `parse schema: the schema declares no types`},
		{"directives alone", `directive @a on FIELD`, `parse schema: the schema declares no types`},
		{"not UTF-8", "type \xff", `parse schema: not valid UTF-8`},
		{"a query", "type A\n{ a: B }\nquery { a }", `parse schema: line 3: expected a type definition, found "query"`},
		{"a selection set", `{ a }`, `parse schema: line 1: expected a type definition, found "{"`},
		{"a word", `hello`, `parse schema: line 1: expected a type definition, found "hello"`},
		{"a word extended", `extend hello`, `parse schema: line 1: expected a type definition, found "hello"`},
		{"a description of nothing", `type A "x"`, `parse schema: line 1: expected a type definition, found "the end"`},
		{"a type without a name", `type {`, `parse schema: line 1: expected a name, found "{"`},
		{"a field without a type", `type A { a }`, `parse schema: line 1: expected ":", found "}"`},
		{"a field without a name", `type A { : B }`, `parse schema: line 1: expected a name, found ":"`},
		{"fields left open", `type A { a: B`, `parse schema: line 1: expected "}", found "the end"`},
		{"a list type left open", `type A { a: [B }`, `parse schema: line 1: expected "]", found "}"`},
		{"an argument without a type", `type A { a(x): B }`, `parse schema: line 1: expected ":", found ")"`},
		{"an argument without a name", `type A { a(1: B): C }`, `parse schema: line 1: expected a name, found "1"`},
		{"a default without a value", `type A { a(x: B =): C }`, `parse schema: line 1: expected a value, found ")"`},
		{"a variable as default", `type A { a(x: B = $v): C }`, `parse schema: line 1: expected a value, found "$"`},
		{"a member without a value", `type A { a(x: B = {k}): C }`, `parse schema: line 1: expected ":", found "}"`},
		{"a member without a name", `type A { a(x: B = {1: 2}): C }`, `parse schema: line 1: expected a name, found "1"`},
		{"a list of variables", `type A { a(x: B = [$v]): C }`, `parse schema: line 1: expected a value, found "$"`},
		{"a type nested too deeply", `type A { a: ` + deep, `parse schema: line 1: expected a type that is nested less deeply, found "["`},
		{"a value nested too deeply", `type A { a(x: B = ` + deep, `parse schema: line 1: expected a value that is nested less deeply, found "["`},
		{"a directive without a name", `type A @ { a: B }`, `parse schema: line 1: expected a name, found "{"`},
		{"a directive's argument without a value", `scalar A @d(x)`, `parse schema: line 1: expected ":", found ")"`},
		{"implementing nothing", `type A implements { a: B }`, `parse schema: line 1: expected a name, found "{"`},
		{"a scalar without a name", `scalar`, `parse schema: line 1: expected a name, found "the end"`},
		{"a union of nothing", `union U =`, `parse schema: line 1: expected a name, found "the end"`},
		{"an enum without a name", `enum {`, `parse schema: line 1: expected a name, found "{"`},
		{"an enum value that is a number", `enum E { 1 }`, `parse schema: line 1: expected a name, found "1"`},
		{"an input without a name", `input`, `parse schema: line 1: expected a name, found "the end"`},
		{"a union without a name", `union =`, `parse schema: line 1: expected a name, found "="`},
		{"a schema's root without a type", `schema { query }`, `parse schema: line 1: expected ":", found "}"`},
		{"a schema's root without a name", `schema { query: }`, `parse schema: line 1: expected a name, found "}"`},
		{"a schema of a number", `schema { 1: A }`, `parse schema: line 1: expected a name, found "1"`},
		{"a directive definition without @", `directive a on FIELD`, `parse schema: line 1: expected "@", found "a"`},
		{"a directive definition of a number", `directive @1 on FIELD`, `parse schema: line 1: expected a name, found "1"`},
		{"a directive definition with a bad argument", `directive @a(x) on FIELD`, `parse schema: line 1: expected ":", found ")"`},
		{"a directive definition without a place", `directive @a on`, `parse schema: line 1: expected a name, found "the end"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := cost.ParseSDL([]byte(c.sdl))
			require.EqualError(t, err, c.want)
		})
	}
	t.Run("a token that is none", func(t *testing.T) {
		for _, sdl := range []string{"^", "type ^", "type A {^", "type A { a: ^", "type A { a(^", "extend ^", "type A @d(a: ^", `"x" ^`, "union U = ^", "type A implements ^", "enum E { \"d\" ^", "type A { a(x: B =^", "schema { a: ^", "directive ^", "directive @d on ^", "directive @d repeatable ^", "type A { \"d\" ^", "type A { a(\"d\" ^", "type A { a: [B] ^", "type A @^", "type A { a: B^"} {
			_, err := cost.ParseSDL([]byte(sdl))
			require.ErrorContains(t, err, "unexpected character", sdl)
		}
	})
}

func TestIntrospection(t *testing.T) {
	const types = `{"__schema":{"queryType":{"name":"Q"},"mutationType":null,"types":[
		{"kind":"OBJECT","name":"Q","fields":[{"name":"a","args":[
			{"name":"n","type":{"kind":"SCALAR","name":"Int"},"defaultValue":"10"},
			{"name":"s","defaultValue":"\"10\""},{"name":"l","defaultValue":"[1, 2]"},{"name":"o","defaultValue":"{a: 1}"},
			{"name":"z","defaultValue":null},{"name":"e","defaultValue":"RED"},{"name":"b","defaultValue":"^"},
			{"name":"v","defaultValue":"1 2"},{"name":"d","defaultValue":"$x"},{"name":"empty","defaultValue":""}],
			"type":{"kind":"NON_NULL","ofType":{"kind":"LIST","ofType":{"kind":"NON_NULL","ofType":{"kind":"OBJECT","name":"A"}}}}}]},
		{"kind":"OBJECT","name":"A","fields":[{"name":"b","args":[],"type":{"kind":"SCALAR","name":"Int","ofType":null}}]},
		{"kind":"SCALAR","name":"Int","fields":null},{"kind":"OBJECT","name":null}]}}`
	for name, text := range map[string]string{
		"whole": `{"data":` + types + `,"extensions":{}}`, "only the data": types, "beside errors": `{"errors":[],"data":` + types + `}`,
		"white space around": " \n" + types + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			schema, err := cost.ParseIntrospection([]byte(text))
			require.NoError(t, err)
			got, ok := schema.FieldType("Q", "a")
			require.True(t, ok)
			require.Equal(t, "A", got)
			require.True(t, schema.HasType("Int"))
			require.False(t, schema.HasType(""))
			for argument, want := range map[string]float64{
				"n": 10, "s": none, "l": 2, "o": none, "z": none, "e": none, "b": none, "v": none, "d": none, "empty": none,
			} {
				model, err := cost.NewModel([]cost.Decoration{{FieldPath: "Q.a", MulArguments: []string{argument}, AddValue: number(100)}})
				require.NoError(t, err)
				plan, err := parse(t, `{a{b}}`).Compile(cost.Options{Strategy: cost.NodeQuantifier, Model: model, Schema: schema, Variables: true, Defaults: true})
				require.NoError(t, err)
				require.Equal(t, want != none, plan.Cost(nil) > 0, argument)
			}
		})
	}
}

func TestIntrospectionErrorsSayWhatIsMissing(t *testing.T) {
	for text, want := range map[string]string{
		``:                                     "failed to decode the introspection response: unexpected end of JSON input",
		`<html>`:                               "failed to decode the introspection response: invalid character '<' looking for beginning of value",
		`{"data":`:                             "failed to decode the introspection response: unexpected end of JSON input",
		`{} {}`:                                "failed to decode the introspection response: invalid character '{' after top-level value",
		`null`:                                 "the introspection response is not an object",
		`[]`:                                   "the introspection response is not an object",
		`"data"`:                               "the introspection response is not an object",
		`{}`:                                   "the introspection response has no data field",
		`{"data":null}`:                        "the introspection response has no data field",
		`{"data":[]}`:                          "the introspection response has no data field",
		`{"errors":[{"message":"disabled"}]}`:  "the introspection response has no data field",
		`{"data":{}}`:                          "the introspection response has no __schema.types",
		`{"data":{"__schema":null}}`:           "the introspection response has no __schema.types",
		`{"data":{"__schema":{}}}`:             "the introspection response has no __schema.types",
		`{"data":{"__schema":{"types":[]}}}`:   "the introspection response has no __schema.types",
		`{"__schema":{"types":[]}}`:            "the introspection response has no __schema.types",
		`{"data":{"__schema":{"types":[{}]}}}`: "the schema declares no types",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := cost.ParseIntrospection([]byte(text))
			require.EqualError(t, err, want)
		})
	}
	for _, text := range []string{`{"data":{"__schema":{"types":1}}}`, `{"data":{"__schema":[]}}`, `{"__schema":{"types":[{"fields":{}}]}}`} {
		_, err := cost.ParseIntrospection([]byte(text))
		require.ErrorContains(t, err, "failed to decode the introspection response: json: cannot unmarshal", text)
	}
}

func TestParseSchemaTellsTheFormByTheFirstCharacter(t *testing.T) {
	const introspection = `{"data":{"__schema":{"types":[{"name":"A"}]}}}`
	for _, text := range []string{
		introspection, " \r\n\t" + introspection, "\uFEFF" + introspection, `{"__schema":{"types":[{"name":"A"}]}}`,
		"type A", "\uFEFF type A", "# {\ntype A", `"doc" type A`, ",type A",
	} {
		schema, err := cost.ParseSchema([]byte(text))
		require.NoError(t, err, text)
		require.True(t, schema.HasType("A"), text)
	}
	_, err := cost.ParseSchema([]byte(`{ a }`))
	require.ErrorContains(t, err, "failed to decode the introspection response")
	_, err = cost.ParseSchema(nil)
	require.ErrorContains(t, err, "the schema declares no types")
}
