package main

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // a name that clients give to documents
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"graphql-limit-count/cost"
)

const (
	// hostileSize is the largest body that is taken by default, in bytes.
	hostileSize = 1 << 20
	// hostileRounds is how often each body is decided on; the median counts.
	hostileRounds = 5
	// hostileShown is how many of the slowest are printed.
	hostileShown = 8
)

// hostileCase is a body that takes long, and what it is costed against.
type hostileCase struct {
	name, body, contentType string
	decorations             []cost.Decoration
}

// hostile decides on bodies of the largest size that are made to take long, in the filter,
// by both strategies that count nodes, and names the slowest.
func (b *bench) hostile(ctx context.Context) error {
	b.heading("The slowest of the bodies of 1 MB that are made to take long: refused or costed", "body", "time", "longest", "status", "strategy")
	type outcome struct {
		name, strategy  string
		status          int
		median, longest time.Duration
	}
	var outcomes []outcome
	for _, c := range hostileCases() {
		for _, strategy := range []cost.Strategy{cost.Complexity, cost.NodeQuantifier} {
			took, status, err := c.decide(ctx, strategy)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			outcomes = append(outcomes, outcome{c.name, string(strategy), status, took[hostileRounds/2], took[hostileRounds-1]})
		}
	}
	slices.SortFunc(outcomes, func(x, y outcome) int { return cmp.Compare(y.median, x.median) })
	for _, o := range outcomes[:hostileShown] {
		status := "costed"
		if o.status != 0 {
			status = strconv.Itoa(o.status)
		}
		b.row(o.name, perOperation(float64(o.median)), perOperation(float64(o.longest)), status, o.strategy)
	}
	slowest := b.add(number, "hostile_max_ms", float64(outcomes[0].median)/float64(time.Millisecond))
	b.note("\nThe slowest of %d: %s, %.1f ms (%s).", len(outcomes), outcomes[0].name, slowest.value, slowest.verdict())
	return nil
}

// decide decides on the body hostileRounds times, each time with a plugin that has not seen
// it, and returns the times in order and the status.
func (c hostileCase) decide(ctx context.Context, strategy cost.Strategy) (took []time.Duration, status int, err error) {
	model, err := cost.NewModel(c.decorations)
	if err != nil {
		return nil, 0, fmt.Errorf("making a cost model: %w", err)
	}
	schema, err := cost.ParseSDL([]byte(loopSchema(hostileTypes)))
	if err != nil {
		return nil, 0, fmt.Errorf("reading a schema: %w", err)
	}
	for range hostileRounds {
		f, err := newFilterOf(shopSource{model: model, schema: schema},
			`{"count":9007199254740991,"time_window":3600,"cost_strategy":"`+string(strategy)+`"}`)
		if err != nil {
			return nil, 0, err
		}
		r := newRequest([]byte(c.body), c.contentType)
		runtime.GC()
		once, err := repeat(func() error { status = f.decide(r); return ctx.Err() })(ctx, 1)
		f.close()
		if err != nil {
			return nil, 0, err
		}
		took = append(took, once)
	}
	slices.Sort(took)
	return took, status, nil
}

// hostileTypes is how many types the schema has.
const hostileTypes = 50

// loopSchema is a schema in which every field of every type leads to the next type.
func loopSchema(types int) string {
	return numbered("type T{i} { a(x: Int = 3, y: Int): T{i} b: Query } ", 0, types) +
		"type Query { a(x: Int = 3, y: Int): Query b(x: Int): Query " + numbered("t{i}: T{i} ", 0, types) + "}"
}

// pinned decorates every chain of a's from Query, 2 to so many names long.
func pinned(names int) (decorations []cost.Decoration) {
	for n := 1; n < names; n++ {
		decorations = append(decorations, cost.Decoration{FieldPath: "Query" + strings.Repeat(".a", n), MulArguments: []string{"x"}})
	}
	return decorations
}

// chainLength is how many names the chains have.
const chainLength = 20

