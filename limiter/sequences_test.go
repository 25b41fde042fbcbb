package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/limiter"
)

// step is one charge of a sequence on one key.
type step struct {
	after time.Duration // time that passes before the charge
	cost  int64
	quota limiter.Quota
	want  limiter.Result
}

const second = time.Second

func quota(limit int64, window time.Duration) limiter.Quota {
	return limiter.Quota{Limit: limit, Window: window}
}

func forgiving(limit int64, window time.Duration) limiter.Quota {
	return limiter.Quota{Limit: limit, Window: window, Type: limiter.Fixed, ForgiveRejected: true}
}

func allowed(limit, remaining int64, reset time.Duration) limiter.Result {
	return limiter.Result{Allowed: true, Limit: limit, Remaining: remaining, Reset: reset}
}

func refused(limit int64, reset, retryAfter time.Duration) limiter.Result {
	return limiter.Result{Limit: limit, Reset: reset, RetryAfter: retryAfter}
}

var fixedSequences = []struct {
	name  string
	steps []step
}{
	{"remaining counts down by the cost and resets with the window", []step{
		{0, 4, quota(10, 60*second), allowed(10, 6, 60*second)},
		{15 * second, 4, quota(10, 60*second), allowed(10, 2, 45*second)},
		{45 * second, 4, quota(10, 60*second), allowed(10, 6, 60*second)},
	}},
	{"later charges do not move the window", []step{
		{0, 1, quota(10, 60*second), allowed(10, 9, 60*second)},
		{30 * second, 1, quota(10, 60*second), allowed(10, 8, 30*second)},
		{29 * second, 1, quota(10, 60*second), allowed(10, 7, 1*second)},
		{1 * second, 1, quota(10, 60*second), allowed(10, 9, 60*second)},
	}},
	{"a cost equal to the limit passes and leaves nothing", []step{
		{0, 10, quota(10, 60*second), allowed(10, 0, 60*second)},
		{0, 1, quota(10, 60*second), refused(10, 60*second, 60*second)},
	}},
	{"a refused charge is added like any other", []step{
		{0, 4, quota(10, 60*second), allowed(10, 6, 60*second)},
		{0, 4, quota(10, 60*second), allowed(10, 2, 60*second)},
		{0, 4, quota(10, 60*second), refused(10, 60*second, 60*second)},
		{0, 1, quota(10, 60*second), refused(10, 60*second, 60*second)},
		{60 * second, 1, quota(10, 60*second), allowed(10, 9, 60*second)},
	}},
	{"a refused first charge opens the window", []step{
		{0, 52, quota(50, 60*second), refused(50, 60*second, 0)},
		{10 * second, 1, quota(50, 60*second), refused(50, 50*second, 50*second)},
		{50 * second, 1, quota(50, 60*second), allowed(50, 49, 60*second)},
	}},
	{"a cost above the limit is promised nothing", []step{
		{0, 1, quota(10, 60*second), allowed(10, 9, 60*second)},
		{0, 11, quota(10, 60*second), refused(10, 60*second, 0)},
	}},
	{"a forgiven charge adds nothing", []step{
		{0, 4, forgiving(10, 60*second), allowed(10, 6, 60*second)},
		{0, 7, forgiving(10, 60*second), refused(10, 60*second, 60*second)},
		{0, 11, forgiving(10, 60*second), refused(10, 60*second, 0)},
		{0, 6, forgiving(10, 60*second), allowed(10, 0, 60*second)},
		{0, 1, forgiving(10, 60*second), refused(10, 60*second, 60*second)},
	}},
	{"a forgiven first charge opens the window", []step{
		{0, 11, forgiving(10, 60*second), refused(10, 60*second, 0)},
		{20 * second, 10, forgiving(10, 60*second), allowed(10, 0, 40*second)},
	}},
	{"cost 0 reports and opens no window", []step{
		{0, 0, quota(5, 60*second), allowed(5, 5, 60*second)},
		{20 * second, 0, quota(5, 60*second), allowed(5, 5, 60*second)},
		{0, 2, quota(5, 60*second), allowed(5, 3, 60*second)},
		{10 * second, 0, quota(5, 60*second), allowed(5, 3, 50*second)},
		{0, 3, quota(5, 60*second), allowed(5, 0, 50*second)},
		{0, 0, quota(5, 60*second), allowed(5, 0, 50*second)},
		{0, 1, quota(5, 60*second), refused(5, 50*second, 50*second)},
		{0, 0, quota(5, 60*second), refused(5, 50*second, 50*second)},
		{50 * second, 0, quota(5, 60*second), allowed(5, 5, 60*second)},
	}},
	{"the limit of the charge counts, whatever it was before", []step{
		{0, 5, quota(9, 10*second), allowed(9, 4, 10*second)},
		{0, 1, quota(4, 10*second), refused(4, 10*second, 10*second)},
		{0, 1, quota(9, 10*second), allowed(9, 2, 10*second)},
	}},
	{"a window keeps the length it was opened with", []step{
		{0, 1, quota(2, 30*second), allowed(2, 1, 30*second)},
		{1 * second, 1, quota(10, 90*second), allowed(10, 8, 29*second)},
		{29 * second, 1, quota(10, 90*second), allowed(10, 9, 90*second)},
	}},
	{"consumption saturates and never wraps", []step{
		{0, limiter.MaxCount, quota(10, 60*second), refused(10, 60*second, 0)},
		{0, limiter.MaxCount, quota(10, 60*second), refused(10, 60*second, 0)},
		{0, limiter.MaxCount - 1, quota(10, 60*second), refused(10, 60*second, 0)},
		{0, 1, quota(10, 60*second), refused(10, 60*second, 60*second)},
		{15 * second, 1, quota(10, 60*second), refused(10, 45*second, 45*second)},
		{45 * second, 1, quota(10, 60*second), allowed(10, 9, 60*second)},
	}},
	{"the largest limit is exact", []step{
		{0, limiter.MaxCount - 2, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, 2, 60*second)},
		{0, 1, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, 1, 60*second)},
		{0, 1, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, 0, 60*second)},
		{0, 1, quota(limiter.MaxCount, 60*second), refused(limiter.MaxCount, 60*second, 60*second)},
		{0, 0, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, 0, 60*second)},
	}},
	{"costs from 1e14 on are counted exactly", []step{
		{0, 100_000_000_000_001, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, limiter.MaxCount-100_000_000_000_001, 60*second)},
		{0, 1_000_000_000_000_001, quota(limiter.MaxCount, 60*second), allowed(limiter.MaxCount, limiter.MaxCount-1_100_000_000_000_002, 60*second)},
		{0, 1_000_000_000_000_000, quota(10, 60*second), refused(10, 60*second, 0)},
	}},
}

