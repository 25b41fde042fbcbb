package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/ports"
)

// seen is what the echoing upstream saw of a request.
type seen struct {
	Node, Method, URI, Host, Body string
	Header                        http.Header
}

// upstreamServer answers every request with what it saw, as JSON, and with headers
// that a plugin might set as well.
func upstreamServer(tb testing.TB, name string) (address string) {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Server", "an upstream")
		w.Header().Set("X-Upstream", name)
		_ = json.NewEncoder(w).Encode(seen{Node: name, Method: r.Method, URI: r.RequestURI, Host: r.Host, Body: string(body), Header: r.Header})
	}))
	tb.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// echoed is what the upstream saw of the request that r answers.
func (r reply) echoed(tb testing.TB) (s seen) {
	tb.Helper()
	require.Equal(tb, 200, r.status, r.text)
	require.NoError(tb, json.Unmarshal([]byte(r.text), &s), r.text)
	return s
}

func TestNoRoute(t *testing.T) {
	g := testGateway(t)
	r := send(t, http.MethodGet, g.FrontURL()+"/x", "")
	require.Equal(t, 404, r.status)
	require.Equal(t, `{"error_msg":"404 Route Not Found"}`, r.text)
	require.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
}

func TestRouteMatching(t *testing.T) {
	g := testGateway(t)
	route := func(id, members string) {
		g.put(t, "routes/"+id, fmt.Sprintf(`{%s,"upstream":{"nodes":{%q:1}}}`, members, upstreamServer(t, id)))
	}
	route("exact", `"uri":"/a"`)
	route("prefix", `"uri":"/a*"`)
	route("longer-prefix", `"uri":"/a/b/*"`)
	route("two", `"uris":["/one","/two"]`)
	route("post-only", `"uri":"/m","methods":["POST"]`)
	route("low", `"uri":"/p","priority":1`)
	route("high", `"uri":"/p","priority":2`)
	route("off", `"uri":"/off","status":0`)
	route("host", `"uri":"/*","host":"shop.test"`)
	route("hosts", `"uri":"/*","hosts":["*.wild.test"]`)
	for _, c := range []struct{ name, method, path, host, want string }{
		{"an exact path wins over a prefix", "GET", "/a", "", "exact"},
		{"a prefix", "GET", "/ab", "", "prefix"},
		{"the longer prefix wins", "GET", "/a/b/c", "", "longer-prefix"},
		{"a slash is part of a path", "GET", "/a/", "", "prefix"},
		{"dots and slashes are resolved before matching", "GET", "/x/..//a", "", "exact"},
		{"escapes are decoded before matching", "GET", "/%61", "", "exact"},
		{"each of several paths", "GET", "/two", "", "two"},
		{"a method that matches", "POST", "/m", "", "post-only"},
		{"a method that does not", "GET", "/m", "", ""},
		{"the higher priority wins", "GET", "/p", "", "high"},
		{"a route that is off", "GET", "/off", "", ""},
		{"a host wins over a path", "GET", "/a", "SHOP.test:80", "host"},
		{"a host with a wildcard", "GET", "/a", "x.wild.test", "hosts"},
		{"the wildcard stands for something", "GET", "/q", ".wild.test", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.host != "" {
				headers = []string{"Host", c.host}
			}
			r := send(t, c.method, g.FrontURL()+c.path, "", headers...)
			if c.want == "" {
				require.Equal(t, 404, r.status)
				return
			}
			require.Equal(t, c.want, r.echoed(t).Node)
		})
	}
}

