package introspect

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/apisix"
)

const vectorFile = "../testdata/vectors/cost.json"

// vector is a case of level introspection.
type vector struct {
	ID    string `json:"id"`
	Level string `json:"level"`
	Conf  vectorConf
	Calls []vectorCall `json:"calls"`

	UpstreamHost   *string           `json:"upstream_host"`
	RequestHeaders map[string]string `json:"request_headers"`
	TypeWrappers   int               `json:"type_wrappers"`
	Expect         struct {
		Headers      map[string]string `json:"introspection_request_headers"`
		ResolvedType string            `json:"resolved_type"`
		OfTypeLinks  int               `json:"oftype_links_in_query"`
	} `json:"expect"`
}

type vectorConf struct {
	Endpoint string            `json:"introspection_endpoint"`
	Headers  map[string]string `json:"introspection_headers"`
}

type vectorCall struct {
	At        float64                    `json:"at"`
	Conf      vectorConf                 `json:"conf"`
	ServiceID string                     `json:"service_id"`
	Services  map[string]json.RawMessage `json:"services"`
	Upstreams map[string]json.RawMessage `json:"upstreams"`
	Route     json.RawMessage            `json:"route"`
	Var       struct {
		URI      string `json:"uri"`
		HTTPHost string `json:"http_host"`
	} `json:"var"`
	Flush bool `json:"flush"`
	Reply *struct {
		Status int    `json:"status"`
		Body   string `json:"body"`
		Schema string `json:"schema"`
		Error  string `json:"error"`
	} `json:"reply"`
	Expect map[string]any `json:"expect"`
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile(vectorFile)
	require.NoError(t, err)
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &all))
	ran := 0
	for _, text := range all {
		var level struct{ Level string }
		require.NoError(t, json.Unmarshal(text, &level))
		if level.Level != "introspection" {
			continue
		}
		var v vector
		require.NoError(t, json.Unmarshal(text, &v))
		ran++
		t.Run(v.ID, func(t *testing.T) {
			switch {
			case v.Calls != nil:
				runCalls(t, v.Calls, theAdminAPI)
			case v.Expect.Headers != nil:
				runHeaders(t, v)
			case v.TypeWrappers != 0:
				runWrappers(t, v)
			default:
				t.Fatal("a case of a kind that this test does not know")
			}
		})
	}
	require.NotZero(t, ran)
}

// startAdminAPI serves a call's objects as APISIX's Admin API does.
func startAdminAPI(tb testing.TB, call *vectorCall) *apisix.Client {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apisix/admin/"), "/")
		value := map[string]map[string]json.RawMessage{
			"services": call.Services, "upstreams": call.Upstreams, "routes": {"r": call.Route},
		}[kind][id]
		if value == nil {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"Key not found"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"key": "/apisix/" + kind + "/" + id, "value": value, "createdIndex": 1})
	}))
	client := apisix.NewClient(apisix.Config{URL: server.URL, Key: "k"})
	tb.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client
}

// objects is where APISIX's objects are kept: it returns who answers for them, and what
// brings them to what the call has.
type objects func(t *testing.T, clock *clock) (UpstreamResolver, func(vectorCall))

func theAdminAPI(t *testing.T, clock *clock) (UpstreamResolver, func(vectorCall)) {
	var current vectorCall
	admin := apisix.NewCache(startAdminAPI(t, &current), apisix.CacheConfig{Now: clock.Now})
	return admin, func(call vectorCall) { current = call }
}

func runCalls(t *testing.T, calls []vectorCall, kept objects) {
	url, _ := calls[0].Expect["url"].(string)
	up := startUpstream(t, strings.HasPrefix(url, "https://"))
	clock := &clock{}
	upstreams, change := kept(t, clock)
	b := newBenchOn(t, up, Config{Upstreams: upstreams})
	b.Source.now = clock.Now
	for _, call := range calls {
		change(call)
		clock.set(time.UnixMilli(int64(call.At*1000 + 0.5)))
		up.refuse = nil
		up.set(nil)
		if r := call.Reply; r != nil && r.Error != "" {
			require.Equal(t, "connection refused", r.Error)
			up.refuse = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		} else if r != nil {
			body := r.Body
			if r.Schema != "" {
				require.Equal(t, "type Query { a: Int }", r.Schema, "what the upstream of these tests has")
				body = introspected
			}
			up.set(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(r.Status)
				_, _ = w.Write([]byte(body))
			})
		}
		if call.Flush {
			b.Flush(call.ServiceID)
		}
		checkCall(t, b, call)
	}
}

