package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/extplugin"
)

// plenty is a quota that no test exhausts.
const plenty = `"count":1000000,"time_window":60`

const (
	noBody    = "Invalid graphql request: can't get graphql request body"
	noParse   = "Invalid graphql request: failed to parse graphql query"
	noQuery   = "invalid graphql request, json body[query] is nil"
	cyclic    = "Invalid graphql request: fragment spreads must not form cycles"
	nothing   = "Invalid graphql request: empty graphql query"
	tooMany   = "Invalid graphql request: the query expands too many selections"
	typeError = "invalid graphql request, error content-type: "
)

// TestJSON: section 1, step 3, the members of a request.
func TestJSON(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	for _, c := range []struct{ name, body, cost string }{
		{"a query", `{"query":"{a}"}`, "1"},
		{"white space around it", "\r\n\t {\n\"query\" : \"{a}\" } \n", "1"},
		{"a byte order mark is skipped", "\uFEFF" + `{"query":"{a}"}`, "1"},
		{"other members are ignored", `{"x":{"query":"{a{b}}"},"query":"{a}","extensions":[{"query":1}],"queries":"","y":[]}`, "1"},
		{"a name may be escaped", `{"\u0071uery":"{a}"}`, "1"},
		{"a document may be escaped", `{"query":"{a\u007Bb\u007d}"}`, "2"},
		{"a document beyond ASCII", `{"query":"{a(x:\"é😀\")}"}`, "1"},
		{"no operation is chosen: the dearest counts", `{"query":"query A{a} query B{a{b}}"}`, "2"},
		{"operationName chooses", `{"query":"query A{a} query B{a{b}}","operationName":"A"}`, "1"},
		{"an unknown operationName chooses nothing", `{"query":"query A{a} query B{a{b}}","operationName":"C"}`, "2"},
		{"a null operationName chooses nothing", `{"query":"query A{a} query B{a{b}}","operationName":null}`, "2"},
		{"an operationName that is no text is ignored", `{"query":"query A{a} query B{a{b}}","operationName":["A"]}`, "2"},
		{"variables that are no object are ignored", `{"query":"{a}","variables":[1]}`, "1"},
		{"variables that are null are ignored", `{"query":"{a}","variables":null}`, "1"},
		{"variables", `{"variables":{"a":{"b":[1,"}"]}},"query":"{a}"}`, "1"},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(inJSON(c.body)).costs(c.cost) })
	}
	const malformed = "invalid graphql request, "
	for _, c := range []struct{ name, body, message string }{
		{"no JSON", `{a}`, malformed + "Expected object key string but found invalid token at character 2"},
		{"white space only", ` `, malformed + "Expected value but found T_END at character 2"},
		{"a byte order mark only", "\uFEFF", malformed + "Expected value but found T_END at character 1"},
		{"two byte order marks", "\uFEFF\uFEFF{}", malformed + "Expected value but found invalid token at character 1"},
		{"cut off", `{"query":"{a}"`, malformed + "Expected comma or object end but found T_END at character 15"},
		{"a text after the value", `{"query":"{a}"} x`, malformed + "Expected the end but found invalid token at character 17"},
		{"another value after it", `{"query":"{a}"}{"query":"{a}"}`, malformed + "Expected the end but found T_OBJ_BEGIN at character 16"},
		{"a NUL after it", "{\"query\":\"{a}\"}\x00", malformed + "Expected the end but found invalid token at character 16"},
		{"no object", `"{a}"`, noQuery},
		{"null", `null`, noQuery},
		{"no query", `{}`, noQuery},
		{"a query that is no text", `{"query":{"a":1}}`, noQuery},
		{"a query of null", `{"query":null}`, noQuery},
		{"a query spelled otherwise", `{"Query":"{a}"}`, noQuery},
		{"a batch where none is allowed", `[{"query":"{a}"}]`, noQuery},
		{"a repeated query", `{"query":"{a}","query":"{a}"}`, malformed + "json body[query] is repeated"},
		{"a repeated query, once escaped", `{"query":"{a}","quer\u0079":"{a}"}`, malformed + "json body[query] is repeated"},
		{"repeated variables", `{"query":"{a}","variables":{},"variables":{}}`, malformed + "json body[variables] is repeated"},
		{"a repeated operationName", `{"query":"{a}","operationName":null,"operationName":"A"}`, malformed + "json body[operationName] is repeated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := route.send(inJSON(c.body)).badRequest(c.message)
			require.Equal(t, map[string]string{"Content-Type": "application/json"}, a.header)
		})
	}
}

