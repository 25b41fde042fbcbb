package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/plugins"
)

// counterCase is a case of counter.json that is about whole requests.
type counterCase struct {
	ID           string           `json:"id"`
	Level        string           `json:"level"`
	Policy       string           `json:"policy"`
	Plugin       string           `json:"plugin"`
	Conf         map[string]any   `json:"conf"`
	Metadata     map[string]any   `json:"metadata"`
	Context      string           `json:"context"`
	Precondition string           `json:"precondition"`
	BackendDown  string           `json:"backend_down"`
	Requests     []counterRequest `json:"requests"`
	Expect       map[string]any   `json:"expect"`
}

type counterRequest struct {
	At      float64           `json:"at"`
	Cost    int64             `json:"cost"`
	Vars    map[string]string `json:"vars"`
	Route   string            `json:"route"`
	Path    string            `json:"path"`
	PutConf map[string]any    `json:"put_conf"`
	Labels  map[string]string `json:"put_route_labels"`
	Expect  counterExpect     `json:"expect"`
}

type counterExpect struct {
	Status         int                `json:"status"`
	Headers        map[string]string  `json:"headers"`
	HeadersAbsent  []string           `json:"headers_absent"`
	HeadersGT      map[string]float64 `json:"headers_gt"`
	HeadersLT      map[string]float64 `json:"headers_lt"`
	HeadersMatch   map[string]string  `json:"headers_match"`
	NoHeaders      bool               `json:"no_rate_limit_headers"`
	ResetLower     bool               `json:"reset_lower_than_previous"`
	Body           string             `json:"body"`
	BodyJSON       map[string]any     `json:"body_json"`
	LogContains    string             `json:"log_contains"`
	UnhandledError bool               `json:"unhandled_error"`
	Reused         *int               `json:"redis_connection_reused_times"`
	IsInteger      bool               `json:"remaining_is_integer"`
	Decimals       *int               `json:"reset_max_decimals"`
}

// waitsFor names the capability that a case needs and the plugin does not have yet.
func (c *counterCase) waitsFor(t *testing.T) string {
	t.Helper()
	if strings.Contains(fmt.Sprint(c.Conf["key"]), "$ENV://") || c.ID != "redis-connection-reused" && strings.Contains(fmt.Sprint(c.Conf["redis_host"]), "$ENV://") {
		return "references to the environment"
	}
	for field, unsupported := range map[string]bool{
		c.Policy:        c.Policy == plugins.PolicyRedisCluster || c.Policy == plugins.PolicyRedisSentinel,
		"sync_interval": c.Conf["sync_interval"] != nil,
	} {
		if !unsupported {
			continue
		}
		text, err := json.Marshal(c.Conf)
		require.NoError(t, err)
		if _, err := plugins.ParseConfig(text); err != nil {
			return field
		}
		t.Fatalf("%s is supported now: this case must run", field)
	}
	return ""
}

// counterContradictions are cases that say something else than the specification:
// why, and what the specification expects of each request.
var counterContradictions = map[string]struct {
	reason string
	want   []counterExpect
}{
	"cost-4-of-10-local": {harnessWithoutStore, cost4of10},
	"cost-4-of-10-redis": {harnessWithoutStore, cost4of10},
	"first-request-over-limit-redis": {harnessWithoutStore, []counterExpect{
		{Status: 503, Headers: quotaHeaders("10", "0", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
	}},
	"redis-cost-1e15": {harnessWithoutStore + "; a large cost is a number like any other", []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "5", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
	}},
	"redis-cost-1e15-first": {harnessWithoutStore + "; a large cost is a number like any other", []counterExpect{
		{Status: 503, Headers: quotaHeaders("10", "0", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
	}},
	"rules-later-rejection-keeps-earlier-charge": {"a refused first charge opens the window, so its Reset is not 0 (section 4)", []counterExpect{
		{Status: 503, Headers: map[string]string{
			"X-1-RateLimit-Limit": "10", "X-1-RateLimit-Remaining": "7", "X-1-RateLimit-Reset": "10",
			"X-2-RateLimit-Limit": "2", "X-2-RateLimit-Remaining": "0", "X-2-RateLimit-Reset": "20",
		}},
		{Status: 200, Headers: map[string]string{"X-1-RateLimit-Limit": "10", "X-1-RateLimit-Remaining": "4", "X-1-RateLimit-Reset": "9"}},
	}},
	"variable-count-max-safe": {"integers are printed as integers, never with an exponent (section 2)", []counterExpect{
		{Status: 200, Headers: quotaHeaders("9007199254740991", "9007199254740990", "60")},
	}},
	"sliding-costs-redis": {harnessWithoutStore, []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "6", "10")},
		{Status: 200, Headers: quotaHeaders("10", "2", "8")},
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "1", "6")},
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "1", "8")},
		{Status: 200, Headers: quotaHeaders("10", "3", "5")},
		{Status: 200, Headers: quotaHeaders("10", "9", "5")},
	}},
	"sliding-huge-first-cost": {"a charge that does not fit is refused and consumes nothing (section 4)", []counterExpect{
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "9", "9")},
		{Status: 200, Headers: quotaHeaders("10", "8", "10")},
		{Status: 200, Headers: quotaHeaders("10", "7", "9")},
		{Status: 200, Headers: quotaHeaders("10", "6", "5")},
	}},
	"reset-rounded-down": {"59.01 is 59.01 (section 4: two decimals), not what is left of it when floating point cuts it off at 59", []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
		{Status: 200, Headers: quotaHeaders("10", "8", "59.99")},
		{Status: 200, Headers: quotaHeaders("10", "7", "59.99")},
		{Status: 200, Headers: quotaHeaders("10", "6", "59.01")},
		{Status: 200, Headers: quotaHeaders("10", "5", "30")},
		{Status: 200, Headers: quotaHeaders("10", "4", "0")},
	}},
}

