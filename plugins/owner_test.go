package plugins_test

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/plugins"
)

// sent is what one request through the gateway leaves of its quota.
func (s *site) left(tb testing.TB, path string, headers ...string) string {
	tb.Helper()
	with := map[string]string{"Content-Type": "application/graphql"}
	for i := 0; i < len(headers); i += 2 {
		with[headers[i]] = headers[i+1]
	}
	got := s.do(tb, http.MethodPost, s.gateway.FrontURL()+path, "{a}", with)
	require.Equal(tb, 200, got.status, got.body)
	return got.header.Get("X-RateLimit-Remaining")
}

// TestWhoseCounterAPISIXSays: behind the gateway, whose Admin API tells what stands where.
func TestWhoseCounterAPISIXSays(t *testing.T) {
	s := startSite(t, 0)
	both := func(conf map[string]any, attachments ...string) map[string]any {
		all := map[string]any{}
		for _, attachment := range attachments {
			maps.Copy(all, limited(t, attachment, conf))
		}
		return all
	}
	route := func(id, service string, attached map[string]any) {
		object := map[string]any{"uri": "/" + id, "upstream": s.upstreamNode()}
		if service != "" {
			object["service_id"] = service
		}
		if attached != nil {
			object["plugins"] = attached
		}
		s.put(t, "routes/"+id, object)
	}
	conf := map[string]any{"count": 10, "time_window": 60}
	for _, attachment := range []string{"ext-plugin-pre-req", "ext-plugin-post-req"} {
		t.Run(attachment, func(t *testing.T) {
			name := strings.TrimPrefix(attachment, "ext-plugin-")
			s.put(t, "services/"+name, map[string]any{"plugins": both(conf, attachment)})
			route(name+"-1", name, nil)
			route(name+"-2", name, nil)
			route(name+"-own", name, both(conf, attachment))
			require.Equal(t, "9", s.left(t, "/"+name+"-1"))
			require.Equal(t, "8", s.left(t, "/"+name+"-2"), "the service's, for its routes without one")
			require.Equal(t, "9", s.left(t, "/"+name+"-own"), "the route's, where it has its own")
			require.Equal(t, "7", s.left(t, "/"+name+"-1"))
		})
	}
	t.Run("two routes with configurations of their own have counters of their own", func(t *testing.T) {
		s.put(t, "services/plain", map[string]any{"name": "plain"})
		route("own-1", "plain", both(conf, "ext-plugin-pre-req"))
		route("own-2", "plain", both(conf, "ext-plugin-pre-req"))
		require.Equal(t, "9", s.left(t, "/own-1"))
		require.Equal(t, "9", s.left(t, "/own-2"))
		require.Equal(t, "8", s.left(t, "/own-1"))
	})
	t.Run("counter_scope wins", func(t *testing.T) {
		byService := map[string]any{"count": 10, "time_window": 60, "counter_scope": "service"}
		route("scope-1", "plain", both(byService, "ext-plugin-pre-req"))
		route("scope-2", "plain", both(byService, "ext-plugin-pre-req"))
		require.Equal(t, "9", s.left(t, "/scope-1"))
		require.Equal(t, "8", s.left(t, "/scope-2"))
		byRoute := map[string]any{"count": 10, "time_window": 60, "counter_scope": "route"}
		s.put(t, "services/by-route", map[string]any{"plugins": both(byRoute, "ext-plugin-pre-req")})
		route("scope-3", "by-route", nil)
		route("scope-4", "by-route", nil)
		require.Equal(t, "9", s.left(t, "/scope-3"))
		require.Equal(t, "9", s.left(t, "/scope-4"))
	})
	t.Run("a consumer's is the consumer's on every route", func(t *testing.T) {
		keyed := map[string]any{"key-auth": map[string]any{}}
		for _, name := range []string{"jack", "jim"} {
			own := both(conf, "ext-plugin-post-req")
			own["key-auth"] = map[string]any{"key": name}
			s.put(t, "consumers/"+name, map[string]any{"username": name, "plugins": own})
		}
		route("auth-1", "plain", keyed)
		route("auth-2", "", keyed)
		require.Equal(t, "9", s.left(t, "/auth-1", "apikey", "jack"))
		require.Equal(t, "8", s.left(t, "/auth-2", "apikey", "jack"))
		require.Equal(t, "9", s.left(t, "/auth-1", "apikey", "jim"), "of one address, under equal configurations")
	})
	t.Run("what moves from the service to the route becomes the route's", func(t *testing.T) {
		ample := map[string]any{"count": 1_000_000, "time_window": 3600}
		s.put(t, "services/moving", map[string]any{"plugins": both(ample, "ext-plugin-pre-req")})
		route("moving", "moving", nil)
		require.Equal(t, "999999", s.left(t, "/moving"))
		require.Equal(t, "999998", s.left(t, "/moving"))
		route("moving", "moving", both(ample, "ext-plugin-pre-req"))
		require.Eventually(t, func() bool { return s.left(t, "/moving") == "999999" }, longest, 10*time.Millisecond,
			"once the route's new version was seen")
	})
}