// TestDocuments: section 1, steps 4 to 6.
func TestDocuments(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	for _, c := range []struct{ name, document, code, message string }{
		{"not GraphQL", `{`, "GRAPHQL_PARSE_FAILED", noParse},
		{"an empty selection set", `{a{}}`, "GRAPHQL_PARSE_FAILED", noParse},
		{"too deep", depth(501), "GRAPHQL_PARSE_FAILED", noParse},
		{"a name that is too long", `{` + strings.Repeat("a", 1025) + `}`, "GRAPHQL_PARSE_FAILED", noParse},
		{"comments only", "# nothing", "BAD_REQUEST", nothing},
		{"white space only", "  \n", "BAD_REQUEST", nothing},
		{"a fragment only", `fragment F on T{a}`, "BAD_REQUEST", nothing},
		{"a type definition only", `type T{a:Int}`, "BAD_REQUEST", nothing},
		{"a fragment cycle", `{...F} fragment F on T{a{...F}}`, "BAD_REQUEST", cyclic},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(graphQL(c.document)).refusedWith(400, c.code, c.message) })
	}
	route.send(graphQL("\uFEFF{a}")).costs("1")
	route.send(graphQL(depth(500))).costs("500")
	t.Run("too many selections", func(t *testing.T) {
		complexity := s.route(t, `{`+plenty+`,"cost_strategy":"complexity"}`)
		complexity.send(graphQL("{" + strings.Repeat("a\n", 99_990) + "}")).costs("99992")
		complexity.send(graphQL("{...F ...F} fragment F on T{" + strings.Repeat("a\n", 50_000) + "}")).badRequest(tooMany)
	})
}

// TestURLQueries: section 1, a query in the URL.
func TestURLQueries(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allowed_methods":["POST","GET"]}`)
	get := func(args ...string) query {
		q := query{method: "GET"}
		for i := 0; i < len(args); i += 2 {
			q.args = append(q.args, extplugin.KV{Name: args[i], Value: args[i+1]})
		}
		return q
	}
	t.Run("a POST may not carry one as well", func(t *testing.T) {
		q := inJSON(`{"query":"{a}"}`)
		q.args = []extplugin.KV{{Name: "query", Value: "{b}"}}
		a := route.send(q).badRequest("invalid graphql request, the URL has the argument query as well")
		require.Empty(t, a.asked)
		q.args[0].Value = ""
		route.send(q).badRequest("invalid graphql request, the URL has the argument query as well")
		q.args = []extplugin.KV{{Name: "query", NoValue: true}}
		route.send(q).badRequest("invalid graphql request, the URL has the argument query as well")
		q.args = []extplugin.KV{{Name: "variables", Value: "{}"}}
		route.send(q).badRequest("invalid graphql request, the URL has the argument variables as well")
		q.args = []extplugin.KV{{Name: "q", Value: "query"}, {Name: "queries", Value: "{b}"}}
		route.send(q).costs("1")
	})
	t.Run("another operationName makes the chosen operation doubtful", func(t *testing.T) {
		q := inJSON(`{"query":"query A{a} query B{a{b}}","operationName":"A"}`)
		for name, charged := range map[string]string{"A": "1", "B": "2", "": "2"} {
			q.args = []extplugin.KV{{Name: "operationName", Value: name}}
			route.send(q).costs(charged)
		}
	})
	require.Empty(t, route.send(get("query", "{a{b}}")).costs("2").asked)
	route.send(get("query", "query A{a} query B{a{b}}", "operationName", "A")).costs("1")
	route.send(get("query", "query A{a} query B{a{b}}", "operationName", "")).costs("2")
	route.send(get("query", "{a}", "variables", ` {"n":1} `, "extensions", "x")).costs("1")
	route.send(get("query", "{a}", "variables", `[1]`)).costs("1")
	for _, c := range []struct {
		name    string
		q       query
		message string
	}{
		{"no query", get("variables", "{}"), "the URL has no query"},
		{"two queries", get("query", "{a}", "query", "{b}"), "the URL has more than one query"},
		{"two operationNames", get("query", "{a}", "operationName", "A", "operationName", "B"), "the URL has more than one operationName"},
		{"two variables", get("query", "{a}", "variables", "{}", "variables", "{}"), "the URL has more than one variables"},
		{"variables that are no JSON", get("query", "{a}", "variables", "{"), "variables: Expected object key string but found T_END at character 2"},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(c.q).badRequest("invalid graphql request, " + c.message) })
	}
	t.Run("an empty query is an empty document", func(t *testing.T) { route.send(get("query", "")).badRequest(nothing) })
}

