package shop

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphql-go/graphql/language/ast"
	"github.com/graphql-go/graphql/language/parser"
	"github.com/graphql-go/graphql/language/printer"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testShop starts a shop on a free port and stops it with the test.
func testShop(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	s, err := Start(context.Background(), "127.0.0.1:0", options...)
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	return s
}

// client closes every connection after its response, so that no test leaves one.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send POSTs body and returns the status and the response's body.
func send(tb testing.TB, method, url, contentType, body string, headers ...string) (int, string) {
	tb.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(tb, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	require.NoError(tb, err)
	defer resp.Body.Close()
	require.Equal(tb, "application/json", resp.Header.Get("Content-Type"))
	text, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// ask POSTs a document as JSON.
func ask(tb testing.TB, s *Server, query string) string {
	tb.Helper()
	body, err := json.Marshal(map[string]any{"query": query})
	require.NoError(tb, err)
	status, text := send(tb, http.MethodPost, s.URL(), "application/json", string(body))
	require.Equal(tb, 200, status, text)
	return text
}

func TestAnswers(t *testing.T) {
	s := testShop(t)
	for _, c := range []struct{ name, query, want string }{
		{"a list as long as first", `{ products(first: 2) { nodes { id name } } }`,
			`{"data":{"products":{"nodes":[{"id":"product-1","name":"Sturdy Lamp"},{"id":"product-2","name":"Pocket Stool"}]}}}`},
		{"everything below has its own data", `{ products(first: 1) { nodes { reviews(first: 1) { nodes { id body author { name orders(first: 1) { nodes { id } } } } } } } }`,
			`{"data":{"products":{"nodes":[{"reviews":{"nodes":[{"author":{"name":"Customer 31","orders":{"nodes":[{"id":"order-31001"}]}},"body":"Would buy again.","id":"review-1001"}]}}]}}}`},
		{"a negative first is no entry", `{ products(first: -1) { nodes { id } } }`, `{"data":{"products":{"nodes":[]}}}`},
		{"a mutation", `mutation { noop }`, `{"data":{"noop":true}}`},
		{"typename", `{ __typename }`, `{"data":{"__typename":"Query"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.JSONEq(t, c.want, ask(t, s, c.query))
			require.JSONEq(t, c.want, ask(t, s, c.query), "the same again")
		})
	}
}

func TestListLengths(t *testing.T) {
	s := testShop(t)
	for _, c := range []struct {
		name, query string
		want        int
	}{
		{"without first and without a default", `{ products { nodes { id } } }`, 10},
		{"the schema's default", `{ topProducts { nodes { id } } }`, 25},
		{"no longer than the cap", `{ products(first: 100000) { nodes { id } } }`, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, strings.Count(ask(t, s, c.query), `"id"`))
		})
	}
}

func TestARequestBuildsABoundedNumberOfEntries(t *testing.T) {
	s := testShop(t)
	text := ask(t, s, `{ products(first: 1000) { nodes { reviews(first: 1000) { nodes { author { orders(first: 1000) { nodes { id } } } } } } } }`)
	require.Contains(t, text, "the demo shop builds no more than 50000 list entries for one request")
	require.LessOrEqual(t, strings.Count(text, `"id"`), MaxNodes)

	require.NotContains(t, ask(t, s, `{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }`), "errors")
}

func TestContentTypes(t *testing.T) {
	s := testShop(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(`{"query":"{ __typename }"}`))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	const good = `{"data":{"__typename":"Query"}}`
	message := func(text string) string { return fmt.Sprintf(`{"errors":[{"message":%q}]}`, text) }
	for _, c := range []struct {
		name, method, path, contentType, body string
		headers                               []string
		status                                int
		want                                  string
	}{
		{"json", "POST", "/graphql", "application/json; charset=utf-8", `{"query":"{ __typename }"}`, nil, 200, good},
		{"a byte order mark", "POST", "/graphql", "application/json", "\ufeff" + `{"query":"{ __typename }"}`, nil, 200, good},
		{"the document itself", "POST", "/graphql", "application/graphql", `{ __typename }`, nil, 200, good},
		{"gzip", "POST", "/graphql", "application/json", packed.String(), []string{"Content-Encoding", "gzip"}, 200, good},
		{"an operation's name and variables", "POST", "/graphql", "application/json",
			`{"query":"query A { a: __typename } query B($n: Int) { products(first: $n) { nodes { id } } }","operationName":"B","variables":{"n":1}}`, nil, 200,
			`{"data":{"products":{"nodes":[{"id":"product-1"}]}}}`},
		{"another path", "POST", "/", "application/json", `{}`, nil, 404, message("not found, GraphQL is at /graphql")},
		{"another method", "GET", "/graphql", "", "", nil, 405, message("only POST is answered")},
		{"no content type", "POST", "/graphql", "", "{}", nil, 415, message("the Content-Type cannot be read")},
		{"another content type", "POST", "/graphql", "text/plain", "{}", nil, 415, message("the Content-Type is neither application/json nor application/graphql")},
		{"no query", "POST", "/graphql", "application/json", "{}", nil, 400, message("the request has no query")},
		{"not json", "POST", "/graphql", "application/json", "{", nil, 400, message("the body is no GraphQL request: unexpected end of JSON input")},
		{"not gzip", "POST", "/graphql", "application/json", "{}", []string{"Content-Encoding", "gzip"}, 400, message("the body is no gzip")},
		{"too large", "POST", "/graphql", "application/graphql", strings.Repeat(" ", maxBody+1), nil, 413, message("the body cannot be read: http: request body too large")},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := send(t, c.method, "http://"+s.Addr()+c.path, c.contentType, c.body, c.headers...)
			require.Equal(t, c.status, status, text)
			require.JSONEq(t, c.want, text)
		})
	}
}

func TestErrorsAreAnsweredWith200(t *testing.T) {
	s := testShop(t)
	for _, c := range []struct{ name, query, want string }{
		{"a syntax error", `{`, "Syntax Error"},
		{"an unknown field", `{ foo { bar } }`, `Cannot query field \"foo\" on type \"Query\".`},
		{"an unknown operation", `query A { __typename } query B { __typename }`, "Must provide operation name"},
		{"nesting that the parser would not survive", strings.Repeat("[", 1<<20), "nests deeper than 500 levels"},
		{"nesting behind closed brackets in a string", `{ a(s: "}}}}}}}}", b: """]]]\"""]]]]""" #)))` + "\n" + strings.Repeat("[", 501), "nests deeper than 500 levels"},
		{"a string that never ends", `{ a(s: "` + strings.Repeat("{", 1000), "Syntax Error"},
		{"a block string that never ends", `{ a(s: """` + strings.Repeat("{", 1000), "Syntax Error"},
		{"a comment that never ends", `{ #` + strings.Repeat("{", 1000), "Syntax Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, ask(t, s, c.query), c.want)
		})
	}
	require.Contains(t, ask(t, s, `{ __typename # `+strings.Repeat("{", 1000)+"\n}"), `"Query"`, "brackets in a comment do not count")
}

func TestAnotherPath(t *testing.T) {
	s := testShop(t, WithPath("/api"))
	require.Equal(t, "http://"+s.Addr()+"/api", s.URL())
	require.Contains(t, ask(t, s, `{ __typename }`), "Query")
	status, _ := send(t, http.MethodPost, "http://"+s.Addr()+"/graphql", "application/graphql", "{ __typename }")
	require.Equal(t, 404, status)
}

func TestGuards(t *testing.T) {
	const plain, schema, hidden = `{ __typename }`, `{ __schema { types { name } } }`, `{ ...F } fragment F on Query { ... { a: __type(name: "Query") { name } } }`
	for _, c := range []struct {
		name          string
		guard         Guard
		query, header string
		status        int
	}{
		{"all: refused without the header", GuardAll, plain, "", 401},
		{"all: refused with another", GuardAll, plain, "Bearer y", 401},
		{"all: answered with it", GuardAll, plain, "Bearer x", 200},
		{"introspection: others are answered", GuardIntrospection, plain, "", 200},
		{"introspection: refused without the header", GuardIntrospection, schema, "", 401},
		{"introspection: refused in a fragment under an alias", GuardIntrospection, hidden, "", 401},
		{"introspection: answered with it", GuardIntrospection, hidden, "Bearer x", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testShop(t, WithAuthorization("Bearer x", c.guard))
			var headers []string
			if c.header != "" {
				headers = []string{"Authorization", c.header}
			}
			status, text := send(t, http.MethodPost, s.URL(), "application/graphql", c.query, headers...)
			require.Equal(t, c.status, status, text)
			if c.query != plain {
				require.EqualValues(t, 1, s.Introspections())
			} else {
				require.Zero(t, s.Introspections())
			}
			require.EqualValues(t, 1, s.Requests())
		})
	}
}

func TestADelayEndsWithTheClient(t *testing.T) {
	s := testShop(t, WithDelay(time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader("{ __typename }"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/graphql")
	go func() {
		for s.Requests() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err = client.Do(req)
	require.ErrorIs(t, err, context.Canceled)
}

func TestADelayEndsWithTheShop(t *testing.T) {
	s := testShop(t, WithDelay(time.Hour))
	go func() {
		for s.Requests() == 0 {
			time.Sleep(time.Millisecond)
		}
		s.Close()
	}()
	status, text := send(t, http.MethodPost, s.URL(), "application/graphql", "{ __typename }")
	require.Equal(t, 503, status)
	require.Contains(t, text, "going")
}

func TestADelayComesBeforeTheAnswer(t *testing.T) {
	const delay = 20 * time.Millisecond
	s := testShop(t, WithDelay(delay))
	start := time.Now()
	ask(t, s, `{ __typename }`)
	require.GreaterOrEqual(t, time.Since(start), delay)
}

func TestStartNamesTheAddressThatIsTaken(t *testing.T) {
	s := testShop(t)
	_, err := Start(context.Background(), s.Addr())
	require.ErrorContains(t, err, "start the shop: listen on "+s.Addr())
}

func TestServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Start(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	cancel()
	<-s.done
	s.Close()
	_, err = client.Get(s.URL())
	require.Error(t, err)
}

// TestTheSchemaIsTheVectors introspects the shop and compares every type, field,
// argument and default with the SDL of the conformance vectors.
func TestTheSchemaIsTheVectors(t *testing.T) {
	s := testShop(t)
	text := ask(t, s, `{ __schema {
		queryType { name } mutationType { name } subscriptionType { name }
		types { kind name interfaces { name } fields { name type { ...T } args { name defaultValue type { ...T } } } }
	} } fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`)
	var reply struct {
		Data struct {
			Schema struct {
				QueryType, MutationType, SubscriptionType *struct{ Name string }
				Types                                     []introspected
			} `json:"__schema"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &reply))
	schema := reply.Data.Schema
	require.Equal(t, "Query", schema.QueryType.Name)
	require.Equal(t, "Mutation", schema.MutationType.Name)
	require.Nil(t, schema.SubscriptionType)
	var got []string
	for _, one := range schema.Types {
		if one.Kind == "OBJECT" && !strings.HasPrefix(one.Name, "__") {
			got = append(got, one.lines()...)
		}
	}
	slices.Sort(got)
	require.Equal(t, vectorSchema(t), got)
}

// typeRef is a type of a field or an argument.
type typeRef struct {
	Kind, Name string
	OfType     *typeRef
}

func (r typeRef) String() string {
	switch r.Kind {
	case "NON_NULL":
		return r.OfType.String() + "!"
	case "LIST":
		return "[" + r.OfType.String() + "]"
	}
	return r.Name
}

type introspected struct {
	Kind, Name string
	Interfaces []struct{ Name string }
	Fields     []struct {
		Name string
		Type typeRef
		Args []struct {
			Name         string
			DefaultValue *string
			Type         typeRef
		}
	}
}

// lines is one line for every field, with its arguments.
func (i introspected) lines() (lines []string) {
	for _, f := range i.Fields {
		args := ""
		for _, a := range f.Args {
			args += " " + a.Name + ": " + a.Type.String()
			if a.DefaultValue != nil {
				args += " = " + *a.DefaultValue
			}
		}
		lines = append(lines, fmt.Sprintf("%s.%s(%s): %s %d", i.Name, f.Name, args, f.Type, len(i.Interfaces)))
	}
	return lines
}

// vectorSchema is the same lines from the vectors' SDL.
func vectorSchema(t *testing.T) (lines []string) {
	text, err := os.ReadFile("../../testdata/vectors/cost.json")
	require.NoError(t, err)
	var cases []struct {
		ID     string
		Schema json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	at := slices.IndexFunc(cases, func(c struct {
		ID     string
		Schema json.RawMessage
	}) bool {
		return c.ID == "shop-quantifier-three-levels"
	})
	var sdl string
	require.NoError(t, json.Unmarshal(cases[at].Schema, &sdl))
	doc, err := parser.Parse(parser.ParseParams{Source: sdl})
	require.NoError(t, err)
	for _, definition := range doc.Definitions {
		object, ok := definition.(*ast.ObjectDefinition)
		if !ok {
			continue
		}
		for _, f := range object.Fields {
			args := ""
			for _, a := range f.Arguments {
				args += " " + a.Name.Value + ": " + printer.Print(a.Type).(string)
				if a.DefaultValue != nil {
					args += " = " + printer.Print(a.DefaultValue).(string)
				}
			}
			lines = append(lines, fmt.Sprintf("%s.%s(%s): %s %d", object.Name.Value, f.Name.Value, args, printer.Print(f.Type), len(object.Interfaces)))
		}
	}
	slices.Sort(lines)
	return lines
}
