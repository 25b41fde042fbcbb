package cost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// The weights are powers of ten, so that a raw cost tells which rules applied.
func TestMatching(t *testing.T) {
	add := func(path string, weight float64) cost.Decoration {
		return cost.Decoration{FieldPath: path, AddValue: number(weight)}
	}
	for _, c := range []struct {
		name, document string
		decorations    []cost.Decoration
		want           float64
	}{
		{"a type weights every field that returns it", `{products{nodes{id}} node{reviews{nodes{body}}}}`, []cost.Decoration{add("Reviews", 10)}, 17},
		{"a root type weights the operation", `{node}`, []cost.Decoration{add("Query", 10)}, 11},
		{"a root type weights fields that return it too", `{self{node}}`, []cost.Decoration{add("Query", 10)}, 21},
		{"a mutation has its root", `mutation{products}`, []cost.Decoration{add("Mutation.products", 10), add("Query.products", 100)}, 11},
		{"a subscription has its root", `subscription{products}`, []cost.Decoration{add("Subscription.products", 10), add("Query.products", 100)}, 11},
		{"two tokens match wherever the type is", `{products{nodes{reviews}} node{...on Product{reviews}}}`, []cost.Decoration{add("Product.reviews", 10)}, 24},
		{"an interface's rule does not reach its implementations", `{products{nodes{reviews}}}`, []cost.Decoration{add("Node.reviews", 10)}, 4},
		{"a longer chain is pinned to its fields", `{products{nodes{reviews}} node{reviews}}`, []cost.Decoration{add("Query.products.nodes.reviews", 10)}, 15},
		{"a chain starts anywhere", `{products{nodes{reviews{nodes{body}}}}}`, []cost.Decoration{add("Product.reviews.nodes", 10)}, 15},
		{"a chain does not skip a field", `{products{nodes{reviews{nodes{body}}}}}`, []cost.Decoration{add("Query.products.reviews", 10), add("Products.nodes.nodes", 10)}, 6},
		{"a chain may pass a type twice", `{self{self{node}}}`, []cost.Decoration{add("Query.self.self", 10), add("Query.self.self.node", 100)}, 112},
		{"chains begun at every level live on", `{self{self{self}}}`, []cost.Decoration{add("Query.self.self", 10)}, 22},
		{"aliases do not matter", `{x:products{y:nodes{z:reviews}}}`, []cost.Decoration{add("Query.products.nodes.reviews", 10)}, 13},
		{"an alias is no name", `{products:node}`, []cost.Decoration{add("Query.products", 10)}, 2},
		{"a fragment moves the cursor", `{node{...on Product{reviews}}}`, []cost.Decoration{add("Product.reviews", 10)}, 12},
		{"a named fragment moves it too", `{node{...F}} fragment F on Product{reviews}`, []cost.Decoration{add("Product.reviews", 10)}, 12},
		{"only the narrowed type's rules apply inside", `{node{...on Product{reviews} reviews}}`, []cost.Decoration{add("Node.reviews", 10)}, 13},
		{"a fragment keeps pinned chains", `{node{...on Product{reviews}}}`, []cost.Decoration{add("Query.node.reviews", 10)}, 12},
		{"an unknown type leaves the cursor", `{node{...on Unknown{reviews}}}`, []cost.Decoration{add("Node.reviews", 10)}, 12},
		{"a fragment without a type leaves the cursor", `{node{...{reviews}}}`, []cost.Decoration{add("Node.reviews", 10)}, 12},
		{"a fragment restores the cursor behind it", `{node{...on Product{id} reviews}}`, []cost.Decoration{add("Product.reviews", 10)}, 4},
		{"a fragment costs by where it is spread", `{products{nodes{...F}} node{...F}} fragment F on Unknown{reviews}`, []cost.Decoration{add("Node.reviews", 10), add("Query.products.nodes.reviews", 100)}, 114},
		{"a fragment weights nothing itself", `{node{...on Product{id}}}`, []cost.Decoration{add("Product", 10)}, 3},
		{"a fragment on the operation", `{...on Query{node}}`, []cost.Decoration{add("Query.node", 10)}, 11},
		{"a fragment may name a type anywhere", `{node{...on Query{products}}}`, []cost.Decoration{add("Query.products", 10)}, 12},
		{"an undeclared field can be named", `{node{ghost __typename}}`, []cost.Decoration{add("Node.ghost", 10), add("Node.__typename", 100)}, 112},
		{"below it nothing matches", `{ghost{products}}`, []cost.Decoration{add("Query.ghost.products", 10), add("Query.products", 100)}, 3},
		{"until a fragment names a type", `{ghost{...on Query{products}}}`, []cost.Decoration{add("Query.products", 100)}, 102},
		{"which keeps the pinned chains", `{ghost{...on Query{products}}}`, []cost.Decoration{add("Query.ghost.products", 10), add("Query.products", 100)}, 12},
		{"also a named fragment", `{ghost{...F}} fragment F on Product{reviews}`, []cost.Decoration{add("Query.ghost.reviews", 10)}, 12},
		{"a fragment of an unknown type names none", `{ghost{...on Unknown{products}...{products}}}`, []cost.Decoration{add("Query.ghost.products", 10)}, 4},
		{"a fragment inside of one without a type", `{ghost{...{...on Query{products}}}}`, []cost.Decoration{add("Query.ghost.products", 10)}, 12},
		{"a chain goes on below a fragment that names a type", `{ghost{...on Product{reviews{nodes{body}}}}}`, []cost.Decoration{add("Query.ghost.reviews.nodes.body", 10)}, 14},
		{"a chain passes an undeclared field at any level", `{node{ghost{...on Product{reviews}}}}`, []cost.Decoration{add("Query.node.ghost.reviews", 10)}, 13},
		{"a chain ends at a field without a type", `{ghost{ghost{...on Product{reviews}}}}`, []cost.Decoration{add("Query.ghost.ghost.reviews", 10), add("Query.ghost.reviews", 100)}, 4},
		{"a fragment costs by the chains that lead to an undeclared field", `{ghost{...F} node{ghost{...F}}} fragment F on Product{reviews}`, []cost.Decoration{add("Query.ghost.reviews", 10), add("Query.node.ghost.reviews", 100)}, 114},
		{"a chain passes a field of a type that is not declared", `{products{nodes{reviews{nodes{body{...on Product{reviews}}}}}}}`, []cost.Decoration{add("Review.body.reviews", 10)}, 16},
		{"a field of a type that is not declared", `{products{nodes{reviews{nodes{body{length}}}}}}`, []cost.Decoration{add("String", 10), add("String.length", 100)}, 16},
		{"rules of other names", `{node}`, []cost.Decoration{add("Other", 10), add("Query.other", 10), add("Other.node", 10)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request{document: c.document, decorations: c.decorations, options: cost.Options{Strategy: cost.Complexity}}
			got, err := r.cost(t)
			require.NoError(t, err)
			require.Equal(t, c.want, got)

			r.schema = "none"
			plain, err := r.cost(t)
			require.NoError(t, err)
			r.decorations = nil
			without, err := r.cost(t)
			require.NoError(t, err)
			require.Equal(t, without, plain, "without a schema nothing matches")
		})
	}
}

