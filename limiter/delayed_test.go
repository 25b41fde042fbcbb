package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/limiter"
)

// never is an interval that does not end during a test: it settles itself.
const never = time.Hour

// longWindow is longer than never.
const longWindow = 100_000 * time.Hour

func newDelayed(t testing.TB, cfg limiter.DelayedConfig) *limiter.Delayed {
	d := limiter.NewDelayed(cfg)
	t.Cleanup(d.Close)
	return d
}

// delayedKinds are quotas that a Delayed decides, under which a refused charge adds
// nothing.
func delayedKinds(limit int64) map[string]limiter.Quota {
	return map[string]limiter.Quota{
		"fixed":   {Limit: limit, Window: longWindow, ForgiveRejected: true},
		"sliding": {Limit: limit, Window: longWindow, Type: limiter.Sliding},
	}
}

func counterValue(t testing.TB, admin *redis.Client, key string) string {
	t.Helper()
	value, err := admin.Get(context.Background(), "graphql-limit-count:fixed:"+key).Result()
	if errors.Is(err, redis.Nil) {
		return ""
	}
	require.NoError(t, err)
	return value
}

func TestADelayedLimiterAloneDecidesLikeADirectOne(t *testing.T) {
	server, _ := ownRedis(t)
	store := newRedis(t, redisConfig(server))
	for kind, q := range delayedKinds(200) {
		t.Run(kind, func(t *testing.T) {
			delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never})
			direct, _ := localStore().open(t)
			random := rand.New(rand.NewPCG(5, 5))
			for i := range 300 {
				if random.IntN(10) == 0 {
					require.NoError(t, delayed.Settle(t.Context()))
				}
				key := strconv.Itoa(random.IntN(3))
				cost := random.Int64N(9)
				want, err := direct.Charge(t.Context(), key, cost, q)
				require.NoError(t, err)
				got, err := delayed.Charge(t.Context(), key, cost, q)
				require.NoError(t, err)
				require.Equal(t, want.Allowed, got.Allowed, "charge %d", i)
				require.Equal(t, want.Remaining, got.Remaining, "charge %d", i)
				require.Equal(t, want.RetryAfter == 0, got.RetryAfter == 0, "charge %d", i)
				require.Positive(t, got.Reset)
			}
		})
	}
}

func TestConcurrentDelayedChargesAdmitExactlyWhatFits(t *testing.T) {
	server, admin := ownRedis(t)
	store := newRedis(t, redisConfig(server))
	for kind, q := range delayedKinds(1000) {
		t.Run(kind, func(t *testing.T) {
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: limiter.MinSyncInterval})
			settling := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-settling:
						return
					default:
						if err := delayed.Settle(context.Background()); err != nil {
							t.Error(err)
						}
					}
				}
			})
			admitted, _ := chargeAtOnce(t, delayed, 1000, func(int) int64 { return 7 }, q)
			close(settling)
			wg.Wait()
			require.EqualValues(t, 142, admitted)
			require.NoError(t, delayed.Settle(t.Context()))
			got, err := store.Charge(t.Context(), "client", 0, q)
			require.NoError(t, err)
			require.EqualValues(t, 1000-142*7, got.Remaining)
		})
	}
}

func TestAKeyTakesOneCommandPerSettlement(t *testing.T) {
	server, admin := ownRedis(t)
	store := newRedis(t, redisConfig(server))
	for kind, q := range delayedKinds(1000) {
		t.Run(kind, func(t *testing.T) {
			delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never})
			charge(t, store, 0, q) // connects and loads the script
			calls := func() string {
				return strings.Split(infoField(t, admin, "commandstats", "cmdstat_evalsha"), ",")[0]
			}
			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			for range 50 {
				charge(t, delayed, 2, q)
			}
			require.Equal(t, "calls=1", calls(), "the first charge asks")
			for range 2 {
				require.NoError(t, delayed.Settle(t.Context()))
				require.Equal(t, "calls=2", calls(), "and nothing is settled twice")
			}
			for range 50 {
				require.False(t, charge(t, delayed, 1000, q).Allowed)
			}
			require.NoError(t, delayed.Settle(t.Context()))
			require.Equal(t, "calls=2", calls(), "what is refused costs nothing")
			require.EqualValues(t, 900, charge(t, store, 0, q).Remaining)
		})
	}
}

