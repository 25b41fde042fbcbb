package introspect

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/apisix"
)

func TestWhoseUpstreamIsIntrospected(t *testing.T) {
	up := func(host string) *apisix.Upstream {
		u := httpUpstream(host)
		return &u
	}
	tests := []struct {
		name    string
		service *apisix.Service
		route   *apisix.Route
		want    string // dialed; empty: there are no nodes
	}{
		{"the service's inline one first", &apisix.Service{Upstream: up("inline"), UpstreamID: "u"}, &apisix.Route{Upstream: up("route")}, "inline:8080"},
		{"else the one it names", &apisix.Service{UpstreamID: "u"}, &apisix.Route{Upstream: up("route")}, "byid:8080"},
		{"else the route's inline one", &apisix.Service{}, &apisix.Route{Upstream: up("route"), UpstreamID: "u"}, "route:8080"},
		{"else the one that the route names", &apisix.Service{}, &apisix.Route{UpstreamID: "u"}, "byid:8080"},
		{"a service that is gone leaves the route", nil, &apisix.Route{Upstream: up("route")}, "route:8080"},
		{"an upstream that is gone leaves the route", &apisix.Service{UpstreamID: "gone"}, &apisix.Route{Upstream: up("route")}, "route:8080"},
		{"a service without nodes hides the route", &apisix.Service{Upstream: &apisix.Upstream{Scheme: "http"}}, &apisix.Route{Upstream: up("route")}, ""},
		{"none anywhere", &apisix.Service{}, &apisix.Route{}, ""},
		{"all gone", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := &known{
				services:  map[string]apisix.Service{},
				routes:    map[string]apisix.Route{},
				upstreams: map[string]apisix.Upstream{"u": httpUpstream("byid")},
			}
			if tt.service != nil {
				k.services["s"] = *tt.service
			}
			if tt.route != nil {
				k.routes["r"] = *tt.route
			}
			b := newBench(t, Config{Upstreams: k})
			_, err := b.Schema(t.Context(), Request{ServiceID: "s", RouteID: "r", Path: "/g", Host: "h"})
			if tt.want == "" {
				require.ErrorContains(t, err, "no upstream nodes")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, b.up.last(t).addr)
		})
	}
}

func TestWithoutARouteOnlyTheServiceIsAsked(t *testing.T) {
	k := &known{services: map[string]apisix.Service{"s": {}}}
	_, err := newBench(t, Config{Upstreams: k}).Schema(t.Context(), Request{ServiceID: "s", Path: "/g"})
	require.ErrorContains(t, err, "no upstream nodes")
	require.Equal(t, 1, k.asked)
}

func TestWithoutTheAdminAPIThereIsNoDerivedEndpoint(t *testing.T) {
	_, err := newBench(t, Config{}).Schema(t.Context(), Request{ServiceID: "s", Path: "/g"})
	require.ErrorContains(t, err, "Admin API is not configured: set introspection_endpoint")
}

