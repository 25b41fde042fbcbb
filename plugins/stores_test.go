package plugins_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// settled is how long a settlement, a failover or an ended goroutine is waited for.
const settled = 30 * time.Second

// clusterMembers and sentinelMembers are members of a configuration, for tests that
// are about no time limit.
func clusterMembers(cluster *servers.Cluster) string {
	return fmt.Sprintf(`"policy":"redis-cluster","redis_cluster_name":"c","redis_cluster_nodes":[%q,%q],"redis_timeout":%d`,
		cluster.Nodes[0].Addr(), cluster.Nodes[1].Addr(), patience)
}

func sentinelMembers(group *servers.SentinelGroup) string {
	var sentinels []string
	for _, s := range group.Sentinels {
		sentinels = append(sentinels, fmt.Sprintf(`{"host":%q,"port":%d}`, s.Host, s.Port))
	}
	return fmt.Sprintf(`"policy":"redis-sentinel","redis_master_name":%q,"redis_sentinels":[%s]`,
		group.MasterName, strings.Join(sentinels, ","))
}

// TestSyncInterval: decided in memory, settled in Redis, seen by the next runner.
func TestSyncInterval(t *testing.T) {
	server := servers.RunRedis(t)
	conf := fmt.Sprintf(`{"count":7,"time_window":3600,"sync_interval":0.1,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_timeout":%d}`,
		server.Host, server.Port, patience)
	first := startStack(t, stackConfig{}).route(t, conf)
	for _, left := range []string{"6", "5", "4", "3", "2", "1", "0"} {
		require.Equal(t, left, first.send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"])
	}
	a := first.send(graphQL("{a}"))
	require.Equal(t, 503, a.status)
	require.Equal(t, "0", a.header["X-RateLimit-Remaining"])

	store := redisClient(t, server, "", 0)
	require.Eventually(t, func() bool {
		keys, err := store.Keys(context.Background(), "graphql-limit-count:fixed:*").Result()
		return err == nil && len(keys) == 1 && store.Get(context.Background(), keys[0]).Val() == "7"
	}, settled, 10*time.Millisecond, "Redis holds what was admitted")
	require.Equal(t, 503, startStack(t, stackConfig{}).route(t, conf).send(graphQL("{a}")).status)
}

// TestWhatIsLeftIsSettledAtTheEnd: a runner that ends loses nothing.
func TestWhatIsLeftIsSettledAtTheEnd(t *testing.T) {
	server := servers.RunRedis(t)
	conf := fmt.Sprintf(`{"count":7,"time_window":3600,"sync_interval":3000,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_timeout":%d}`,
		server.Host, server.Port, patience)
	t.Run("a runner", func(t *testing.T) {
		route := startStack(t, stackConfig{}).route(t, conf)
		route.send(graphQL(depth(2))).costs("2")
		route.send(graphQL(depth(3))).costs("3")
	})
	a := startStack(t, stackConfig{}).route(t, conf).send(graphQL("{a}")).costs("1")
	require.Equal(t, "1", a.header["X-RateLimit-Remaining"])
}

// TestRunnersShareAClustersQuota: never more than the quota is admitted, and all of it.
func TestRunnersShareAClustersQuota(t *testing.T) {
	const callers, each, admitted = 4, 40, 75
	conf := `{"count":150,"time_window":3600,"key_type":"constant","key":"` + t.Name() + `",` + clusterMembers(plainCluster(t)) + `}`
	for _, store := range clusterClients(t, plainCluster(t)) {
		require.NoError(t, store.FlushAll(t.Context()).Err())
	}
	var passed, refused atomic.Int64
	var running sync.WaitGroup
	for range 2 {
		s := startStack(t, stackConfig{})
		for range callers {
			c := s.route(t, conf)
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
	}
	running.Wait()
	require.Equal(t, int64(admitted), passed.Load())
	require.Equal(t, int64(2*callers*each-admitted), refused.Load())
}

// TestSentinelFailover: 500 meanwhile, or pass where the configuration allows
// degradation, and counted again by itself afterwards.
func TestSentinelFailover(t *testing.T) {
	group := servers.RunSentinels(t, servers.SentinelConfig{})
	s := startStack(t, stackConfig{})
	conf := `{"count":1000,"time_window":3600,` + sentinelMembers(group)
	strict, degrading := s.route(t, conf+`}`), s.bound(t, "r", "d", conf+`,"allow_degradation":true}`)
	strict.send(graphQL("{a}")).costs("1")
	degrading.send(graphQL("{a}")).costs("1")
	master, err := group.Master(t.Context())
	require.NoError(t, err)
	require.NoError(t, master.Stop())

	strict.send(graphQL("{a}")).refused(500, counterFailure)
	require.Contains(t, s.logged(t), "redis master "+group.MasterName)
	require.Equal(t, map[string]string{"X-Graphql-Query-Cost": "1"}, degrading.send(graphQL("{a}")).passes().header)

	_, err = group.AwaitPromoted(t.Context(), master)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strict.send(graphQL("{a}")).status == 0 }, settled, 10*time.Millisecond)
	for range 5 {
		require.NotEmpty(t, strict.send(graphQL("{a}")).costs("1").header["X-RateLimit-Remaining"])
		require.NotEmpty(t, degrading.send(graphQL("{a}")).passes().header["X-RateLimit-Remaining"])
	}
}

