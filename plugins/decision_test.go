package plugins_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/cost"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/introspect"
	"graphql-limit-count/plugins"
)

// fixedSchema is a schema that is known without introspection.
type fixedSchema struct{ schema *cost.Schema }

func (s fixedSchema) Schema(context.Context, introspect.Request) (*cost.Schema, error) {
	return s.schema, nil
}

const shopSDL = `type Query { products(first: Int): [Product] } type Product { id: ID reviews(first: Int): [Review] } type Review { id: ID }`

func (fixedSchema) Cached(introspect.Request) *cost.Schema { return nil }

// productsModel charges products and reviews by their argument first.
func productsModel(tb testing.TB) models {
	tb.Helper()
	model, err := cost.NewModel([]cost.Decoration{
		{FieldPath: "Query.products", MulArguments: []string{"first"}},
		{FieldPath: "Product.reviews", MulArguments: []string{"first"}},
	})
	require.NoError(tb, err)
	return models{"s": model}
}

// startQuantified is a route of the service s, with more members of its configuration.
func startQuantified(t *testing.T, members string) (*stack, *caller) {
	t.Helper()
	schema, err := cost.ParseSDL([]byte(shopSDL))
	require.NoError(t, err)
	s := startStack(t, stackConfig{models: productsModel(t), schemas: fixedSchema{schema}})
	if members != "" {
		members = "," + members
	}
	return s, s.bound(t, "r", "s", `{`+plenty+`,"cost_strategy":"node_quantifier"`+members+`}`)
}

// TestHeaders: section 4, under exactly these names.
func TestHeaders(t *testing.T) {
	s := startStack(t, stackConfig{})
	for _, c := range []struct {
		name, conf string
		q          query
		want       map[string]string
	}{
		{"cost and quota", `{"count":10,"time_window":60}`, graphQL(depth(4)), map[string]string{
			"X-Graphql-Query-Cost": "4", "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "6", "X-RateLimit-Reset": "60",
		}},
		{"hidden", `{"count":10,"time_window":60,"show_limit_quota_header":false,"standard_headers":true}`, graphQL("{a}"), map[string]string{}},
		{"renamed", `{"count":10,"time_window":60,"limit_header":"x-l","remaining_header":"X_R","reset_header":"RESET"}`, graphQL("{a}"), map[string]string{
			"X-Graphql-Query-Cost": "1", "x-l": "10", "X_R": "9", "RESET": "60",
		}},
		{"an empty name leaves a header out", `{"count":10,"time_window":60,"limit_header":"","reset_header":""}`, graphQL("{a}"), map[string]string{
			"X-Graphql-Query-Cost": "1", "X-RateLimit-Remaining": "9",
		}},
		{"of rules", `{"rules":[{"count":10,"time_window":60,"key":"$remote_addr"},{"count":7,"time_window":5,"key":"$http_a"},{"count":20,"time_window":3600,"key":"$uri","header_prefix":"path"}]}`,
			graphQL("{a}"), map[string]string{
				"X-Graphql-Query-Cost": "1", "X-1-RateLimit-Limit": "10", "X-1-RateLimit-Remaining": "9", "X-1-RateLimit-Reset": "60",
				"X-path-RateLimit-Limit": "20", "X-path-RateLimit-Remaining": "19", "X-path-RateLimit-Reset": "3600",
			}},
		{"of rules, renamed", `{"limit_header":"My-RateLimit-Max","remaining_header":"Left","reset_header":"","rules":[{"count":10,"time_window":60,"key":"$remote_addr"}]}`,
			graphQL("{a}"), map[string]string{"X-Graphql-Query-Cost": "1", "My-1-RateLimit-Max": "10", "Left": "9"}},
		{"standard", `{"count":10,"time_window":61,"standard_headers":true,"limit_header":"","remaining_header":"","reset_header":""}`, graphQL(depth(4)), map[string]string{
			"X-Graphql-Query-Cost": "4", "RateLimit-Policy": `"default";q=10;w=61`, "RateLimit": `"default";r=6;t=61`,
		}},
		{"standard of rules", `{"standard_headers":true,"limit_header":"","remaining_header":"","reset_header":"","rules":[{"count":10,"time_window":60,"key":"$remote_addr"},{"count":9007199254740991,"time_window":3600,"key":"$uri","header_prefix":"path"}]}`,
			graphQL("{a}"), map[string]string{
				"X-Graphql-Query-Cost": "1",
				"RateLimit-Policy":     `"1";q=10;w=60, "path";q=999999999999999;w=3600`,
				"RateLimit":            `"1";r=9;t=60, "path";r=999999999999999;t=3600`,
			}},
		{"a quota as large as can be", `{"count":9007199254740991,"time_window":60}`, graphQL("{a}"), map[string]string{
			"X-Graphql-Query-Cost": "1", "X-RateLimit-Limit": "9007199254740991", "X-RateLimit-Remaining": "9007199254740990", "X-RateLimit-Reset": "60",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, s.prepare(t, "route#"+regexp.MustCompile("[^a-z]").ReplaceAllString(c.name, "-")+"#ext-plugin-pre-req#1#1", c.conf).send(c.q).passes().header)
		})
	}
	t.Run("the standard reset is rounded up", func(t *testing.T) {
		route := s.route(t, `{"count":10,"time_window":60,"standard_headers":true}`)
		route.send(graphQL("{a}")).passes()
		s.clock.advance(10 * time.Millisecond)
		a := route.send(graphQL("{a}")).passes()
		require.Equal(t, "59.99", a.header["X-RateLimit-Reset"])
		require.Equal(t, `"default";r=8;t=60`, a.header["RateLimit"])
	})
}

