package limiter_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

// ownRedis starts a server for a test that changes how it behaves.
func ownRedis(t *testing.T, directives ...string) (*servers.Redis, *redis.Client) {
	server := servers.RunRedis(t, directives...)
	return server, adminClient(t, server)
}

func newRedis(t *testing.T, cfg limiter.RedisConfig) *limiter.Redis {
	l := limiter.NewRedis(cfg)
	t.Cleanup(l.Close)
	return l
}

func charge(t *testing.T, lim limiter.Limiter, cost int64, q limiter.Quota) limiter.Result {
	t.Helper()
	r, err := lim.Charge(t.Context(), "client", cost, q)
	require.NoError(t, err)
	return r
}

// infoField returns a field of INFO, such as total_connections_received.
func infoField(t *testing.T, admin *redis.Client, section, field string) string {
	t.Helper()
	text, err := admin.Info(t.Context(), section).Result()
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

func TestAFixedCounterIsStoredAsDocumented(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	ctx := t.Context()

	charge(t, lim, 4, quota(10, time.Minute))
	charge(t, lim, 9, quota(10, time.Minute))
	const key = "graphql-limit-count:fixed:client"
	keys, err := admin.Keys(ctx, "*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{key}, keys)
	value, err := admin.Get(ctx, key).Result()
	require.NoError(t, err)
	require.Equal(t, "13", value)
	ttl, err := admin.PTTL(ctx, key).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, time.Minute)
	require.Greater(t, ttl, time.Minute-redisSlack)
}

func TestAPeekWritesNothing(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	charge(t, lim, 0, quota(10, time.Minute))
	size, err := admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, size)
}

func TestASlidingCounterIsStoredAsDocumented(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	charge(t, lim, 4, sliding(10, 1000*time.Hour))
	charge(t, lim, 9, sliding(10, 1000*time.Hour))
	charge(t, lim, 5, sliding(10, 1000*time.Hour))
	const key = "graphql-limit-count:sliding:client"
	value, err := admin.Get(t.Context(), key).Result()
	require.NoError(t, err)
	require.Regexp(t, `^\d{16} 3600000000000 9 0$`, value)
	ttl, err := admin.PTTL(t.Context(), key).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 999*time.Hour)
	require.LessOrEqual(t, ttl, 2000*time.Hour)
}

func TestALeakyBucketIsStoredAsDocumented(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	charge(t, lim, 4, leaky(10, 0, 10*time.Hour))
	keys, err := admin.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"rate:graphql-limit-count:leaky_bucket:client"}, keys)
	ttl, err := admin.PTTL(t.Context(), keys[0]).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 4*time.Hour-redisSlack)
	require.LessOrEqual(t, ttl, 4*time.Hour+time.Second)
}

func TestADecisionIsOneCommand(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	for kind, q := range longQuotas(30) {
		t.Run(kind, func(t *testing.T) {
			charge(t, lim, 1, q) // connects and loads the script
			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			for i := range 100 {
				charge(t, lim, int64(i%3), q)
			}
			require.True(t, strings.HasPrefix(infoField(t, admin, "commandstats", "cmdstat_evalsha"), "calls=100,"))
			require.Empty(t, infoField(t, admin, "commandstats", "cmdstat_eval"))
			require.Empty(t, infoField(t, admin, "commandstats", "cmdstat_hello"))
			require.Equal(t, "0", infoField(t, admin, "stats", "total_connections_received"), "the connection is reused")
		})
	}
}

func TestAFlushedScriptIsSentAgainAndChargesOnce(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	charge(t, lim, 1, quota(10, time.Minute))
	require.NoError(t, admin.ScriptFlush(t.Context()).Err())
	require.EqualValues(t, 8, charge(t, lim, 1, quota(10, time.Minute)).Remaining)
	require.NoError(t, admin.FlushAll(t.Context()).Err())
	require.EqualValues(t, 9, charge(t, lim, 1, quota(10, time.Minute)).Remaining)
}

func TestAValueThatIsNoCounterIsOverwritten(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	const key = "graphql-limit-count:fixed:client"
	cases := []struct {
		name  string
		write func(ctx context.Context) error
	}{
		{"a number that never expires", func(ctx context.Context) error { return admin.Set(ctx, key, "7", 0).Err() }},
		{"text that never expires", func(ctx context.Context) error { return admin.Set(ctx, key, "x", 0).Err() }},
		{"text", func(ctx context.Context) error { return admin.Set(ctx, key, "x", time.Minute).Err() }},
		{"nothing", func(ctx context.Context) error { return admin.Set(ctx, key, "", time.Minute).Err() }},
		{"a fraction", func(ctx context.Context) error { return admin.Set(ctx, key, "1.5", time.Minute).Err() }},
		{"an exponent", func(ctx context.Context) error { return admin.Set(ctx, key, "1e3", time.Minute).Err() }},
		{"a negative number", func(ctx context.Context) error { return admin.Set(ctx, key, "-3", time.Minute).Err() }},
		{"leading zeros", func(ctx context.Context) error { return admin.Set(ctx, key, "007", time.Minute).Err() }},
		{"a hexadecimal number", func(ctx context.Context) error { return admin.Set(ctx, key, "0x7", time.Minute).Err() }},
		{"a list", func(ctx context.Context) error {
			if err := admin.RPush(ctx, key, "a").Err(); err != nil {
				return err
			}
			return admin.PExpire(ctx, key, time.Minute).Err()
		}},
		{"a list that never expires", func(ctx context.Context) error { return admin.RPush(ctx, key, "a").Err() }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			require.NoError(t, admin.FlushAll(ctx).Err())
			require.NoError(t, c.write(ctx))
			require.EqualValues(t, 10, charge(t, lim, 0, quota(10, time.Minute)).Remaining)
			require.EqualValues(t, 6, charge(t, lim, 4, quota(10, time.Minute)).Remaining)
			require.EqualValues(t, 2, charge(t, lim, 4, quota(10, time.Minute)).Remaining)
			ttl, err := admin.PTTL(ctx, key).Result()
			require.NoError(t, err)
			require.Positive(t, ttl)
		})
	}
}