// heldClients counts the limiters that configurations hold.
type heldClients struct {
	limiter.Clients
	held, delayed atomic.Int64
}

func (h *heldClients) hold(lim limiter.Limiter, release func()) (limiter.Limiter, func()) {
	h.held.Add(1)
	return lim, sync.OnceFunc(func() {
		release()
		h.held.Add(-1)
	})
}

func (h *heldClients) Redis(c limiter.RedisConfig) (limiter.Limiter, func()) {
	return h.hold(h.Clients.Redis(c))
}

func (h *heldClients) Cluster(c limiter.ClusterConfig) (limiter.Limiter, func()) {
	return h.hold(h.Clients.Cluster(c))
}

func (h *heldClients) Sentinel(c limiter.SentinelConfig) (limiter.Limiter, func()) {
	return h.hold(h.Clients.Sentinel(c))
}

func (h *heldClients) Delayed(c limiter.StoreConfig, interval time.Duration) (limiter.Limiter, func()) {
	h.delayed.Add(1)
	return h.hold(h.Clients.Delayed(c, interval))
}

// TestPreparedConfigurationsLeaveNothingBehind: APISIX prepares configurations again
// and again.
func TestPreparedConfigurationsLeaveNothingBehind(t *testing.T) {
	const cycles = 10_000
	stores := []string{
		`"policy":"redis","redis_host":"127.0.0.1","redis_database":%d`,
		`"policy":"redis-cluster","redis_cluster_nodes":["127.0.0.1:1","127.0.0.1:2"],"redis_cluster_name":"c%d"`,
		`"policy":"redis-sentinel","redis_sentinels":[{"host":"127.0.0.1","port":1}],"redis_master_name":"m%d"`,
	}
	clients := &heldClients{}
	p := plugins.New(plugins.Options{Redis: clients, Logger: zap.NewNop()})
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	for i := range cycles {
		store := fmt.Sprintf(stores[i%len(stores)], i%7)
		if i%2 == 1 {
			store += `,"sync_interval":1`
		}
		rt, err := p.ParseConf([]byte(`{"count":9,"time_window":60,` + store + `}`))
		require.NoError(t, err)
		require.EqualValues(t, 1, clients.held.Load())
		require.NoError(t, rt.(io.Closer).Close())
	}
	require.EqualValues(t, cycles/2, clients.delayed.Load())
	require.Zero(t, clients.held.Load())
	clients.Wait()
	goroutines++ // that of Eventually itself
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }, settled, 10*time.Millisecond)
	require.LessOrEqual(t, openDescriptors(t), descriptors)
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
