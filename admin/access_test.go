package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// readPath is what a viewer may read without a store behind the endpoint.
const readPath = "/apisix/admin/schema/plugins/graphql-limit-count"

// guarded is a served endpoint without a store, and all that leaves it.
type guarded struct {
	t        *testing.T
	handler  *Handler
	server   *Server
	address  string
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	stop     func() error // ends serving, as SIGTERM does
}

// startGuarded serves on a free port. change, if given, changes the configuration, and wrap
// the listener.
func startGuarded(t *testing.T, change func(*Config), wrap func(net.Listener) net.Listener) *guarded {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	g := &guarded{t: t, logs: logs, registry: prometheus.NewRegistry()}
	cfg := Config{Keys: keysOf(t, testAdminKey, testViewerKey), PluginSchema: []byte(`{"type":"object"}`),
		Logger: zap.New(core), Registerer: g.registry, Metrics: promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{})}
	if change != nil {
		change(&cfg)
	}
	var err error
	g.handler, err = NewHandler(cfg)
	require.NoError(t, err)
	listener, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	g.address = listener.Addr().String()
	if wrap != nil {
		listener = wrap(listener)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	g.server = NewServer(g.handler, zap.New(core))
	go func() { served <- g.server.Serve(ctx, listener) }()
	ended := false
	g.stop = func() error {
		cancel()
		if ended {
			return nil
		}
		ended = true
		return <-served
	}
	t.Cleanup(func() { require.NoError(t, g.stop()) })
	return g
}

// exchange sends a request as it is, on a connection of its own, and returns the answer.
func (g *guarded) exchange(request string) reply {
	g.t.Helper()
	conn := g.dial()
	defer conn.Close()
	return g.on(conn, request)
}

func (g *guarded) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	require.NoError(g.t, err)
	require.NoError(g.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func (g *guarded) on(conn net.Conn, request string) reply {
	g.t.Helper()
	_, err := io.WriteString(conn, request)
	require.NoError(g.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(g.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return reply{status: response.StatusCode, header: response.Header, text: string(text)}
}

// withKey is a request for the schema with a key, and more lines of its header.
func withKey(key string, lines ...string) string {
	return request("GET", readPath, append([]string{"Host: 127.0.0.1", keyHeader + ": " + key}, lines...)...)
}

func request(method, path string, lines ...string) string {
	return method + " " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// failures are the values of the metric, by reason.
func (g *guarded) failures() map[string]float64 {
	g.t.Helper()
	families, err := g.registry.Gather()
	require.NoError(g.t, err)
	values := map[string]float64{}
	for _, family := range families {
		require.Equal(g.t, "graphql_limit_count_admin_auth_failures_total", family.GetName())
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return values
}

// heldBack makes slow refusals wait for a channel instead of a time, and tells how many wait.
func (g *guarded) heldBack(end chan time.Time) *atomic.Int64 {
	waiting := &atomic.Int64{}
	g.handler.gate.after = func(time.Duration) <-chan time.Time {
		waiting.Add(1)
		return end
	}
	return waiting
}

func TestFailedAttemptsAreCountedByReason(t *testing.T) {
	g := startGuarded(t, nil, nil)
	require.Equal(t, map[string]float64{"missing_key": 0, "wrong_key": 0, "viewer_key": 0}, g.failures())
	require.Equal(t, 200, g.exchange(withKey(testAdminKey)).status)
	require.Equal(t, 200, g.exchange(withKey(testViewerKey)).status)
	require.Equal(t, 401, g.exchange(withKey("wrong")).status)
	require.Equal(t, 401, g.exchange(withKey("wrong again")).status)
	require.Equal(t, 401, g.exchange(request("GET", readPath, "Host: localhost")).status)
	require.Equal(t, 401, g.exchange(request("DELETE", decorationsPath("shop", "d"), "Host: localhost", keyHeader+": "+testViewerKey)).status)
	require.Equal(t, map[string]float64{"missing_key": 1, "wrong_key": 2, "viewer_key": 1}, g.failures())
	_, err := NewHandler(Config{Keys: keysOf(t, "k", ""), Registerer: g.registry, Logger: zap.NewNop()})
	require.ErrorContains(t, err, "configure the admin endpoint: duplicate metrics collector registration attempted")
}

// Whoever guesses holds up himself, nobody who has a key, also from the same address.
func TestGuessersWaitAndHoldersOfAKeyDoNot(t *testing.T) {
	g := startGuarded(t, nil, nil)
	end := make(chan time.Time)
	waiting := g.heldBack(end)
	for range freeFailures {
		require.Equal(t, 401, g.exchange(withKey("wrong")).status)
	}
	require.Zero(t, waiting.Load())
	const guessers = 20
	answers := make(chan reply, guessers)
	for range guessers {
		conn := g.dial()
		defer conn.Close()
		go func() { answers <- g.on(conn, withKey("wrong")) }()
	}
	require.Eventually(t, func() bool { return waiting.Load() == guessers }, patience, testPoll)
	require.Empty(t, answers)
	require.Equal(t, 200, g.exchange(withKey(testAdminKey)).status)
	require.Equal(t, 200, g.exchange(withKey(testViewerKey)).status)
	require.Equal(t, 401, g.exchange(request("GET", readPath, "Host: localhost")).status, "who has no key does not guess")
	close(end)
	for range guessers {
		require.Equal(t, 401, (<-answers).status)
	}
}

func TestAHeldBackRefusalEndsWithItsClientAndItsServer(t *testing.T) {
	g := startGuarded(t, nil, nil)
	waiting := g.heldBack(nil) // for ever
	for range freeFailures {
		g.exchange(withKey("wrong"))
	}
	gone, stays := g.dial(), g.dial()
	defer stays.Close()
	for _, conn := range []net.Conn{gone, stays} {
		_, err := io.WriteString(conn, withKey("wrong"))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return waiting.Load() == 2 }, patience, testPoll)
	require.NoError(t, gone.Close())
	started := time.Now()
	require.NoError(t, g.stop())
	require.Less(t, time.Since(started), patience)
}

func TestDelaysGrowWithFailuresAndAreForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFailures(func() time.Time { return now })
	one, other := clientOf("192.0.2.1:1"), clientOf("192.0.2.2:1")
	const ms = time.Millisecond
	for i, want := range []time.Duration{0, 0, 0, 250 * ms, 500 * ms, time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second} {
		require.Equal(t, want, f.note(one), "failure %d", i+1)
		now = now.Add(time.Second)
	}
	require.Zero(t, f.note(other), "clients are told apart")
	now = now.Add(forgetAfter - 2*time.Second)
	require.Equal(t, maxDelay, f.note(one), "a second short of a minute ago")
	now = now.Add(forgetAfter)
	require.Zero(t, f.note(one), "a minute ago")
	require.Equal(t, maxDelay, delayOf(1<<40))
}

func TestManyGuessersTakeNoMoreMemory(t *testing.T) {
	f := newFailures(func() time.Time { return time.Unix(1000, 0) })
	address := func(i int) netip.Prefix { return clientOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)) }
	for range freeFailures + 1 {
		f.note(address(0))
	}
	for i := 1; i < maxClients; i++ {
		f.note(address(i))
	}
	require.Equal(t, 500*time.Millisecond, f.note(address(0)), "who guessed last is remembered")
	for i := range 10 * maxClients {
		f.note(address(1<<20 + i))
	}
	require.Len(t, f.clients, maxClients)
	require.Equal(t, maxClients, f.order.Len())
	require.Zero(t, f.note(address(0)))
}

func TestAClientIsAnAddressOrAnIPv6Network(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80":               "192.0.2.1/32",
		"[::ffff:192.0.2.1]:80":      "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:80":  "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":          "fe80::/64",
		"@":                          "invalid Prefix",
		"":                           "invalid Prefix",
		"an address that is none:80": "invalid Prefix",
	} {
		require.Equal(t, want, clientOf(remote).String(), remote)
	}
}