// TestReset: at most two decimals, no trailing zeros, cut off.
func TestReset(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{"count":100,"time_window":60}`)
	route.send(graphQL("{a}")).passes()
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "60"}, {time.Millisecond, "59.99"}, {99 * time.Millisecond, "59.9"}, {400 * time.Millisecond, "59.5"},
		{450 * time.Millisecond, "59.05"}, {49 * time.Second, "10.05"}, {10050*time.Millisecond - time.Millisecond, "0"},
	} {
		s.clock.advance(c.after)
		require.Equal(t, c.want, route.send(graphQL("{a}")).passes().header["X-RateLimit-Reset"])
	}
}

// TestOverTheQuota: section 1, step 10.
func TestOverTheQuota(t *testing.T) {
	s := startStack(t, stackConfig{})
	t.Run("rejected_code, the headers and Retry-After", func(t *testing.T) {
		route := s.route(t, `{"count":5,"time_window":60,"rejected_code":429}`)
		route.send(graphQL(depth(3))).costs("3")
		s.clock.advance(500 * time.Millisecond)
		a := route.send(graphQL(depth(3))).refused(429, `{"message":"rate limit exceeded","errors":[{"message":"rate limit exceeded",
			"extensions":{"code":"RATE_LIMITED","cost":3,"limit":5,"remaining":0,"retryAfter":60}}]}`)
		require.Equal(t, map[string]string{
			"Content-Type": "application/json", "X-Graphql-Query-Cost": "3", "X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset": "59.5", "Retry-After": "60",
		}, a.header)
	})
	t.Run("rejected_msg is error_msg and message", func(t *testing.T) {
		route := s.bound(t, "r", "s", `{"count":1,"time_window":60,"rejected_msg":"come back \"later\" <b>"}`)
		route.send(graphQL(depth(2))).refused(503, `{"error_msg":"come back \"later\" <b>","message":"come back \"later\" <b>",
			"errors":[{"message":"come back \"later\" <b>","extensions":{"code":"RATE_LIMITED","cost":2,"limit":1,"remaining":0}}]}`)
	})
	t.Run("what can never pass is promised nothing", func(t *testing.T) {
		a := s.bound(t, "r", "t", `{"count":1,"time_window":60}`).send(graphQL(depth(2)))
		require.Equal(t, 503, a.status)
		require.NotContains(t, a.header, "Retry-After")
		require.NotContains(t, a.body, "retryAfter")
	})
	t.Run("hidden headers do not hide Retry-After", func(t *testing.T) {
		route := s.bound(t, "r", "u", `{"count":1,"time_window":60,"show_limit_quota_header":false}`)
		route.send(graphQL("{a}")).passes()
		require.Equal(t, map[string]string{"Content-Type": "application/json", "Retry-After": "60"}, route.send(graphQL("{a}")).header)
	})
	t.Run("the first rule that is over ends it", func(t *testing.T) {
		route := s.bound(t, "r", "v", `{"standard_headers":true,"rules":[{"count":1,"time_window":60,"key":"$remote_addr","header_prefix":"a"},{"count":9,"time_window":60,"key":"$uri","header_prefix":"b"}]}`)
		route.send(graphQL("{a}")).passes()
		a := route.send(graphQL("{a}"))
		require.Equal(t, 503, a.status)
		require.Equal(t, `"a";r=0;t=60`, a.header["RateLimit"])
		require.Equal(t, `"a";q=1;w=60`, a.header["RateLimit-Policy"])
		require.NotContains(t, a.header, "X-b-RateLimit-Limit")
	})
}

// TestChargeRejected: a rejected request consumes, unless the configuration says else.
func TestChargeRejected(t *testing.T) {
	s := startStack(t, stackConfig{})
	for _, c := range []struct {
		name, conf string
		last       int
	}{
		{"by default it consumes", `{"count":5,"time_window":60}`, 503},
		{"charge_rejected false adds only what fits", `{"count":5,"time_window":60,"charge_rejected":false}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			route := s.route(t, c.conf)
			route.send(graphQL(depth(3))).costs("3")
			require.Equal(t, 503, route.send(graphQL(depth(3))).status)
			require.Equal(t, c.last, route.send(graphQL(depth(2))).status)
		})
	}
}

