package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/ports"
	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

func newSentinel(t *testing.T, cfg limiter.SentinelConfig) *limiter.Redis {
	l := limiter.NewSentinel(cfg)
	t.Cleanup(l.Close)
	return l
}

func TestSentinelCredentials(t *testing.T) {
	group, err := sharedGroup()
	require.NoError(t, err)
	cases := []struct {
		name   string
		change func(cfg *limiter.SentinelConfig)
		want   string
	}{
		{"all", func(*limiter.SentinelConfig) {}, ""},
		{"none for the sentinels", func(cfg *limiter.SentinelConfig) {
			cfg.SentinelUsername, cfg.SentinelPassword = "", ""
		}, "NOAUTH"},
		{"wrong ones for the sentinels", func(cfg *limiter.SentinelConfig) { cfg.SentinelPassword = "wrong-secret" }, "WRONGPASS"},
		{"none for the server", func(cfg *limiter.SentinelConfig) { cfg.Username, cfg.Password = "", "" }, "NOAUTH"},
		{"wrong ones for the server", func(cfg *limiter.SentinelConfig) { cfg.Password = "wrong-secret" }, "WRONGPASS"},
		{"a name that no sentinel knows", func(cfg *limiter.SentinelConfig) { cfg.MasterName = "theirs" }, "redis: nil"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := sentinelConfig(group)
			c.change(&cfg)
			lim := newSentinel(t, cfg)
			if c.want == "" {
				recovers(t, lim)
				return
			}
			err := refusedWithin(t, lim, 0)
			require.ErrorContains(t, err, "charging a counter on redis master "+cfg.MasterName+": ")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestSentinelDatabasesAreApart(t *testing.T) {
	sentinelStore().open(t)
	group, err := sharedGroup()
	require.NoError(t, err)
	cfg := sentinelConfig(group)
	for database := range 3 {
		cfg.Database = database
		require.EqualValues(t, 4, charge(t, newSentinel(t, cfg), 1, quota(5, time.Hour)).Remaining)
	}
}

func TestOneReachableSentinelIsEnough(t *testing.T) {
	group, err := sharedGroup()
	require.NoError(t, err)
	dead := make([]string, 2)
	for i := range dead {
		port, err := ports.Free()
		require.NoError(t, err)
		dead[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	cfg := sentinelConfig(group)
	cfg.Sentinels = append(dead[:2:2], group.SentinelAddrs()[1])
	recovers(t, newSentinel(t, cfg))
	cfg.Sentinels, cfg.Timeout = dead, faultTimeout
	lim := newSentinel(t, cfg)
	for range 300 { // more failures than any pool has places
		_, err := lim.Charge(t.Context(), "client", 1, quota(10, time.Hour))
		require.ErrorContains(t, err, "connection refused")
	}
}

func TestAReplicaRefusesCharges(t *testing.T) {
	group, err := sharedGroup()
	require.NoError(t, err)
	cfg := sentinelConfig(group)
	cfg.Replica = true
	require.ErrorContains(t, refusedWithin(t, newSentinel(t, cfg), 0), "READONLY")
}

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	cases := map[string]struct {
		begin func(t *testing.T, node *servers.Redis)
		end   func(t *testing.T, node *servers.Redis)
		bound time.Duration
	}{
		"the master killed": {
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Stop()) },
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Start(context.Background())) },
			0,
		},
		"the master hung": {
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Pause()) },
			func(t *testing.T, node *servers.Redis) { require.NoError(t, node.Resume()) },
			faultTimeout,
		},
	}
	group := servers.RunSentinels(t, groupConfig)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, group.AwaitReady(t.Context()))
			master, err := group.Master(t.Context())
			require.NoError(t, err)
			cfg := sentinelConfig(group)
			cfg.Timeout = faultTimeout
			lim := newSentinel(t, cfg)
			recovers(t, lim)
			idle := newSentinel(t, cfg)
			chargeTogether(t, idle) // several connections, all of them to the old master
			c.begin(t, master)
			refusedWithin(t, lim, c.bound)
			promoted := chargeUntilPromoted(t, lim, c.bound, func(ctx context.Context) (*servers.Redis, error) {
				return group.AwaitPromoted(ctx, master)
			})
			recovers(t, lim)
			recovers(t, idle)
			admin := group.Client(promoted)
			defer admin.Close()
			before := charge(t, lim, 0, quota(1_000_000, time.Hour))
			charge(t, lim, 1, quota(1_000_000, time.Hour))
			after := charge(t, lim, 0, quota(1_000_000, time.Hour))
			require.Equal(t, before.Remaining-1, after.Remaining)
			require.Equal(t, fmt.Sprint(1_000_000-after.Remaining), counterValue(t, admin, "client"))
			c.end(t, master)
			require.NoError(t, group.AwaitReady(t.Context()))
			for range 20 {
				charge(t, lim, 1, quota(1_000_000, time.Hour))
			}
		})
	}
}