func TestAValueAboveTheLargestCountReadsAsTheLargest(t *testing.T) {
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	const key = "graphql-limit-count:fixed:client"
	for _, held := range []string{"9007199254740992", "9223372036854775807", strings.Repeat("9", 400)} {
		require.NoError(t, admin.Set(t.Context(), key, held, time.Minute).Err())
		require.False(t, charge(t, lim, 1, quota(limiter.MaxCount, time.Minute)).Allowed, held)
		value, err := admin.Get(t.Context(), key).Result()
		require.NoError(t, err)
		require.Equal(t, "9007199254740991", value)
	}
}

func TestCountersOfDatabasesAreApart(t *testing.T) {
	server, _ := ownRedis(t)
	cfg := redisConfig(server)
	zero := newRedis(t, cfg)
	cfg.Database = 1
	one := newRedis(t, cfg)
	for range 2 {
		charge(t, zero, 1, quota(5, time.Minute))
	}
	require.EqualValues(t, 4, charge(t, one, 1, quota(5, time.Minute)).Remaining)
	require.EqualValues(t, 2, charge(t, zero, 1, quota(5, time.Minute)).Remaining)
}

func TestCredentials(t *testing.T) {
	server, _ := ownRedis(t,
		"--requirepass", "foobared",
		"--user", "alice", "on", ">somepassword", "~graphql-limit-count:*", "+@all")
	cases := []struct {
		name               string
		username, password string
		wantError          string
	}{
		{"the default user's password", "", "foobared", ""},
		{"a user and its password", "alice", "somepassword", ""},
		{"no password", "", "", "NOAUTH"},
		{"a wrong password", "", "letmein-secret", "WRONGPASS"},
		{"an unknown user", "bob", "somepassword-secret", "WRONGPASS"},
		{"a user and another's password", "alice", "foobared-secret", "WRONGPASS"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := redisConfig(server)
			cfg.Username, cfg.Password = c.username, c.password
			_, err := newRedis(t, cfg).Charge(t.Context(), "client-key", 1, quota(10, time.Minute))
			if c.wantError == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "charging a counter on redis "+server.Addr()+": ")
			require.ErrorContains(t, err, c.wantError)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "client-key")
		})
	}
}

func TestADatabaseOutOfRangeIsAnError(t *testing.T) {
	server, _ := ownRedis(t)
	cfg := redisConfig(server)
	cfg.Database = 999999
	_, err := newRedis(t, cfg).Charge(t.Context(), "client", 1, quota(10, time.Minute))
	require.ErrorContains(t, err, "ERR DB index is out of range")
}

func TestTLS(t *testing.T) {
	trusted := servers.RunRedisTLS(t, certificate)
	other, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	untrusted := servers.RunRedisTLS(t, other)
	cases := []struct {
		name      string
		server    *servers.Redis
		verify    bool
		wantError string
	}{
		{"a trusted certificate is accepted", trusted, true, ""},
		{"any certificate is accepted without verification", untrusted, false, ""},
		{"an unknown certificate is refused", untrusted, true, "certificate"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := redisConfig(c.server)
			cfg.TLS, cfg.TLSVerify = true, c.verify
			_, err := newRedis(t, cfg).Charge(t.Context(), c.name, 1, quota(10, time.Minute))
			if c.wantError == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.wantError)
			}
		})
	}
}

func TestAClosedLimiterRefusesAndMayBeClosedAgain(t *testing.T) {
	server, _ := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	charge(t, lim, 1, quota(10, time.Minute))
	lim.Close()
	lim.Close()
	for range 2 {
		_, err := lim.Charge(t.Context(), "client", 1, quota(10, time.Minute))
		require.ErrorIs(t, err, limiter.ErrClosed)
	}
}