// TestMaxCost: section 1, step 9.
func TestMaxCost(t *testing.T) {
	s := startStack(t, stackConfig{})
	t.Run("only above it, and what is refused is paid for", func(t *testing.T) {
		route := s.route(t, `{"count":10,"time_window":60,"max_cost":3}`)
		route.send(graphQL(depth(3))).costs("3")
		a := route.send(graphQL(depth(4))).refused(403, `{"message":"Invalid graphql request: query cost 4 exceeds max_cost 3",
			"errors":[{"message":"Invalid graphql request: query cost 4 exceeds max_cost 3","extensions":{"code":"COST_LIMIT_EXCEEDED","cost":4,"maxCost":3}}]}`)
		require.Equal(t, map[string]string{
			"Content-Type": "application/json", "X-Graphql-Query-Cost": "4", "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "60",
		}, a.header)
	})
	t.Run("it wins over the quota", func(t *testing.T) {
		a := s.route(t, `{"count":1,"time_window":60,"max_cost":1.5}`).send(graphQL(depth(2)))
		require.Equal(t, 403, a.status)
		require.Contains(t, a.body, `"Invalid graphql request: query cost 2 exceeds max_cost 1.5"`)
		require.Equal(t, "0", a.header["X-RateLimit-Remaining"])
		require.NotContains(t, a.header, "Retry-After")
	})
	t.Run("0 is off", func(t *testing.T) { s.route(t, `{`+plenty+`,"max_cost":0}`).send(graphQL(depth(9))).costs("9") })
	t.Run("it is compared with what is charged", func(t *testing.T) {
		require.Equal(t, 403, s.route(t, `{`+plenty+`,"max_cost":5,"score_factor":3}`).send(graphQL(depth(2))).status)
	})
}

// TestObserve: mode "observe" refuses nothing for its cost, and says what it would do.
func TestObserve(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{"count":6,"time_window":60,"max_cost":3,"mode":"observe"}`)
	for _, c := range []struct {
		depth               int
		decision, remaining string
	}{{3, "pass", "3"}, {4, "max_cost", "0"}, {1, "quota", "0"}, {5, "max_cost", "0"}} {
		a := route.send(graphQL(depth(c.depth))).passes()
		require.Equal(t, c.decision, a.header["X-Graphql-Limit-Decision"])
		require.Equal(t, c.remaining, a.header["X-RateLimit-Remaining"])
		require.NotContains(t, a.header, "Retry-After")
	}
	route.send(graphQL("{")).refusedWith(400, "GRAPHQL_PARSE_FAILED", noParse)
	require.Equal(t, 405, route.send(query{method: "PUT"}).status)
	require.Equal(t, map[string]float64{
		"passed": 1, "bad_request": 1, "method_not_allowed": 1, "observed_max_cost": 2, "observed_quota": 1,
	}, s.outcomes(t))
}

// outcomes are the counts of outcomes that are not 0.
func (s *stack) outcomes(tb testing.TB) map[string]float64 {
	tb.Helper()
	families, err := s.registry.Gather()
	require.NoError(tb, err)
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "graphql_limit_count_requests_total" {
			continue
		}
		require.Len(tb, family.GetMetric(), 12, "every outcome is there from the start")
		for _, metric := range family.GetMetric() {
			if n := metric.GetCounter().GetValue(); n > 0 {
				counts[metric.GetLabel()[0].GetValue()] = n
			}
		}
	}
	return counts
}

// TestMetrics: every outcome has a counter of its own, and charged costs a histogram.
func TestMetrics(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{"count":4,"time_window":60,"max_cost":3}`)
	route.send(graphQL(depth(3))).passes()
	require.Equal(t, 503, route.send(graphQL(depth(2))).status)
	require.Equal(t, 403, route.send(graphQL(depth(5))).status)
	route.send(query{method: "OPTIONS", headers: map[string]string{"origin": "o", "access-control-request-method": "POST"}}).passes()
	require.Equal(t, 500, s.route(t, `{`).send(graphQL("{a}")).status)
	s.route(t, `{"allow_degradation":true}`).send(graphQL("{a}")).passes()
	require.Equal(t, 500, s.route(t, `{"rules":[]}`).send(graphQL("{a}")).status)
	require.Equal(t, map[string]float64{
		"passed": 1, "quota": 1, "max_cost": 1, "preflight": 1, "invalid_configuration": 1, "degraded": 1, "counter_failed": 1,
	}, s.outcomes(t))
	families, err := s.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "graphql_limit_count_query_cost" {
			require.Equal(t, uint64(4), family.GetMetric()[0].GetHistogram().GetSampleCount())
			require.Equal(t, 11.0, family.GetMetric()[0].GetHistogram().GetSampleSum())
			return
		}
	}
	t.Fatal("no histogram of costs")
}

