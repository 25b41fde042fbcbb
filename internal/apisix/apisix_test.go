package apisix

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "edd1c9f034335f136f87ad84b625c8f1"

// admin is an HTTP server in the Admin API's place and a client of it.
type admin struct {
	*Client
	server *httptest.Server
	calls  atomic.Int64
}

func startAdmin(tb testing.TB, h http.HandlerFunc) *admin {
	tb.Helper()
	a := &admin{}
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		h(w, r)
	}))
	a.Client = NewClient(Config{URL: a.server.URL, Key: testKey})
	tb.Cleanup(func() {
		a.Client.Close()
		a.server.Close()
	})
	return a
}

func replies(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestServiceBodies(t *testing.T) {
	upstream := &Upstream{Scheme: "http", PassHost: "pass", Nodes: []Node{{Host: "127.0.0.1", Port: 1980, Weight: 1}}}
	tests := []struct {
		name, body string
		want       Service
	}{
		{
			"APISIX 3 answers with the record",
			`{"key":"/apisix/services/s","value":{"id":"s","upstream":{"nodes":{"127.0.0.1:1980":1}}},"createdIndex":27,"modifiedIndex":30}`,
			Service{ID: "s", Incarnation: "27", Upstream: upstream},
		},
		{
			"APISIX 2 answers with a node",
			`{"action":"get","count":"1","node":{"key":"/apisix/services/s","value":{"id":"s","upstream":{"nodes":{"127.0.0.1:1980":1}}},"createdIndex":27}}`,
			Service{ID: "s", Incarnation: "27", Upstream: upstream},
		},
		{
			"an index may be quoted",
			`{"key":"/apisix/services/s","value":{},"createdIndex":"27"}`,
			Service{ID: "s", Incarnation: "27"},
		},
		{
			"without an index the creation time stands in",
			`{"key":"/apisix/services/s","value":{"create_time":1700000000}}`,
			Service{ID: "s", Incarnation: "t1700000000", CreateTime: 1700000000},
		},
		{
			"without a key the id member names the service",
			`{"value":{"id":"s"}}`,
			Service{ID: "s"},
		},
		{
			"an upstream id may be a number",
			`{"key":"/apisix/services/s","value":{"id":"s","upstream_id":1,"upstream":null}}`,
			Service{ID: "s", UpstreamID: "1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "/apisix/admin/services/s", r.URL.Path)
				require.Equal(t, testKey, r.Header.Get("X-API-KEY"))
				_, _ = w.Write([]byte(tt.body))
			})
			got, err := a.Service(t.Context(), "s")
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestRouteNamesItsServiceAndUpstream(t *testing.T) {
	a := startAdmin(t, replies(200, `{"key":"/apisix/routes/r","value":{"service_id":"s","upstream_id":"u","upstream":{"scheme":"https","pass_host":"rewrite","upstream_host":"h","nodes":[{"host":"a","port":8443,"weight":0,"priority":-1}]}},"createdIndex":5}`))
	got, err := a.Route(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, Route{
		ID: "r", Incarnation: "5", ServiceID: "s", UpstreamID: "u",
		Upstream: &Upstream{Scheme: "https", PassHost: "rewrite", UpstreamHost: "h",
			Nodes: []Node{{Host: "a", Port: 8443, Weight: 0, Priority: -1}}},
	}, got)
}

func TestUpstreamObject(t *testing.T) {
	a := startAdmin(t, replies(200, `{"key":"/apisix/upstreams/u","value":{"id":"u","type":"roundrobin","nodes":{"u:1":1}},"createdIndex":9}`))
	got, err := a.Upstream(t.Context(), "u")
	require.NoError(t, err)
	require.Equal(t, Upstream{ID: "u", Incarnation: "9", Scheme: "http", PassHost: "pass", Nodes: []Node{{Host: "u", Port: 1, Weight: 1}}}, got)
}

func TestNodes(t *testing.T) {
	tests := []struct {
		name, nodes string
		want        []Node
		err         string
	}{
		{name: "a map is ordered by address", nodes: `{"b:80":1,"a:81":2,"a:80":3}`,
			want: []Node{{Host: "a", Port: 80, Weight: 3}, {Host: "a", Port: 81, Weight: 2}, {Host: "b", Port: 80, Weight: 1}}},
		{name: "an array keeps its order", nodes: `[{"host":"b"},{"host":"a","port":1}]`, want: []Node{{Host: "b"}, {Host: "a", Port: 1}}},
		{name: "a host may stand without a port", nodes: `{"example.com":1}`, want: []Node{{Host: "example.com", Weight: 1}}},
		{name: "an IPv6 address with a port is in brackets", nodes: `{"[::1]:80":1}`, want: []Node{{Host: "::1", Port: 80, Weight: 1}}},
		{name: "an IPv6 address in brackets may have no port", nodes: `{"[::1]":1}`, want: []Node{{Host: "::1", Weight: 1}}},
		{name: "a bare IPv6 address has no port", nodes: `{"2001:db8::1":1}`, want: []Node{{Host: "2001:db8::1", Weight: 1}}},
		{name: "brackets in an array are the same address", nodes: `[{"host":"[::1]","port":80}]`, want: []Node{{Host: "::1", Port: 80}}},
		{name: "weights beyond an int are clamped", nodes: `[{"host":"a","weight":1e300}]`, want: []Node{{Host: "a", Weight: 2147483647}}},
		{name: "null is no nodes", nodes: `null`},
		{name: "an empty map is no nodes", nodes: `{}`, want: []Node{}},
		{name: "an empty array is no nodes", nodes: `[]`, want: []Node{}},
		{name: "a port is a number", nodes: `{"a:http":1}`, err: `node "a:http": port is not in 1..65535`},
		{name: "port 0 is none", nodes: `{"a:0":1}`, err: `node "a:0": port is not in 1..65535`},
		{name: "a port fits 16 bits", nodes: `[{"host":"a","port":65536}]`, err: `node "a": port is not in 1..65535`},
		{name: "a port is whole", nodes: `[{"host":"a","port":80.5}]`, err: `node "a": port is not in 1..65535`},
		{name: "a map's node has a host", nodes: `{":80":1}`, err: `node ":80" has no host`},
		{name: "an array's node has a host", nodes: `[{"port":80}]`, err: `node 1 has no host`},
		{name: "a bracket is closed", nodes: `{"[::1":1}`, err: `node "[::1": no closing bracket`},
		{name: "only a port follows a bracket", nodes: `{"[::1]80":1}`, err: `node "[::1]80": text after the bracket`},
		{name: "a weight is a number", nodes: `{"a:80":"x"}`, err: `nodes: `},
		{name: "an entry is an object", nodes: `["a:80"]`, err: `nodes: `},
		{name: "nodes is a map or an array", nodes: `"a:80"`, err: `nodes is neither an object nor an array`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeNodes([]byte(tt.nodes))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestNodeAddress(t *testing.T) {
	require.Equal(t, "a:80", Node{Host: "a"}.Address(80))
	require.Equal(t, "[::1]:8443", Node{Host: "::1", Port: 8443}.Address(443))
}

func TestOnlyTheAdminAPISaysNotFound(t *testing.T) {
	tests := []struct {
		name     string
		status   int
		body     string
		notFound bool
		err      string
	}{
		{"a missing key", 404, `{"message":"Key not found"}`, true, ""},
		{"a missing key, told as error_msg", 404, `{"error_msg":"not found"}`, true, ""},
		{"the proxy port answers that it has no such route", 404, `{"error_msg":"404 Route Not Found"}`, false, "unexpected status 404"},
		{"a web server's page", 404, `<html>404</html>`, false, "unexpected status 404"},
		{"an empty answer", 404, ``, false, "unexpected status 404"},
		{"a refused key", 401, `{"error_msg":"failed to check token"}`, false, "status 401 from"},
		{"a forbidden address", 403, ``, false, "the admin key is not accepted"},
		{"a broken store", 503, `{"error_msg":"x"}`, false, "unexpected status 503"},
		{"not JSON", 200, `<html>`, false, "decode the answer"},
		{"no value", 200, `{"key":"/apisix/services/s"}`, false, "the answer holds no value object"},
		{"a value of another kind", 200, `{"value":[]}`, false, "the answer holds no value object"},
		{"a member of another kind", 200, `{"value":{"upstream_id":{}}}`, false, "neither a string nor a number"},
		{"a node that cannot be read", 200, `{"value":{"upstream":{"nodes":{"a:x":1}}}}`, false, `node "a:x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := startAdmin(t, replies(tt.status, tt.body))
			_, err := a.Service(t.Context(), "s")
			require.ErrorContains(t, err, `read service "s" from APISIX's Admin API`)
			require.Equal(t, tt.notFound, isNotFound(err))
			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error(), testKey)
			_, err = a.Route(t.Context(), "r")
			require.Equal(t, tt.notFound, isNotFound(err))
		})
	}
}

func TestUpstreamErrorsNameTheUpstream(t *testing.T) {
	for _, body := range []string{`<html>`, `{"value":{"nodes":7}}`, `{"value":{"nodes":{"a:x":1}}}`, `{"value":{"scheme":1}}`} {
		_, err := startAdmin(t, replies(200, body)).Upstream(t.Context(), "u")
		require.ErrorContains(t, err, `read upstream "u" from APISIX's Admin API`)
	}
}

func TestAnIDThatAPISIXCannotHoldIsNotAskedFor(t *testing.T) {
	a := startAdmin(t, replies(200, `{"value":{}}`))
	for _, id := range []string{"", ".", "..", "../routes/r", "a/b", "a?b", "a%2fb", "a b", "é", string(make([]byte, 65))} {
		_, err := a.Service(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound, id)
		_, err = a.Upstream(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound, id)
	}
	require.Zero(t, a.calls.Load())
}

func TestARedirectIsNotFollowed(t *testing.T) {
	elsewhere := startAdmin(t, replies(200, `{"value":{}}`))
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.server.URL+"/apisix/admin/services/s", http.StatusMovedPermanently)
	})
	_, err := a.Service(t.Context(), "s")
	require.ErrorContains(t, err, "unexpected status 301 from "+a.server.URL+"/apisix/admin/services/s")
	require.Zero(t, elsewhere.calls.Load())
}

func TestAnAnswerIsBounded(t *testing.T) {
	a := startAdmin(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, maxRecordBytes+1))
	})
	_, err := a.Service(t.Context(), "s")
	require.ErrorContains(t, err, "is larger than 4194304 bytes")
}