func TestDerivedAddressAndHost(t *testing.T) {
	node := func(host string, port int) []apisix.Node { return []apisix.Node{{Host: host, Port: port}} }
	tests := []struct {
		name           string
		up             apisix.Upstream
		addr, host, sn string
		err            string
	}{
		{name: "addresses sort as text", up: apisix.Upstream{Scheme: "http", Nodes: []apisix.Node{{Host: "10.0.0.9", Port: 80}, {Host: "10.0.0.10", Port: 80}}},
			addr: "10.0.0.10:80", host: "Client.example:9080"},
		{name: "a port that is left out is the scheme's: http", up: apisix.Upstream{Scheme: "http", Nodes: node("a", 0)}, addr: "a:80", host: "Client.example:9080"},
		{name: "a port that is left out is the scheme's: https", up: apisix.Upstream{Scheme: "https", Nodes: node("a", 0)}, addr: "a:443", host: "Client.example:9080"},
		{name: "an IPv6 node is in brackets", up: apisix.Upstream{Scheme: "http", Nodes: node("::1", 8080)}, addr: "[::1]:8080", host: "Client.example:9080"},
		{name: "pass_host node leaves out the scheme's port", up: apisix.Upstream{Scheme: "https", PassHost: "node", Nodes: node("a", 443)}, addr: "a:443", host: "a", sn: "a"},
		{name: "pass_host node leaves out a port that is not configured", up: apisix.Upstream{Scheme: "http", PassHost: "node", Nodes: node("a", 0)}, addr: "a:80", host: "a", sn: "a"},
		{name: "pass_host node names another port", up: apisix.Upstream{Scheme: "http", PassHost: "node", Nodes: node("a", 443)}, addr: "a:443", host: "a:443", sn: "a"},
		{name: "pass_host node with IPv6", up: apisix.Upstream{Scheme: "http", PassHost: "node", Nodes: node("::1", 80)}, addr: "[::1]:80", host: "[::1]", sn: "::1"},
		{name: "pass_host rewrite sends upstream_host", up: apisix.Upstream{Scheme: "http", PassHost: "rewrite", UpstreamHost: "h:1", Nodes: node("a", 80)}, addr: "a:80", host: "h:1", sn: "h"},
		{name: "pass_host rewrite without upstream_host leaves the node", up: apisix.Upstream{Scheme: "http", PassHost: "rewrite", Nodes: node("a", 80)}, addr: "a:80", host: "a", sn: "a"},
		{name: "an address as Host leaves the node's name to TLS", up: apisix.Upstream{Scheme: "https", PassHost: "rewrite", UpstreamHost: "1.2.3.4", Nodes: node("a", 443)}, addr: "a:443", host: "1.2.3.4", sn: "a"},
		{name: "another scheme cannot be introspected", up: apisix.Upstream{Scheme: "grpcs", Nodes: node("a", 443)}, err: `scheme "grpcs": set introspection_endpoint`},
		{name: "a Host with a blank is refused", up: apisix.Upstream{Scheme: "http", PassHost: "rewrite", UpstreamHost: "a b", Nodes: node("a", 80)}, err: `"a b" is not a valid header value`},
		{name: "a Host with a line break is refused", up: apisix.Upstream{Scheme: "http", PassHost: "rewrite", UpstreamHost: "a\r\nX: y", Nodes: node("a", 80)}, err: `not a valid header value`},
		{name: "a Host with a path is refused", up: apisix.Upstream{Scheme: "http", PassHost: "rewrite", UpstreamHost: "a/b", Nodes: node("a", 80)}, err: `not a valid header value`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := derivedTarget(&tt.up, Request{Path: "/graphql", Host: "Client.example:9080"})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.addr, got.url.Host)
			require.Equal(t, tt.host, got.host)
			if tt.sn != "" {
				require.Equal(t, tt.sn, got.serverName)
			} else {
				require.Equal(t, "Client.example", got.serverName)
			}
		})
	}
}

func TestPathOnTheWire(t *testing.T) {
	tests := []struct{ name, path, wire, shown string }{
		{"an ordinary path", "/graphql", "/graphql", "/graphql"},
		{"no path", "", "/", "/"},
		{"a path that would continue the address", "@evil:80/g", "/@evil:80/g", "/@evil:80/g"},
		{"a double slash stays a path", "//evil/g", "//evil/g", "//evil/g"},
		{"CR, LF and DEL", "/a\r\nX: y\x7f", "/a%0D%0AX:%20y%7F", "/a%0D%0AX: y%7F"},
		{"a space cannot end the URL", "/a HTTP/1.1", "/a%20HTTP/1.1", "/a HTTP/1.1"},
		{"a query is cut off", "/g?query={a}", "/g", "/g"},
		{"a fragment cannot begin", "/g#x", "/g%23x", "/g#x"},
		{"an escape in a decoded path was escaped twice", "/g/%2e%2e/x", "/g/%252e%252e/x", "/g/%2e%2e/x"},
		{"NUL and other control characters", "/\x00\x1f", "/%00%1F", "/%00%1F"},
		{"bytes beyond ASCII", "/gr\xc3\xa4f\xff", "/gr%C3%A4f%FF", "/gr\xc3\xa4f\xff"},
		{"characters that a path may hold", "/a;b=c,d:e@f&g=h+i$j!k'l(m)*n~o_p-q.r", "/a;b=c,d:e@f&g=h+i$j%21k%27l%28m%29%2An~o_p-q.r", "/a;b=c,d:e@f&g=h+i$j!k'l(m)*n~o_p-q.r"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Upstreams: oneService(httpUpstream("a"))})
			_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: tt.path, Host: "h"})
			require.NoError(t, err)
			got := b.up.last(t)
			require.Equal(t, tt.wire, got.uri)
			require.Equal(t, "h", got.host)
			require.Empty(t, got.header.Get("X"))
			require.Equal(t, "http://a:8080"+tt.shown, b.logs.All()[0].ContextMap()["url"])
		})
	}
}