func TestTheRequestReachesTheUpstreamAsItWas(t *testing.T) {
	g := testGateway(t)
	address := upstreamServer(t, "u")
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/*","upstream":{"nodes":{%q:1}}}`, address))
	r := send(t, http.MethodPost, g.FrontURL()+"/a%2Fb//c;d?x=1&y=a%20b&z&q=;", "the body", "Host", "client.test", "X-One", "1", "X-One", "2", "X-Forwarded-For", "192.0.2.1", "Accept-Encoding", "br")
	got := r.echoed(t)
	require.Equal(t, "POST", got.Method)
	require.Equal(t, "/a%2Fb//c;d?x=1&y=a%20b&z&q=;", got.URI)
	require.Equal(t, "client.test", got.Host)
	require.Equal(t, "the body", got.Body)
	require.Equal(t, []string{"1", "2"}, got.Header["X-One"])
	require.Equal(t, "br", got.Header.Get("Accept-Encoding"))
	require.Equal(t, "192.0.2.1, 127.0.0.1", got.Header.Get("X-Forwarded-For"))
	require.Equal(t, "127.0.0.1", got.Header.Get("X-Real-Ip"))
	require.Equal(t, "client.test", got.Header.Get("X-Forwarded-Host"))
	require.Equal(t, []string{ServerName}, r.header["Server"])
	require.Equal(t, "u", r.header.Get("X-Upstream"))
}

func TestUpstreams(t *testing.T) {
	g := testGateway(t)
	address := upstreamServer(t, "u")
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	list := fmt.Sprintf(`[{"host":%q,"port":%s,"weight":1}]`, host, port)
	g.put(t, "upstreams/u", `{"type":"chash","pass_host":"node","nodes":`+list+`}`)
	g.put(t, "services/inline", `{"upstream":{"pass_host":"rewrite","upstream_host":"other.test","nodes":`+list+`}}`)
	g.put(t, "services/by-id", `{"upstream_id":"u"}`)
	g.put(t, "routes/own", `{"uri":"/own","service_id":"by-id","upstream":{"nodes":`+list+`}}`)
	g.put(t, "routes/by-id", `{"uri":"/by-id","upstream_id":"u"}`)
	g.put(t, "routes/of-service", `{"uri":"/of-service","service_id":"inline"}`)
	g.put(t, "routes/of-services-upstream", `{"uri":"/of-services-upstream","service_id":"by-id"}`)
	for path, wantHost := range map[string]string{
		"/own":                  "client.test",
		"/by-id":                address,
		"/of-service":           "other.test",
		"/of-services-upstream": address,
	} {
		t.Run(path, func(t *testing.T) {
			require.Equal(t, wantHost, send(t, http.MethodGet, g.FrontURL()+path, "", "Host", "client.test").echoed(t).Host)
		})
	}
}

func TestNodesTakeTurnsByTheirWeights(t *testing.T) {
	g := testGateway(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","upstream":{"nodes":{%q:2,%q:1,"127.0.0.1:1":0}}}`, upstreamServer(t, "a"), upstreamServer(t, "b")))
	turns := map[string]int{}
	for range 6 {
		turns[send(t, http.MethodGet, g.FrontURL()+"/", "").echoed(t).Node]++
	}
	require.Equal(t, map[string]int{"a": 4, "b": 2}, turns)
}

func TestWhatCannotBeProxied(t *testing.T) {
	g := testGateway(t)
	closed, err := ports.Free()
	require.NoError(t, err)
	g.put(t, "services/s", `{}`)
	g.put(t, "services/gone", anUpstream)
	g.put(t, "routes/nowhere", `{"uri":"/nowhere","service_id":"s"}`)
	g.put(t, "routes/idle", `{"uri":"/idle","upstream":{"nodes":{"127.0.0.1:1":0}}}`)
	g.put(t, "routes/refused", fmt.Sprintf(`{"uri":"/refused","upstream":{"nodes":{"127.0.0.1:%d":1}}}`, closed))
	g.put(t, "routes/orphan", `{"uri":"/orphan","service_id":"gone"}`)
	require.Equal(t, 200, g.adminCall(t, http.MethodDelete, "services/gone?force=true", "").status)
	for path, want := range map[string]struct {
		status int
		title  string
	}{
		"/nowhere": {503, "503 Service Temporarily Unavailable"},
		"/idle":    {503, "503 Service Temporarily Unavailable"},
		"/refused": {502, "502 Bad Gateway"},
		"/orphan":  {404, "404 Not Found"},
	} {
		t.Run(path, func(t *testing.T) {
			r := send(t, http.MethodGet, g.FrontURL()+path, "")
			require.Equal(t, want.status, r.status)
			require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
			require.Contains(t, r.text, "<center><h1>"+want.title+"</h1></center>")
			require.Equal(t, []string{ServerName}, r.header["Server"])
		})
	}
}

func TestKeyAuth(t *testing.T) {
	g := testGateway(t)
	nodes := fmt.Sprintf(`"upstream":{"nodes":{%q:1}}`, upstreamServer(t, "u"))
	g.put(t, "consumers", `{"username":"jack","plugins":{"key-auth":{"key":"jacks-key"}}}`)
	g.put(t, "consumers", `{"username":"nobody"}`)
	g.put(t, "routes/r", `{"uri":"/r","plugins":{"key-auth":{}},`+nodes+`}`)
	g.put(t, "routes/hidden", `{"uri":"/hidden","plugins":{"key-auth":{"header":"X-Key","query":"key","hide_credentials":true}},`+nodes+`}`)
	g.put(t, "routes/off", `{"uri":"/off","plugins":{"key-auth":{"_meta":{"disable":true}}},`+nodes+`}`)
	for _, c := range []struct {
		name, path, header, key string
		status                  int
		text                    string
	}{
		{"no key", "/r", "", "", 401, `{"message":"Missing API key in request"}`},
		{"a wrong key", "/r", "apikey", "wrong", 401, `{"message":"Invalid API key in request"}`},
		{"a key in the header", "/r", "apikey", "jacks-key", 200, ""},
		{"a key in the query", "/r?apikey=jacks-key", "", "", 200, ""},
		{"a key elsewhere", "/hidden", "apikey", "jacks-key", 401, `{"message":"Missing API key in request"}`},
		{"a key in another header", "/hidden", "X-Key", "jacks-key", 200, ""},
		{"a key in another argument", "/hidden?a=1&key=jacks-key", "", "", 200, ""},
		{"switched off", "/off", "", "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.header != "" {
				headers = []string{c.header, c.key}
			}
			r := send(t, http.MethodGet, g.FrontURL()+c.path, "", headers...)
			require.Equal(t, c.status, r.status, r.text)
			if c.status == http.StatusUnauthorized {
				require.Equal(t, c.text, r.text)
				return
			}
			got := r.echoed(t)
			if c.path != "/off" {
				require.Equal(t, "jack", got.Header.Get("X-Consumer-Username"))
			}
			if strings.HasPrefix(c.path, "/hidden") {
				require.Empty(t, got.Header.Get("X-Key"))
				require.NotContains(t, got.URI, "jacks-key")
			}
		})
	}
}

func TestProxyRewrite(t *testing.T) {
	g := testGateway(t)
	nodes := fmt.Sprintf(`"upstream":{"nodes":{%q:1}}`, upstreamServer(t, "u"))
	g.put(t, "services/s", `{"plugins":{"proxy-rewrite":{"uri":"/from service"}},`+nodes+`}`)
	g.put(t, "routes/inherits", `{"uri":"/inherits","service_id":"s"}`)
	g.put(t, "routes/own", `{"uri":"/own","service_id":"s","plugins":{"proxy-rewrite":{"uri":"/graphql?b=2"}}}`)
	g.put(t, "routes/off", `{"uri":"/off","service_id":"s","plugins":{"proxy-rewrite":{"uri":"/","_meta":{"disable":true}}}}`)
	for path, want := range map[string]string{
		"/inherits?a=1": "/from%20service?a=1",
		"/own?a=1":      "/graphql?b=2",
		"/off?a=1":      "/off?a=1",
	} {
		t.Run(path, func(t *testing.T) {
			require.Equal(t, want, send(t, http.MethodGet, g.FrontURL()+path, "").echoed(t).URI)
		})
	}
}

func TestAnInterimResponseDoesNotLoseHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	g := testGateway(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","upstream":{"nodes":{%q:1}}}`, server.Listener.Addr()))
	r := send(t, http.MethodGet, g.FrontURL()+"/", "")
	require.Equal(t, 200, r.status)
	require.Equal(t, []string{ServerName}, r.header["Server"])
}

func TestALargeBodyIsReadBeforeItIsRefused(t *testing.T) {
	g := testGateway(t)
	r := send(t, http.MethodPost, g.FrontURL()+"/nowhere", strings.Repeat("x", 4<<20))
	require.Equal(t, 404, r.status)
}

func TestABodyAboveTheBoundIsRefusedUnread(t *testing.T) {
	g := testGateway(t)
	g.put(t, "routes/r", `{"uri":"/","upstream":{"nodes":{"127.0.0.1:1":1}}}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.FrontURL(), "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", maxBody+1)
	require.NoError(t, err)
	line, err := textproto.NewReader(bufio.NewReader(conn)).ReadLine()
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 413 Request Entity Too Large", line)
}

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"": "/", "/": "/", "/a": "/a", "/a/": "/a/", "//a": "/a", "/a//b": "/a/b",
		"/a/./b": "/a/b", "/a/../b": "/b", "/../b": "/b", "/a/..": "/", "/a/b/..": "/a/", "/a/.": "/a/",
	} {
		require.Equal(t, want, normalise(in), in)
	}
}
