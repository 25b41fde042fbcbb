package plugins_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
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
		{ServiceID: "s", RouteID: "r1", Path: "/graphql", Host: "shop.test:80", Settings: introspect.NewSettings("", map[string]string{})},
		{ServiceID: "s", RouteID: "r2", Settings: introspect.NewSettings("http://a.test/g", map[string]string{"X": "y"})},
	}, schemas.asked)
}

// TestThePluginHasAName, and nothing to do once a response is there.
func TestThePluginHasAName(t *testing.T) {
	s := startStack(t, stackConfig{})
	require.Equal(t, "graphql-limit-count", s.plugin.Name())
	s.plugin.ResponseFilter(nil, nil)
}