func leaky(limit, burst int64, window time.Duration) limiter.Quota {
	return limiter.Quota{Limit: limit, Burst: burst, Window: window, Type: limiter.LeakyBucket}
}

// A unit of these buckets drains in hours, so that a real clock makes no difference.
const hour = time.Hour

var leakySequences = []struct {
	name  string
	steps []step
}{
	{"a bucket drains all the time", []step{
		{0, 4, leaky(10, 0, 10*hour), allowed(10, 6, 4*hour)},
		{1 * hour, 4, leaky(10, 0, 10*hour), allowed(10, 3, 7*hour)},
		{90 * time.Minute, 4, leaky(10, 0, 10*hour), allowed(10, 0, 9*hour+30*time.Minute)},
		{20 * hour, 1, leaky(10, 0, 10*hour), allowed(10, 9, 1*hour)},
	}},
	{"a refused charge consumes nothing and says exactly when it fits", []step{
		{0, 7, leaky(10, 0, 10*hour), allowed(10, 3, 7*hour)},
		{0, 5, leaky(10, 0, 10*hour), refused(10, 7*hour, 2*hour)},
		{0, 5, leaky(10, 0, 10*hour), refused(10, 7*hour, 2*hour)},
		{2 * hour, 5, leaky(10, 0, 10*hour), allowed(10, 0, 10*hour)},
		{0, 1, leaky(10, 0, 10*hour), refused(10, 10*hour, 1*hour)},
	}},
	{"charges that fill the bucket exactly fit", []step{
		{0, 33, leaky(100, 0, 70*hour), allowed(100, 67, 23*hour+6*time.Minute)},
		{0, 67, leaky(100, 0, 70*hour), allowed(100, 0, 70*hour)},
	}},
	{"the burst is the capacity, smaller than the limit", []step{
		{0, 3, leaky(100, 3, 100*hour), allowed(100, 0, 3*hour)},
		{0, 1, leaky(100, 3, 100*hour), refused(100, 3*hour, 1*hour)},
		{2 * hour, 2, leaky(100, 3, 100*hour), allowed(100, 0, 3*hour)},
	}},
	{"the burst is the capacity, larger than the limit", []step{
		{0, 25, leaky(10, 30, 10*hour), allowed(10, 5, 25*hour)},
		{0, 6, leaky(10, 30, 10*hour), refused(10, 25*hour, 1*hour)},
	}},
	{"a cost above the burst is promised nothing and consumes nothing", []step{
		{0, 11, leaky(10, 0, 10*hour), refused(10, 0, 0)},
		{0, 3, leaky(10, 0, 10*hour), allowed(10, 7, 3*hour)},
		{0, 11, leaky(10, 0, 10*hour), refused(10, 3*hour, 0)},
		{0, 7, leaky(10, 0, 10*hour), allowed(10, 0, 10*hour)},
	}},
	{"cost 0 reports and consumes nothing", []step{
		{0, 0, leaky(10, 0, 10*hour), allowed(10, 10, 0)},
		{0, 4, leaky(10, 0, 10*hour), allowed(10, 6, 4*hour)},
		{0, 0, leaky(10, 0, 10*hour), allowed(10, 6, 4*hour)},
		{0, 6, leaky(10, 0, 10*hour), allowed(10, 0, 10*hour)},
		{0, 0, leaky(10, 0, 10*hour), allowed(10, 0, 10*hour)},
	}},
	{"the quota of the charge counts, whatever it was before", []step{
		{0, 8, leaky(10, 0, 10*hour), allowed(10, 2, 8*hour)},
		{0, 1, leaky(5, 0, 5*hour), refused(5, 8*hour, 4*hour)},
		{0, 1, leaky(20, 0, 20*hour), allowed(20, 11, 9*hour)},
	}},
}

