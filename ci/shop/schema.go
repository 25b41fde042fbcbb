package shop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/graphql-go/graphql"
)

const (
	// MaxFirst is the longest list that any field returns, whatever `first` says.
	MaxFirst = 1000
	// MaxNodes is how many list entries one request may build in all; the field that
	// would build more is an error.
	MaxNodes = 50_000

	// defaultFirst is a list's length when the query names none and the schema has no
	// default.
	defaultFirst = 10
	// defaultTopFirst is the default that the schema declares for topProducts.
	defaultTopFirst = 25

	// authors is how many different people write the reviews.
	authors = 97
)

// object is one thing of the shop: its number says everything about it.
type object struct{ number int }

// names make a product's name from its number.
var (
	qualities = []string{"Plain", "Sturdy", "Pocket", "Quiet", "Folding", "Copper", "Travel"}
	things    = []string{"Kettle", "Lamp", "Stool", "Notebook", "Radio", "Scarf", "Compass", "Teapot"}
	opinions  = []string{"Does what it says.", "Would buy again.", "Smaller than expected.", "A present, well received."}
)

// budgetKey is the context's key for the request's *atomic.Int64: the list entries
// that it may still build.
type budgetKey struct{}

// withBudget gives a request its MaxNodes list entries.
func withBudget(ctx context.Context) context.Context {
	budget := new(atomic.Int64)
	budget.Store(MaxNodes)
	return context.WithValue(ctx, budgetKey{}, budget)
}

// newSchema builds the shop's schema, whose SDL is
//
//	schema { query: Query mutation: Mutation }
//	type Query { products(first: Int): ProductConnection topProducts(first: Int = 25): ProductConnection }
//	type Mutation { noop: Boolean }
//	type ProductConnection { nodes: [Product]! }
//	type Product { id: ID name: String reviews(first: Int): ReviewConnection }
//	type ReviewConnection { nodes: [Review]! }
//	type Review { id: ID body: String author: User }
//	type User { name: String orders(first: Int): OrderConnection }
//	type OrderConnection { nodes: [Order]! }
//	type Order { id: ID }
func newSchema() (graphql.Schema, error) {
	order := newObject("Order", graphql.Fields{"id": id("order")})
	user := newObject("User", graphql.Fields{
		"name":   text(func(o object) string { return fmt.Sprintf("Customer %d", o.number) }),
		"orders": list("Order", order),
	})
	review := newObject("Review", graphql.Fields{
		"id":     id("review"),
		"body":   text(func(o object) string { return opinions[o.number%len(opinions)] }),
		"author": {Type: user, Resolve: func(p graphql.ResolveParams) (any, error) { return object{owner(p).number % authors}, nil }},
	})
	product := newObject("Product", graphql.Fields{
		"id":      id("product"),
		"name":    text(productName),
		"reviews": list("Review", review),
	})
	products := list("Product", product)
	top := *products
	top.Args = graphql.FieldConfigArgument{"first": {Type: graphql.Int, DefaultValue: defaultTopFirst}}
	return graphql.NewSchema(graphql.SchemaConfig{
		Query: newObject("Query", graphql.Fields{"products": products, "topProducts": &top}),
		Mutation: newObject("Mutation", graphql.Fields{"noop": {
			Type:    graphql.Boolean,
			Resolve: func(graphql.ResolveParams) (any, error) { return true, nil },
		}}),
	})
}

func newObject(name string, fields graphql.Fields) *graphql.Object {
	return graphql.NewObject(graphql.ObjectConfig{Name: name, Fields: fields})
}

// id is a field that names its object among those of its kind.
func id(kind string) *graphql.Field {
	return &graphql.Field{Type: graphql.ID, Resolve: func(p graphql.ResolveParams) (any, error) {
		return fmt.Sprintf("%s-%d", kind, owner(p).number), nil
	}}
}

// text is a field made from its object's number.
func text(of func(object) string) *graphql.Field {
	return &graphql.Field{Type: graphql.String, Resolve: func(p graphql.ResolveParams) (any, error) {
		return of(owner(p)), nil
	}}
}

func productName(o object) string {
	return qualities[o.number%len(qualities)] + " " + things[o.number%len(things)]
}

// list is a connection field with the argument `first`: its object is the connection,
// whose nodes are built when they are selected. The number of a node follows from its
// parent's and its place, so that every query sees the same shop.
func list(name string, of *graphql.Object) *graphql.Field {
	connection := newObject(name+"Connection", graphql.Fields{"nodes": {
		Type: graphql.NewNonNull(graphql.NewList(of)),
		Resolve: func(p graphql.ResolveParams) (any, error) {
			page := p.Source.(page)
			return page.nodes(p.Context)
		},
	}})
	return &graphql.Field{
		Type: connection,
		Args: graphql.FieldConfigArgument{"first": {Type: graphql.Int}},
		Resolve: func(p graphql.ResolveParams) (any, error) {
			first, given := p.Args["first"].(int)
			if !given {
				first = defaultFirst
			}
			return page{parent: owner(p).number, first: min(max(first, 0), MaxFirst)}, nil
		},
	}
}

// owner is the object that a field belongs to; a root field's is the zero object.
func owner(p graphql.ResolveParams) object {
	o, _ := p.Source.(object)
	return o
}

// page is a connection: how many nodes of which parent.
type page struct{ parent, first int }

var errTooManyNodes = fmt.Errorf("the demo shop builds no more than %d list entries for one request", MaxNodes)

// nodes builds the page's objects out of the request's budget.
func (p page) nodes(ctx context.Context) ([]object, error) {
	budget, _ := ctx.Value(budgetKey{}).(*atomic.Int64)
	if budget == nil {
		return nil, errors.New("the request has no budget")
	}
	if budget.Add(-int64(p.first)) < 0 {
		return nil, errTooManyNodes
	}
	nodes := make([]object, p.first)
	for i := range nodes {
		nodes[i].number = (p.parent*MaxFirst + i + 1) % numbers
	}
	return nodes, nil
}

// numbers bounds an object's number.
const numbers = 1_000_000_007