func TestSchemaWithoutARoot(t *testing.T) {
	r := request{
		schema: `type Query { a: Int }`, document: `mutation{a ...on Query{a}}`,
		decorations: []cost.Decoration{{FieldPath: "Query.a", AddValue: number(10)}, {FieldPath: "Mutation.a", AddValue: number(100)}},
		options:     cost.Options{Strategy: cost.Complexity},
	}
	got, err := r.cost(t)
	require.NoError(t, err)
	require.Equal(t, 12.0, got)
}

func TestAPinnedChainMultipliesBelowAnUndeclaredField(t *testing.T) {
	r := request{
		schema:      `type Query { node: Node } interface Node { id: Int } type Product { x: X } type X { v: Int }`,
		document:    `{ ghost { ... on Product { x { v(n: 4) } } } }`,
		decorations: []cost.Decoration{{FieldPath: "Query.ghost.x.v", MulArguments: []string{"n"}}},
		options:     cost.Options{Strategy: cost.NodeQuantifier},
	}
	got, err := r.cost(t)
	require.NoError(t, err)
	require.Equal(t, 1.0, got)

	r.decorations = []cost.Decoration{{FieldPath: "Query.ghost.x", AddValue: number(7)}}
	r.options.Strategy = cost.Complexity
	got, err = r.cost(t)
	require.NoError(t, err)
	require.Equal(t, 10.0, got)
}

func TestMerging(t *testing.T) {
	first, last := []string{"first"}, []string{"last"}
	const document = `{node{...on Product{reviews(first:3,last:5){nodes}}}}`
	// Below reviews there is one node; node and the operation are one each.
	for _, c := range []struct {
		name        string
		decorations []cost.Decoration
		want        float64
	}{
		{"a type and a field", []cost.Decoration{
			{FieldPath: "Reviews", AddValue: number(10), MulArguments: first},
			{FieldPath: "Product.reviews", AddValue: number(20)},
		}, 3 + 20 + 2},
		{"in any order", []cost.Decoration{
			{FieldPath: "Product.reviews", AddValue: number(20)},
			{FieldPath: "Reviews", AddValue: number(10), MulArguments: first},
		}, 3 + 20 + 2},
		{"a longer path sets weights that it leaves out back to 1", []cost.Decoration{
			{FieldPath: "Product.reviews", AddValue: number(10), MulValue: number(10)},
			{FieldPath: "Query.node.reviews", MulArguments: first},
		}, 3 + 1 + 2},
		{"lists are replaced, not joined", []cost.Decoration{
			{FieldPath: "Product.reviews", MulArguments: first, AddArguments: first},
			{FieldPath: "Query.node.reviews", MulArguments: last},
		}, 5 + 1 + 3 + 2},
		{"an empty list clears", []cost.Decoration{
			{FieldPath: "Product.reviews", MulArguments: first, AddArguments: last},
			{FieldPath: "Query.node.reviews", MulArguments: []string{}},
		}, 1 + 1 + 5 + 2},
		{"three lengths", []cost.Decoration{
			{FieldPath: "Reviews", AddArguments: first, MulArguments: first},
			{FieldPath: "Product.reviews", MulArguments: last},
			{FieldPath: "Query.node.reviews", AddValue: number(100)},
		}, 5 + 100 + 3 + 2},
		{"an assumed size is inherited", []cost.Decoration{
			{FieldPath: "Reviews", AssumedSize: number(7)},
			{FieldPath: "Product.reviews", AddValue: number(20)},
		}, 7 + 20 + 2},
		{"an assumed size is replaced", []cost.Decoration{
			{FieldPath: "Reviews", AssumedSize: number(7)},
			{FieldPath: "Product.reviews", AssumedSize: number(0)},
		}, 0 + 1 + 2},
		{"an assumed size gives way to an argument of another path", []cost.Decoration{
			{FieldPath: "Reviews", AssumedSize: number(7)},
			{FieldPath: "Product.reviews", MulArguments: first},
		}, 3 + 1 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := request{document: document, decorations: c.decorations, options: cost.Options{Strategy: cost.Complexity}}.cost(t)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
