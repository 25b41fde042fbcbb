package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/graphql-go/graphql/language/parser"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"graphql-limit-count/cost"
)

// urlConf costs as the rivals do, every field is a node and lists multiply, and also
// queries in the URL.
const urlConf = `{"count":9007199254740991,"time_window":3600,"cost_strategy":"complexity","allowed_methods":["POST","GET"]}`

// plans compares costing with gqlgen's complexity and with two parsers.
func (b *bench) plans(ctx context.Context) error {
	b.heading("Costing in this process: a plan that is cached, and a document that is new", comparisonColumns...)
	if err := b.planHit(ctx); err != nil {
		return fmt.Errorf("cached plans: %w", err)
	}
	for _, size := range []struct {
		suffix string
		lists  int
	}{{"", lists2KB}, {"_500b", lists500B}, {"_20kb", lists20KB}} {
		if err := b.planMiss(ctx, size.suffix, listing(size.lists)); err != nil {
			return fmt.Errorf("new documents: %w", err)
		}
	}
	return nil
}

// planHit compares a repeated query with gqlgen. Ours is the whole filter for a query in
// the URL: the plan is found by the text, the variables are decoded, the plan evaluated;
// and then, which gqlgen does not, the counter is charged and the headers are set. The
// URL's arguments are decoded before it, like gqlgen's document.
func (b *bench) planHit(ctx context.Context) error {
	query := listing(lists2KB)
	theirs, want, err := gqlgenCalculate(query, listingVariables)
	if err != nil {
		return err
	}
	f, err := newFilter(urlConf)
	if err != nil {
		return err
	}
	defer f.close()
	get := newRequest(nil, "")
	get.method = http.MethodGet
	get.arguments = url.Values{"query": {query}, "variables": {listingVariables}, "operationName": {"Listing"}}
	post := newRequest(requestBody(query, listingVariables), mediaJSON)
	for _, r := range []*request{get, post} {
		if err := f.agree(r, want); err != nil {
			return err
		}
	}
	for _, one := range []struct {
		name    string
		request *request
	}{{"plan_hit_vs_gqlgen", get}, {"filter_hit_vs_gqlgen", post}} {
		c, err := compare(ctx, b.schedule, repeat(f.operation(one.request)), repeat(theirs))
		if err != nil {
			return err
		}
		b.comparison(one.name, c)
	}
	return nil
}

// agree requires that a request costs what a rival computes: the weights are the same,
// but for the operation itself, which is a node here, and the rounding up.
func (f *filter) agree(r *request, rival int) error {
	got, err := f.mustCost(r)
	if err != nil {
		return err
	}
	if want := fmt.Sprint(rival + 2); got != want {
		return fmt.Errorf("a request is charged %s, not %s as the rival's complexity of %d implies: the two do not do the same", got, want, rival)
	}
	return nil
}

// planMiss compares everything that a document costs that was never seen with what two
// parsers need for it.
func (b *bench) planMiss(ctx context.Context, suffix, query string) error {
	ours, err := wholeMiss(query)
	if err != nil {
		return err
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "shop.graphql", Input: shopSchema})
	if err != nil {
		return fmt.Errorf("reading the shop's schema with gqlparser: %w", err)
	}
	for _, rival := range []struct {
		name string
		run  func() error
	}{
		{"miss_vs_graphqlgo_parse" + suffix, func() error { return graphqlGoParse(query, parser.ParseOptions{}) }},
		{"miss_vs_graphqlgo_parse_bare" + suffix, func() error {
			return graphqlGoParse(query, parser.ParseOptions{NoLocation: true, NoSource: true})
		}},
		{"miss_vs_gqlparser_validate" + suffix, func() error { _, err := loadQuery(schema, query); return err }},
	} {
		c, err := compare(ctx, b.schedule, repeat(ours), repeat(rival.run))
		if err != nil {
			return err
		}
		b.comparison(rival.name, c)
	}
	return nil
}

// wholeMiss is what a document costs whose plan is not cached: the lexical pass, the
// parser, the compilation and the evaluation with variables.
func wholeMiss(query string) (func() error, error) {
	model, schema, err := shopModel()
	if err != nil {
		return nil, err
	}
	options := cost.Options{Strategy: cost.NodeQuantifier, Model: model, Schema: schema, Variables: true, Defaults: true}
	var variables map[string]json.RawMessage
	if err := json.NewDecoder(strings.NewReader(listingVariables)).Decode(&variables); err != nil {
		return nil, fmt.Errorf("reading the variables: %w", err)
	}
	return func() error { return costOnce(query, options, variables) }, nil
}

// costOnce costs a document from its text.
func costOnce(query string, options cost.Options, variables map[string]json.RawMessage) error {
	normalized, err := cost.Normalize(query, cost.Limits{})
	if err != nil {
		return err
	}
	document, err := normalized.Parse()
	if err != nil {
		return err
	}
	plan, err := document.Compile(options)
	if err != nil {
		return err
	}
	if raw := plan.CostJSON(variables); raw < 0 {
		return fmt.Errorf("a cost of %v", raw)
	}
	return nil
}

func graphqlGoParse(query string, options parser.ParseOptions) error {
	_, err := parser.Parse(parser.ParseParams{Source: query, Options: options})
	return err
}
