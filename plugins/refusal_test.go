package plugins_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			"errors":[{"message":"come back \"later\" <b>","extensions":{"code":"RATE_LIMITED","cost":2,"limit":1,"remaining":0,"retryAfter":60}}]}`)
	})
	t.Run("what costs more than the quota is told when the window ends", func(t *testing.T) {
		a := s.bound(t, "r", "t", `{"count":1,"time_window":60}`).send(graphQL(depth(2)))
		require.Equal(t, 503, a.status)
		require.Equal(t, "60", a.header["Retry-After"])
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
