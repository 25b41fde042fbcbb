package plugins_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// counterCases is how many cases are about whole requests.
const counterCases = 131

// TestCounterVectors sends every request of counter.json through the gateway, each
// case at a site of its own.
func TestCounterVectors(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	readVectors(t, "counter.json", &file)
	ran, contradicted := 0, maps.Clone(counterContradictions)
	for _, text := range file.Cases {
		var level struct{ Level string }
		require.NoError(t, json.Unmarshal(text, &level))
		if level.Level != "" {
			continue // package limiter runs those
		}
		var c counterCase
		require.NoError(t, json.Unmarshal(text, &c))
		ran++
		delete(contradicted, c.ID)
		t.Run(c.ID, func(t *testing.T) {
			r := &counterRun{counterCase: c}
			r.run(t)
		})
	}
	require.Equal(t, counterCases, ran)
	require.Empty(t, contradicted, "contradictions of cases that do not exist")
}

// counterRun is a case on its way.
type counterRun struct {
	counterCase
	site    *site
	store   []*redis.Client // every server that has counters
	dead    int             // a port that nothing listens on
	elapsed time.Duration
	ends    map[string]time.Duration // of the windows in the store, on the clock of elapsed
	reset   float64                  // the X-RateLimit-Reset before
}

func (r *counterRun) run(t *testing.T) {
	want := make([]counterExpect, 0, len(r.Requests))
	for _, request := range r.Requests {
		want = append(want, request.Expect)
	}
	if contradiction, ok := counterContradictions[r.ID]; ok {
		t.Log("the case contradicts the specification: " + contradiction.reason)
		want = contradiction.want
	}
	require.Len(t, want, len(r.Requests))
	if r.Conf["window_type"] == plugins.WindowSliding && r.Policy == plugins.PolicyRedis && r.Conf["sync_interval"] == nil {
		// Sliding windows are aligned to the clock, and Redis's cannot be moved; package
		// limiter shows that both stores count alike.
		t.Log("run in memory, where time can pass")
		r.Policy, r.Conf = plugins.PolicyLocal, maps.Clone(r.Conf)
		r.Conf["policy"] = plugins.PolicyLocal
	}
	if assignment, ok := strings.CutPrefix(r.Context, "environment "); ok {
		variable, value, _ := strings.Cut(assignment, "=")
		t.Setenv(variable, value)
	}
	r.site = startSite(t, 0)
	r.site.upstream.set("schema", &behaviour{schema: `type Query { charge(n: Float): Int }`})
	r.openStore(t)
	if len(r.Requests) == 0 {
		r.accepted(t)
		return
	}
	r.setRoutes(t)
	r.prepare(t)
	for i, request := range r.Requests {
		r.request(t, request, want[i])
	}
	r.inspect(t)
}

// accepted checks a case that is about the configuration only.
func (r *counterRun) accepted(t *testing.T) {
	text, err := json.Marshal(r.Conf)
	require.NoError(t, err)
	if r.Expect["config"] == "accepted" {
		_, err = plugins.ParseConfig(text, nil)
		require.NoError(t, err)
		return
	}
	require.Len(t, r.Expect, 2)
	given := &givenSettings{}
	rt, err := plugins.New(plugins.Options{Redis: given, Logger: zap.NewNop()}).ParseConf(text)
	require.NoError(t, err)
	require.NoError(t, rt.(io.Closer).Close())
	require.EqualValues(t, r.Expect["client_keepalive_timeout"], given.cluster.KeepAliveTimeout.Milliseconds())
	require.EqualValues(t, r.Expect["client_keepalive_connections"], given.cluster.PoolSize)
}

// givenSettings remembers what clusters it was asked for.
type givenSettings struct {
	limiter.Clients
	cluster limiter.ClusterConfig
}

func (g *givenSettings) Cluster(settings limiter.ClusterConfig) (limiter.Limiter, func()) {
	g.cluster = settings
	return g.Clients.Cluster(settings)
}

// maxNestedCost is the largest cost that is made by nesting; the parser's bound is 500.
const maxNestedCost = 400

