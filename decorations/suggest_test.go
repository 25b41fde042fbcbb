package decorations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/github"
	"graphql-limit-count/cost"
)

const suggestSDL = `
type Query {
  products(first: Int, after: String, last: Int): ProductConnection!
  search(query: String!, limit: Int = 25, offset: Int): [Product!]!
  page(page: Int, perPage: Int = 10): ProductPage
  users(page_size: PositiveInt): [User]
  posts(pagination: Paging): [Post]
  counted(where: Counted): [Post]
  latest(count: Int): [Post]
  flag(count: Boolean): [Post]
  top(top: Int): Product
  product(id: ID!, first: Int): Product
  excerpt(first: Int): String
  tags(take: Int): [String!]
  all: [Product!]!
  feed: FeedConnection
  fakeConnection: FakeConnection
}
type Mutation { buy(count: Int!): Order addAll(limit: Int): [Order] }
type Subscription { changes(last: Int): [Product] }
scalar PositiveInt
input Paging { limit: Int start: Int }
input Counted { count: Int }
type Product { id: ID! name: String related(first: Int): ProductConnection similar(first: Int = 3): ProductConnection bought(last: Int, first: Int): ProductConnection }
interface Owner { products(first: Int, last: Int): ProductConnection! }
type User implements Owner { products(first: Int, last: Int): ProductConnection! shops(first: Int, last: Int): ProductConnection }
type ProductConnection { edges: [ProductEdge] nodes: [Product] pageInfo: Int }
type ProductEdge { node: Product }
type FeedConnection { nodes: [Product] pageInfo: Int }
type FakeConnection { total: Int }
type ProductPage { items: [Product!]! total: Int }
type Post { id: ID! }
type Order { id: ID! }
`

const suggested = `decorations:
  # writes: a mutation costs 10 itself, once per operation
  - field_path: Mutation
    add_value: 10
    assumed_size: 1
  # connection of Query.feed: has no paginating argument that is known; 100 is assumed where none is given
  - field_path: FeedConnection
    assumed_size: 100
  # connection of Owner.products, Product.bought and 3 more: pages with first, last; 100 is assumed where none is given
  - field_path: ProductConnection
    mul_arguments: [first, last]
    assumed_size: 100
  # pages differently from other fields that return ProductConnection: pages with first; 100 is assumed where none is given
  - field_path: Product.related
    mul_arguments: [first]
    assumed_size: 100
  # pages differently from other fields that return ProductConnection: pages with first; first is 3 by default
  - field_path: Product.similar
    mul_arguments: [first]
    assumed_size: 3
  # pages with limit; 100 is assumed where none is given
  - field_path: Mutation.addAll
    mul_arguments: [limit]
    assumed_size: 100
  # pages with count; 100 is assumed where none is given
  - field_path: Query.latest
    mul_arguments: [count]
    assumed_size: 100
  # pages with perPage; perPage is 10 by default
  - field_path: Query.page
    mul_arguments: [perPage]
    assumed_size: 10
  # pages with pagination.limit, which stands inside an object and cannot be counted; 100 is assumed where none is given
  - field_path: Query.posts
    assumed_size: 100
  # pages with limit; limit is 25 by default
  - field_path: Query.search
    mul_arguments: [limit]
    assumed_size: 25
  # pages with take; 100 is assumed where none is given
  - field_path: Query.tags
    mul_arguments: [take]
    assumed_size: 100
  # pages with page_size; 100 is assumed where none is given
  - field_path: Query.users
    mul_arguments: [page_size]
    assumed_size: 100
  # pages with last; 100 is assumed where none is given
  - field_path: Subscription.changes
    mul_arguments: [last]
    assumed_size: 100
`

func suggestFor(t *testing.T, schema []byte, options SuggestOptions) Set {
	t.Helper()
	outline, err := cost.ReadOutline(schema)
	require.NoError(t, err)
	return Suggest(outline, options)
}

func TestSuggest(t *testing.T) {
	set := suggestFor(t, []byte(suggestSDL), SuggestOptions{MutationCost: DefaultMutationCost})
	require.Equal(t, suggested, asYAML(t, set))
	for range 5 {
		require.Equal(t, set, suggestFor(t, []byte(suggestSDL), SuggestOptions{MutationCost: DefaultMutationCost}), "the order is fixed")
	}
}

func TestSuggestOptions(t *testing.T) {
	const sdl = `type Query { a(first: Int): [Int] } type Mutation { b: Int c(limit: Int): [Int] d(first: Int): DConnection e: Int } type DConnection { edges: [Int] }`
	require.Equal(t, `decorations:
  # writes: costs 3 itself
  - field_path: Mutation.b
    add_value: 3
    assumed_size: 1
  # writes: costs 3 itself
  - field_path: Mutation.e
    add_value: 3
    assumed_size: 1
  # writes: costs 3 itself; pages with limit; 7 is assumed where none is given
  - field_path: Mutation.c
    add_value: 3
    mul_arguments: [limit]
    assumed_size: 7
  # writes: costs 3 itself; pages with first; 7 is assumed where none is given
  - field_path: Mutation.d
    add_value: 3
    mul_arguments: [first]
    assumed_size: 7
  # pages with first; 7 is assumed where none is given
  - field_path: Query.a
    mul_arguments: [first]
    assumed_size: 7
`, asYAML(t, suggestFor(t, []byte(sdl), SuggestOptions{AssumedSize: 7, MutationCost: 3, EachMutation: true})))
	require.Equal(t, "decorations: []\n", asYAML(t, suggestFor(t, []byte("type Query { a: Int } type Mutation { b: Int }"), SuggestOptions{})))
}