// No key, right or wrong, is in the log, an answer or a metric, whatever is done with it.
func TestKeysAreSeenNowhere(t *testing.T) {
	const wrong = "a-wrong-key-that-somebody-typed"
	folder := t.TempDir()
	file := folder + "/key"
	replaceKey(t, file, testAdminKey+"\n", 0o644)
	var g *guarded
	now := &atomic.Int64{}
	g = startGuarded(t, func(cfg *Config) {
		keys, err := OpenKeys(KeysConfig{AdminFile: file, Viewer: testViewerKey, Logger: cfg.Logger,
			Now: func() time.Time { return time.Unix(now.Add(2), 0) }})
		require.NoError(t, err)
		_, _, err = keys.ListenAddress(t.Context(), "0.0.0.0:0")
		require.NoError(t, err)
		cfg.Keys = keys
	}, nil)
	var seen strings.Builder
	try := func(request string) {
		answer := g.exchange(request)
		fmt.Fprintln(&seen, answer.status, answer.header, answer.text)
	}
	for _, key := range []string{testAdminKey, testViewerKey, wrong} {
		try(withKey(key))
		try(withKey(key, "Origin: http://evil.example"))
		try(request("PUT", decorationsPath("shop", "d"), "Host: evil.example", keyHeader+": "+key, "Content-Length: 0"))
		try(request("GET", "/apisix/admin/nothing", "Host: localhost", keyHeader+": "+key))
	}
	replaceKey(t, file, "short", 0o600)
	try(withKey("short"))
	replaceKey(t, file, "another-key-with-enough-characters", 0o600)
	try(withKey("another-key-with-enough-characters"))
	try(request("GET", metricsPath, "Host: localhost"))
	for _, entry := range g.logs.All() {
		fmt.Fprintln(&seen, entry.Message, entry.ContextMap())
	}
	text := seen.String()
	require.Contains(t, text, "a changed file cannot be used", "the log is looked into")
	require.Contains(t, text, "the file of a key is not kept from others")
	require.Contains(t, text, `graphql_limit_count_admin_auth_failures_total{reason="wrong_key"}`, "so are metrics")
	for _, key := range []string{testAdminKey, testViewerKey, wrong, "short", "another-key-with"} {
		require.NotContains(t, text, key)
	}
}