// chargeTogether makes a limiter open several connections.
func chargeTogether(t *testing.T, lim limiter.Limiter) {
	chargeAtOnce(t, lim, 20, func(int) int64 { return 1 }, quota(1_000_000, time.Hour))
}

func TestASentinelThatHangsIsPassedOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	group := servers.RunSentinels(t, servers.SentinelConfig{})
	cfg := limiter.SentinelConfig{Sentinels: group.SentinelAddrs(), MasterName: group.MasterName}
	lim := newSentinel(t, cfg)
	recovers(t, lim)
	for _, hung := range group.Sentinels {
		require.NoError(t, hung.Pause())
		fresh := newSentinel(t, cfg)
		recovers(t, fresh)
		admin := group.Client(group.Servers[0])
		// Every connection has to be opened anew.
		require.NoError(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal").Err())
		require.NoError(t, admin.Close())
		recovers(t, lim)
		require.NoError(t, hung.Resume())
	}
}

func TestAnyOrderOfSentinelsIsTheSameServer(t *testing.T) {
	var clients limiter.Clients
	cfg := limiter.SentinelConfig{Sentinels: []string{"b:1", "a:1"}, MasterName: "m"}
	same := cfg
	same.Sentinels = []string{"a:1", "b:1"}
	same.ConnectTimeout, same.ReadTimeout, same.Timeout = time.Second, time.Second, time.Second
	first, releaseFirst := clients.Sentinel(cfg)
	second, releaseSecond := clients.Sentinel(same)
	require.Same(t, first, second)
	releaseFirst()
	releaseSecond()
	for name, change := range map[string]func(*limiter.SentinelConfig){
		"sentinel password": func(c *limiter.SentinelConfig) { c.SentinelPassword = "x" },
		"database":          func(c *limiter.SentinelConfig) { c.Database = 1 },
		"role":              func(c *limiter.SentinelConfig) { c.Replica = true },
		"read timeout":      func(c *limiter.SentinelConfig) { c.ReadTimeout = time.Minute },
	} {
		other := cfg
		change(&other)
		one, releaseOne := clients.Sentinel(cfg)
		two, releaseTwo := clients.Sentinel(other)
		require.NotSame(t, one, two, name)
		releaseOne()
		releaseTwo()
	}
	require.Zero(t, limiter.ClientsHeld(&clients))
}

func TestASentinelsMasterWhoseAnswerWasLostIsNotChargedAgain(t *testing.T) {
	sentinelStore().open(t)
	group, err := sharedGroup()
	require.NoError(t, err)
	master, err := group.Master(t.Context())
	require.NoError(t, err)
	admin := group.Client(master)
	defer admin.Close()
	var cut answerCutter
	lim := limiter.NewSentinelThrough(sentinelConfig(group), cut.wrap)
	defer lim.Close()
	charge(t, lim, 1, quota(100, time.Hour))
	cut.loses(t, lim, "evalsha")
	require.Equal(t, "11", counterValue(t, admin, "client"))
	require.EqualValues(t, 88, charge(t, lim, 1, quota(100, time.Hour)).Remaining)
}