func TestABrokenConnectionIsAnErrorWithoutTheKey(t *testing.T) {
	a := startAdmin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{`))
	})
	_, err := a.Service(t.Context(), "s")
	require.ErrorContains(t, err, "read the answer of "+a.server.URL)
	a.server.Close()
	_, err = a.Service(t.Context(), "s")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), testKey)
}

func TestACallEndsWithItsContext(t *testing.T) {
	entered := make(chan struct{})
	release := make(chan struct{})
	a := startAdmin(t, func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := a.Service(ctx, "s")
	require.ErrorIs(t, err, context.Canceled)
}

func TestConfigFaultsAreNamedAndAnswerEveryCall(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		err  string
	}{
		{"not a URL", Config{URL: "http://a b:%zz"}, "admin API url: not a URL"},
		{"another scheme", Config{URL: "ftp://a"}, "admin API url: must start with http:// or https://"},
		{"no scheme", Config{URL: "127.0.0.1:9180"}, "admin API url: "},
		{"no host", Config{URL: "http:///x"}, "admin API url: has no host"},
		{"a password in the URL", Config{URL: "http://u:secret@a"}, "admin API url: must not carry a user or password"},
		{"a query", Config{URL: "http://a?b"}, "admin API url: must not have a query or fragment"},
		{"a key with a line break", Config{URL: "http://a", Key: "secret\n"}, "admin API key: holds a byte that no header may have"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error(), "secret")
			_, err = NewClient(tt.cfg).Service(t.Context(), "s")
			require.ErrorContains(t, err, tt.err)
			_, err = NewClient(tt.cfg).Services(t.Context())
			require.ErrorContains(t, err, tt.err)
		})
	}
	require.NoError(t, Config{URL: "https://[::1]:9180/", Key: "k"}.Validate())
}

func TestTheBaseMayNameThePath(t *testing.T) {
	for _, suffix := range []string{"", "/", "/apisix/admin", "/apisix/admin/"} {
		a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/apisix/admin/services/s", r.URL.Path)
			require.Empty(t, r.Header.Values("X-API-KEY"))
			_, _ = w.Write([]byte(`{"value":{"id":"s"}}`))
		})
		c := NewClient(Config{URL: a.server.URL + suffix, HTTP: a.server.Client()})
		_, err := c.Service(t.Context(), "s")
		require.NoError(t, err)
		c.Close()
	}
}

func TestATimeIsWholeSecondsOrNotKnown(t *testing.T) {
	for text, want := range map[scalar]int64{
		"1700000000": 1700000000, "1700000000.9": 1700000000, "1.7e9": 1700000000,
		"": 0, "-1": 0, "NaN": 0, "Inf": 0, "1e300": 0, "yesterday": 0,
	} {
		require.Equal(t, want, text.seconds(), text)
	}
}