// TestBatches: section 1, JSON arrays.
func TestBatches(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"max_batch":2}`)
	route.send(inJSON(`{"query":"{a}"}`)).costs("1")
	route.send(inJSON(`[{"query":"{a}"}]`)).costs("1")
	route.send(inJSON(` [ {"query":"{a{b}}"} , {"query":"query A{a} query B{a{b{c}}}","operationName":"B"} ] `)).costs("5")
	for _, c := range []struct{ name, body, message string }{
		{"more entries than allowed", `[{"query":"{a}"},{"query":"{a}"},{"query":"{a}"}]`, "invalid graphql request, the batch has more than 2 entries"},
		{"no entry", `[]`, noQuery},
		{"an entry that is no request", `[{"query":"{a}"},1]`, noQuery},
		{"an entry without a query", `[{"query":"{a}"},{}]`, noQuery},
		{"a batch in a batch", `[[{"query":"{a}"}]]`, noQuery},
		{"an entry with a repeated member", `[{"query":"{a}","query":"{b}"}]`, "invalid graphql request, json body[query] is repeated"},
		{"an entry that is empty", `[{"query":"{a}"},{"query":""}]`, nothing},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(inJSON(c.body)).badRequest(c.message) })
	}
	t.Run("an entry that does not parse", func(t *testing.T) {
		route.send(inJSON(`[{"query":"{a}"},{"query":"{"}]`)).refusedWith(400, "GRAPHQL_PARSE_FAILED", noParse)
	})
	t.Run("what is refused is not charged", func(t *testing.T) {
		require.Equal(t, "999992", route.send(inJSON(`{"query":"{a}"}`)).header["X-RateLimit-Remaining"])
	})
	t.Run("costs add up to the largest at most", func(t *testing.T) {
		dear := s.route(t, `{"count":9007199254740991,"time_window":60,"max_batch":2,"score_factor":9e15}`)
		dear.send(inJSON(`[{"query":"{a}"},{"query":"{a}"}]`)).costs("9007199254740991")
	})
}

// TestVariablesAreReadFromTheRequest: of the body, and of the URL.
func TestVariablesAreReadFromTheRequest(t *testing.T) {
	_, route := startQuantified(t, `"allowed_methods":["POST","GET"]`)
	const document = `query($n:Int){products(first:$n){id}}`
	inBody := func(variables string) answer {
		return route.send(inJSON(fmt.Sprintf(`{"query":%q,"variables":%s}`, document, variables)))
	}
	inURL := func(variables string) answer {
		return route.send(query{method: "GET", args: []extplugin.KV{{Name: "query", Value: document}, {Name: "variables", Value: variables}}})
	}
	for _, c := range []struct{ variables, cost string }{
		{`{"n":5}`, "2"}, {`{}`, "1"}, {`{"m":5}`, "1"}, {`{"n":"5"}`, "2"}, {`{"n":null}`, "1"}, {`{"n":5,"N":7}`, "2"},
		{`{"n":5,"m":{"a":1,"a":2}}`, "2"}, {`{"n":5,"m":[{"n":1},{"n":2}]}`, "2"},
	} {
		t.Run(c.variables, func(t *testing.T) {
			inBody(c.variables).costs(c.cost)
			inURL(c.variables).costs(c.cost)
		})
	}
	// Some servers keep the first value, some the last.
	for _, c := range []struct{ variables, name string }{
		{`{"n":5,"n":7}`, "n"}, {`{"n":5,"n":5}`, "n"}, {`{"n":5,"\u006e":7}`, "n"}, {`{"m":1,"n":5,"m":[]}`, "m"}, {`{"":1,"":2}`, ""},
		{`{"` + strings.Repeat("x", 200) + `":1,"` + strings.Repeat("x", 200) + `":2}`, strings.Repeat("x", 100)},
	} {
		t.Run("repeated "+c.variables, func(t *testing.T) {
			inBody(c.variables).badRequest(fmt.Sprintf("invalid graphql request, json body[variables] repeats %q", c.name))
			inURL(c.variables).badRequest(fmt.Sprintf("invalid graphql request, variables in the URL repeat %q", c.name))
		})
	}
}