// TestInvalidConfigurations: section 1, failing closed.
func TestInvalidConfigurations(t *testing.T) {
	s := startStack(t, stackConfig{})
	t.Run("500 to every request", func(t *testing.T) {
		route := s.route(t, `{"cuont":5,"time_window":60}`)
		for _, q := range []query{graphQL("{a}"), {method: "GET"}, {method: "OPTIONS", headers: map[string]string{"origin": "o", "access-control-request-method": "POST"}}} {
			a := route.send(q).refusedWith(500, "INTERNAL_SERVER_ERROR", "invalid plugin configuration")
			require.Equal(t, map[string]string{"Content-Type": "application/json"}, a.header)
			require.Empty(t, a.asked)
		}
	})
	t.Run("logged once, with the field", func(t *testing.T) {
		log := s.logged(t)
		require.Equal(t, 1, strings.Count(log, "invalid configuration"), log)
		require.Contains(t, log, `unknown field \"cuont\": did you mean \"count\"?`)
	})
	t.Run("passes where it says so itself", func(t *testing.T) {
		a := s.route(t, `{"count":0,"time_window":60,"allow_degradation":true}`).send(query{method: "PUT"}).passes()
		require.Empty(t, a.header)
	})
	for name, conf := range map[string]string{
		"only as true": `{"count":0,"time_window":60,"allow_degradation":"true"}`, "only in JSON": `{"allow_degradation":true`, "empty": ``,
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, 500, s.route(t, conf).send(graphQL("{a}")).status) })
	}
	t.Run("a group whose configurations differ", func(t *testing.T) {
		first := s.prepare(t, "route#g1#ext-plugin-pre-req#1#1", `{"count":5,"time_window":60,"group":"g"}`)
		other := s.prepare(t, "route#g2#ext-plugin-pre-req#1#1", `{"count":6,"time_window":60,"group":"g"}`)
		first.send(graphQL("{a}")).passes()
		other.send(graphQL("{a}")).refusedWith(500, "INTERNAL_SERVER_ERROR", "invalid plugin configuration")
		require.Contains(t, s.logged(t), `group conf mismatched: field \"count\"`)
	})
}

const counterFailure = `{"error_msg":"failed to limit count","message":"failed to limit count","errors":[{"message":"failed to limit count","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`

// TestUnusableVariables: a count or window that is no quantity is an error of the
// request, and charges nothing.
func TestUnusableVariables(t *testing.T) {
	s := startStack(t, stackConfig{})
	const conf = `"rules":[{"count":3,"time_window":60,"key":"$remote_addr"},{"count":"$http_n","time_window":"${http_w ?? 60}","key":"$remote_addr b"}]`
	route, degrading := s.route(t, `{`+conf+`}`), s.bound(t, "r", "s", `{"allow_degradation":true,`+conf+`}`)
	for _, c := range []struct{ n, w, why string }{
		{"", "60", "count: resolved value is not a number"}, {"x", "60", "count: resolved value is not a number"},
		{"0x10", "60", "count: resolved value is not a number"}, {"0", "60", "count: resolved value must be a positive number"},
		{"1.5", "60", "count: resolved value must be an integer"}, {"1", "-1", "time_window: resolved value must be a positive number"},
		{"9007199254740992", "60", "count: resolved value exceeds safe integer range (2^53-1)"},
	} {
		t.Run(c.n+" in "+c.w, func(t *testing.T) {
			q := graphQL("{a}", "n", c.n, "w", c.w)
			a := route.send(q).refused(500, counterFailure)
			require.Equal(t, map[string]string{"Content-Type": "application/json", "X-Graphql-Query-Cost": "1"}, a.header)
			require.Contains(t, s.logged(t), c.why)
			degrading.send(q).passes()
		})
	}
	a := route.send(graphQL("{a}", "n", "10")).costs("1")
	require.Equal(t, "2", a.header["X-1-RateLimit-Remaining"], "nothing was charged before")
	require.Equal(t, "9", a.header["X-2-RateLimit-Remaining"])
}

