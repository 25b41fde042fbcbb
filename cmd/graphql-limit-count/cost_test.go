package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's example.
const (
	shopSDL = `type Query { products(first: Int): Products topProducts(first: Int = 25): Products }
type Products { nodes: [Product] } type Product { id: ID reviews(first: Int): Reviews }
type Reviews { nodes: [Review] } type Review { body: String }`
	shopDecorations = `[{"field_path": "Query.products", "mul_arguments": ["first"]},
{"field_path": "Query.topProducts", "mul_arguments": ["first"]},
{"field_path": "Product.reviews", "mul_arguments": ["first"]}]`
	fiftyByTwenty = `{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }`
	byVariable    = `query ($n: Int) { products(first: $n) { nodes { reviews(first: 20) { nodes { body } } } } }`
)

func TestCostPrintsTheRawAndTheChargedCost(t *testing.T) {
	schema, decorations := file(t, "schema.graphql", shopSDL), file(t, "decorations.json", shopDecorations)
	shop := []string{"--strategy", "node_quantifier", "--schema", schema, "--decorations", decorations}
	for _, c := range []struct {
		name, query string
		flags       []string
		want        string
	}{
		{"depth is the default", `{ foo { bar { baz { id } } } }`, nil, "raw 4\ncharged 4\n"},
		{"complexity", `{ a }`, []string{"--strategy", "complexity"}, "raw 2\ncharged 3\n"},
		{"the README's example", fiftyByTwenty, shop, "raw 51\ncharged 52\n"},
		{"nothing decorated", fiftyByTwenty, []string{"--strategy", "node_quantifier"}, "raw 0\ncharged 1\n"},
		{"a variable", byVariable, append(shop, "--variables", `{"n": 10}`), "raw 11\ncharged 12\n"},
		{"variables that are not to be resolved", byVariable, append(shop, "--variables", `{"n": 10}`, "--resolve-variables=false"), "raw 1\ncharged 2\n"},
		{"the schema's default", `{ topProducts { nodes { id } } }`, shop, "raw 1\ncharged 2\n"},
		{"a factor", fiftyByTwenty, append(shop, "--score-factor", "0.1"), "raw 51\ncharged 6\n"},
		{"the dearest of several operations", `query A { a } query B { a { b } }`, nil, "raw 2\ncharged 2\n"},
		{"the operation that is named", `query A { a } query B { a { b } }`, []string{"--operation", "A"}, "raw 1\ncharged 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			arguments := append([]string{"cost", file(t, "query.graphql", c.query)}, c.flags...)
			require.Equal(t, outcome{stdout: c.want}, execute("", arguments...))
			arguments[1] = "-"
			require.Equal(t, outcome{stdout: c.want}, execute(c.query, arguments...), "from standard input")
		})
	}
}

func TestCostSaysWhyThereIsNone(t *testing.T) {
	text := func(s string) string { return file(t, "file", s) }
	for _, c := range []struct {
		name, query string
		flags       []string
		want        string
	}{
		{"an unknown strategy", `{ a }`, []string{"--strategy", "depht"}, `strategy "depht" is none of depth, complexity and node_quantifier`},
		{"a factor of zero", `{ a }`, []string{"--score-factor", "0"}, "score_factor must be greater than 0"},
		{"a factor that is no number", `{ a }`, []string{"--score-factor", "NaN"}, "score_factor must be greater than 0"},
		{"a query that does not parse", `{ a`, nil, "failed to parse graphql query"},
		{"a document without operation", `# nothing`, nil, "empty graphql query"},
		{"a cycle of fragments", `{ ...A } fragment A on Q { ...A }`, nil, "fragment spreads must not form cycles"},
		{"a schema that does not parse", `{ a }`, []string{"--schema", text("type {")}, "schema: "},
		{"decorations that are no array", `{ a }`, []string{"--decorations", text(`{}`)}, "read the decorations in "},
		{"a decoration of no path", `{ a }`, []string{"--decorations", text(`[{"field_path": "Query."}]`)}, `decorations: field_path "Query." is not a chain of names`},
		{"variables that are no object", `{ a }`, []string{"--variables", `[1]`}, "read the variables: "},
		{"a schema that is not there", `{ a }`, []string{"--schema", "missing"}, "read the schema: open missing: "},
		{"decorations that are not there", `{ a }`, []string{"--decorations", "missing"}, "read the decorations: open missing: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := execute(c.query, append([]string{"cost", "-"}, c.flags...)...)
			require.ErrorContains(t, got.err, c.want)
			require.Empty(t, got.stdout)
		})
	}
	require.ErrorIs(t, execute("", "cost", "missing").err, os.ErrNotExist)
	require.EqualError(t, execute("", "cost").err, "name one file with a query")
	require.EqualError(t, execute("", "cost", "--jsonl", "query").err, "--jsonl reads standard input and takes no file")
}