// chains decorates so many chains of a's and b's.
func chains(count int) (decorations []cost.Decoration) {
	two := 2.0
	for i := range count {
		path := "Query"
		for bit := range chainLength - 1 {
			path += "." + string("ab"[i>>bit&1])
		}
		decorations = append(decorations, cost.Decoration{FieldPath: path, AddValue: &two})
	}
	return decorations
}

// numbered repeats a text, with {i} as the number of the repetition and {p} as the one
// before.
func numbered(unit string, from, count int) string {
	var b strings.Builder
	for i := from; i < from+count; i++ {
		b.WriteString(strings.NewReplacer("{i}", strconv.Itoa(i), "{p}", strconv.Itoa(i-1)).Replace(unit))
	}
	return b.String()
}

// filled repeats a text up to the largest size.
func filled(prefix, unit, suffix string) string {
	return prefix + strings.Repeat(unit, (hostileSize-len(prefix)-len(suffix))/len(unit)) + suffix
}

func hostileCases() []hostileCase {
	cases := hostileDocuments()
	return append(cases, hostileJSON()...)
}

// hostileDocuments are documents that are refused late, or costed at the limits.
func hostileDocuments() (cases []hostileCase) {
	r := strings.Repeat
	quantified := []cost.Decoration{{FieldPath: "Query.a", MulArguments: []string{"x", "y", "z", "u"}, AddArguments: []string{"y"}}}
	for _, c := range []struct {
		name, document string
		decorations    []cost.Decoration
	}{
		{"open selection sets", filled("", "{a", ""), nil},
		{"open lists in an argument", filled("{a(x:", "[", ""), nil},
		{"open objects in an argument", filled("{a(x:", "{a:", ""), nil},
		{"one long line with an error at its end", filled("{", "a ", "!"), nil},
		{"white space before an error", filled("{a", " ", "!"), nil},
		{"lines before an error", filled("{", "a\n", "!"), nil},
		{"comments before an error", filled("{", "#\n", "!"), nil},
		{"commas before an error", filled("{", ",", "!"), nil},
		{"long names before an error", filled("{", r("a", 1000)+" ", "!"), nil},
		{"an open string of escapes", filled(`{a(x:"`, `\"`, ""), nil},
		{"an open block string", filled(`{a(x:"""`, `"" `, ""), nil},
		{"type definitions before an error", filled("{a}", "scalar A ", "!"), nil},
		{"comments only", filled("", "#{}\n", ""), nil},
		{"fields", "{" + r("a ", 99_998) + "}", nil},
		{"fields with long names", filled("{", r("a", 1000)+" ", "}"), nil},
		{"selection sets", "{" + r("a{a}", 24_999) + "}", nil},
		{"selection sets at the deepest level", r("{a", 490) + r(" a", 90_000) + r("}", 490), nil},
		{"operations", r("{a}", 33_333), nil},
		{"a chain of fragments", "{...f10000}fragment f0 on T{a}" + numbered("fragment f{i} on T{...f{p}}", 1, 10_000), nil},
		{"a cycle of fragments", "{...f10000}fragment f0 on T{...f10000}" + numbered("fragment f{i} on T{...f{p}}", 1, 10_000), nil},
		{"fragments that double", "{...f5000}fragment f0 on T{a{b}}" + numbered("fragment f{i} on T{...f{p} ...f{p}}", 1, 5000), nil},
		{"arguments", "{" + r("a(x:1)", 16_666) + "}", quantified},
		{"a variable", "{" + r("a(x:$v)", 14_284) + "}", quantified},
		{"20 000 variables", "{" + numbered("a(x:$v{i} y:$w{i} z:$x{i} u:$y{i})", 0, 5_000) + "}", quantified},
		{"numbers half way between two", "{" + r("a(x:4503599627370496.50000000000000000000000001)", 16_666) + "}", quantified},
		{"numbers of 1 KB", filled("{", "a(x:1."+r("7", 1000)+")", "}"), quantified},
		{"many live chains", r("{a", 20) + r(" a", 90_000) + r("}", 20), pinned(20)},
		{"as many live chains as levels", r("{a", 490) + r(" a", 90_000) + r("}", 490), pinned(490)},
		{"10 000 chains", r("{a b", 19) + r(" a", 90_000) + r("}", 19), chains(10_000)},
		{"10 000 chains, walked", "{" + r(r("a{b{", 9)+"a"+r("}}", 9)+" ", 1_800) + "}", chains(10_000)},
		{"chains among other fields", r("{a", 19) + numbered(" n{i}", 0, 70_000) + r("}", 19), chains(10_000)},
		{"a fragment in 50 types", "{" + numbered("...on T{i}{...F}", 0, 50) + "}fragment F on Unknown{" + r("a{b{a}}", 450) + "}", quantified},
		{"a fragment under many chains", "{" + numbered("t{i}{...F}", 0, 50) + r("a{...F ", 20) + r("}", 20) + "}fragment F on Unknown{" + r("a{b{a}}", 300) + "}", pinned(20)},
		{"spreads at every level", r("{...F a", 400) + r("}", 400) + "fragment F on Unknown{" + r("a{a{a}}", 70) + "}", pinned(20)},
	} {
		cases = append(cases, hostileCase{c.name, c.document, mediaGraphQL, c.decorations})
	}
	return cases
}

