package plugins_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
