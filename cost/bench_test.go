package cost_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/graphql-go/graphql/language/parser"

	"graphql-limit-count/cost"
)

// listing is a document of 2 KB as clients send them: variables, aliases,
// fragments, directives, comments and white space.
func listing() string {
	var b strings.Builder
	b.WriteString("query Listing($first: Int = 20, $reviews: Int!, $text: String, $brief: Boolean!) {\n")
	for i := range 6 {
		fmt.Fprintf(&b, `  # list %d
  list%d: products(first: $first, text: "shelf %d, %s") {
    nodes {
      id
      ... on Product @skip(if: $brief) { reviews(first: $reviews) { nodes { body } } }
      ...details
    }
  }
`, i, i, i, strings.Repeat("x", 40))
	}
	b.WriteString("  node(id: \"4f2a\") { id reviews(first: 10) { nodes { ...body } } }\n}\n")
	b.WriteString("fragment details on Product {\n  id\n  reviews(first: $reviews) {\n    nodes { ...body }\n  }\n}\n")
	b.WriteString("fragment body on Review {\n  body\n  author { name, avatar(size: 64) }\n}\n")
	return b.String()
}

// benchmarked is what the benchmarks cost: the listing by node_quantifier.
func benchmarked(b *testing.B) (string, cost.Options) {
	b.Helper()
	model, err := cost.NewModel([]cost.Decoration{
		{FieldPath: "Query.products", MulArguments: []string{"first"}},
		{FieldPath: "Product.reviews", MulArguments: []string{"first"}, AddValue: number(2)},
		{FieldPath: "Query.node.reviews", MulArguments: []string{"first"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	schema, err := cost.ParseSDL([]byte(shop))
	if err != nil {
		b.Fatal(err)
	}
	return listing(), cost.Options{Strategy: cost.NodeQuantifier, Model: model, Schema: schema, Variables: true, Defaults: true}
}

// costOnce parses, compiles and costs: what a request costs whose plan is not cached.
func costOnce(b *testing.B, text string, o cost.Options) {
	d, err := cost.Parse(text, cost.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	plan, err := d.Compile(o)
	if err != nil {
		b.Fatal(err)
	}
	plan.Cost(nil)
}

func parseOnce(b *testing.B, text string) {
	if _, err := parser.Parse(parser.ParseParams{Source: text}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMiss costs a document from its text, by strategy. The metric
// x-bare-parse compares it with graphql-go's parser alone on the same text,
// measured in turn with it.
func BenchmarkMiss(b *testing.B) {
	text, o := benchmarked(b)
	for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
		b.Run(string(s), func(b *testing.B) {
			o.Strategy = s
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var bare time.Duration
			for b.Loop() {
				costOnce(b, text, o)
				b.StopTimer()
				start := time.Now()
				parseOnce(b, text)
				bare += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(bare), "x-bare-parse")
		})
	}
}

// BenchmarkBareParse is graphql-go's parser alone, to compare BenchmarkMiss with.
func BenchmarkBareParse(b *testing.B) {
	text, _ := benchmarked(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parseOnce(b, text)
	}
}

// BenchmarkHit costs a document whose plan is cached: with the variables decoded,
// and from their JSON.
func BenchmarkHit(b *testing.B) {
	text, o := benchmarked(b)
	d, err := cost.Parse(text, cost.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	plan, err := d.Compile(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("values", func(b *testing.B) {
		values := make([]cost.Value, len(plan.Variables()))
		for i := range values {
			values[i] = cost.Number(20)
		}
		b.ReportAllocs()
		for b.Loop() {
			plan.Cost(values)
		}
	})
	b.Run("JSON", func(b *testing.B) {
		variables := map[string]json.RawMessage{"first": json.RawMessage("20"), "reviews": json.RawMessage(`"10"`), "text": json.RawMessage(`"x"`)}
		b.ReportAllocs()
		for b.Loop() {
			plan.CostJSON(variables)
		}
	})
}

// BenchmarkHostile costs the documents that take longest of those allowed.
func BenchmarkHostile(b *testing.B) {
	repeat := strings.Repeat
	for _, c := range []struct {
		name, document string
		decorations    []cost.Decoration
	}{
		{"fields", "{" + repeat("a ", 99_998) + "}", nil},
		{"operations", repeat("{a}", 33_333), nil},
		{"live chains", repeat("{a", 20) + repeat(" a", 90_000) + repeat("}", 20), pinned(20)},
		{"live chains at every level", repeat("{a", 490) + repeat(" a", 90_000) + repeat("}", 490), pinned(490)},
		{"names among live chains", repeat("{a", 19) + numbered(" n{i}", 0, 70_000) + repeat("}", 19), chains(10_000)},
	} {
		model, err := cost.NewModel(c.decorations)
		if err != nil {
			b.Fatal(err)
		}
		schema, err := cost.ParseSDL([]byte(loop(50)))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				costOnce(b, c.document, cost.Options{Strategy: cost.Complexity, Model: model, Schema: schema, Variables: true, Defaults: true})
			}
		})
	}
}
