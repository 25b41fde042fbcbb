package limiter_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/limiter"
)

// store is one kind of limiter under test.
type store struct {
	name string
	// open returns an empty limiter and what makes its time pass.
	open func(t testing.TB) (lim limiter.Limiter, advance func(time.Duration))
	// resetSlack is how much a Reset may be below the exact time: what passes on a real
	// clock between two lines of a test. 0 where the clock is injected.
	resetSlack time.Duration
}

// stores lists every kind. Each passes every test of this file.
func stores() []store {
	return []store{localStore(), redisStore(), clusterStore(), sentinelStore()}
}

func forEachStore(t *testing.T, run func(t *testing.T, s store)) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) { run(t, s) })
	}
}

// equalResult compares all but the clock's noise.
func (s store) equalResult(t *testing.T, want, got limiter.Result) {
	t.Helper()
	s.nearly(t, want.Reset, got.Reset, "Reset")
	s.nearly(t, want.RetryAfter, got.RetryAfter, "RetryAfter")
	want.Reset, want.RetryAfter, got.Reset, got.RetryAfter = 0, 0, 0, 0
	require.Equal(t, want, got)
}

func (s store) nearly(t *testing.T, want, got time.Duration, what string) {
	t.Helper()
	require.LessOrEqual(t, got, want, what)
	if want == 0 {
		require.Zero(t, got, what)
		return
	}
	require.Positive(t, got, what)
	require.GreaterOrEqual(t, got, want-s.resetSlack, what)
}

func TestTheLongestWindowIsAccepted(t *testing.T) {
	forEachStore(t, func(t *testing.T, s store) {
		lim, _ := s.open(t)
		got, err := lim.Charge(t.Context(), "client", 1, quota(2, limiter.WindowSeconds(math.MaxInt64)))
		require.NoError(t, err)
		require.True(t, got.Allowed)
		require.Greater(t, got.Reset, 200*365*24*time.Hour)
		got, err = lim.Charge(t.Context(), "client", 2, quota(2, limiter.WindowSeconds(math.MaxInt64)))
		require.NoError(t, err)
		require.False(t, got.Allowed)
	})
}

func TestWindowSeconds(t *testing.T) {
	require.Equal(t, time.Minute, limiter.WindowSeconds(60))
	require.Equal(t, 9223372036*time.Second, limiter.WindowSeconds(9223372036))
	require.Equal(t, time.Duration(math.MaxInt64), limiter.WindowSeconds(9223372037))
	require.Equal(t, time.Duration(math.MaxInt64), limiter.WindowSeconds(math.MaxInt64))
}

func TestKeysAreAnyBytesAndNeverShare(t *testing.T) {
	long := strings.Repeat("long", 5000)
	keys := []string{
		"", " ", "a", "A", "a ", "a:b", "a\x00b", "\x00", "\x00\x00", "\r\n", "ключ", "\xff\xfe",
		"{a}b", "{a}c", "{}", "*", "sha256:", "sha256:a",
		long, long + "x", "x" + long,
		strings.Repeat("k", 96), strings.Repeat("k", 97), strings.Repeat("k", 128), strings.Repeat("k", 129),
	}
	forEachStore(t, func(t *testing.T, s store) {
		lim, _ := s.open(t)
		for i, key := range keys {
			got, err := lim.Charge(t.Context(), key, int64(i+1), quota(1000, 60*second))
			require.NoError(t, err)
			require.Equal(t, 1000-int64(i+1), got.Remaining, "key %q", key)
		}
		for i, key := range keys {
			got, err := lim.Charge(t.Context(), key, 0, quota(1000, 60*second))
			require.NoError(t, err)
			require.Equal(t, 1000-int64(i+1), got.Remaining, "key %q", key)
		}
	})
}

func TestWhatIsOutOfRangeIsAnError(t *testing.T) {
	cases := []struct {
		name  string
		cost  int64
		quota limiter.Quota
		want  string
	}{
		{"a negative cost", -1, quota(1, second), "cost -1 is not between 0 and 9007199254740991"},
		{"a cost above 2^53-1", limiter.MaxCount + 1, quota(1, second), "cost 9007199254740992 is not between 0 and 9007199254740991"},
		{"no limit", 1, quota(0, second), "limit 0 is not between 1 and 9007199254740991"},
		{"a limit above 2^53-1", 1, quota(limiter.MaxCount+1, second), "limit 9007199254740992 is not between 1 and 9007199254740991"},
		{"no window", 1, quota(1, 0), "window 0s is not above 0"},
		{"a negative window", 1, quota(1, -second), "window -1s is not above 0"},
		{"a negative burst", 1, limiter.Quota{Limit: 1, Window: second, Burst: -1}, "burst -1 is not between 0 and 9007199254740991"},
		{"an unknown window type", 1, limiter.Quota{Limit: 1, Window: second, Type: "tumbling"}, `unsupported window type "tumbling"`},
	}
	forEachStore(t, func(t *testing.T, s store) {
		lim, _ := s.open(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := lim.Charge(t.Context(), "client", c.cost, c.quota)
				require.EqualError(t, err, "charging a counter: "+c.want)
			})
		}
	})
}