func TestAShownURLIsBounded(t *testing.T) {
	b := newBench(t, Config{Upstreams: oneService(httpUpstream("a"))})
	b.up.set(status(500))
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/" + strings.Repeat("x", 8000), Host: "h"})
	require.Less(t, len(err.Error()), 1100)
}

func TestExplicitEndpoint(t *testing.T) {
	tests := []struct{ name, endpoint, addr, wire, host, shown string }{
		{"a path", "http://e/g", "e:80", "/g", "e", "http://e/g"},
		{"no path", "http://e", "e:80", "/", "e", "http://e"},
		{"a port", "http://e:8080/g", "e:8080", "/g", "e:8080", "http://e:8080/g"},
		{"an escape stays as it is written", "http://e/a%2Fb", "e:80", "/a%2Fb", "e", "http://e/a%2Fb"},
		{"a query is sent and not shown", "http://e/g?key=secret x", "e:80", "/g?key=secret%20x", "e", "http://e/g"},
		{"a fragment is not sent", "http://e/g#f", "e:80", "/g", "e", "http://e/g"},
		{"control characters are escaped", "http://e/a\r\nX: y", "e:80", "/a%0D%0AX:%20y", "e", "http://e/a%0D%0AX:%20y"},
		{"a password is not shown", "http://user:secret@e/g", "e:80", "/g", "e", "http://e/g"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			_, err := b.Schema(t.Context(), Request{Settings: NewSettings(tt.endpoint, nil), Path: "/client", Host: "client"})
			require.NoError(t, err)
			got := b.up.last(t)
			require.Equal(t, tt.addr, got.addr)
			require.Equal(t, tt.wire, got.uri)
			require.Equal(t, tt.host, got.host)
			require.Equal(t, tt.shown, b.logs.All()[0].ContextMap()["url"])
			require.NotContains(t, b.logged(), "secret")
			user, password, ok := (&http.Request{Header: got.header}).BasicAuth()
			require.Equal(t, strings.Contains(tt.endpoint, "@"), ok)
			if ok {
				require.Equal(t, "user:secret", user+":"+password)
			}
		})
	}
}

func TestAnEndpointThatIsNoURLIsRefusedWithoutBeingShown(t *testing.T) {
	for _, endpoint := range []string{"ftp://u:secret@e/g", "http://", "http://u:secret@e:x/g", "secret", "http://u:secret@%zz/"} {
		_, err := newBench(t, Config{}).Schema(t.Context(), Request{Settings: NewSettings(endpoint, nil)})
		require.EqualError(t, err, "introspection_endpoint is not an http or https URL")
	}
}

func TestANodeThatIsNoAddressIsRefused(t *testing.T) {
	b := newBench(t, Config{Upstreams: oneService(httpUpstream("a b"))})
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/g", Host: "h"})
	require.ErrorContains(t, err, `the address "a b:8080" of the endpoint is not valid`)
	require.Zero(t, b.up.requests())
}

func FuzzDerivedTarget(f *testing.F) {
	for _, path := range []string{"/graphql", "", "/a\r\nX: y\x7f", "//e", "/%2e%2e", "?#", "/ü\xff", "*"} {
		f.Add(path, "h:80")
	}
	f.Add("/", "h\r\nX: y")
	f.Fuzz(func(t *testing.T, path, host string) {
		up := httpUpstream("a")
		got, err := derivedTarget(&up, Request{Path: path, Host: host})
		if err != nil {
			return
		}
		uri := got.url.RequestURI()
		if !strings.HasPrefix(uri, "/") || strings.ContainsAny(uri, "?#") || got.url.Host != "a:8080" {
			t.Fatalf("%q goes to %q on %q", path, uri, got.url.Host)
		}
		for i := range len(uri) {
			if uri[i] <= ' ' || uri[i] >= 0x7f {
				t.Fatalf("%q puts byte %#x on the wire", path, uri[i])
			}
		}
		decoded, err := url.PathUnescape(uri)
		want, _, _ := strings.Cut(path, "?")
		if err != nil || strings.TrimPrefix(decoded, "/") != strings.TrimPrefix(want, "/") {
			t.Fatalf("%q arrives as %q, %v", path, decoded, err)
		}
	})
}
