package introspect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/internal/apisix"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeForever); dir != "" {
		keepWriting(dir)
	}
	goleak.VerifyTestMain(m)
}

// introspected is an introspection response of: type Query { a: Int }.
const introspected = `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[
	{"name":"Query","fields":[{"name":"a","args":[],"type":{"name":"Int","ofType":null}}]},
	{"name":"Int","fields":null}]}}}`

// asked is a request as it arrived at the upstream.
type asked struct {
	addr   string // what was dialed
	method string
	uri    string // of the request line
	host   string
	header http.Header
	body   string
	sni    string
}

// upstream plays every upstream there is: whatever address the source under test
// dials, it is connected to this server. By default it answers introspection.
type upstream struct {
	server *httptest.Server
	mu     sync.Mutex
	dialed []string
	asked  []asked
	refuse error // what dialing answers
	reply  http.HandlerFunc
}

func startUpstream(tb testing.TB, https bool) *upstream {
	tb.Helper()
	u := &upstream{}
	u.server = httptest.NewUnstartedServer(u)
	u.server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	if https {
		u.server.StartTLS()
	} else {
		u.server.Start()
	}
	tb.Cleanup(u.server.Close)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := new(strings.Builder)
	_, _ = fmt.Fprint(body, readAll(r))
	u.mu.Lock()
	a := asked{addr: u.dialed[len(u.dialed)-1], method: r.Method, uri: r.RequestURI, host: r.Host, header: r.Header, body: body.String()}
	if r.TLS != nil {
		a.sni = r.TLS.ServerName
	}
	u.asked = append(u.asked, a)
	reply := u.reply
	u.mu.Unlock()
	if reply != nil {
		reply(w, r)
		return
	}
	_, _ = w.Write([]byte(introspected))
}

func (u *upstream) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	u.mu.Lock()
	u.dialed = append(u.dialed, addr)
	err := u.refuse
	u.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, u.server.Listener.Addr().String())
}

func (u *upstream) set(reply http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reply = reply
}

func (u *upstream) requests() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.dialed)
}

func (u *upstream) last(tb testing.TB) asked {
	tb.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	require.NotEmpty(tb, u.asked)
	return u.asked[len(u.asked)-1]
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// known is APISIX's configuration as a resolver.
type known struct {
	services  map[string]apisix.Service
	routes    map[string]apisix.Route
	upstreams map[string]apisix.Upstream
	err       error
	asked     int
}

func (k *known) Service(_ context.Context, id string) (apisix.Service, error) {
	return look(k, k.services, id)
}

func (k *known) Route(_ context.Context, id string) (apisix.Route, error) {
	return look(k, k.routes, id)
}

func (k *known) Upstream(_ context.Context, id string) (apisix.Upstream, error) {
	return look(k, k.upstreams, id)
}

func look[T any](k *known, in map[string]T, id string) (T, error) {
	k.asked++
	v, ok := in[id]
	if k.err != nil || !ok {
		var zero T
		if k.err != nil {
			return zero, k.err
		}
		return zero, apisix.ErrNotFound
	}
	return v, nil
}

// oneService knows service s with one upstream.
func oneService(up apisix.Upstream) *known {
	return &known{services: map[string]apisix.Service{"s": {ID: "s", Upstream: &up}}}
}

func httpUpstream(hosts ...string) apisix.Upstream {
	up := apisix.Upstream{Scheme: "http", PassHost: "pass"}
	for _, h := range hosts {
		up.Nodes = append(up.Nodes, apisix.Node{Host: h, Port: 8080})
	}
	return up
}

// clock is an injected clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *clock) add(d time.Duration) { c.set(c.Now().Add(d)) }

// bench is a source with everything around it that a test looks at.
type bench struct {
	*Source
	up    *upstream
	clock *clock
	logs  *observer.ObservedLogs
}

func newBench(tb testing.TB, cfg Config) *bench {
	tb.Helper()
	return newBenchOn(tb, startUpstream(tb, false), cfg)
}

func newBenchOn(tb testing.TB, up *upstream, cfg Config) *bench {
	tb.Helper()
	b := &bench{up: up, clock: &clock{now: time.Unix(1000, 0)}}
	core, logs := observer.New(zapcore.DebugLevel)
	b.logs = logs
	cfg.DialContext, cfg.Now, cfg.Logger = up.dial, b.clock.Now, zap.New(core)
	b.Source = New(cfg)
	tb.Cleanup(b.Close)
	return b
}

// everything logged, as text.
func (b *bench) logged() string {
	var text strings.Builder
	for _, e := range b.logs.All() {
		_, _ = fmt.Fprintln(&text, e.Level, e.Message, e.ContextMap())
	}
	return text.String()
}

func explicit(service string) Request {
	return Request{ServiceID: service, Settings: NewSettings("http://e/g", nil)}
}

func TestASchemaIsFetchedOnce(t *testing.T) {
	b := newBench(t, Config{})
	first, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.True(t, first.HasType("Query"))
	b.clock.add(1000 * time.Hour)
	again, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, 1, b.up.requests())
}

func TestWhoseSchemaItIs(t *testing.T) {
	tests := []struct {
		name   string
		second Request
		shared bool
	}{
		{"the same service", Request{ServiceID: "s", RouteID: "other", Settings: NewSettings("http://e/g", nil), Path: "/x", Host: "h"}, true},
		{"another service", Request{ServiceID: "t", RouteID: "r", Settings: NewSettings("http://e/g", nil)}, false},
		{"a route of the service's name", Request{RouteID: "s", Settings: NewSettings("http://e/g", nil)}, false},
		{"no owner but the endpoint", Request{Settings: NewSettings("http://e/g", nil)}, false},
		{"another endpoint", Request{ServiceID: "s", Settings: NewSettings("http://e/h", nil)}, false},
		{"other headers", Request{ServiceID: "s", Settings: NewSettings("http://e/g", map[string]string{"A": "b"})}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			_, err := b.Schema(t.Context(), Request{ServiceID: "s", RouteID: "r", Settings: NewSettings("http://e/g", nil)})
			require.NoError(t, err)
			for range 2 {
				_, err = b.Schema(t.Context(), tt.second)
				require.NoError(t, err)
			}
			want := 2
			if tt.shared {
				want = 1
			}
			require.Equal(t, want, b.up.requests())
		})
	}
}

