package plugins_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/cost"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/introspect"
)

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
		{"0x1.8", "60", "count: resolved value must be an integer"}, {"0", "60", "count: resolved value must be a positive number"},
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

// TestAConnectionThatEndsIsLogged, and nothing is charged.
func TestAConnectionThatEndsIsLogged(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	request := extplugin.Request{Token: route.token, Method: "POST", Path: "/", Headers: []extplugin.KV{{Name: "content-type", Value: "application/graphql"}}}
	_, err := route.client.HTTPReqCall(t.Context(), request, brokenAnswers{})
	require.Error(t, err)
	require.True(t, route.client.Broken())
	require.NoError(t, route.client.Close())
	require.Eventually(t, func() bool { return strings.Contains(s.logged(t), "reading a request failed") }, settled, time.Millisecond)
	require.Equal(t, "999999", s.route(t, `{`+plenty+`}`).send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"])
}

// brokenAnswers is an APISIX that cannot read the body.
type brokenAnswers struct{}

func (brokenAnswers) Var(string) ([]byte, bool) { return nil, false }
func (brokenAnswers) Body() ([]byte, error)     { return nil, errors.New("the client went away") }
