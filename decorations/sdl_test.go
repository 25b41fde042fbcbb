package decorations

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// asYAML is a set as text, for comparing.
func asYAML(t *testing.T, set Set) string {
	t.Helper()
	text, err := set.YAML()
	require.NoError(t, err)
	return string(text)
}

func TestSDLIsTranslated(t *testing.T) {
	for _, c := range []struct{ rule, sdl, want, notes string }{
		{"the example of the specification",
			`type User { name: String age: Int @cost(weight: "2.0") } type Query { users(max: Int): [User] @listSize(slicingArguments: ["max"]) }`,
			"- field_path: User.age\n  add_value: 2\n- field_path: Query.users\n  mul_arguments: [max]\n",
			"line 1: Query.users: there is no assumedSize: a query without max is charged as for one record\n"},
		{"a weight as Apollo writes it", `type Query { a: Int @cost(weight: 5) b: Int @federation__cost(weight: 6) }`,
			"- field_path: Query.a\n  add_value: 5\n- field_path: Query.b\n  add_value: 6\n", ""},
		{"paging as Hot Chocolate writes it", `type Query {
			  products(first: Int, after: String, last: Int): ProductsConnection
			    @listSize(assumedSize: 50, slicingArguments: ["first", "last"], slicingArgumentDefaultValue: 10, sizedFields: ["edges", "nodes"], requireOneSlicingArgument: false)
			    @cost(weight: "10")
			} type ProductsConnection { nodes: [String] }`,
			"- field_path: Query.products\n  add_value: 10\n  mul_arguments: [first, last]\n  assumed_size: 10\n",
			"line 3: Query.products: everything below the field is multiplied, not only below edges, nodes\n" +
				"line 3: Query.products: where a query gives several of first, last their product counts, not the largest\n"},
		{"an assumed size alone", `type Query { a: [Int] @listSize(assumedSize: 7) }`, "- field_path: Query.a\n  assumed_size: 7\n", ""},
		{"one slicing argument that is no list", `type Query { a(first: Int = 3): [Int] @listSize(slicingArguments: "first") }`,
			"- field_path: Query.a\n  mul_arguments: [first]\n", ""},
		{"a required slicing argument", `type Query { a(first: Int): [Int] @listSize(assumedSize: 7, slicingArguments: ["first"], requireOneSlicingArgument: true) }`,
			"- field_path: Query.a\n  mul_arguments: [first]\n  assumed_size: 7\n",
			"line 1: Query.a: requireOneSlicingArgument is not enforced: a query without one is charged, not refused\n"},
		{"defaults of several slicing arguments", `type Query { a(first: Int = 3, last: Int): [Int] @listSize(slicingArguments: ["first", "last"]) }`,
			"- field_path: Query.a\n  mul_arguments: [first, last]\n",
			"line 1: Query.a: the schema's defaults of slicing arguments multiply with those that a query gives\n"},
		{"types of all kinds", `type A @cost(weight: "3") { x: S } scalar S @cost(weight: "4") enum E @cost(weight: "0") { V }`,
			"- field_path: A\n  add_value: 3\n- field_path: S\n  add_value: 4\n- field_path: E\n  add_value: 0\n", ""},
		{"a field of a weighted type keeps the type's weight", `type Query { a(first: Int): [A] @listSize(slicingArguments: ["first"], assumedSize: 2) b: A @cost(weight: "1") c: A } type A @cost(weight: "3") { x: Int }`,
			"- field_path: A\n  add_value: 3\n- field_path: Query.a\n  add_value: 3\n  mul_arguments: [first]\n  assumed_size: 2\n- field_path: Query.b\n", ""},
		{"a weight that a field has anyway says nothing", `type Query { a: Int @cost(weight: "1") b: Int @cost(weight: "2") }`, "- field_path: Query.b\n  add_value: 2\n", ""},
		{"an interface weighs as much as its heaviest type", `interface I { id: ID } type A implements I @cost(weight: "3") { id: ID } type B implements I { id: ID } union U = A | B union V = B`,
			"- field_path: A\n  add_value: 3\n- field_path: I\n  add_value: 3\n- field_path: U\n  add_value: 3\n", ""},
		{"an interface's field is weighted as those of its types", `interface N { list(first: Int): [Int] } type A implements N { list(first: Int): [Int] @listSize(slicingArguments: ["first"], assumedSize: 2) }
			type B implements N { list(first: Int): [Int] @listSize(slicingArguments: ["first"], assumedSize: 2) }`,
			"- field_path: A.list\n  mul_arguments: [first]\n  assumed_size: 2\n- field_path: B.list\n  mul_arguments: [first]\n  assumed_size: 2\n- field_path: N.list\n  mul_arguments: [first]\n  assumed_size: 2\n", ""},
		{"an interface's field whose types differ", `interface N { x: Int } type A implements N { x: Int @cost(weight: "2") } type B implements N { x: Int @cost(weight: "3") }`,
			"- field_path: A.x\n  add_value: 2\n- field_path: B.x\n  add_value: 3\n",
			"line 1: N.x: not mapped: the interface's types weight the field differently; selected on the interface it is not weighted\n"},
		{"what has no counterpart", `type Query {
			  a(f: F @cost(weight: "2")): Int @cost(weight: "9")
			  b: Int @cost(weight: "-1")
			  c: Int @cost(weight: "much")
			  d: Int @cost(complexity: 2)
			  e(f: F, g: F): [Int] @listSize(slicingArguments: ["f.first", "g", "h"])
			  f: [Int] @listSize(assumedSize: -1)
			  g: [Int] @listSize(assumedSize: 1) @listSize(assumedSize: 2)
			}
			input F @cost(weight: "2") { first: Int @cost(weight: "2") }
			enum E { V @cost(weight: "2") }`,
			"- field_path: Query.a\n  add_value: 9\n- field_path: Query.g\n  assumed_size: 1\n",
			`line 10: F: not mapped: an input type is returned by no field
line 2: Query.a(f:): not mapped: an argument has no weight of its own; add_arguments would add its value, not its presence
line 3: Query.b: not mapped: the weight "-1" is negative, and add_value cannot be
line 4: Query.c: not mapped: the weight "much" is not a number
line 5: Query.d: not mapped: @cost has no weight: it is not the directive of the cost specification
line 6: Query.e: not mapped: the slicing argument f.first stands inside an object, which is not looked into
line 6: Query.e: not mapped: the slicing argument g is an object, which is not looked into
line 6: Query.e: not mapped: the slicing argument h is no argument of the field
line 6: Query.e: not mapped: @listSize leaves neither a slicing argument nor a size
line 7: Query.f: not mapped: assumedSize -1 is no number >= 0
line 7: Query.f: not mapped: @listSize leaves neither a slicing argument nor a size
line 8: Query.g: not mapped: a second @listSize: a field has one multiplier
line 10: F.first: not mapped: what stands inside an argument has no weight of its own
line 11: E.V: not mapped: what stands inside an argument has no weight of its own
`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			set, notes, err := FromSDL([]byte(c.sdl))
			require.NoError(t, err)
			require.Equal(t, "decorations:\n"+indented(c.want), asYAML(t, set))
			require.Equal(t, c.notes, FormatNotes(notes))
			requireAccepted(t, set)
		})
	}
	_, _, err := FromSDL([]byte("type Query { a: Int }"))
	require.EqualError(t, err, "read decorations from SDL: the schema has neither @cost nor @listSize")
	_, _, err = FromSDL([]byte("type Query {"))
	require.EqualError(t, err, `read decorations from SDL: parse schema: line 1: expected "}", found "the end"`)
}

