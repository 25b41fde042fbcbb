package limiter_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/ports"
	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

// clientCounter is the name of the counter that tests charge.
const clientCounter = "graphql-limit-count:fixed:client"

func newCluster(t *testing.T, cfg limiter.ClusterConfig) *limiter.Redis {
	l := limiter.NewCluster(cfg)
	t.Cleanup(l.Close)
	return l
}

// emptyCluster is the shared cluster, with clients of its masters.
func emptyCluster(t *testing.T) (*servers.Cluster, []*redis.Client) {
	clusterStore().open(t)
	cluster, err := sharedCluster()
	require.NoError(t, err)
	masters := make([]*redis.Client, 3)
	for i := range masters {
		masters[i] = nodeClient(t, cluster, cluster.Nodes[i])
	}
	return cluster, masters
}

func nodeClient(t *testing.T, cluster *servers.Cluster, node *servers.Redis) *redis.Client {
	c := cluster.Client(node)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestADecisionIsOneCommandOfOneNode(t *testing.T) {
	cluster, masters := emptyCluster(t)
	lim := newCluster(t, clusterConfig(cluster))
	for kind, q := range longQuotas(1000) {
		t.Run(kind, func(t *testing.T) {
			spend := func(i int) {
				_, err := lim.Charge(t.Context(), fmt.Sprint("client", i%10), 1, q)
				require.NoError(t, err)
			}
			for i := range 10 {
				spend(i) // connects and loads the script
			}
			for _, master := range masters {
				require.NoError(t, master.ConfigResetStat(t.Context()).Err())
			}
			for i := range 100 {
				spend(i)
			}
			sum := 0
			for _, master := range masters {
				stat := infoField(t, master, "commandstats", "cmdstat_evalsha")
				calls, err := strconv.Atoi(strings.TrimPrefix(strings.Split(stat, ",")[0], "calls="))
				require.NoError(t, err)
				require.Less(t, calls, 100, "the keys are spread")
				sum += calls
				for _, other := range []string{"cmdstat_eval", "cmdstat_command", "cmdstat_asking"} {
					require.Empty(t, infoField(t, master, "commandstats", other))
				}
			}
			require.Equal(t, 100, sum)
		})
	}
}

func TestAScriptFlushedOnEachNodeIsSentAgainAndChargesOnce(t *testing.T) {
	cluster, masters := emptyCluster(t)
	lim := newCluster(t, clusterConfig(cluster))
	for round := range 3 {
		for i := range 10 {
			got, err := lim.Charge(t.Context(), fmt.Sprint("client", i), 1, quota(10, time.Hour))
			require.NoError(t, err)
			require.EqualValues(t, 9-round, got.Remaining)
		}
		for _, master := range masters {
			require.NoError(t, master.ScriptFlush(t.Context()).Err())
		}
	}
}

func TestOneReachableSeedIsEnough(t *testing.T) {
	cluster, _ := emptyCluster(t)
	dead := make([]string, 3)
	for i := range dead {
		port, err := ports.Free()
		require.NoError(t, err)
		dead[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	cfg := clusterConfig(cluster)
	cfg.Nodes = append([]string{cluster.Addrs()[4]}, dead...)
	for range 5 {
		lim := limiter.NewCluster(cfg)
		charge(t, lim, 1, quota(10, time.Hour))
		lim.Close()
	}
	cfg.Nodes, cfg.Timeout = dead, faultTimeout
	err := refusedWithin(t, newCluster(t, cfg), 0)
	require.ErrorContains(t, err, "charging a counter on redis cluster test: ")
	require.ErrorContains(t, err, "connection refused")
}

func TestAClusterOverTLS(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := servers.RunClusterTLS(t, certificate)
	for _, verify := range []bool{true, false} {
		cfg := clusterConfig(cluster)
		cfg.TLS, cfg.TLSVerify = true, verify
		charge(t, newCluster(t, cfg), 1, quota(10, time.Hour))
	}
	cfg := clusterConfig(cluster)
	cfg.Timeout = faultTimeout
	refusedWithin(t, newCluster(t, cfg), faultTimeout)

	other, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	single := servers.RunRedisTLS(t, other)
	cfg.Nodes, cfg.TLS, cfg.TLSVerify = []string{single.Addr()}, true, true
	require.ErrorContains(t, refusedWithin(t, newCluster(t, cfg), faultTimeout), "certificate")
}

func TestASlotThatMovesIsFollowed(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := servers.RunCluster(t)
	ctx := t.Context()
	cfg := clusterConfig(cluster)
	lim := newCluster(t, cfg)
	require.EqualValues(t, 999, charge(t, lim, 1, quota(1000, time.Hour)).Remaining)
	source, slot, err := cluster.Owner(ctx, cluster.Nodes[0], clientCounter)
	require.NoError(t, err)
	target := cluster.Nodes[0]
	if target == source {
		target = cluster.Nodes[1]
	}
	from, to := nodeClient(t, cluster, source), nodeClient(t, cluster, target)
	fromID, err := from.ClusterMyID(ctx).Result()
	require.NoError(t, err)
	toID, err := to.ClusterMyID(ctx).Result()
	require.NoError(t, err)

	require.NoError(t, to.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID).Err())
	require.NoError(t, from.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID).Err())
	require.EqualValues(t, 998, charge(t, lim, 1, quota(1000, time.Hour)).Remaining, "the key is still here")
	var cut answerCutter
	unlucky := limiter.NewClusterThrough(cfg, cut.wrap)
	defer unlucky.Close()
	charge(t, unlucky, 0, quota(1000, time.Hour))
	require.NoError(t, from.Migrate(ctx, target.Host, strconv.Itoa(target.Port), clientCounter, 0, time.Second).Err())
	for want := int64(997); want > 990; want-- { // the target has to be sent the script
		require.Equal(t, want, charge(t, lim, 1, quota(1000, time.Hour)).Remaining, "ASK")
	}
	charge(t, unlucky, 0, quota(1000, time.Hour))
	cut.loses(t, unlucky, "asking")
	require.Equal(t, "19", askingFor(t, to, clientCounter), "after ASKING, too")
	// Nobody but the two is told: the others hear of it by gossip.
	require.NoError(t, to.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", toID).Err())
	require.NoError(t, from.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", toID).Err())
	for want := int64(980); want > 970; want-- {
		require.Equal(t, want, charge(t, lim, 1, quota(1000, time.Hour)).Remaining, "MOVED")
	}
	fresh := newCluster(t, cfg)
	require.EqualValues(t, 970, charge(t, fresh, 1, quota(1000, time.Hour)).Remaining)
	value, err := to.Get(ctx, clientCounter).Result()
	require.NoError(t, err)
	require.Equal(t, "30", value)
}

func TestAClusterFailsOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := servers.RunCluster(t, "--requirepass", "cluster-secret", "--masterauth", "cluster-secret")
	cases := map[string]struct {
		begin func(t *testing.T, node *servers.Redis)
		end   func(t *testing.T, node *servers.Redis)
		bound time.Duration
	}{
		"a node killed": {
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Stop()) },
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Start(context.Background())) },
			0,
		},
		"a node hung": {
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Pause()) },
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Resume()) },
			faultTimeout,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, cluster.AwaitReady(t.Context()))
			cfg := clusterConfig(cluster)
			cfg.Timeout, cfg.Password = faultTimeout, "cluster-secret"
			lim := newCluster(t, cfg)
			recovers(t, lim)
			owner, _, err := cluster.Owner(t.Context(), cluster.Nodes[0], clientCounter)
			require.NoError(t, err)
			c.begin(t, owner)
			refusedWithin(t, lim, c.bound)
			promoted := chargeUntilPromoted(t, lim, c.bound, func(ctx context.Context) (*servers.Redis, error) {
				return cluster.AwaitOwner(ctx, otherNode(cluster, owner), owner, clientCounter)
			})
			recovers(t, lim)
			before := counterValue(t, nodeClient(t, cluster, promoted), "client")
			charge(t, lim, 1, quota(1_000_000, time.Hour))
			after := counterValue(t, nodeClient(t, cluster, promoted), "client")
			require.NotEqual(t, before, after)
			c.end(t, owner)
			require.NoError(t, cluster.AwaitReady(t.Context()))
			recovers(t, lim)
		})
	}
	t.Run("the password is asked for", func(t *testing.T) {
		cfg := clusterConfig(cluster)
		require.ErrorContains(t, refusedWithin(t, newCluster(t, cfg), 0), "NOAUTH")
		cfg.Password = "wrong-secret"
		err := refusedWithin(t, newCluster(t, cfg), 0)
		require.ErrorContains(t, err, "WRONGPASS")
		require.NotContains(t, err.Error(), "secret")
	})
}