// huge reports whether a request of the case costs more than nesting can.
func (r *counterRun) huge() bool {
	return slices.ContainsFunc(r.Requests, func(q counterRequest) bool { return q.Cost > maxNestedCost })
}

// conf is a configuration with the case's metadata and the addresses of this test.
func (r *counterRun) conf(t *testing.T, conf map[string]any) map[string]any {
	t.Helper()
	conf = maps.Clone(conf)
	maps.Copy(conf, r.Metadata)
	if r.huge() {
		conf["cost_strategy"] = plugins.StrategyNodeQuantifier
		conf["introspection_endpoint"] = r.site.upstream.URL + "/schema"
	}
	if r.BackendDown != "" {
		require.Equal(t, "connection refused", r.BackendDown)
	}
	r.setStore(t, conf)
	return conf
}

// setRoutes makes the routes 1 and 2, in the circumstances of the case.
func (r *counterRun) setRoutes(t *testing.T) {
	t.Helper()
	if r.huge() {
		r.site.put(t, "services/s", map[string]any{})
		r.site.decorate(t, http.MethodPut, "s", "d", map[string]any{
			"field_path": "Query.charge", "add_value": 0, "add_arguments": []string{"n"}, "mul_arguments": []string{"n"},
		})
	}
	if r.Context == "plugin on the service, route bound to it" || r.Context == "two routes of one service" {
		r.site.put(t, "services/s", map[string]any{"plugins": limited(t, "ext-plugin-pre-req", r.conf(t, r.Conf))})
	} else if strings.Contains(r.Context, "service") {
		r.site.put(t, "services/s", map[string]any{})
	}
	if strings.Contains(r.Context, "consumer") {
		r.site.put(t, "consumers/jack", map[string]any{"username": "jack", "plugins": map[string]any{"key-auth": map[string]any{"key": "k"}}})
	}
	r.putRoute(t, "1", r.Conf, nil)
	r.putRoute(t, "2", r.Conf, nil)
}

// putRoute writes a route as the case's context has it.
func (r *counterRun) putRoute(t *testing.T, id string, conf map[string]any, labels map[string]string) {
	t.Helper()
	route := map[string]any{"uri": "/hello", "upstream": r.site.upstreamNode()}
	if id != "1" {
		route["uri"] = "/" + id + "/hello"
	}
	if labels != nil {
		route["labels"] = labels
	}
	if r.huge() || strings.Contains(r.Context, "service") {
		route["service_id"] = "s"
	}
	switch {
	case conf == nil || r.Context == "plugin on the service, route bound to it" || r.Context == "two routes of one service":
	case strings.Contains(r.Context, "consumer"):
		attached := limited(t, "ext-plugin-post-req", r.conf(t, conf))
		attached["key-auth"] = map[string]any{}
		route["plugins"] = attached
	default:
		conf = r.conf(t, conf)
		if strings.Contains(r.Context, "redis_database") {
			database, err := strconv.Atoi(id)
			require.NoError(t, err)
			conf["redis_database"] = database
		}
		if r.Context == "route 1 has count 2, route 2 has count 1" && id == "2" {
			conf["count"] = 1
		}
		route["plugins"] = limited(t, "ext-plugin-pre-req", conf)
	}
	r.site.put(t, "routes/"+id, route)
}

// prepare brings about what the case says has happened before.
func (r *counterRun) prepare(t *testing.T) {
	t.Helper()
	times, before := 0, counterRequest{}
	switch r.Precondition {
	case "", "the previous window has run out":
	case "the window of fixed-2-per-60 is exhausted", "route 1 with the identical configuration is exhausted":
		times = 2
	case "value 1 is already exhausted":
		times, before.Vars = 2, map[string]string{"http_a": "1"}
	case "SCRIPT FLUSH and FLUSHALL were issued":
		r.request(t, before, counterExpect{Status: 200}) // so that the script was known
		r.flushScripts(t)
		r.flush(t)
	case "every node's script cache was flushed":
		r.request(t, before, counterExpect{Status: 200})
		r.flushScripts(t)
	default:
		t.Fatalf("a precondition that this test does not know: %s", r.Precondition)
	}
	for range times {
		r.request(t, before, counterExpect{Status: 200})
	}
}