func indented(list string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(list, "\n"), "\n", "\n  ") + "\n"
}

// requireAccepted checks that a set reads as it was written, and makes a cost model.
func requireAccepted(t *testing.T, set Set) *cost.Model {
	t.Helper()
	again := parsed(t, asYAML(t, set))
	require.True(t, Diff(set, again).Empty())
	return model(t, again)
}

func model(t *testing.T, set Set) *cost.Model {
	t.Helper()
	var list []cost.Decoration
	text, err := set.JSON()
	require.NoError(t, err)
	var document struct {
		Decorations *[]cost.Decoration `json:"decorations"`
	}
	document.Decorations = &list
	require.NoError(t, json.Unmarshal(text, &document))
	m, err := cost.NewModel(list)
	require.NoError(t, err)
	return m
}

// raw is what a query costs.
func raw(t *testing.T, strategy cost.Strategy, sdl string, m *cost.Model, query string) float64 {
	t.Helper()
	schema, err := cost.ParseSchema([]byte(sdl))
	require.NoError(t, err)
	return rawOf(t, strategy, schema, m, query)
}

// rawOf is raw with a schema that has been read.
func rawOf(t *testing.T, strategy cost.Strategy, schema *cost.Schema, m *cost.Model, query string) float64 {
	t.Helper()
	document, err := cost.Parse(query, cost.Limits{})
	require.NoError(t, err)
	plan, err := document.Compile(cost.Options{Strategy: strategy, Model: m, Schema: schema, Variables: true, Defaults: true})
	require.NoError(t, err)
	return plan.CostJSON(nil)
}