// otherNode is a master other than the one given.
func otherNode(cluster *servers.Cluster, not *servers.Redis) *servers.Redis {
	for _, node := range cluster.Nodes {
		if node != not {
			return node
		}
	}
	return nil
}

// chargeUntilPromoted charges all through a failover, and checks that no decision takes
// longer than it may.
func chargeUntilPromoted(t *testing.T, lim limiter.Limiter, bound time.Duration, await func(context.Context) (*servers.Redis, error)) *servers.Redis {
	t.Helper()
	stop := make(chan struct{})
	var longest time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			start := time.Now()
			_, _ = lim.Charge(context.Background(), "client", 1, quota(1_000_000, time.Hour))
			longest = max(longest, time.Since(start))
		}
	})
	promoted, err := await(t.Context())
	close(stop)
	wg.Wait()
	require.NoError(t, err)
	t.Logf("the longest decision took %v", longest)
	require.Less(t, longest, bound+faultSlack)
	return promoted
}

func TestAnyOrderOfNodesIsTheSameCluster(t *testing.T) {
	var clients limiter.Clients
	cfg := limiter.ClusterConfig{Nodes: []string{"b:1", "a:1"}, Name: "one"}
	same := limiter.ClusterConfig{Nodes: []string{"a:1", "b:1", "a:1"}, Name: "one", Timeout: time.Second}
	renamed, larger := cfg, cfg
	renamed.Name = "two"
	larger.Nodes = append(larger.Nodes, "c:1")
	first, releaseFirst := clients.Cluster(cfg)
	second, releaseSecond := clients.Cluster(same)
	third, releaseThird := clients.Cluster(renamed)
	fourth, releaseFourth := clients.Cluster(larger)
	require.Same(t, first, second)
	require.NotSame(t, first, third)
	require.NotSame(t, first, fourth)
	require.Equal(t, []string{"b:1", "a:1"}, cfg.Nodes, "the caller's list stays as it is")
	for _, release := range []func(){releaseFirst, releaseSecond, releaseThird, releaseFourth} {
		release()
	}
	require.Zero(t, limiter.ClientsHeld(&clients))
}