// document is a query of exactly that cost.
func (r *counterRun) document(cost int64) string {
	switch {
	case cost == 0:
		cost = 1
	case !r.huge():
	case cost < 1e15:
		// charged is ceil(raw + 0.01), which float64 cannot tell from raw beyond
		return fmt.Sprintf("{charge(n: %d)}", cost-1)
	default:
		return fmt.Sprintf("{charge(n: %d)}", cost)
	}
	if r.huge() {
		return "{charge(n: 0)}"
	}
	return depth(int(cost))
}

// request sends one request and looks at everything that the case says of it.
func (r *counterRun) request(t *testing.T, request counterRequest, want counterExpect) {
	t.Helper()
	r.moveTo(t, request.At)
	if request.PutConf != nil { // then the expected status is that of writing it
		r.putRoute(t, "1", request.PutConf, request.Labels)
		return
	}
	path := "/hello"
	switch {
	case request.Path != "":
		path = request.Path
	case request.Route != "" && request.Route != "1":
		path = "/" + request.Route + "/hello"
	}
	headers := map[string]string{"Content-Type": "application/graphql", "apikey": "k"}
	for name, value := range request.Vars {
		header, ok := strings.CutPrefix(name, "http_")
		require.True(t, ok, name)
		headers[strings.ReplaceAll(header, "_", "-")] = value
	}
	before := r.connections(t)
	got := r.site.do(t, http.MethodPost, r.site.gateway.FrontURL()+path, r.document(request.Cost), headers)
	log := r.site.logged(t)
	if want.Status != 0 {
		require.Equal(t, want.Status, got.status, "%s%s", got.body, log)
	}
	r.requireHeaders(t, want, got.header)
	if want.Body != "" {
		require.Equal(t, want.Body, got.body)
	}
	if want.BodyJSON != nil {
		var members map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.body), &members), got.body)
		require.Subset(t, members, want.BodyJSON)
	}
	if text, differs := logTexts[want.LogContains]; differs {
		want.LogContains = text
	}
	require.Contains(t, log, want.LogContains)
	if want.Reused != nil && *want.Reused > 0 {
		require.Equal(t, before, r.connections(t), "a connection was opened")
	}
}

// redisTolerance is by how much a window in Redis, on its own clock, differs from the
// case's, in seconds.
const redisTolerance = 0.6

func (r *counterRun) requireHeaders(t *testing.T, want counterExpect, got http.Header) {
	t.Helper()
	number := func(name string) float64 {
		n, err := strconv.ParseFloat(got.Get(name), 64)
		require.NoError(t, err, name)
		return n
	}
	for name, value := range want.Headers {
		if r.store != nil && strings.HasSuffix(name, "Reset") {
			expected, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			require.InDelta(t, expected, number(name), redisTolerance)
			continue
		}
		require.Equal(t, value, got.Get(name), name)
	}
	for name, bound := range want.HeadersGT {
		require.Greater(t, number(name), bound)
	}
	for name, bound := range want.HeadersLT {
		require.Less(t, number(name), bound)
	}
	for name, pattern := range want.HeadersMatch {
		require.Regexp(t, pattern, got.Get(name))
	}
	for _, name := range want.HeadersAbsent {
		require.NotContains(t, got, http.CanonicalHeaderKey(name))
	}
	if want.NoHeaders {
		for name := range got {
			require.NotContains(t, strings.ToLower(name), "ratelimit")
		}
	}
	if want.IsInteger {
		require.Regexp(t, `^\d+$`, got.Get("X-RateLimit-Remaining"))
	}
	if want.Decimals != nil {
		require.Regexp(t, fmt.Sprintf(`^\d+(\.\d{1,%d})?$`, *want.Decimals), got.Get("X-RateLimit-Reset"))
	}
	if want.ResetLower {
		require.Less(t, number("X-RateLimit-Reset"), r.reset)
	}
	if got.Get("X-RateLimit-Reset") != "" {
		r.reset = number("X-RateLimit-Reset")
	}
}
