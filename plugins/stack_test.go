package plugins_test

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/cost"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// clock is a clock that tests move.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{} // at the start of every sliding window that divides a minute
	c.nanos.Store(time.Date(2025, 1, 2, 3, 4, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// stackConfig is what tests of the stack choose.
type stackConfig struct {
	models      plugins.ModelSource
	upstreams   introspect.UpstreamResolver
	schemas     plugins.SchemaSource // instead of introspection
	maxBodySize int64
	secrets     plugins.Secrets
	owners      plugins.OwnerSource
	now         func() time.Time // of the plugin
	verbose     bool             // all is logged
}

// stack is a runner: the plugin behind the protocol server, with real counters.
type stack struct {
	clock    *clock // of the local counters
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
	redis    *limiter.Clients
	plugin   *plugins.Plugin
	server   *extplugin.Server
	socket   string
}

// startStack serves a plugin on a socket until the test ends.
func startStack(tb testing.TB, cfg stackConfig) *stack {
	tb.Helper()
	folder, err := os.MkdirTemp("", "glc") // tb.TempDir is too long for a socket
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	return startStackAt(tb, filepath.Join(folder, "s"), cfg)
}

func startStackAt(tb testing.TB, socket string, cfg stackConfig) *stack {
	tb.Helper()
	level := zapcore.WarnLevel
	if cfg.verbose {
		level = zapcore.DebugLevel
	}
	core, logs := observer.New(level)
	s := &stack{clock: newClock(), registry: prometheus.NewRegistry(), logs: logs, redis: &limiter.Clients{}, socket: socket}
	tb.Cleanup(s.redis.Wait)
	local := limiter.NewLocal(limiter.LocalConfig{Now: s.clock.Now})
	tb.Cleanup(local.Close)
	if cfg.schemas == nil {
		source := introspect.New(introspect.Config{Upstreams: cfg.upstreams, Logger: zap.NewNop()})
		tb.Cleanup(source.Close)
		cfg.schemas = source
	}
	if cfg.models == nil {
		cfg.models = models{}
	}
	s.plugin = plugins.New(plugins.Options{
		Models: cfg.models, Schemas: cfg.schemas, Local: local, Redis: s.redis,
		MaxBodySize: cfg.maxBodySize, Logger: zap.New(core), Registerer: s.registry,
		Secrets: cfg.secrets, Now: cfg.now, Owners: cfg.owners,
	})
	logged := newClock() // a second passes from one failure to the next
	s.plugin.SetLogClock(func() time.Time { logged.advance(time.Second); return logged.Now() })
	s.server = extplugin.NewServer(extplugin.Config{Plugins: []plugin.Plugin{s.plugin}, Logger: zap.New(core)})
	listener, err := s.server.Listen(socket)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ctx, listener) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-served)
	})
	return s
}

// logged is what was logged since it was asked last, one line per entry.
func (s *stack) logged(tb testing.TB) string {
	tb.Helper()
	var text string
	for _, entry := range s.logs.TakeAll() {
		fields, err := json.Marshal(entry.ContextMap())
		require.NoError(tb, err)
		text += entry.Message + " " + string(fields) + "\n"
	}
	return text
}

// models are cost models by service.
type models map[string]*cost.Model

func (m models) Model(serviceID string) *cost.Model { return m[serviceID] }

// caller is APISIX with one route's configuration, on one connection.
type caller struct {
	tb     testing.TB
	client *extplugin.Client
	token  uint32
}

// route prepares a configuration under a key that names the route r.
func (s *stack) route(tb testing.TB, conf string) *caller {
	tb.Helper()
	return s.prepare(tb, "route#r#ext-plugin-pre-req#1#1", conf)
}

// bound prepares a configuration of a route that is bound to a service.
func (s *stack) bound(tb testing.TB, routeID, serviceID, conf string) *caller {
	tb.Helper()
	return s.prepare(tb, "route&service#"+routeID+"&"+serviceID+"#ext-plugin-pre-req#1&1", conf)
}

func (s *stack) prepare(tb testing.TB, key, conf string) *caller {
	tb.Helper()
	client, err := extplugin.Dial(context.Background(), s.socket)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = client.Close() })
	token, err := client.PrepareConf(context.Background(), key, []extplugin.NamedConf{{Name: plugins.Name, Value: conf}})
	require.NoError(tb, err)
	return &caller{tb: tb, client: client, token: token}
}