func checkCall(t *testing.T, b *bench, call vectorCall) {
	before := b.up.requests()
	_, err := b.Schema(t.Context(), Request{
		ServiceID: call.ServiceID, RouteID: "r",
		Settings: NewSettings(call.Conf.Endpoint, call.Conf.Headers),
		Path:     call.Var.URI, Host: call.Var.HTTPHost,
	})
	for member, want := range call.Expect {
		switch member {
		case "requests":
			require.EqualValues(t, want, b.up.requests()-before)
		case "ok":
			require.Equal(t, want, err == nil, "%v", err)
		case "error_contains":
			require.ErrorContains(t, err, want.(string))
		case "url":
			logs := b.logs.All()
			require.Equal(t, want, logs[len(logs)-1].ContextMap()["url"])
			scheme, rest, _ := strings.Cut(want.(string), "://")
			got := b.up.last(t)
			require.Equal(t, scheme == "https", got.sni != "")
			require.Equal(t, strings.ReplaceAll(rest, " ", "%20"), strings.TrimSuffix(got.addr, defaultPortOf(rest))+got.uri)
		case "host":
			require.Nil(t, want, "null: no Host but the URL's own")
			require.Equal(t, "e", b.up.last(t).host)
		default:
			t.Fatalf("expectation %q is not known", member)
		}
	}
}

// defaultPortOf is the port that dialing adds to an address written without one.
func defaultPortOf(rest string) string {
	if addr, _, _ := strings.Cut(rest, "/"); strings.Contains(addr, ":") {
		return ""
	}
	return ":80"
}

func runHeaders(t *testing.T, v vector) {
	up := apisix.Upstream{Scheme: "http", PassHost: "pass", Nodes: []apisix.Node{{Host: "127.0.0.1", Port: 1980}}}
	if v.UpstreamHost != nil {
		up.PassHost, up.UpstreamHost = "rewrite", *v.UpstreamHost
	}
	b := newBench(t, Config{Upstreams: oneService(up)})
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Settings: NewSettings("", v.Conf.Headers), Path: "/graphql"})
	require.NoError(t, err)
	got := b.up.last(t)
	got.header.Set("Host", got.host)
	for name, want := range v.Expect.Headers {
		require.Equal(t, []string{want}, got.header.Values(name), name)
	}
	for name := range v.RequestHeaders {
		if v.Expect.Headers[name] == "" {
			require.Empty(t, got.header.Values(name), "%s is the client's", name)
		}
	}
}

func runWrappers(t *testing.T, v vector) {
	var ref any = map[string]any{"name": v.Expect.ResolvedType, "ofType": nil}
	for i := range v.TypeWrappers {
		kind := "NON_NULL"
		if i%2 == 1 {
			kind = "LIST"
		}
		ref = map[string]any{"kind": kind, "name": nil, "ofType": ref}
	}
	fields := []any{map[string]any{"name": "products", "args": []any{}, "type": ref}}
	reply := map[string]any{"data": map[string]any{"__schema": map[string]any{
		"queryType": map[string]any{"name": "Query"},
		"types":     []any{map[string]any{"name": "Query", "fields": fields}, map[string]any{"name": v.Expect.ResolvedType, "fields": []any{}}},
	}}}
	b := newBench(t, Config{})
	b.up.set(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(reply) })
	schema, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	requireField(t, schema, "Query", "products", v.Expect.ResolvedType)
	require.Equal(t, v.Expect.OfTypeLinks, strings.Count(b.up.last(t).body, "ofType"))
}
