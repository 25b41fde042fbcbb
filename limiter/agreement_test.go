package limiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
)

// agreementCharges is how many charges are compared per quota.
const agreementCharges = 400

// TestRedisAndLocalAgree charges a real server at its own pace, and Local at the same
// instants: every decision must be the same, to the microsecond.
func TestRedisAndLocalAgree(t *testing.T) {
	server := servers.RunRedis(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	quotas := []Quota{
		{Limit: 50, Window: 200 * time.Millisecond, Type: Sliding},
		{Limit: 7, Window: 50 * time.Millisecond, Type: Sliding},
		{Limit: 1_000_003, Window: 100 * time.Millisecond, Type: Sliding},
		{Limit: 50, Window: 200 * time.Millisecond, Type: LeakyBucket},
		{Limit: 7, Burst: 3, Window: 100 * time.Millisecond, Type: LeakyBucket},
		{Limit: 30, Burst: 100, Window: 100 * time.Millisecond, Type: LeakyBucket},
		{Limit: 1_000_003, Window: 100 * time.Millisecond, Type: LeakyBucket},
	}
	for i, q := range quotas {
		t.Run(fmt.Sprintf("%s of %d, burst %d, per %s", q.Type, q.Limit, q.Burst, q.Window), func(t *testing.T) {
			t.Parallel()
			agree(t, c, fmt.Sprint("agree", i), q)
		})
	}
}

func agree(t *testing.T, c *redis.Client, key string, q Quota) {
	var micros atomic.Int64
	local := NewLocal(LocalConfig{Now: func() time.Time { return time.UnixMicro(micros.Load()) }})
	defer local.Close()
	random := rand.New(rand.NewPCG(1, uint64(q.Limit)))
	refusals, misses := 0, 0
	for range agreementCharges {
		cost := random.Int64N(max(q.Limit/4, 3))
		want, now, decided := chargeRedisAt(t, c, key, cost, q)
		if !decided {
			misses++
			continue
		}
		micros.Store(now)
		got, err := local.Charge(t.Context(), "client", cost, q)
		require.NoError(t, err)
		requireAgree(t, q.Type, want, got)
		if !got.Allowed {
			refusals++
		}
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
	}
	t.Logf("%d of %d refused, %d not comparable", refusals, agreementCharges, misses)
	require.Positive(t, refusals)
	require.Less(t, refusals, agreementCharges-misses)
}

// chargeRedisAt charges and returns the instant of the decision. An instant is unknown
// only for a leaky bucket that was and stays empty, where nothing is stored; then local
// has nothing to learn either.
func chargeRedisAt(t *testing.T, c *redis.Client, key string, cost int64, q Quota) (r Result, now int64, known bool) {
	t.Helper()
	ctx := context.Background()
	if q.Type == Sliding {
		reply, err := slidingScript.Run(ctx, c, []string{redisKey(Sliding, key)},
			cost, slidingLength(q.Window), q.Limit).Int64Slice()
		require.NoError(t, err)
		w := slidingWindow{current: reply[1], previous: reply[2], start: reply[3], length: reply[4]}
		return w.result(&q, cost, w.remaining(reply[5]), reply[0] == 1), reply[5], true
	}
	b := newLeakyBucket(&q)
	reply, err := redis_rate.NewLimiter(c).AllowN(ctx, redisKey(LeakyBucket, key), b.limit, int(b.units(&q, cost)))
	require.NoError(t, err)
	if reply.ResetAfter == 0 {
		return Result{}, 0, false
	}
	tat, err := c.Get(ctx, "rate:"+redisKey(LeakyBucket, key)).Float64()
	require.NoError(t, err)
	micros := math.Round((tat - reply.ResetAfter.Seconds()) * 1e6)
	return b.result(&q, cost, outcomeOf(reply)), leakyEpoch*1e6 + int64(micros), true
}

// requireAgree allows a leaky bucket's times a microsecond: Redis returns them with 14
// digits, which can round to another one.
func requireAgree(t *testing.T, kind WindowType, want, got Result) {
	t.Helper()
	if kind == LeakyBucket {
		require.InDelta(t, want.Reset, got.Reset, float64(time.Microsecond))
		require.InDelta(t, want.RetryAfter, got.RetryAfter, float64(time.Microsecond))
		want.Reset, want.RetryAfter = got.Reset, got.RetryAfter
	}
	require.Equal(t, want, got)
}

// TestRetryAfterIsTheFirstInstantThatFits tries every refused charge of a random sequence
// at the promised instant, where it must pass, and just before, where it must not.
func TestRetryAfterIsTheFirstInstantThatFits(t *testing.T) {
	quotas := []Quota{
		{Limit: 10, Window: time.Minute},
		{Limit: 10, Window: time.Minute, ForgiveRejected: true},
		{Limit: 10, Window: 10 * time.Second, Type: Sliding},
		{Limit: 97, Window: 7 * time.Second, Type: Sliding},
		{Limit: 1_000_003, Window: time.Hour, Type: Sliding},
		{Limit: 10, Window: time.Minute, Type: LeakyBucket},
		{Limit: 97, Window: 7 * time.Second, Type: LeakyBucket},
		{Limit: 1000, Burst: 333, Window: time.Minute, Type: LeakyBucket},
		{Limit: 10_000, Burst: 70_000, Window: time.Hour, Type: LeakyBucket},
		{Limit: 1_000_003, Window: time.Hour, Type: LeakyBucket},
	}
	for _, q := range quotas {
		t.Run(fmt.Sprintf("%s of %d, burst %d, per %s", q.Type, q.Limit, q.Burst, q.Window), func(t *testing.T) {
			random := rand.New(rand.NewPCG(2, uint64(q.Limit)))
			capacity := q.Limit
			if q.Type == LeakyBucket {
				capacity = q.burst()
			}
			now := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC).UnixNano()
			e := entry{kind: newEntry}
			tried := 0
			for range 5000 {
				now += random.Int64N(int64(q.Window)/10/1000) * 1000
				cost := 1 + random.Int64N(capacity)
				r := e.charge(&q, cost, now)
				if r.Allowed {
					continue
				}
				tried++
				require.Positive(t, r.RetryAfter)
				later := e
				require.True(t, later.charge(&q, cost, now+int64(r.RetryAfter)).Allowed, "at the promised instant")
				sooner := e
				early := promiseGranularity(&q)
				if r.RetryAfter > early {
					require.False(t, sooner.charge(&q, cost, now+int64(r.RetryAfter-early)).Allowed, "before the promised instant")
				}
			}
			require.Greater(t, tried, 1000)
		})
	}
}