func TestSettingsAreToldApart(t *testing.T) {
	base := digest("e", map[string]string{"a": "b", "c": "d"})
	require.Equal(t, base, digest("e", map[string]string{"c": "d", "a": "b"}))
	require.NotEqual(t, base, digest("e", map[string]string{"a": "bc", "": "d"}))
	require.NotEqual(t, base, digest("ea", map[string]string{"b": "", "c": "d"}))
	require.NotEqual(t, base, digest("", nil))
}

func TestWithoutAnOwnerThereIsNoSchema(t *testing.T) {
	_, err := newBench(t, Config{}).Schema(t.Context(), Request{Path: "/graphql"})
	require.ErrorContains(t, err, "a schema needs a service, a route or an introspection_endpoint")
}

func TestTwoSettingsOfOneServiceDoNotTakeTurns(t *testing.T) {
	b := newBench(t, Config{})
	for range 3 {
		for _, token := range []string{"a", "b"} {
			_, err := b.Schema(t.Context(), Request{ServiceID: "s", Settings: NewSettings("http://e/g", map[string]string{"Authorization": token})})
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2, b.up.requests())
}

func TestAFailureIsRememberedForTenSeconds(t *testing.T) {
	b := newBench(t, Config{})
	b.up.set(status(503))
	_, err := b.Schema(t.Context(), explicit("s"))
	require.EqualError(t, err, "unexpected status 503 from http://e/g")
	b.up.set(nil)
	b.clock.add(9999 * time.Millisecond)
	_, err = b.Schema(t.Context(), explicit("s"))
	require.EqualError(t, err, "unexpected status 503 from http://e/g")
	require.Equal(t, 1, b.up.requests())
	b.clock.add(time.Millisecond)
	_, err = b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.Equal(t, 2, b.up.requests())
}

func TestACorrectedConfigurationIsTriedAtOnce(t *testing.T) {
	b := newBench(t, Config{})
	b.up.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(introspected))
	})
	req := explicit("s")
	req.Settings = NewSettings("http://e/g", map[string]string{"Authorization": "wrong"})
	_, err := b.Schema(t.Context(), req)
	require.ErrorContains(t, err, "unexpected status 401")
	req.Settings = NewSettings("http://e/g", map[string]string{"Authorization": "right"})
	_, err = b.Schema(t.Context(), req)
	require.NoError(t, err)
}

func TestFlushForgetsOneService(t *testing.T) {
	b := newBench(t, Config{})
	for _, id := range []string{"a", "b"} {
		_, err := b.Schema(t.Context(), explicit(id))
		require.NoError(t, err)
	}
	_, err := b.Schema(t.Context(), Request{RouteID: "a", Settings: NewSettings("http://e/g", nil)})
	require.NoError(t, err)
	b.Flush("a")
	for _, id := range []string{"a", "b"} {
		_, err = b.Schema(t.Context(), explicit(id))
		require.NoError(t, err)
	}
	_, err = b.Schema(t.Context(), Request{RouteID: "a", Settings: NewSettings("http://e/g", nil)})
	require.NoError(t, err)
	require.Equal(t, 4, b.up.requests())
}

func TestFlushForgetsAFailure(t *testing.T) {
	b := newBench(t, Config{})
	b.up.set(status(500))
	_, err := b.Schema(t.Context(), explicit("s"))
	require.Error(t, err)
	b.up.set(nil)
	b.Flush("s")
	_, err = b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
}

func TestTheLeastRecentlyUsedSchemaGoes(t *testing.T) {
	b := newBench(t, Config{MaxSchemas: 2})
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} {
		_, err := b.Schema(t.Context(), explicit(id))
		require.NoError(t, err)
	}
	require.Equal(t, 4, b.up.requests(), "a, b, c, and b again")
	require.Len(t, b.memory.slots, 2)
	require.Equal(t, 2, b.memory.order.Len())
}

func TestANegativeBoundIsTheDefault(t *testing.T) {
	s := New(Config{MaxSchemas: -1, Logger: zap.NewNop()})
	defer s.Close()
	require.Equal(t, defaultMaxSchemas, s.memory.max)
	require.WithinDuration(t, time.Now(), s.now(), time.Hour)
}

func BenchmarkSchemaFromMemory(b *testing.B) {
	for _, headers := range []map[string]string{nil, {"Authorization": "Bearer token"}} {
		b.Run(fmt.Sprintf("headers=%d", len(headers)), func(b *testing.B) {
			s := newBench(b, Config{Upstreams: oneService(httpUpstream("a"))})
			req := Request{ServiceID: "s", RouteID: "r", Settings: NewSettings("", headers), Path: "/graphql", Host: "h"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Schema(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestCachedAsksNobody(t *testing.T) {
	b := newBench(t, Config{})
	require.Nil(t, b.Cached(explicit("s")), "nothing was fetched yet")
	want, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.Same(t, want, b.Cached(explicit("s")))
	require.Nil(t, b.Cached(explicit("t")), "another service")
	require.Nil(t, b.Cached(Request{}), "nobody's schema")
	require.Equal(t, 1, b.up.requests())
	b.Close()
	require.Nil(t, b.Cached(explicit("s")), "closed")
}