func TestLeakyBuckets(t *testing.T) {
	forEachStore(t, func(t *testing.T, s store) {
		for _, sequence := range leakySequences {
			t.Run(sequence.name, func(t *testing.T) { s.runSteps(t, sequence.steps) })
		}
	})
}

func sliding(limit int64, window time.Duration) limiter.Quota {
	return limiter.Quota{Limit: limit, Window: window, Type: limiter.Sliding}
}

const ms = time.Millisecond

// The first charge of each is at the start of a window.
var slidingSequences = []struct {
	name  string
	steps []step
}{
	{"the previous window counts by what is left of its overlap", []step{
		{3337 * ms, 1, sliding(10, 10*second), allowed(10, 9, 6670*ms)},
		{6662 * ms, 8, sliding(10, 10*second), allowed(10, 1, 10*ms)},
		{2 * ms, 1, sliding(10, 10*second), allowed(10, 0, 10*second)},
		{2499 * ms, 1, sliding(10, 10*second), allowed(10, 1, 7500*ms)},
		{833 * ms, 1, sliding(10, 10*second), allowed(10, 0, 6670*ms)},
	}},
	{"a refused charge consumes nothing", []step{
		{0, 7, sliding(10, 10*second), allowed(10, 3, 10*second)},
		{1 * second, 4, sliding(10, 10*second), refused(10, 9*second, 9*second+1428572*time.Microsecond)},
		{0, 3, sliding(10, 10*second), allowed(10, 0, 9*second)},
	}},
	{"a charge that the previous window keeps out fits when enough of that is over", []step{
		{0, 10, sliding(10, 10*second), allowed(10, 0, 10*second)},
		{12 * second, 3, sliding(10, 10*second), refused(10, 1*second, 1*second)},
		{1 * second, 3, sliding(10, 10*second), allowed(10, 0, 7*second)},
		{0, 3, sliding(10, 10*second), refused(10, 3*second, 3*second)},
		{3 * second, 3, sliding(10, 10*second), allowed(10, 0, 4*second)},
	}},
	{"a charge that this window keeps out fits in the next", []step{
		{0, 6, sliding(10, 10*second), allowed(10, 4, 10*second)},
		{4 * second, 5, sliding(10, 10*second), refused(10, 6*second, 6*second+1666667*time.Microsecond)},
		{7666667 * time.Microsecond, 5, sliding(10, 10*second), allowed(10, 0, 8340*ms)},
	}},
	{"a cost above the limit is promised nothing and consumes nothing", []step{
		{0, 52, sliding(10, 10*second), refused(10, 10*second, 0)},
		{1 * second, 10, sliding(10, 10*second), allowed(10, 0, 9*second)},
		{0, 11, sliding(10, 10*second), refused(10, 9*second, 0)},
	}},
	{"two windows on, nothing is left", []step{
		{0, 10, sliding(10, 10*second), allowed(10, 0, 10*second)},
		{20 * second, 10, sliding(10, 10*second), allowed(10, 0, 10*second)},
	}},
	{"cost 0 reports and consumes nothing", []step{
		{0, 0, sliding(10, 10*second), allowed(10, 10, 10*second)},
		{0, 4, sliding(10, 10*second), allowed(10, 6, 10*second)},
		{0, 0, sliding(10, 10*second), allowed(10, 6, 10*second)},
		{15 * second, 0, sliding(10, 10*second), allowed(10, 8, 5*second)},
	}},
	{"what the previous window consumed above the limit of now counts as that limit", []step{
		{0, 90, sliding(100, 10*second), allowed(100, 10, 10*second)},
		{15 * second, 5, sliding(10, 10*second), allowed(10, 0, 5*second)},
	}},
	{"a window keeps its length, and the next starts where its own length says", []step{
		{5 * second, 6, sliding(10, 10*second), allowed(10, 4, 5*second)},
		{0, 1, sliding(10, 60*second), allowed(10, 3, 5*second)},
		{10 * second, 1, sliding(10, 60*second), allowed(10, 3, 45*second)},
	}},
	{"the largest limit is exact", []step{
		{0, limiter.MaxCount - 1, sliding(limiter.MaxCount, 10*second), allowed(limiter.MaxCount, 1, 10*second)},
		{0, 1, sliding(limiter.MaxCount, 10*second), allowed(limiter.MaxCount, 0, 10*second)},
		{0, 1, sliding(limiter.MaxCount, 10*second), refused(limiter.MaxCount, 10*second, 10*second)},
	}},
}

// A Redis server's clock cannot be set: that it decides alike is shown charge by charge in
// TestRedisAndLocalAgree.
func TestSlidingWindows(t *testing.T) {
	for _, sequence := range slidingSequences {
		t.Run(sequence.name, func(t *testing.T) { localStore().runSteps(t, sequence.steps) })
	}
}

func TestFixedWindows(t *testing.T) {
	forEachStore(t, func(t *testing.T, s store) {
		for _, sequence := range fixedSequences {
			t.Run(sequence.name, func(t *testing.T) { s.runSteps(t, sequence.steps) })
		}
	})
}

func (s store) runSteps(t *testing.T, steps []step) {
	lim, advance := s.open(t)
	for i, step := range steps {
		if step.after > 0 {
			advance(step.after)
		}
		got, err := lim.Charge(t.Context(), "client", step.cost, step.quota)
		require.NoError(t, err)
		t.Logf("step %d: charge %d: %+v", i+1, step.cost, got)
		s.equalResult(t, step.want, got)
	}
}