// TestNoRuleApplies: section 4.
func TestNoRuleApplies(t *testing.T) {
	s := startStack(t, stackConfig{})
	const rules = `"rules":[{"count":3,"time_window":60,"key":"$http_a"},{"count":3,"time_window":60,"key":"constant"}]`
	s.route(t, `{`+rules+`}`).send(graphQL("{a}")).refused(500, counterFailure)
	require.Contains(t, s.logged(t), "no rule applies to the request")
	require.Equal(t, map[string]string{"X-Graphql-Query-Cost": "1"}, s.route(t, `{"allow_degradation":true,`+rules+`}`).send(graphQL("{a}")).passes().header)
	require.Equal(t, 403, s.route(t, `{"allow_degradation":true,"max_cost":1,`+rules+`}`).send(graphQL(depth(2))).status)
}

// TestTheStoreIsDown: 500, or pass where the configuration allows degradation; the
// ceiling holds either way.
func TestTheStoreIsDown(t *testing.T) {
	s := startStack(t, stackConfig{})
	redis := servers.RunRedis(t)
	conf := func(members string) string {
		return `{"count":5,"time_window":60,"policy":"redis","redis_host":"127.0.0.1","redis_port":` + itoa(redis.Port) + members + `}`
	}
	strict := s.route(t, conf(``))
	degrading := s.bound(t, "r", "d", conf(`,"allow_degradation":true`))
	capped := s.bound(t, "r", "c", conf(`,"allow_degradation":true,"max_cost":1`))
	cappedStrict := s.bound(t, "r", "cs", conf(`,"max_cost":1`))
	observed := s.bound(t, "r", "o", conf(`,"allow_degradation":true,"max_cost":1,"mode":"observe"`))
	require.Equal(t, "4", strict.send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"])
	require.NoError(t, redis.Stop())

	a := strict.send(graphQL("{a}")).refused(500, counterFailure)
	require.Equal(t, map[string]string{"Content-Type": "application/json", "X-Graphql-Query-Cost": "1"}, a.header)
	require.Contains(t, s.logged(t), "connection refused")
	require.Equal(t, map[string]string{"X-Graphql-Query-Cost": "1"}, degrading.send(graphQL("{a}")).passes().header)
	require.Equal(t, 403, capped.send(graphQL(depth(2))).status)
	capped.send(graphQL("{a}")).passes()
	require.Equal(t, 500, cappedStrict.send(graphQL(depth(2))).status, "500 wins over 403")
	require.Equal(t, "max_cost", observed.send(graphQL(depth(2))).passes().header["X-Graphql-Limit-Decision"])

	require.NoError(t, redis.Start(t.Context()))
	require.Equal(t, "4", strict.send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"], "it recovers by itself")
}

func itoa(n int) string { return strconv.Itoa(n) }

// failingSchemas cannot be had.
type failingSchemas struct{}

func (failingSchemas) Schema(context.Context, introspect.Request) (*cost.Schema, error) {
	return nil, errors.New("no introspection here")
}

func (failingSchemas) Cached(introspect.Request) *cost.Schema { return nil }

// TestIntrospectionFails: 400, or pass uncharged where the configuration allows it.
func TestIntrospectionFails(t *testing.T) {
	s := startStack(t, stackConfig{models: productsModel(t), schemas: failingSchemas{}})
	strict := s.bound(t, "r", "s", `{`+plenty+`,"cost_strategy":"complexity"}`)
	a := strict.send(graphQL("{products{id}}")).badRequest("Invalid graphql request: failed to introspect the upstream graphql schema")
	require.Equal(t, map[string]string{"Content-Type": "application/json"}, a.header)
	require.Contains(t, s.logged(t), "no introspection here")
	degrading := s.bound(t, "r", "s", `{`+plenty+`,"cost_strategy":"complexity","allow_degradation":true}`)
	require.Empty(t, degrading.send(graphQL("{products{id}}")).passes().header)
	t.Run("asked for only with a strategy that needs it", func(t *testing.T) {
		s.bound(t, "r", "s", `{`+plenty+`}`).send(graphQL("{products{id}}")).costs("2")
	})
	t.Run("and only where there are decorations", func(t *testing.T) {
		s.bound(t, "r", "other", `{`+plenty+`,"cost_strategy":"complexity"}`).send(graphQL("{products{id}}")).costs("4")
		s.route(t, `{`+plenty+`,"cost_strategy":"complexity"}`).send(graphQL("{products{id}}")).costs("4")
	})
}

// askedSchemas remembers what it was asked.
type askedSchemas struct {
	fixedSchema
	asked []introspect.Request
}

func (s *askedSchemas) Schema(ctx context.Context, of introspect.Request) (*cost.Schema, error) {
	s.asked = append(s.asked, of)
	return s.fixedSchema.Schema(ctx, of)
}

// TestWhatIsIntrospected: the client's path and host only where the endpoint is derived.
func TestWhatIsIntrospected(t *testing.T) {
	schema, err := cost.ParseSDL([]byte(shopSDL))
	require.NoError(t, err)
	schemas := &askedSchemas{fixedSchema: fixedSchema{schema}}
	s := startStack(t, stackConfig{models: productsModel(t), schemas: schemas})
	q := graphQL("{products(first:50){reviews(first:20){id}}}", "host", "shop.test:80", "authorization", "secret")
	s.bound(t, "r1", "s", `{`+plenty+`,"cost_strategy":"node_quantifier"}`).send(q).costs("52")
	s.bound(t, "r2", "s", `{`+plenty+`,"cost_strategy":"node_quantifier","introspection_endpoint":"http://a.test/g","introspection_headers":{"X":"y"}}`).send(q).costs("52")
	require.Equal(t, []introspect.Request{
		{ServiceID: "s", RouteID: "r1", Path: "/graphql", Host: "shop.test:80", Headers: map[string]string{}},
		{ServiceID: "s", RouteID: "r2", Endpoint: "http://a.test/g", Headers: map[string]string{"X": "y"}},
	}, schemas.asked)
}

// panickingModels is a fault of the program.
type panickingModels struct{}

func (panickingModels) Model(string) *cost.Model { panic("a fault of the program") }

// TestAPanicRefusesTheRequest: a fault of the program lets nobody through, unless the
// configuration allows degradation.
func TestAPanicRefusesTheRequest(t *testing.T) {
	s := startStack(t, stackConfig{models: panickingModels{}})
	const conf = `"cost_strategy":"complexity"`
	require.Equal(t, 500, s.bound(t, "r", "s", `{`+plenty+`,`+conf+`}`).send(graphQL("{a}")).status)
	require.Contains(t, s.logged(t), "a fault of the program")
	s.bound(t, "r", "s", `{`+plenty+`,"allow_degradation":true,`+conf+`}`).send(graphQL("{a}")).passes()
	s.route(t, `{`+plenty+`}`).send(graphQL("{a}")).costs("1")
}

// TestWhoseCounter: section 4, identity.
func TestWhoseCounter(t *testing.T) {
	s := startStack(t, stackConfig{})
	left := func(c *caller, headers ...string) string {
		return c.send(graphQL("{a}", headers...)).passes().header["X-RateLimit-Remaining"]
	}
	t.Run("the Service's, when the route is bound to one", func(t *testing.T) {
		const conf = `{"count":10,"time_window":60}`
		require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
		require.Equal(t, "8", left(s.bound(t, "r2", "s1", conf)))
		require.Equal(t, "9", left(s.bound(t, "r1", "s2", conf)))
		require.Equal(t, "9", left(s.prepare(t, "route#r1#ext-plugin-pre-req#1#1", conf)))
		require.Equal(t, "8", left(s.prepare(t, "route#r1#ext-plugin-pre-req#2#1", conf)), "a new version of the route changes nothing")
		require.Equal(t, "9", left(s.prepare(t, "route#s1#ext-plugin-pre-req#1#1", conf)), "a route may be called like a service")
	})
	t.Run("counter_scope route is the Route's", func(t *testing.T) {
		const conf = `{"count":10,"time_window":61,"counter_scope":"route"}`
		require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
		require.Equal(t, "9", left(s.bound(t, "r2", "s1", conf)))
		require.Equal(t, "8", left(s.bound(t, "r1", "s1", conf)))
	})
	t.Run("counter_scope service is the Service's, if there is one", func(t *testing.T) {
		const conf = `{"count":10,"time_window":62,"counter_scope":"service"}`
		require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
		require.Equal(t, "8", left(s.bound(t, "r2", "s1", conf)))
		require.Equal(t, "9", left(s.route(t, conf)))
	})
	t.Run("a group's, across routes and services", func(t *testing.T) {
		const conf = `{"count":10,"time_window":63,"group":"g","counter_scope":"route"}`
		require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
		require.Equal(t, "8", left(s.bound(t, "r2", "s2", conf)))
		require.Equal(t, "7", left(s.route(t, `{"count":10,"time_window":63,"group":"g","cost_strategy":"complexity","score_factor":0.01}`)))
	})
	t.Run("each configuration has its own", func(t *testing.T) {
		require.Equal(t, "9", left(s.route(t, `{"count":10,"time_window":64}`)))
		require.Equal(t, "9", left(s.route(t, `{"count":10,"time_window":64,"max_cost":9}`)))
		require.Equal(t, "8", left(s.route(t, ` {"time_window": 6.4e1, "count": 10.0, "_meta":{"x":1}} `)), "written otherwise it is the same")
	})
	t.Run("by the key", func(t *testing.T) {
		route := s.route(t, `{"count":10,"time_window":65,"key":"http_x_user"}`)
		require.Equal(t, "9", left(route, "x-user", "a"))
		require.Equal(t, "9", left(route, "X-User", "b"))
		require.Equal(t, "8", left(route, "x-user", "a"))
		require.Equal(t, "9", left(route), "the address where the header is missing")
		constant := s.route(t, `{"count":10,"time_window":66,"key_type":"constant","key":"$http_x_user"}`)
		require.Equal(t, "9", left(constant, "x-user", "a"))
		require.Equal(t, "8", left(constant, "x-user", "b"))
	})
	t.Run("by the address", func(t *testing.T) {
		route := s.route(t, `{"count":10,"time_window":67}`)
		for _, c := range []struct{ address, left string }{{"10.0.0.1", "9"}, {"10.0.0.2", "9"}, {"2001:db8::1", "9"}, {"10.0.0.1", "8"}, {"2001:db8:0::1", "8"}} {
			q := graphQL("{a}")
			q.srcIP = c.address
			require.Equal(t, c.left, route.send(q).passes().header["X-RateLimit-Remaining"])
		}
	})
	t.Run("by a variable of APISIX", func(t *testing.T) {
		route := s.route(t, `{"count":10,"time_window":68,"key":"geoip_city"}`)
		for _, c := range []struct{ city, left string }{{"Ulm", "9"}, {"Bonn", "9"}, {"Ulm", "8"}, {"", "9"}} {
			q := graphQL("{a}")
			q.vars = map[string]string{"geoip_city": c.city}
			require.Equal(t, c.left, route.send(q).passes().header["X-RateLimit-Remaining"])
		}
	})
}

// TestAWindowEnds by itself.
func TestAWindowEnds(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{"count":"${http_n ?? 2}","time_window":"${http_w ?? 10}"}`)
	route.send(graphQL(depth(2))).costs("2")
	require.Equal(t, 503, route.send(graphQL("{a}")).status)
	require.Equal(t, "7", route.send(graphQL("{a}", "n", "11")).costs("1").header["X-RateLimit-Remaining"])
	s.clock.advance(10 * time.Second)
	a := route.send(graphQL("{a}", "w", "20")).costs("1")
	require.Equal(t, "1", a.header["X-RateLimit-Remaining"])
	require.Equal(t, "20", a.header["X-RateLimit-Reset"])
}

// TestConcurrentRequestsShareAQuota: never more than the quota is admitted, and all
// of it.
func TestConcurrentRequestsShareAQuota(t *testing.T) {
	const workers, each, admitted = 8, 50, 150
	s := startStack(t, stackConfig{})
	var passed, refused atomic.Int64
	var running sync.WaitGroup
	for range workers {
		c := s.route(t, `{"count":300,"time_window":60}`)
		running.Go(func() {
			for range each {
				switch a, err := c.trySend(graphQL(depth(2))); {
				case err != nil:
					t.Error(err)
					return
				case a.status == 0:
					passed.Add(1)
				case a.status == 503:
					refused.Add(1)
				}
			}
		})
	}
	running.Wait()
	require.Equal(t, int64(admitted), passed.Load())
	require.Equal(t, int64(workers*each-admitted), refused.Load())
	require.Equal(t, int64(1), s.server.Stats().Configs, "equal configurations are parsed once")
}

// TestWindowTypes: section 4, in the headers.
func TestWindowTypes(t *testing.T) {
	for _, policy := range []string{plugins.PolicyLocal, plugins.PolicyRedis} {
		t.Run(policy, func(t *testing.T) {
			s := startStack(t, stackConfig{})
			store := `"policy":"local"`
			if policy == plugins.PolicyRedis {
				store = `"policy":"redis","redis_host":"127.0.0.1","redis_port":` + itoa(servers.RunRedis(t).Port)
			}
			sliding := s.route(t, `{"count":5,"time_window":1000000000,"window_type":"sliding",`+store+`}`)
			sliding.send(graphQL(depth(4))).costs("4")
			require.Equal(t, 503, sliding.send(graphQL(depth(2))).status)
			a := sliding.send(graphQL(depth(1))).costs("1")
			require.Equal(t, "0", a.header["X-RateLimit-Remaining"], "what was refused consumed nothing")

			bucket := s.route(t, `{"count":6,"time_window":3600,"window_type":"leaky_bucket","burst":3,`+store+`}`)
			require.Equal(t, "1", bucket.send(graphQL(depth(2))).costs("2").header["X-RateLimit-Remaining"])
			a = bucket.send(graphQL(depth(2)))
			require.Equal(t, 503, a.status)
			require.Equal(t, "600", a.header["Retry-After"], "one of six an hour")
			a = bucket.send(graphQL(depth(4)))
			require.Equal(t, 503, a.status)
			require.NotContains(t, a.header, "Retry-After", "more than the burst never passes")
			bucket.send(graphQL(depth(1))).costs("1")
		})
	}
}

// TestRedisSettings: what the configuration says of the server is what is used.
func TestRedisSettings(t *testing.T) {
	s := startStack(t, stackConfig{})
	redis := servers.RunRedis(t)
	store := redisClient(t, redis, "", 3)
	require.NoError(t, store.ACLSetUser(t.Context(), "limiter", "on", ">pass", "~graphql-limit-count:*", "+@all").Err())
	conf := func(members string) string {
		return `{"count":5,"time_window":60,"policy":"redis","redis_host":"127.0.0.1","redis_port":` + itoa(redis.Port) + `,"redis_database":3,` + members + `}`
	}
	for i, want := range []string{"4", "3"} {
		a := s.route(t, conf(`"redis_username":"limiter","redis_password":"pass"`)).send(graphQL("{a}")).costs("1")
		require.Equal(t, want, a.header["X-RateLimit-Remaining"], i)
	}
	keys, err := store.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.True(t, strings.HasPrefix(keys[0], "graphql-limit-count:"), keys[0])
	s.route(t, conf(`"redis_username":"limiter","redis_password":"wrong"`)).send(graphQL("{a}")).refused(500, counterFailure)
	log := s.logged(t)
	require.Contains(t, log, "WRONGPASS")
	require.NotContains(t, log, "wrong\"")
}

// TestContentNegotiation: a client that accepts the media type of GraphQL over HTTP
// gets it.
func TestContentNegotiation(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	const response, plain = "application/graphql-response+json", "application/json"
	for accept, want := range map[string]string{
		"": plain, "application/json": plain, "*/*": plain, response: response, "Application/GraphQL-Response+JSON": response,
		"application/json, application/graphql-response+json;q=0.5": response, response + "; charset=utf-8": response,
		response + ";q=0": plain, response + "; Q=0.000, */*": plain, response + ";q=x": response, response + "x": plain,
	} {
		t.Run(accept, func(t *testing.T) {
			require.Equal(t, want, route.send(graphQL("{", "accept", accept)).header["Content-Type"])
		})
	}
}

// TestThePluginHasAName, and nothing to do once a response is there.
func TestThePluginHasAName(t *testing.T) {
	s := startStack(t, stackConfig{})
	require.Equal(t, "graphql-limit-count", s.plugin.Name())
	s.plugin.ResponseFilter(nil, nil)
}

// TestAConnectionThatEndsIsLogged, and nothing is charged.
func TestAConnectionThatEndsIsLogged(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	request := extplugin.Request{Token: route.token, Method: "POST", Path: "/", Headers: []extplugin.KV{{Name: "content-type", Value: "application/graphql"}}}
	_, err := route.client.HTTPReqCall(t.Context(), request, brokenAnswers{})
	require.Error(t, err)
	require.True(t, route.client.Broken())
	require.NoError(t, route.client.Close())
	require.Eventually(t, func() bool { return strings.Contains(s.logged(t), "reading a request failed") }, time.Second, time.Millisecond)
	require.Equal(t, "999999", s.route(t, `{`+plenty+`}`).send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"])
}

// brokenAnswers is an APISIX that cannot read the body.
type brokenAnswers struct{}

func (brokenAnswers) Var(string) ([]byte, bool) { return nil, false }
func (brokenAnswers) Body() ([]byte, error)     { return nil, errors.New("the client went away") }

var _ plugins.ModelSource = panickingModels{}