// digested is a body half of which is a query and half of which names it, or another, by
// digests.
func digested(digest func(query string) string) string {
	query := "{a}#" + strings.Repeat("x", hostileSize/2)
	return filled(`{"query":"`+query+`","extensions":{"persistedQuery":{`, `"x":"`+digest(query)+`",`, `"x":0}}}`)
}

// hostileJSON are bodies whose JSON takes long.
func hostileJSON() (cases []hostileCase) {
	variable := []cost.Decoration{{FieldPath: "Query.a", MulArguments: []string{"x"}}}
	const query = `{"query":"query($v:Int){a(x:$v){a}}","variables":`
	const deepest = 200_000
	for _, c := range []struct{ name, body string }{
		{"JSON: a deep list in a variable", query + `{"v":` + strings.Repeat("[", deepest) + strings.Repeat("]", deepest) + "}}"},
		{"JSON: a long list in a variable", filled(query+`{"v":[`, "1,", "1]}}")},
		{"JSON: many variables", query + "{" + numbered(`"v{i}":{i},`, 0, 70_000) + `"v":1}}`},
		{"JSON: one variable again and again", filled(query+"{", `"v":1,`, `"v":1}}`)},
		{"JSON: a variable of digits", filled(query+`{"v":"`, "1", `"}}`)},
		{"JSON: many other members", "{" + numbered(`"m{i}":0,`, 0, 80_000) + `"query":"{a}"}`},
		{"JSON: many objects", filled(`{"x":[`, "{},", `{}],"query":"{a}"}`)},
		{"JSON: a document of escapes", filled(`{"query":"{a`, `\u0020`, `}"}`)},
		{"JSON: an escaped document with an error", filled(`{"query":"{`, `a\n`, `!"}`)},
		{"JSON: a document beyond ASCII", filled(`{"query":"{a(x:\"`, "é", `\")}"}`)},
		{"JSON: an error at the end", filled(`{"query":"{a}","x":[`, "1,", "]}")},
		{"JSON: digests of another query", digested(func(string) string { return strings.Repeat("0", 2*md5.Size) })},
		{"JSON: digests of the query", digested(func(query string) string { return fmt.Sprintf("%x", md5.Sum([]byte(query))) })},
		{"JSON: digests of the query in base64", digested(func(query string) string {
			sum := md5.Sum([]byte(query))
			return base64.StdEncoding.EncodeToString(sum[:])
		})},
		{"JSON: white space", filled(`{"query":"{a}"`, " ", "}")},
	} {
		cases = append(cases, hostileCase{c.name, c.body, mediaJSON, variable})
	}
	return cases
}