func TestNodesSeeEachOthersChargesAfterASettlement(t *testing.T) {
	server, admin := ownRedis(t)
	store := newRedis(t, redisConfig(server))
	for kind, q := range delayedKinds(10) {
		t.Run(kind, func(t *testing.T) {
			require.NoError(t, admin.FlushAll(t.Context()).Err())
			one := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never})
			other := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never})
			require.EqualValues(t, 9, charge(t, one, 1, q).Remaining)
			require.EqualValues(t, 8, charge(t, other, 1, q).Remaining)
			for range 8 {
				require.True(t, charge(t, other, 1, q).Allowed)
			}
			require.EqualValues(t, 6, charge(t, one, 3, q).Remaining, "it does not know better")
			require.NoError(t, other.Settle(t.Context()))
			require.NoError(t, one.Settle(t.Context()))
			require.False(t, charge(t, one, 1, q).Allowed)
			got := charge(t, store, 0, q)
			require.False(t, got.Allowed, "13 of 10: what the other admitted within an interval is too much")
		})
	}
}

func TestANewWindowAsksRedisAndForgetsTheOld(t *testing.T) {
	server, admin := ownRedis(t)
	c := newClock()
	store := newRedis(t, redisConfig(server))
	delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never, Now: c.Now})
	q := quota(10, 10*hour)
	pass := func(d time.Duration) {
		c.Advance(d)
		expireSooner(t, admin, d)
	}
	require.EqualValues(t, 9, charge(t, delayed, 1, q).Remaining)
	require.EqualValues(t, 2, charge(t, delayed, 7, q).Remaining)
	got := charge(t, delayed, 3, q)
	require.False(t, got.Allowed)
	require.Equal(t, got.Reset, got.RetryAfter)
	require.InDelta(t, 10*hour, got.Reset, float64(redisSlack))
	pass(10 * hour)
	require.EqualValues(t, 6, charge(t, delayed, 4, q).Remaining)
	require.NoError(t, delayed.Settle(t.Context()))
	require.Equal(t, "4", counterValue(t, admin, "client"))
	require.Equal(t, 1, delayed.Stats().Keys)
	pass(10 * hour)
	require.NoError(t, delayed.Settle(t.Context()))
	require.Equal(t, limiter.DelayedStats{}, delayed.Stats(), "what is over is dropped")
	require.Empty(t, counterValue(t, admin, "client"))
}

func TestASlidingWindowThatEndsHereFirstIsSettledWhereItBelongs(t *testing.T) {
	server, _ := ownRedis(t)
	c := newClock()
	store := newRedis(t, redisConfig(server))
	delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: never, Now: c.Now})
	q := sliding(100, longWindow)
	charge(t, delayed, 1, q)
	charge(t, delayed, 20, q)
	c.Advance(longWindow) // the server's clock stays
	require.EqualValues(t, 49, charge(t, delayed, 30, q).Remaining)
	require.EqualValues(t, 49, charge(t, store, 0, q).Remaining)
}

func TestAPeekOfADelayedKeyOpensNoWindow(t *testing.T) {
	server, admin := ownRedis(t)
	delayed := newDelayed(t, limiter.DelayedConfig{Store: newRedis(t, redisConfig(server)), Interval: never})
	for _, q := range delayedKinds(5) {
		require.EqualValues(t, 5, charge(t, delayed, 0, q).Remaining)
		require.NoError(t, delayed.Settle(t.Context()))
	}
	size, err := admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, size)
	require.Zero(t, delayed.Stats().Keys)
}

func TestWhatIsNotDelayedIsChargedDirectly(t *testing.T) {
	server, _ := ownRedis(t)
	store := newRedis(t, redisConfig(server))
	delayed := newDelayed(t, limiter.DelayedConfig{Store: store, Interval: time.Minute})
	quotas := map[string]limiter.Quota{
		"a leaky bucket":                          leaky(10, 0, 10*hour),
		"a window as long as the interval":        quota(10, time.Minute),
		"a sliding window as long as an interval": sliding(10, time.Minute),
	}
	for name, q := range quotas {
		t.Run(name, func(t *testing.T) {
			_, err := delayed.Charge(t.Context(), name, 4, q)
			require.NoError(t, err)
			require.Zero(t, delayed.Stats().Keys)
			got, err := store.Charge(t.Context(), name, 6, q)
			require.NoError(t, err)
			require.True(t, got.Allowed)
			require.Zero(t, got.Remaining)
		})
	}
	_, err := delayed.Charge(t.Context(), "client", -1, quota(1, hour))
	require.EqualError(t, err, "charging a counter: cost -1 is not between 0 and 9007199254740991")
}