// line is a line for cost --jsonl.
func line(t *testing.T, members map[string]any) string {
	t.Helper()
	text, err := json.Marshal(members)
	require.NoError(t, err)
	return string(text)
}

func TestEachLineIsAnsweredInOrder(t *testing.T) {
	shop := func(further map[string]any) string {
		all := map[string]any{"strategy": "node_quantifier", "schema": shopSDL, "decorations": json.RawMessage(shopDecorations), "query": fiftyByTwenty}
		for name, value := range further {
			all[name] = value
		}
		return line(t, all)
	}
	introspection := `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[{"kind":"OBJECT","name":"Query","fields":[` +
		`{"name":"products","args":[{"name":"first","type":{"kind":"SCALAR","name":"Int"},"defaultValue":"7"}],"type":{"kind":"SCALAR","name":"Int"}}]}]}}}`
	lines := []struct{ in, want string }{
		{`{"query": "{ foo { bar { baz { id } } } }"}`, `{"raw":4,"charged":4}`},
		{shop(nil), `{"raw":51,"charged":52}`},
		{shop(map[string]any{"query": byVariable, "variables": map[string]any{"n": 10}}), `{"raw":11,"charged":12}`},
		{shop(map[string]any{"query": byVariable, "variables": map[string]any{"n": nil}}), `{"raw":1,"charged":2}`},
		{shop(map[string]any{"query": byVariable, "variables": []int{10}}), `{"raw":1,"charged":2}`},
		{shop(map[string]any{"query": byVariable, "variables": map[string]any{"n": 10}, "resolve_variables": false}), `{"raw":1,"charged":2}`},
		{shop(map[string]any{"schema": introspection, "query": "{ products }"}), `{"raw":1,"charged":2}`},
		{shop(map[string]any{"score_factor": 0.1}), `{"raw":51,"charged":6}`},
		{shop(map[string]any{"schema": nil}), `{"raw":0,"charged":1}`},
		{shop(map[string]any{"decorations": nil}), `{"raw":0,"charged":1}`},
		{shop(map[string]any{"decorations": []any{}}), `{"raw":0,"charged":1}`},
		{`{"strategy":null,"schema":null,"decorations":null,"query":"{ a }","variables":null,"operationName":null,"resolve_variables":null,"score_factor":null}`,
			`{"raw":1,"charged":1}`},
		{`{"query":"query A { a } query B { a { b } }","operationName":"A"}`, `{"raw":1,"charged":1}`},
		{`{"query":"query A { a } query B { a { b } }","operationName":5}`, `{"raw":2,"charged":2}`},
		{`{"strategy":"complexity","query":"{ a }"}`, `{"raw":2,"charged":3}`},
		{`{"query":"{ a }","score_factor":1e300}`, `{"raw":1,"charged":9007199254740991}`},
		{`{"query":"{ a }","unknown":1}` + "\r", `{"raw":1,"charged":1}`},
	}
	var input, want strings.Builder
	for _, l := range lines {
		input.WriteString(l.in + "\n")
		want.WriteString(l.want + "\n")
	}
	require.Equal(t, outcome{stdout: want.String()}, execute(input.String(), "cost", "--jsonl"))
	require.Equal(t, outcome{stdout: want.String()}, execute(strings.TrimSuffix(input.String(), "\n"), "cost", "--jsonl"),
		"the last line needs no line break")
}

