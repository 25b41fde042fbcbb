package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"graphql-limit-count/cost"
)

// shopSchema is the schema that all queries are costed against, by every rival.
//
//go:embed data/shop.graphql
var shopSchema string

// Numbers of lists in a listing, and the size of the query that makes.
const (
	lists500B = 1
	lists2KB  = 8
	lists20KB = 89
)

// listing is a query as clients send them: variables, aliases, fragments, directives,
// comments and white space. It is valid for the shop's schema, and holds nothing that
// a rival could not read.
func listing(lists int) string {
	var b strings.Builder
	b.WriteString("query Listing($first: Int = 20, $reviews: Int!, $text: String, $brief: Boolean!) {\n")
	for i := range lists {
		fmt.Fprintf(&b, `  # shelf %d
  shelf%d: products(first: $first, text: $text) {
    nodes {
      id
      name
      price
      ... on Product @skip(if: $brief) { reviews(first: $reviews) { nodes { ...words } } }
      ...details
    }
  }
`, i, i)
	}
	b.WriteString("  best: node(id: \"4f2a\") { id ...details }\n}\n\n")
	b.WriteString("fragment details on Product {\n  label: name\n  latest: reviews(first: $reviews) {\n    nodes { ...words }\n  }\n}\n\n")
	b.WriteString("fragment words on Review {\n  body\n  author { name, avatar(size: 64) }\n}\n")
	return b.String()
}

// listingVariables are what a client sends with a listing.
const listingVariables = `{"first": 25, "reviews": 10, "text": "lamp", "brief": false}`

// requestBody is a request as it comes over HTTP.
func requestBody(query, variables string) []byte {
	text, err := json.Marshal(query)
	if err != nil {
		return nil // a string always encodes
	}
	return []byte(`{"operationName":"Listing","query":` + string(text) + `,"variables":` + variables + `}`)
}

// shopDecorations weight the shop: lists cost as many entries as they ask for.
func shopDecorations() []cost.Decoration {
	two := 2.0
	return []cost.Decoration{
		{FieldPath: "Query.products", MulArguments: []string{"first"}},
		{FieldPath: "Product.reviews", MulArguments: []string{"first"}, AddValue: &two},
	}
}

// shopModel is the schema and the decorations, ready for costing.
func shopModel() (*cost.Model, *cost.Schema, error) {
	model, err := cost.NewModel(shopDecorations())
	if err != nil {
		return nil, nil, fmt.Errorf("making the cost model: %w", err)
	}
	schema, err := cost.ParseSDL([]byte(shopSchema))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the shop's schema: %w", err)
	}
	return model, schema, nil
}
