package limiter_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

// certificate is one for 127.0.0.1 that this process trusts like one of the system's
// authorities.
var certificate servers.Certificate

// sharedRedis is one server for all tests that leave it as they found it: empty.
var sharedRedis = sync.OnceValues(func() (*servers.Redis, error) {
	return untilTheEnd(servers.StartRedis(context.Background()))
})

// started closes what tests have shared.
var started []func() error

func untilTheEnd[T interface{ Close() error }](server T, err error) (T, error) {
	if err == nil {
		started = append(started, server.Close)
	}
	return server, err
}

// sharedCluster and sharedGroup are the same for a cluster and for a server that sentinels
// watch.
var (
	sharedCluster = sync.OnceValues(func() (*servers.Cluster, error) {
		return untilTheEnd(servers.StartCluster(context.Background()))
	})
	sharedGroup = sync.OnceValues(func() (*servers.SentinelGroup, error) {
		return untilTheEnd(servers.StartSentinels(context.Background(), groupConfig))
	})
)

var groupConfig = servers.SentinelConfig{
	Username: "limiter", Password: "server-secret",
	SentinelUsername: "watcher", SentinelPassword: "sentinel-secret",
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := makeCertificate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(filepath.Dir(certificate.CertFile))
	code := m.Run()
	for _, closeServer := range started {
		if err := closeServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// makeCertificate must run before the first certificate is verified: the system's
// authorities are read once.
func makeCertificate() (err error) {
	dir, err := os.MkdirTemp("", "limiter-")
	if err != nil {
		return err
	}
	if certificate, err = servers.NewCertificate(dir); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_FILE", certificate.CertFile)
}

// clock is a time that only tests move.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

func localStore() store {
	return store{
		name: "local",
		open: func(t testing.TB) (limiter.Limiter, func(time.Duration)) {
			c := newClock()
			l := limiter.NewLocal(limiter.LocalConfig{Now: c.Now})
			t.Cleanup(l.Close)
			return l, c.Advance
		},
	}
}

// redisSlack is the time that may pass between a charge and the next line of a test, on a
// machine that compiles something else meanwhile.
const redisSlack = 5 * time.Second

func redisStore() store {
	return store{
		name:       "redis",
		resetSlack: redisSlack,
		open: func(t testing.TB) (limiter.Limiter, func(time.Duration)) {
			server, err := sharedRedis()
			require.NoError(t, err)
			admin := adminClient(t, server)
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			l := limiter.NewRedis(redisConfig(server))
			t.Cleanup(l.Close)
			return l, func(d time.Duration) { expireSooner(t, admin, d) }
		},
	}
}

func clusterStore() store {
	return store{
		name:       "redis-cluster",
		resetSlack: redisSlack,
		open: func(t testing.TB) (limiter.Limiter, func(time.Duration)) {
			cluster, err := sharedCluster()
			require.NoError(t, err)
			masters := make([]*redis.Client, 3)
			for i := range masters {
				masters[i] = cluster.Client(cluster.Nodes[i])
				t.Cleanup(func() { require.NoError(t, masters[i].Close()) })
				require.NoError(t, masters[i].FlushAll(t.Context()).Err())
			}
			l := limiter.NewCluster(clusterConfig(cluster))
			t.Cleanup(l.Close)
			return l, func(d time.Duration) {
				for _, master := range masters {
					expireSooner(t, master, d)
				}
			}
		},
	}
}

func clusterConfig(cluster *servers.Cluster) limiter.ClusterConfig {
	return limiter.ClusterConfig{Nodes: cluster.Addrs()[:2], Name: "test", Timeout: 30 * time.Second}
}

func sentinelStore() store {
	return store{
		name:       "redis-sentinel",
		resetSlack: redisSlack,
		open: func(t testing.TB) (limiter.Limiter, func(time.Duration)) {
			group, err := sharedGroup()
			require.NoError(t, err)
			master, err := group.Master(t.Context())
			require.NoError(t, err)
			admin := group.Client(master)
			t.Cleanup(func() { require.NoError(t, admin.Close()) })
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			cfg := sentinelConfig(group)
			cfg.ConnectTimeout, cfg.ReadTimeout = cfg.Timeout, cfg.Timeout
			l := limiter.NewSentinel(cfg)
			t.Cleanup(l.Close)
			return l, func(d time.Duration) { expireSooner(t, admin, d) }
		},
	}
}

func sentinelConfig(group *servers.SentinelGroup) limiter.SentinelConfig {
	return limiter.SentinelConfig{
		Sentinels: group.SentinelAddrs()[:1], MasterName: group.MasterName,
		Username: groupConfig.Username, Password: groupConfig.Password,
		SentinelUsername: groupConfig.SentinelUsername, SentinelPassword: groupConfig.SentinelPassword,
		Timeout: 30 * time.Second,
	}
}

func redisConfig(server *servers.Redis) limiter.RedisConfig {
	return limiter.RedisConfig{Host: server.Host, Port: server.Port, Timeout: 30 * time.Second}
}

// adminClient is a client of the test's own, to look at what the limiter stored.
func adminClient(t testing.TB, server *servers.Redis) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// expireSooner makes time pass for every fixed window and leaky bucket of a server, whose
// own clock cannot be set.
func expireSooner(t testing.TB, admin *redis.Client, d time.Duration) {
	ctx := context.Background()
	keys, err := admin.Keys(ctx, "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		ttl, err := admin.PTTL(ctx, key).Result()
		require.NoError(t, err)
		if strings.HasPrefix(key, "rate:") {
			tat, err := admin.Get(ctx, key).Float64()
			require.NoError(t, err)
			require.NoError(t, admin.Set(ctx, key, tat-d.Seconds(), 0).Err())
		}
		if ttl > 0 {
			require.NoError(t, admin.PExpire(ctx, key, ttl-d).Err())
		}
	}
}