// fixedOwner is a source that always says the same, and counts who asks.
type fixedOwner struct {
	owner plugins.Owner
	asked atomic.Int64
	last  atomic.Pointer[plugins.Place]
}

func (f *fixedOwner) Owner(at plugins.Place) plugins.Owner {
	f.asked.Add(1)
	f.last.Store(&at)
	return f.owner
}

func TestOwnersAreAskedOncePerRequestAndOnlyWhereItMatters(t *testing.T) {
	source := &fixedOwner{}
	s := startStack(t, stackConfig{owners: source})
	left := func(c *caller) string { return c.send(graphQL("{a}")).passes().header["X-RateLimit-Remaining"] }
	t.Run("where it stands is told", func(t *testing.T) {
		s.prepare(t, "route&service&consumer&consumer_group#r&s&jack&gold#ext-plugin-post-req#4&3&2&1", `{"count":10,"time_window":60}`).send(graphQL("{a}")).passes()
		require.Equal(t, plugins.Place{Route: "r", Service: "s", Consumer: "jack", ConsumerGroup: "gold",
			Attachment: "ext-plugin-post-req", Versions: "4&3&2&1"}, *source.last.Load())
	})
	t.Run("several quotas are one question", func(t *testing.T) {
		before := source.asked.Load()
		s.bound(t, "r1", "s1", `{"rules":[{"count":10,"time_window":60,"key":"$remote_addr"},{"count":10,"time_window":61,"key":"h $remote_addr"}]}`).send(graphQL("{a}")).passes()
		require.EqualValues(t, 1, source.asked.Load()-before)
	})
	t.Run("what is not known follows the rule", func(t *testing.T) {
		const conf = `{"count":10,"time_window":62}`
		require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
		require.Equal(t, "8", left(s.bound(t, "r2", "s1", conf)))
	})
	t.Run("counter_scope, group and global rules are not asked about", func(t *testing.T) {
		before := source.asked.Load()
		source.owner = plugins.Owner{Kind: "route", ID: "elsewhere"}
		defer func() { source.owner = plugins.Owner{} }()
		for _, conf := range []string{`{"count":10,"time_window":63,"counter_scope":"service"}`, `{"count":10,"time_window":64,"group":"g"}`} {
			require.Equal(t, "9", left(s.bound(t, "r1", "s1", conf)))
			require.Equal(t, "8", left(s.bound(t, "r2", "s1", conf)))
		}
		q := graphQL("{a}")
		q.vars = map[string]string{"route_id": "r1", "service_id": "s1"}
		s.prepare(t, "global_rule#1#ext-plugin-pre-req#1", `{"count":10,"time_window":65}`).send(q).passes()
		require.Equal(t, before, source.asked.Load())
	})
}
