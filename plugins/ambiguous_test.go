package plugins_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/extplugin"
)

// TestWhatTwoServersCouldReadDifferentlyIsRefused: an upstream that reads the other
// of two would run another document than the one that is charged.
func TestWhatTwoServersCouldReadDifferentlyIsRefused(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allowed_methods":["POST","GET"]}`)
	const prefix = "invalid graphql request, "
	jsonType := map[string]string{"content-type": "application/json"}
	for _, c := range []struct {
		name    string
		request query
		want    string
	}{
		{"two content types", query{body: `{"query":"{a}"}`, headers: jsonType,
			more: []extplugin.KV{{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}}}, "more than one content-type"},
		{"two encodings", query{body: `{"query":"{a}"}`, headers: map[string]string{"content-type": "application/json", "content-encoding": "identity"},
			more: []extplugin.KV{{Name: "content-encoding", Value: "gzip"}}}, "more than one content-encoding"},
		{"a content type with an underscore", query{body: `{"query":"{a}"}`, headers: jsonType,
			more: []extplugin.KV{{Name: "Content_Type", Value: "application/x-www-form-urlencoded;"}}}, "more than one content-type"},
		{"an encoding with an underscore", query{body: `{"query":"{a}"}`, headers: map[string]string{"content-type": "application/json", "content-encoding": "identity"},
			more: []extplugin.KV{{Name: "content_encoding", Value: "gzip"}}}, "more than one content-encoding"},
		{"a websocket", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"upgrade": "WebSocket"}}, "what a websocket carries cannot be costed"},
		{"a websocket among other protocols", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"upgrade": "h2c"}, more: []extplugin.KV{{Name: "Upgrade", Value: "websocket"}}}, "what a websocket carries cannot be costed"},
		{"as many headers as APISIX lists", query{body: `{"query":"{a}"}`, headers: jsonType, more: dummies(99)}, "too many headers"},
		{"a GET with a body", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"content-length": "5"}}, "a GET with a body"},
		{"a GET with a body of unknown length", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"transfer-encoding": "chunked"}}, "a GET with a body"},
		{"variables in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "variables", Value: "{}"}}}, "the URL has the argument variables as well"},
		{"variables in another case in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "Variables", Value: "{}"}}}, "the URL has the argument variables as well"},
		{"a list of queries in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "query[]", Value: "{b}"}}}, "the URL has the argument query as well"},
		{"a query in another case in the URL of a GET", query{method: "GET",
			args: []extplugin.KV{{Name: "query", Value: "{a}"}, {Name: "Query", Value: "{a{b}}"}}}, "the URL has query in another spelling"},
		{"a query in another case", query{body: `{"query":"{a}","Query":"{a{b}}"}`, headers: jsonType},
			"json body[query] is there in another spelling as well"},
		{"variables in another letter", query{body: `{"query":"{a}","variable\u017f":{"n":1}}`, headers: jsonType},
			"json body[variables] is there in another spelling as well"},
		{"an operationName in another case", query{body: `{"query":"{a}","OperationName":"B"}`, headers: jsonType},
			"json body[operationName] is there in another spelling as well"},
		{"variables that are a string with an object", query{body: `{"query":"{a}","variables":" {\"n\":1}"}`, headers: jsonType},
			"json body[variables] is a string"},
		{"variables in the URL that are a string with an object", query{method: "GET", args: []extplugin.KV{
			{Name: "query", Value: "{a}"}, {Name: "variables", Value: `"{\"n\":1}"`}}}, "variables in the URL are a string"},
		{"variables behind a comment in a string", query{body: `{"query":"{a}","variables":"/**/{\"n\":1}"}`, headers: jsonType},
			"json body[variables] is a string"},
		{"variables in a string in a string", query{body: `{"query":"{a}","variables":"\"\\u007b\\\"n\\\":1}\""}`, headers: jsonType},
			"json body[variables] is a string"},
		{"a list of variables", query{body: `{"query":"{a}","variables":[{"n":1},{"n":1}]}`, headers: jsonType},
			"json body[variables] is a list of objects"},
		{"a list of variables in the URL", query{method: "GET", args: []extplugin.KV{
			{Name: "query", Value: "{a}"}, {Name: "variables", Value: `[{"n":1}]`}}}, "variables in the URL are a list of objects"},
		{"what Rails takes for a batch", query{body: `{"query":"{a}","_json":[{"query":"{a{b}}"}]}`, headers: jsonType},
			"json body[_json] holds other requests"},
		{"what Rails takes for a batch in the URL", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "_json[][query]", Value: "{a{b}}"}}}, "the URL has the argument _json as well"},
		{"several operations of a document", query{body: `{"query":"query A{a}query B{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "batchOperations", Value: "[A,B,A]"}}}, "the URL has the argument batchOperations as well"},
		{"several operations of a document in the URL", query{method: "GET", args: []extplugin.KV{
			{Name: "query", Value: "query A{a}query B{a}"}, {Name: "batchOperations", Value: "[A,B,A]"}}}, "the URL has batchOperations as well"},
		{"a bracket before a name", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "[variables][n]", Value: "1"}}}, "the URL has the argument variables as well"},
		{"a closing bracket before a name", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "]variables[n]", Value: "1"}}}, "the URL has the argument variables as well"},
		{"a closing bracket behind a name", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "variables]", Value: "{}"}}}, "the URL has the argument variables as well"},
		{"white space before an index", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "variables [n]", Value: "1"}}}, "the URL has the argument variables as well"},
		{"a NUL behind a name", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "variables\x00x", Value: "{}"}}}, "the URL has the argument variables as well"},
		{"a semicolon for a separator", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "x", Value: `1;variables={"n":1}`}}}, "the URL has the argument variables as well"},
		{"a semicolon in a name", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: `x;variables`, Value: `{"n":1}`}}}, "the URL has the argument variables as well"},
		{"a semicolon in a GET", query{method: "GET", args: []extplugin.KV{
			{Name: "query", Value: "{a}"}, {Name: "x", Value: `;variables={"n":1}`}}}, "the URL has variables behind a semicolon"},
		{"extensions in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "extensions", Value: "{}"}}}, "the URL has the argument extensions as well"},
		{"a documentId in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "documentId", Value: "x"}}}, "the URL has the argument documentId as well"},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(c.request).badRequest(prefix + c.want) })
	}
	for name, request := range map[string]query{
		"a semicolon elsewhere":     {args: []extplugin.KV{{Name: "x", Value: "a;b=query"}}},
		"an id in the URL":          {args: []extplugin.KV{{Name: "id", Value: "7"}}},
		"a POST through a proxy":    {headers: map[string]string{"content-type": "application/json", "upgrade": "websocket"}},
		"a text behind a semicolon": {args: []extplugin.KV{{Name: "x", Value: "a;query;b"}}},
		"another upgrade":           {headers: map[string]string{"content-type": "application/json", "upgrade": "h2c"}},
		"an underscore elsewhere":   {more: []extplugin.KV{{Name: "x_type", Value: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			request.body = `{"query":"{a}"}`
			if request.headers == nil {
				request.headers = jsonType
			}
			route.send(request).costs("1")
		})
	}
	t.Run("variables that are any other string are ignored", func(t *testing.T) {
		for _, text := range []string{"n", "", "null", "[1]"} {
			route.send(query{body: fmt.Sprintf(`{"query":"{a}","variables":%q}`, text), headers: jsonType}).costs("1")
		}
	})
	for name, more := range map[string]query{
		"with a query":     {args: []extplugin.KV{{Name: "query", Value: "{a}"}}},
		"with a body":      {headers: map[string]string{"content-length": "5"}},
		"with a body type": {headers: jsonType},
	} {
		t.Run("a preflight "+name+" is none", func(t *testing.T) {
			more.method = "OPTIONS"
			more.more = []extplugin.KV{{Name: "origin", Value: "http://x"}, {Name: "access-control-request-method", Value: "POST"}}
			require.Equal(t, 405, route.send(more).status)
		})
	}
	t.Run("one header less is fine", func(t *testing.T) {
		route.send(query{body: `{"query":"{a}"}`, headers: jsonType, more: dummies(98)}).costs("1")
	})
	t.Run("another operationName in the URL: the dearest is charged", func(t *testing.T) {
		body := `{"query":"query A{a} query B{a{b{c}}}","operationName":"A"}`
		route.send(query{body: body, headers: jsonType}).costs("1")
		route.send(query{body: body, headers: jsonType, args: []extplugin.KV{{Name: "operationName", Value: "A"}}}).costs("1")
		route.send(query{body: body, headers: jsonType, args: []extplugin.KV{{Name: "operationName", Value: "B"}}}).costs("3")
	})
}

func dummies(n int) []extplugin.KV {
	var headers []extplugin.KV
	for i := range n {
		headers = append(headers, extplugin.KV{Name: fmt.Sprintf("x-%d", i), Value: "1"})
	}
	return headers
}
