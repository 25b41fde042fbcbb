package plugins_test

import (
	"fmt"
	"testing"

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
		{"as many headers as APISIX lists", query{body: `{"query":"{a}"}`, headers: jsonType, more: dummies(99)}, "too many headers"},
		{"a GET with a body", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"content-length": "5"}}, "a GET with a body"},
		{"a GET with a body of unknown length", query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}},
			headers: map[string]string{"transfer-encoding": "chunked"}}, "a GET with a body"},
		{"variables in the URL of a POST", query{body: `{"query":"{a}"}`, headers: jsonType,
			args: []extplugin.KV{{Name: "variables", Value: "{}"}}}, "the URL has a variables argument as well"},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(c.request).badRequest(prefix + c.want) })
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