// query is a client's request; a POST to /graphql from 127.0.0.1 unless it says else.
type query struct {
	method  string
	path    string
	srcIP   string
	headers map[string]string
	more    []extplugin.KV // headers after those
	args    []extplugin.KV
	vars    map[string]string
	body    string
}

// depth is a query of exactly that depth.
func depth(n int) string {
	text := "a"
	for range n - 1 {
		text = "a{" + text + "}"
	}
	return "{" + text + "}"
}

// graphQL is a request whose body is the document.
func graphQL(document string, headers ...string) query {
	q := query{body: document, headers: map[string]string{"content-type": "application/graphql"}}
	return q.with(headers...)
}

// inJSON is a request with a JSON body.
func inJSON(body string, headers ...string) query {
	q := query{body: body, headers: map[string]string{"content-type": "application/json"}}
	return q.with(headers...)
}

// with adds headers, given as names and values.
func (q query) with(headers ...string) query {
	q.headers = maps.Clone(q.headers)
	for pair := range slices.Chunk(headers, 2) {
		if q.headers == nil {
			q.headers = map[string]string{}
		}
		q.headers[pair[0]] = pair[1]
	}
	return q
}

// answer is what APISIX does with a request.
type answer struct {
	tb     testing.TB
	status int // of the answer in the upstream's place, 0: the request is proxied
	// header are the response's headers under the very names that were sent.
	header map[string]string
	body   string
	// asked is what the runner asked APISIX for, in order.
	asked []string
}

// send makes the call.
func (c *caller) send(q query) answer {
	c.tb.Helper()
	a, err := c.trySend(q)
	require.NoError(c.tb, err)
	return a
}

func (c *caller) trySend(q query) (answer, error) {
	request := extplugin.Request{Token: c.token, SrcIP: net.IPv4(127, 0, 0, 1).To4(), Method: "POST", Path: "/graphql", Args: q.args}
	if q.method != "" {
		request.Method = q.method
	}
	if q.path != "" {
		request.Path = q.path
	}
	if q.srcIP != "" {
		request.SrcIP = net.ParseIP(q.srcIP)
	}
	for name, value := range q.headers {
		request.Headers = append(request.Headers, extplugin.KV{Name: name, Value: value})
	}
	request.Headers = append(request.Headers, q.more...)
	known := &answers{query: q}
	action, err := c.client.HTTPReqCall(context.Background(), request, known)
	a := answer{tb: c.tb, header: map[string]string{}, body: string(action.Body), asked: known.asked}
	sent := action.RespHeaders
	if action.Kind == extplugin.Stop {
		a.status, sent = action.Status, action.Headers
	}
	for _, h := range sent {
		a.header[h.Name] = h.Value
	}
	return a, err
}

// answers are what APISIX knows of a request.
type answers struct {
	query query
	asked []string
}

func (a *answers) Var(name string) ([]byte, bool) {
	a.asked = append(a.asked, name)
	value, ok := a.query.vars[name]
	return []byte(value), ok
}

func (a *answers) Body() ([]byte, error) {
	a.asked = append(a.asked, "the body")
	return []byte(a.query.body), nil
}

// passes requires that the request is proxied.
func (a answer) passes() answer {
	a.tb.Helper()
	require.Zero(a.tb, a.status, "answered with %s", a.body)
	return a
}

// costs requires that the request is proxied and was charged that much.
func (a answer) costs(charged string) answer {
	a.tb.Helper()
	a.passes()
	require.Equal(a.tb, charged, a.header["X-Graphql-Query-Cost"])
	return a
}

// refused requires an answer in the upstream's place, whose body is the JSON given.
func (a answer) refused(status int, body string) answer {
	a.tb.Helper()
	require.Equal(a.tb, status, a.status, a.body)
	require.JSONEq(a.tb, body, a.body)
	return a
}

// badRequest requires a 400 with the message.
func (a answer) badRequest(message string) answer {
	a.tb.Helper()
	return a.refusedWith(400, "BAD_REQUEST", message)
}

// refusedWith requires a refusal without numbers.
func (a answer) refusedWith(status int, code, message string) answer {
	a.tb.Helper()
	text, err := json.Marshal(message)
	require.NoError(a.tb, err)
	return a.refused(status, `{"message":`+string(text)+`,"errors":[{"message":`+string(text)+`,"extensions":{"code":"`+code+`"}}]}`)
}