func TestEqualSettingsShareOneClientUntilTheLastLetsGo(t *testing.T) {
	server, admin := ownRedis(t)
	var clients limiter.Clients
	cfg := limiter.RedisConfig{Host: server.Host, Port: server.Port}
	explicit := cfg
	explicit.Timeout, explicit.KeepAliveTimeout, explicit.PoolSize = time.Second, 10*time.Second, 100
	other := cfg
	other.Database = 1

	first, releaseFirst := clients.Redis(cfg)
	second, releaseSecond := clients.Redis(explicit)
	third, releaseThird := clients.Redis(other)
	defer releaseThird()
	require.Same(t, first, second)
	require.NotSame(t, first, third)

	charge(t, first, 1, quota(10, time.Minute))
	releaseFirst()
	releaseFirst()
	require.EqualValues(t, 8, charge(t, second, 1, quota(10, time.Minute)).Remaining)
	releaseSecond()
	_, err := second.Charge(t.Context(), "client", 1, quota(10, time.Minute))
	require.ErrorIs(t, err, limiter.ErrClosed)

	again, releaseAgain := clients.Redis(cfg)
	require.NotSame(t, first, again)
	require.EqualValues(t, 7, charge(t, again, 1, quota(10, time.Minute)).Remaining)
	releaseAgain()
	require.Eventually(t, func() bool {
		return infoField(t, admin, "clients", "connected_clients") == "1" // the test's own
	}, 5*time.Second, 10*time.Millisecond)
}

func TestManyConfigurationsLeaveNothingBehind(t *testing.T) {
	redisStore().open(t)
	clusterStore().open(t)
	sentinelStore().open(t)
	server, err := sharedRedis()
	require.NoError(t, err)
	cluster, err := sharedCluster()
	require.NoError(t, err)
	group, err := sharedGroup()
	require.NoError(t, err)
	single, many, watched := redisConfig(server), clusterConfig(cluster), sentinelConfig(group)
	var clients limiter.Clients
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	for i := range 10_000 {
		single.Database, watched.Database, many.Name = i%7, i%7, fmt.Sprint("cluster", i%7)
		for _, acquire := range []func() (limiter.Limiter, func()){
			func() (limiter.Limiter, func()) { return clients.Redis(single) },
			func() (limiter.Limiter, func()) { return clients.Cluster(many) },
			func() (limiter.Limiter, func()) { return clients.Sentinel(watched) },
			func() (limiter.Limiter, func()) { return clients.Delayed(single, time.Minute) },
		} {
			lim, release := acquire()
			if i%100 == 0 { // most configurations are never used
				charge(t, lim, 1, quota(1000, time.Hour))
			}
			release()
		}
	}
	clients.Wait()
	require.Zero(t, limiter.ClientsHeld(&clients))
	require.Eventually(t, func() bool {
		// One is Eventually's own.
		return runtime.NumGoroutine() <= goroutines+1 && openDescriptors(t) <= descriptors
	}, 10*time.Second, 10*time.Millisecond)
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestRedisKeys(t *testing.T) {
	cases := []struct{ name, key, want string }{
		{"printable text is used as it is", "route/1:ab12:10.0.0.1 jack", "graphql-limit-count:fixed:route/1:ab12:10.0.0.1 jack"},
		{"the empty key", "", "graphql-limit-count:fixed:"},
		{"128 bytes are short enough", strings.Repeat("k", 128), "graphql-limit-count:fixed:" + strings.Repeat("k", 128)},
		{"129 bytes are hashed", strings.Repeat("k", 129), "graphql-limit-count:fixed:sha256:9094034fb2d0ce2e407c9b260f2806ab2efb352e200722fd6296d9cf1cf7e6f5"},
		{"braces are hashed", "{a}", "graphql-limit-count:fixed:sha256:460c3a93211614ac783c0f1d1bbbcb45a6da87d6421b5c0771772588f1015ff8"},
		{"control characters are hashed", "a\r\nb", "graphql-limit-count:fixed:sha256:18745f36a05e29072709042d6062ce54f1b08ff36c27ba80c39f81fb010c8ce2"},
		{"other than ASCII is hashed", "ключ", "graphql-limit-count:fixed:sha256:1de36a32af798da0c1ac9297603a320ed8fe567cf21c9177112a4ce914ebb8be"},
		{"text that looks hashed is hashed", "sha256:ab", "graphql-limit-count:fixed:sha256:65c8150519cf5a2d71bb640687c875ee52e0a6d417cfab0e6a6371af9b9e249d"},
	}
	server, admin := ownRedis(t)
	lim := newRedis(t, redisConfig(server))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			_, err := lim.Charge(t.Context(), c.key, 1, quota(1, time.Minute))
			require.NoError(t, err)
			keys, err := admin.Keys(t.Context(), "*").Result()
			require.NoError(t, err)
			require.Equal(t, []string{c.want}, keys)
		})
	}
}

func ExampleLimiter() {
	lim := limiter.NewLocal(limiter.LocalConfig{})
	defer lim.Close()
	q := limiter.Quota{Limit: 10, Window: time.Minute}
	for range 3 {
		r, _ := lim.Charge(context.Background(), "10.0.0.1", 4, q)
		fmt.Println(r.Allowed, r.Remaining)
	}
	// Output:
	// true 6
	// true 2
	// false 0
}