// promiseGranularity is how much earlier than promised a charge may pass: a nanosecond of
// a fixed window, microseconds of the others, and a leaky bucket's tolerance.
func promiseGranularity(q *Quota) time.Duration {
	switch q.Type {
	case Sliding:
		return time.Microsecond
	case LeakyBucket:
		b := newLeakyBucket(q)
		return q.Window/time.Duration(b.limit.Rate) + 2*time.Microsecond
	default:
		return 1
	}
}

// TestSlidingNeverAdmitsMoreThanTheLimitInAWindow checks the sum in every aligned window.
func TestSlidingNeverAdmitsMoreThanTheLimitInAWindow(t *testing.T) {
	q := Quota{Limit: 100, Window: 10 * time.Second, Type: Sliding}
	random := rand.New(rand.NewPCG(3, 3))
	now := int64(1_800_000_000 * time.Second)
	admitted := map[int64]int64{}
	e := entry{kind: newEntry}
	for range 20_000 {
		now += random.Int64N(int64(500 * time.Millisecond))
		cost := 1 + random.Int64N(20)
		if e.charge(&q, cost, now).Allowed {
			admitted[now/int64(q.Window)] += cost
		}
	}
	for window, sum := range admitted {
		require.LessOrEqual(t, sum, q.Limit, "window %d", window)
	}
	require.Greater(t, len(admitted), 300)
}

// TestALeakyBucketAdmitsItsBurstAndItsRate checks the sum over all time.
func TestALeakyBucketAdmitsItsBurstAndItsRate(t *testing.T) {
	for _, q := range []Quota{
		{Limit: 100, Window: 7 * time.Second, Type: LeakyBucket},
		{Limit: 300, Burst: 50, Window: 11 * time.Second, Type: LeakyBucket},
		{Limit: 1_000_000_000, Window: time.Second, Type: LeakyBucket}, // units of 1 ns
	} {
		random := rand.New(rand.NewPCG(4, 4))
		start := int64(1_800_000_000 * time.Second)
		now := start
		var sum int64
		e := entry{kind: newEntry}
		for range 50_000 {
			now += random.Int64N(int64(20 * time.Millisecond))
			cost := 1 + random.Int64N(q.burst()/10)
			if e.charge(&q, cost, now).Allowed {
				sum += cost
			}
		}
		may := float64(q.burst()) + float64(now-start)*float64(q.Limit)/float64(q.Window)
		require.LessOrEqual(t, float64(sum), may+may*1e-6)
		require.Greater(t, float64(sum), may*0.9, "and it is not stingy")
	}
}

func TestAForeignSlidingValueIsOverwritten(t *testing.T) {
	server := servers.RunRedis(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ctx := t.Context()
	q := Quota{Limit: 10, Window: time.Hour, Type: Sliding}
	key := redisKey(Sliding, "client")
	for _, held := range []string{
		"", "x", "5", "1 2 3", "1 0 3 4", "1 -2 3 4", "1 2 3 4 5", "1.5 2 3 4",
		"9007199254740991 3600000000 5 0", // starts in the year 2255
		"1767322800000000 9007199254740991 5 0",
		"1767322800000000 3600000000 99999999999999999999 0",
	} {
		require.NoError(t, c.Set(ctx, key, held, 0).Err())
		r, err := chargeSlidingRedis(ctx, c, "client", 4, &q)
		require.NoError(t, err, held)
		require.True(t, r.Allowed, held)
		require.EqualValues(t, 6, r.Remaining, held)
		ttl, err := c.PTTL(ctx, key).Result()
		require.NoError(t, err)
		require.Greater(t, ttl, time.Hour)
		require.LessOrEqual(t, ttl, 2*time.Hour)
	}
	require.NoError(t, c.Del(ctx, key).Err())
	require.NoError(t, c.RPush(ctx, key, "a").Err())
	r, err := chargeSlidingRedis(ctx, c, "client", 4, &q)
	require.NoError(t, err)
	require.EqualValues(t, 6, r.Remaining)
}