func TestABadLineIsAnsweredAndNeverStops(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ``, "malformed line: unexpected end of JSON input"},
		{"white space", ` `, "malformed line: unexpected end of JSON input"},
		{"no JSON", `query`, "malformed line: invalid character 'q' looking for beginning of value"},
		{"half an object", `{"query":`, "malformed line: unexpected end of JSON input"},
		{"two values", `{"query":"{ a }"} {}`, "malformed line: invalid character '{' after top-level value"},
		{"an array", `[]`, "malformed line: "},
		{"a query that is no text", `{"query":5}`, "malformed line: "},
		{"a schema that is no text", `{"query":"{ a }","schema":{}}`, "malformed line: "},
		{"null", `null`, "query is missing"},
		{"no query", `{}`, "query is missing"},
		{"a null query", `{"query":null}`, "query is missing"},
		{"an unknown strategy", `{"query":"{ a }","strategy":"x"}`, `strategy "x" is none of depth, complexity and node_quantifier`},
		{"a factor of zero", `{"query":"{ a }","score_factor":0}`, "score_factor must be greater than 0"},
		{"a negative factor", `{"query":"{ a }","score_factor":-1}`, "score_factor must be greater than 0"},
		{"a query that does not parse", `{"query":"{ a"}`, "failed to parse graphql query"},
		{"an empty query", `{"query":""}`, "empty graphql query"},
		{"a cycle of fragments", `{"query":"{ ...A } fragment A on Q { ...A }"}`, "fragment spreads must not form cycles"},
		{"too many selections", `{"strategy":"complexity","query":"{ ...A ...A } ` + doubling(20) + `"}`, "the query expands too many selections"},
		{"a schema that does not parse", `{"query":"{ a }","schema":"type {"}`, "schema: "},
		{"a schema that is another JSON", `{"query":"{ a }","schema":"{}"}`, "schema: "},
		{"a decoration of no path", `{"query":"{ a }","decorations":[{"field_path":""}]}`, `decorations: field_path "" is not a chain of names`},
		{"a negative weight", `{"query":"{ a }","decorations":[{"field_path":"Q.a","add_value":-1}]}`, "add_value must be a finite number >= 0"},
		{"a name without end", `{"query":"{ ` + strings.Repeat("a", 1<<20) + ` }"}`, "failed to parse graphql query"},
		{"nesting without end", `{"query":"` + strings.Repeat("{a", 1<<19) + `"}`, "failed to parse graphql query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const good, answer = `{"query":"{ a { b } }"}`, `{"raw":2,"charged":2}`
			got := execute(good+"\n"+c.in+"\n"+good+"\n", "cost", "--jsonl")
			require.NoError(t, got.err)
			lines := strings.Split(got.stdout, "\n")
			require.Len(t, lines, 4)
			require.Equal(t, []string{answer, answer, ""}, []string{lines[0], lines[2], lines[3]})
			var failure map[string]string
			require.NoError(t, json.Unmarshal([]byte(lines[1]), &failure))
			require.Len(t, failure, 1)
			require.Contains(t, failure["error"], c.want)
		})
	}
	require.Equal(t, outcome{}, execute("", "cost", "--jsonl"), "nothing is answered with nothing")
}

// doubling is a chain of fragments, each of which spreads the next twice.
func doubling(links int) string {
	var text strings.Builder
	for i := range links {
		next := string(rune('B' + i))
		text.WriteString("fragment " + string(rune('A'+i)) + " on Q { ..." + next + " ..." + next + " } ")
	}
	return text.String() + "fragment " + string(rune('A'+links)) + " on Q { a }"
}

func TestACallerThatWaitsForEachAnswerGetsIt(t *testing.T) {
	in, question := io.Pipe()
	answer, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- costLines(in, out) }()
	answers := bufio.NewReader(answer)
	for range 3 {
		_, err := io.WriteString(question, `{"query":"{ a }"}`+"\n")
		require.NoError(t, err)
		got, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, `{"raw":1,"charged":1}`+"\n", got)
	}
	require.NoError(t, question.Close())
	require.NoError(t, <-done)
}

func TestABrokenPipeEndsCost(t *testing.T) {
	answer, out := io.Pipe()
	require.NoError(t, answer.CloseWithError(os.ErrClosed))
	require.ErrorIs(t, costLines(strings.NewReader(`{"query":"{ a }"}`+"\n"), out), os.ErrClosed)
	require.ErrorIs(t, costLines(io.MultiReader(strings.NewReader("{"), brokenReader{}), io.Discard), os.ErrClosed)
}

// brokenReader cannot be read.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, os.ErrClosed }