func TestSuggestionsForTheExample(t *testing.T) {
	set := suggestFor(t, schemaText(t, "../examples/shop.graphql"), SuggestOptions{MutationCost: DefaultMutationCost})
	m := requireAccepted(t, set)
	require.EqualValues(t, 51, raw(t, cost.NodeQuantifier, string(schemaText(t, "../examples/shop.graphql")), m,
		"{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }"))
}

// Every suggestion takes effect under both strategies that know decorations, and with the
// number that it says.
func TestEverySuggestionTakesEffect(t *testing.T) {
	requireEffect(t, []byte(suggestSDL), suggestFor(t, []byte(suggestSDL), SuggestOptions{MutationCost: DefaultMutationCost}))
	requireEffect(t, []byte(suggestSDL), suggestFor(t, []byte(suggestSDL), SuggestOptions{MutationCost: DefaultMutationCost, EachMutation: true}))
}

func TestSuggestionsForGitHub(t *testing.T) {
	text := github.Schema(t)[github.SDL]
	set := suggestFor(t, text, SuggestOptions{MutationCost: DefaultMutationCost})
	require.Equal(t, 151, len(set.Decorations), "one rule per connection type, not per field")
	requireEffect(t, text, set)
}

func requireEffect(t *testing.T, text []byte, set Set) {
	t.Helper()
	outline, err := cost.ReadOutline(text)
	require.NoError(t, err)
	schema, err := cost.ParseSchema(text)
	require.NoError(t, err)
	m := requireAccepted(t, set)
	none, err := cost.NewModel(nil)
	require.NoError(t, err)
	for _, d := range set.Decorations {
		members, err := d.members()
		require.NoError(t, err)
		for _, query := range probes(outline, d.FieldPath, members) {
			for _, strategy := range []cost.Strategy{cost.Complexity, cost.NodeQuantifier} {
				with, without := rawOf(t, strategy, schema, m, query.text), rawOf(t, strategy, schema, none, query.text)
				require.Greater(t, with, without, "%s under %s: %s", d.FieldPath, strategy, query.text)
			}
			require.EqualValues(t, query.want, rawOf(t, cost.Complexity, schema, m, query.text), query.text)
		}
	}
}

// probe is a query that meets a decoration, and what it costs under complexity.
type probe struct {
	text string
	want float64
}

// probes are queries with and without the first paginating argument.
func probes(outline *cost.Outline, fieldPath string, members map[string]any) []probe {
	weight := func(name string, byDefault float64) float64 {
		if n, ok := members[name].(interface{ Float64() (float64, error) }); ok {
			f, _ := n.Float64()
			return f
		}
		return byDefault
	}
	add, size := weight(memberAddValue, 1), weight(memberAssumedSize, 1)
	if fieldPath == outline.Mutation {
		return []probe{{"mutation { x }", 1 + add}}
	}
	typeName, field, pinned := strings.Cut(fieldPath, ".")
	if !pinned {
		typeName, field = returning(outline, fieldPath, members)
	}
	// The operation, the field and one field below it; no root of a mutation is decorated here.
	made := []probe{{fmt.Sprintf("{ ... on %s { %s { x } } }", typeName, field), 1 + add + size}}
	arguments, _ := members[memberMulArguments].([]any)
	if len(arguments) == 1 {
		made = append(made, probe{fmt.Sprintf("{ ... on %s { %s(%s: 7) { x } } }", typeName, field, arguments[0]), 1 + add + 7})
	}
	return made
}

// returning finds a field that a type's rule is for.
func returning(outline *cost.Outline, result string, members map[string]any) (typeName, field string) {
	arguments, _ := members[memberMulArguments].([]any)
	for _, t := range outline.Types {
		for i := range t.Fields {
			f := &t.Fields[i]
			all := f.Type.Named() == result
			for _, a := range arguments {
				all = all && f.Argument(a.(string)) != nil
			}
			if all {
				return t.Name, f.Name
			}
		}
	}
	return "", ""
}

// FuzzSuggest: what is suggested is accepted.
func FuzzSuggest(f *testing.F) {
	f.Add([]byte(suggestSDL))
	f.Add([]byte(`{"__schema":{"queryType":{"name":"Q"},"types":[{"name":"Q","fields":[{"name":"a.b","args":[{"name":"first","type":{"name":"Int"}}],"type":{"kind":"LIST","ofType":{"name":"Q"}}}]}]}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		outline, err := cost.ReadOutline(schema)
		if err != nil {
			return
		}
		requireAccepted(t, Suggest(outline, SuggestOptions{MutationCost: 1, EachMutation: len(schema)%2 == 0}))
	})
}
