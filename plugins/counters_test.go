package plugins_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/plugins"
)

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