const harnessWithoutStore = "recorded without a store, so every charge failed; section 4 says how charges are counted"

var cost4of10 = []counterExpect{
	{Status: 200, Headers: quotaHeaders("10", "6", "60")},
	{Status: 200, Headers: quotaHeaders("10", "2", "58.76")},
	{Status: 503, Headers: quotaHeaders("10", "0", "58")},
	{Status: 503, Headers: quotaHeaders("10", "0", "57")},
	{Status: 503, Headers: quotaHeaders("10", "0", "0")},
	{Status: 200, Headers: quotaHeaders("10", "6", "60")},
}

func quotaHeaders(limit, remaining, reset string) map[string]string {
	return map[string]string{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": reset}
}

// logTexts are what a log must say where the reference's log says it in other words.
var logTexts = map[string]string{
	"failed to get rate limit rules: nil":                                                                         "no rule applies to the request",
	"failed to get rate limit rules: resolved value is not a number":                                              "resolved value is not a number",
	"failed to get rate limit rules: resolved value must be an integer, got: nan":                                 "resolved value is not a number",
	"failed to limit count: connection refused":                                                                   "connection refused",
	"failed to change redis db, err: ERR DB index is out of range":                                                "ERR DB index is out of range",
	"failed to do ssl handshake":                                                                                  "x509: certificate signed by unknown authority",
	"failed to get rate limit rules: resolved value exceeds safe integer range (2^53-1), got: 9.007199254741e+15": "resolved value exceeds safe integer range (2^53-1)",
}

// counterCases is how many cases are about whole requests.
const counterCases = 131

// TestCounterVectors sends every request of counter.json through the gateway, each
// case at a site of its own.
func TestCounterVectors(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	readVectors(t, "counter.json", &file)
	certificate, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	stores := &redisServers{
		plain:  servers.RunRedis(t),
		secret: servers.RunRedis(t, "--requirepass", "foobared"),
		tls:    servers.RunRedisTLS(t, certificate),
	}
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
			if capability := c.waitsFor(t); capability != "" {
				t.Skip("waits for " + capability)
			}
			r := &counterRun{counterCase: c, redis: stores}
			r.run(t)
		})
	}
	require.Equal(t, counterCases, ran)
	require.Empty(t, contradicted, "contradictions of cases that do not exist")
}

// redisServers are the servers that cases need.
type redisServers struct{ plain, secret, tls *servers.Redis }

func (s *redisServers) of(c *counterCase) *servers.Redis {
	switch {
	case c.Conf["redis_ssl"] == true:
		return s.tls
	case strings.Contains(c.Context, "requirepass"):
		return s.secret
	}
	return s.plain
}