// longQuotas are quotas of each kind, of which nothing expires or drains during a test.
func longQuotas(limit int64) map[string]limiter.Quota {
	const window = 100_000 * time.Hour
	return map[string]limiter.Quota{
		"fixed":           {Limit: limit, Window: window},
		"fixed, forgiven": {Limit: limit, Window: window, ForgiveRejected: true},
		"sliding":         {Limit: limit, Window: window, Type: limiter.Sliding},
		"leaky bucket":    {Limit: limit, Window: window, Type: limiter.LeakyBucket},
	}
}

func TestConcurrentChargesAdmitExactlyWhatFits(t *testing.T) {
	const charges = 1000
	cases := []struct {
		limit, cost, want int64
	}{
		{limit: 100, cost: 1, want: 100},
		{limit: 1000, cost: 7, want: 142},
		{limit: 5000, cost: 5, want: 1000},
		{limit: 3, cost: 4, want: 0},
	}
	forEachStore(t, func(t *testing.T, s store) {
		for _, c := range cases {
			for kind, q := range longQuotas(c.limit) {
				t.Run(fmt.Sprintf("%d charges of %d on %d, %s", charges, c.cost, c.limit, kind), func(t *testing.T) {
					lim, _ := s.open(t)
					admitted, _ := chargeAtOnce(t, lim, charges, func(int) int64 { return c.cost }, q)
					require.Equal(t, c.want, admitted)
				})
			}
		}
	})
}

func TestConcurrentMixedCostsNeverExceedTheLimit(t *testing.T) {
	const limit = 997
	forEachStore(t, func(t *testing.T, s store) {
		for kind, q := range longQuotas(limit) {
			t.Run(kind, func(t *testing.T) {
				lim, _ := s.open(t)
				admitted, sum := chargeAtOnce(t, lim, 1000, func(i int) int64 { return int64(1 + i%13) }, q)
				require.Positive(t, admitted)
				require.LessOrEqual(t, sum, int64(limit))
				got, err := lim.Charge(t.Context(), "client", 0, q)
				require.NoError(t, err)
				if got.Allowed {
					require.Equal(t, limit-sum, got.Remaining)
				}
			})
		}
	})
}

func TestManyClientsAtOnceNeverExceedTheirLimits(t *testing.T) {
	const goroutines, limit = 200, 600
	forEachStore(t, func(t *testing.T, s store) {
		for kind, q := range longQuotas(limit) {
			t.Run(kind, func(t *testing.T) {
				lim, _ := s.open(t)
				admitted := make([]atomic.Int64, 50)
				if kind != "fixed" {
					admitted = admitted[:10] // the script runs alike whatever the key
				}
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for i := range admitted {
							cost := 1 + rand.Int64N(10)
							r, err := lim.Charge(context.Background(), fmt.Sprint("client", i), cost, q)
							if err != nil {
								t.Error(err)
								return
							}
							if r.Allowed {
								admitted[i].Add(cost)
							}
						}
					})
				}
				wg.Wait()
				for i := range admitted {
					require.LessOrEqual(t, admitted[i].Load(), int64(limit))
					require.Greater(t, admitted[i].Load(), int64(limit-10), "what does not fit is less than the dearest")
				}
			})
		}
	})
}

// chargeAtOnce charges one key from as many goroutines as charges, and returns how many
// were admitted and the sum of their costs.
func chargeAtOnce(t *testing.T, lim limiter.Limiter, charges int, cost func(int) int64, q limiter.Quota) (admitted, sum int64) {
	t.Helper()
	var count, total atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range charges {
		wg.Go(func() {
			<-start
			r, err := lim.Charge(context.Background(), "client", cost(i), q)
			if err != nil {
				t.Error(err)
				return
			}
			if r.Allowed {
				count.Add(1)
				total.Add(cost(i))
			}
		})
	}
	close(start)
	wg.Wait()
	return count.Load(), total.Load()
}
