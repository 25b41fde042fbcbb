package limiter_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

func TestAnOutageWithinAWindowLosesNothingAndCountsNothingTwice(t *testing.T) {
	faults := map[string]struct {
		begin, end func(t *testing.T, server *servers.Redis)
		lost       int64 // what the server itself forgets
	}{
		"hung": {
			func(t *testing.T, s *servers.Redis) { require.NoError(t, s.Pause()) },
			func(t *testing.T, s *servers.Redis) { require.NoError(t, s.Resume()) },
			0,
		},
		"stopped, and empty afterwards": {
			func(t *testing.T, s *servers.Redis) { require.NoError(t, s.Stop()) },
			func(t *testing.T, s *servers.Redis) { require.NoError(t, s.Start(context.Background())) },
			3,
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, admin := ownRedis(t)
			var failures sync.Map
			delayed := newDelayed(t, limiter.DelayedConfig{
				Store: newRedis(t, faultConfig(server)), Interval: limiter.MinSyncInterval,
				SettleFailed: func(err error) { failures.Store(err.Error(), true) },
			})
			charge(t, delayed, 3, quota(1000, time.Hour))
			fault.begin(t, server)
			for range 50 {
				require.True(t, charge(t, delayed, 2, quota(1000, time.Hour)).Allowed)
				time.Sleep(20 * time.Millisecond)
			}
			_, err := delayed.Charge(t.Context(), "another", 1, quota(10, time.Hour))
			require.Error(t, err, "a key that is not known needs Redis")
			fault.end(t, server)
			returned := time.Now()
			want := strconv.FormatInt(103-fault.lost, 10)
			require.Eventually(t, func() bool { return counterValue(t, admin, "client") == want },
				time.Second+faultSlack, 5*time.Millisecond, "%s", counterValue(t, admin, "client"))
			t.Logf("settled %v after the return", time.Since(returned))
			for range 2 { // whatever an interval still brings
				require.NoError(t, delayed.Settle(t.Context()))
				require.Equal(t, want, counterValue(t, admin, "client"))
				time.Sleep(limiter.MinSyncInterval)
			}
			failures.Range(func(text, _ any) bool {
				require.NotContains(t, text, "client")
				return true
			})
		})
	}
}

func TestASettlementWhoseAnswerWasLostIsMadeOnce(t *testing.T) {
	server, admin := ownRedis(t)
	proxy := newCuttingProxy(t, server.Addr())
	cfg := redisConfig(server)
	cfg.Port = portOf(proxy.listener.Addr())
	for kind, q := range delayedKinds(1000) {
		t.Run(kind, func(t *testing.T) {
			store := limiter.NewRedis(cfg)
			defer store.Close()
			delayed := limiter.NewDelayed(limiter.DelayedConfig{Store: store, Interval: never})
			defer delayed.Close()
			charge(t, delayed, 1, q)
			charge(t, delayed, 10, q)
			proxy.cut.Store(true)
			require.Error(t, delayed.Settle(t.Context()))
			charge(t, delayed, 100, q)
			require.Error(t, delayed.Settle(t.Context()))
			proxy.cut.Store(false)
			require.Equal(t, limiter.DelayedStats{Keys: 1, Pending: 1}, delayed.Stats())
			require.NoError(t, delayed.Settle(t.Context()), "the unconfirmed one")
			require.NoError(t, delayed.Settle(t.Context()), "what came after it")
			require.Equal(t, limiter.DelayedStats{Keys: 1}, delayed.Stats())
			require.EqualValues(t, 889, charge(t, delayed, 0, q).Remaining)
			require.EqualValues(t, 889, charge(t, store, 0, q).Remaining)
		})
	}
	keys, err := admin.Keys(t.Context(), "graphql-limit-count:settled:*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 2)
	for _, key := range keys {
		ttl, err := admin.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Positive(t, ttl, "a settlement is remembered no longer than its window")
	}
}

func TestAnIdleKeyAsksBeforeItDecides(t *testing.T) {
	server, admin := ownRedis(t)
	for kind, q := range delayedKinds(100) {
		t.Run(kind, func(t *testing.T) {
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			c := newClock()
			store := newRedis(t, faultConfig(server))
			delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: time.Minute, Now: c.Now})
			charge(t, delayed, 1, q)
			charge(t, store, 50, q)
			require.EqualValues(t, 98, charge(t, delayed, 1, q).Remaining, "it was just told")
			require.NoError(t, delayed.Settle(t.Context()))
			charge(t, store, 20, q)
			c.Advance(time.Minute + 1)
			require.EqualValues(t, 27, charge(t, delayed, 1, q).Remaining)
			require.NoError(t, delayed.Settle(t.Context()))

			c.Advance(time.Minute + 1)
			require.NoError(t, server.Pause())
			start := time.Now()
			require.EqualValues(t, 27, charge(t, delayed, 0, q).Remaining, "what it knew must do")
			require.Less(t, time.Since(start), faultTimeout+faultSlack)
			for range 1000 {
				require.True(t, charge(t, delayed, 0, q).Allowed, "without asking again")
			}
			require.Less(t, time.Since(start), 2*faultTimeout+faultSlack)
			require.NoError(t, server.Resume())
			recovers(t, store)
		})
	}
}

func TestAHungServerFailsTheFirstChargesOfAWindowWithinTheTimeout(t *testing.T) {
	server, _ := ownRedis(t)
	delayed := newDelayed(t, limiter.DelayedConfig{Store: newRedis(t, faultConfig(server)), Interval: never})
	require.NoError(t, server.Pause())
	var wg sync.WaitGroup
	start := time.Now()
	for i := range 100 {
		wg.Go(func() {
			_, err := delayed.Charge(t.Context(), fmt.Sprint("client", i%3), 1, quota(1_000_000, time.Hour*2))
			if err == nil || strings.Contains(err.Error(), "client") {
				t.Errorf("charging: %v", err)
			}
		})
	}
	wg.Wait()
	t.Logf("all failed after %v", time.Since(start))
	require.Less(t, time.Since(start), faultTimeout+faultSlack)
	require.NoError(t, server.Resume())
	recovers(t, delayed)
}

func TestClosingWhileRedisIsAwaySaysWhatFailed(t *testing.T) {
	server, _ := ownRedis(t)
	var failure error
	delayed := limiter.NewDelayed(limiter.DelayedConfig{
		Store: newRedis(t, faultConfig(server)), Interval: never,
		SettleFailed: func(err error) { failure = err },
	})
	charge(t, delayed, 1, quota(10, 2*hour))
	charge(t, delayed, 1, quota(10, 2*hour))
	require.NoError(t, server.Pause())
	start := time.Now()
	delayed.Close()
	require.Less(t, time.Since(start), faultTimeout+faultSlack)
	require.ErrorContains(t, failure, "charging a counter on redis "+server.Addr())
}