// client returns a client for looking into a server that needs no certificate.
func redisClient(t *testing.T, server *servers.Redis, password string, database int) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, DB: database, MaintNotificationsConfig: nil})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// counterRun is a case on its way.
type counterRun struct {
	counterCase
	site    *site
	redis   *redisServers
	store   *redis.Client // nil under policy local
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
	if r.Conf["window_type"] == plugins.WindowSliding && r.Policy == plugins.PolicyRedis {
		// Sliding windows are aligned to the clock, and Redis's cannot be moved; package
		// limiter shows that both stores count alike.
		t.Log("run in memory, where time can pass")
		r.Policy, r.Conf = plugins.PolicyLocal, maps.Clone(r.Conf)
		r.Conf["policy"] = plugins.PolicyLocal
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
	require.Equal(t, map[string]any{"config": "accepted"}, r.Expect)
	text, err := json.Marshal(r.Conf)
	require.NoError(t, err)
	_, err = plugins.ParseConfig(text)
	require.NoError(t, err)
}

// openStore empties the case's Redis.
func (r *counterRun) openStore(t *testing.T) {
	t.Helper()
	if r.Policy != plugins.PolicyRedis || r.redis.of(&r.counterCase) == r.redis.tls {
		return
	}
	password := ""
	if r.redis.of(&r.counterCase) == r.redis.secret {
		password = "foobared"
	}
	database := 0
	if n, ok := r.Conf["redis_database"].(float64); ok && n < 16 {
		database = int(n)
	}
	r.store = redisClient(t, r.redis.of(&r.counterCase), password, database)
	require.NoError(t, r.store.FlushAll(context.Background()).Err())
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
	if conf["policy"] == plugins.PolicyRedis {
		server := r.redis.of(&r.counterCase)
		conf["redis_host"], conf["redis_port"] = server.Host, server.Port
	}
	if r.BackendDown != "" {
		require.Equal(t, "connection refused", r.BackendDown)
		port, err := servers.FreePort()
		require.NoError(t, err)
		conf["redis_port"] = port
	}
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
		require.NoError(t, r.store.ScriptFlush(context.Background()).Err())
		require.NoError(t, r.store.FlushAll(context.Background()).Err())
	default:
		t.Fatalf("a precondition that this test does not know: %s", r.Precondition)
	}
	for range times {
		r.request(t, before, counterExpect{Status: 200})
	}
}

// moveTo lets time pass until the request's.
func (r *counterRun) moveTo(t *testing.T, at float64) {
	t.Helper()
	to := time.Duration(at*1000+0.5) * time.Millisecond
	step := to - r.elapsed
	if step <= 0 {
		return
	}
	r.elapsed = to
	r.site.clock.advance(step)
	if r.store != nil {
		r.moveStoreTo(t, to, to-step)
	}
}

// shortestLife is what is left of a window in Redis at least, on its own clock: so
// that it does not end while the test runs.
const shortestLife = 500 * time.Millisecond

// moveStoreTo lets time pass for every window of a database of Redis, which has no
// clock that a test could move.
func (r *counterRun) moveStoreTo(t *testing.T, to, from time.Duration) {
	t.Helper()
	ctx := context.Background()
	keys, err := r.store.Keys(ctx, "*").Result()
	require.NoError(t, err)
	if r.ends == nil {
		r.ends = map[string]time.Duration{}
	}
	for _, key := range keys {
		if r.ends[key] == 0 { // opened by the request at the time from
			left, err := r.store.PTTL(ctx, key).Result()
			require.NoError(t, err)
			require.Positive(t, left, "a window without an end")
			r.ends[key] = from + (left + time.Second - time.Millisecond).Truncate(time.Second)
		}
		if r.ends[key] <= to {
			delete(r.ends, key)
			require.NoError(t, r.store.Del(ctx, key).Err())
			continue
		}
		require.NoError(t, r.store.PExpire(ctx, key, max(r.ends[key]-to, shortestLife)).Err())
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

// connections is how many connections the case's Redis has ever accepted.
func (r *counterRun) connections(t *testing.T) string {
	t.Helper()
	if r.store == nil {
		return ""
	}
	info, err := r.store.Info(context.Background(), "stats").Result()
	require.NoError(t, err)
	return regexp.MustCompile(`total_connections_received:\d+`).FindString(info)
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

// inspect looks at what is stored, where the case says what that is.
func (r *counterRun) inspect(t *testing.T) {
	t.Helper()
	if r.Expect == nil {
		return
	}
	require.Equal(t, "2", r.Expect["stored_value_per_database"])
	for _, database := range []int{1, 2} {
		store := redisClient(t, r.redis.of(&r.counterCase), "", database)
		keys, err := store.Keys(context.Background(), "graphql-limit-count:*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, "2", store.Get(context.Background(), keys[0]).Val())
	}
}