func TestNewKeysBeyondTheBoundAreChargedDirectly(t *testing.T) {
	server, admin := ownRedis(t)
	delayed := newDelayed(t, limiter.DelayedConfig{Store: newRedis(t, redisConfig(server)), Interval: never, MaxKeys: 3})
	spend := func(key string, cost int64) limiter.Result {
		r, err := delayed.Charge(t.Context(), key, cost, quota(10, longWindow))
		require.NoError(t, err)
		return r
	}
	for i := range 3 {
		spend(fmt.Sprint("pending", i), 1)
		spend(fmt.Sprint("pending", i), 1)
	}
	require.EqualValues(t, 9, spend("late", 1).Remaining)
	require.False(t, spend("late", 10).Allowed)
	require.EqualValues(t, 8, spend("late", 1).Remaining, "what is refused adds nothing here either")
	require.Equal(t, "2", counterValue(t, admin, "late"))
	require.Equal(t, limiter.DelayedStats{Keys: 3, Pending: 3}, delayed.Stats())
	require.EqualValues(t, 7, spend("pending1", 1).Remaining)
	require.NoError(t, delayed.Settle(t.Context()))
	spend("late", 1)
	spend("late", 1)
	require.Equal(t, limiter.DelayedStats{Keys: 3, Pending: 1}, delayed.Stats(), "a settled key makes room")
	require.Equal(t, "3", counterValue(t, admin, "late"))
}

func TestAClosedDelayedLimiterHasSettledAndRefuses(t *testing.T) {
	server, admin := ownRedis(t)
	delayed := limiter.NewDelayed(limiter.DelayedConfig{Store: newRedis(t, redisConfig(server)), Interval: never})
	for range 5 {
		charge(t, delayed, 1, quota(10, 2*hour))
	}
	delayed.Close()
	delayed.Close()
	require.Equal(t, "5", counterValue(t, admin, "client"))
	for _, q := range []limiter.Quota{quota(10, 2*hour), leaky(10, 0, hour)} {
		_, err := delayed.Charge(t.Context(), "client", 1, q)
		require.ErrorIs(t, err, limiter.ErrClosed)
	}
}

func TestDelayedLimitersAreSharedByStoreAndInterval(t *testing.T) {
	server, admin := ownRedis(t)
	var clients limiter.Clients
	cfg := limiter.RedisConfig{Host: server.Host, Port: server.Port}
	explicit := cfg
	explicit.Timeout = time.Second
	direct, releaseDirect := clients.Redis(cfg)
	first, releaseFirst := clients.Delayed(cfg, time.Hour)
	second, releaseSecond := clients.Delayed(explicit, time.Hour)
	third, releaseThird := clients.Delayed(cfg, 2*time.Hour)
	require.Same(t, first, second)
	require.NotSame(t, first, third)
	require.Equal(t, 3, limiter.ClientsHeld(&clients))
	for range 3 {
		charge(t, first, 1, quota(10, 3*hour))
	}
	require.EqualValues(t, 9, charge(t, direct, 0, quota(10, 3*hour)).Remaining)
	releaseFirst()
	releaseThird()
	releaseDirect()
	require.EqualValues(t, 6, charge(t, second, 1, quota(10, 3*hour)).Remaining)
	releaseSecond()
	clients.Wait()
	require.Zero(t, limiter.ClientsHeld(&clients))
	require.Equal(t, "4", counterValue(t, admin, "client"))
	_, err := second.Charge(t.Context(), "client", 1, quota(10, 3*hour))
	require.ErrorIs(t, err, limiter.ErrClosed)
}

func TestLimitersCanBeGivenUpWhileOthersAreWaitedFor(t *testing.T) {
	server, admin := ownRedis(t)
	var clients limiter.Clients
	const intervals = 50
	var waits sync.WaitGroup
	for i := range intervals {
		lim, release := clients.Delayed(limiter.RedisConfig{Host: server.Host, Port: server.Port}, time.Hour+time.Duration(i))
		charge(t, lim, 1, quota(1000, 3*hour))
		waits.Go(release)
		waits.Go(clients.Wait)
	}
	waits.Wait()
	clients.Wait()
	require.Zero(t, limiter.ClientsHeld(&clients))
	require.Equal(t, strconv.Itoa(intervals), counterValue(t, admin, "client"))
}