// askingFor reads a key that is being imported.
func askingFor(t *testing.T, node *redis.Client, key string) string {
	t.Helper()
	pipe := node.Pipeline()
	pipe.Do(t.Context(), "ASKING")
	value := pipe.Get(t.Context(), key)
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	return value.Val()
}

// answerCutter breaks connections after the server has answered a certain command, on
// demand.
type answerCutter struct {
	command atomic.Pointer[string]
}

type cutConn struct {
	net.Conn
	cutter *answerCutter
	cut    *atomic.Bool
}

func (c *answerCutter) wrap(conn net.Conn) net.Conn { return cutConn{conn, c, new(atomic.Bool)} }

func (c cutConn) Write(b []byte) (int, error) {
	if command := c.cutter.command.Load(); command != nil && bytes.Contains(b, []byte(*command)) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

func (c cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.cut.Load() {
		return 0, io.EOF
	}
	return n, err
}

// loses makes the answer to a charge of 10 get lost, when it is sent with the command.
func (c *answerCutter) loses(t *testing.T, lim limiter.Limiter, command string) {
	t.Helper()
	c.command.Store(&command)
	_, err := lim.Charge(t.Context(), "client", 10, quota(1000, time.Hour))
	c.command.Store(nil)
	require.ErrorIs(t, err, io.EOF)
}

func TestAChargeOfAClusterWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	cluster, _ := emptyCluster(t)
	owner, _, err := cluster.Owner(t.Context(), cluster.Nodes[0], clientCounter)
	require.NoError(t, err)
	admin := nodeClient(t, cluster, owner)
	var cut answerCutter
	lim := limiter.NewClusterThrough(clusterConfig(cluster), cut.wrap)
	defer lim.Close()
	charge(t, lim, 1, quota(100, time.Hour))
	cut.loses(t, lim, "evalsha")
	require.Equal(t, "11", counterValue(t, admin, "client"))
	require.EqualValues(t, 88, charge(t, lim, 1, quota(100, time.Hour)).Remaining)
}