// The cost of Hot Chocolate's documented example, where the directives have a counterpart:
// its fields cost 10 + 1 + 50 * (1 + 1), scalars nothing.
func TestSDLCostsAsTheDirectivesSay(t *testing.T) {
	const sdl = `type Query { books(first: Int): [Book] @listSize(slicingArguments: ["first"], assumedSize: 50) @cost(weight: "10") }
		type Book { title: String @cost(weight: "0") author: Author } type Author { name: String @cost(weight: "0") }`
	set, notes, err := FromSDL([]byte(sdl))
	require.NoError(t, err)
	require.Empty(t, notes)
	m := requireAccepted(t, set)
	const operation = 1 // a node of its own under complexity
	require.EqualValues(t, operation+10+50*1, raw(t, cost.Complexity, sdl, m, "{ books(first: 50) { title author { name } } }"))
	require.EqualValues(t, operation+10+50*1, raw(t, cost.Complexity, sdl, m, "{ books { title author { name } } }"), "assumedSize")
	require.EqualValues(t, operation+10+3*1, raw(t, cost.Complexity, sdl, m, "{ books(first: 3) { title author { name } } }"))
}

func TestDifferencesThatItemsShareAreToldOnce(t *testing.T) {
	notes := []Note{{Line: 1, Where: "A.a", Text: "x"}, {Line: 2, Where: "A.b", Text: "x", Lost: true}, {Line: 3, Where: "A.c", Text: "y"},
		{Where: "A.d", Text: "x"}, {Where: "A.e", Text: "x"}, {Where: "A.f", Text: "x"}}
	require.Equal(t, "line 2: A.b: not mapped: x\nA.a, A.d, A.e and 1 more: x\nline 3: A.c: y\n", FormatNotes(notes))
	require.Empty(t, FormatNotes(nil))
}

// FuzzFromSDL: what is translated is accepted.
func FuzzFromSDL(f *testing.F) {
	for _, seed := range []string{
		`type Query { users(max: Int = 1): [User] @listSize(slicingArguments: ["max"], assumedSize: 2, sizedFields: "a") @cost(weight: "1e3") }`,
		`interface N { x: Int } type A implements N @cost(weight: 2) { x: Int @cost(weight: """3""") } union U = A extend type A { x: Int @cost(weight: 4) }`,
		`input F { a: Int @cost(weight: "1") } enum E @cost(weight: null) { V @cost } scalar S @a__cost(weight: "1" weight: 2)`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sdl []byte) {
		set, notes, err := FromSDL(sdl)
		if err != nil {
			return
		}
		FormatNotes(notes)
		requireAccepted(t, set)
	})
}

// schemaText reads a schema of the repository.
func schemaText(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}
