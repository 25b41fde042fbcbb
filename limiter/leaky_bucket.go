package limiter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// A leaky bucket is the generic cell rate algorithm of go-redis/redis_rate: consumption is
// kept as the instant at which the bucket will be empty (the theoretical arrival time,
// TAT). A unit of cost moves it by Window/Limit, and a charge fits while it is at most
// Burst units ahead of now. Both stores compute with float64 seconds since 2017, where a
// sum is rounded to some 60 ns.
//
// That rounding would refuse a charge that fills the bucket exactly, every other time. So
// amounts are multiplied by a scale, and the bucket holds one scaled unit more than it is
// asked to: as whole costs are charged, that admits nothing that exceeds the burst, and at
// most 1/scale of a unit's time too early what is almost there. RetryAfter is the exact
// time nonetheless.

const (
	// maxLeakyScale is the largest scale: a thousandth of a unit of tolerance.
	maxLeakyScale = 1000
	// leakyTolerance is the least time that the tolerance must be, to be more than what
	// rounding amounts to. Where a unit takes less than twice that, there is none.
	leakyTolerance = 2 * time.Microsecond
	// leakyEpoch, 2017-01-01T00:00:00Z in Unix seconds, is where redis_rate's times start.
	leakyEpoch = 1483228800
	// maxLeakyWait (seconds) is what a reported time saturates at.
	maxLeakyWait = float64(math.MaxInt64 / time.Second)
)

// burst is the capacity of a leaky bucket.
func (q *Quota) burst() int64 {
	if q.Burst == 0 {
		return q.Limit
	}
	return q.Burst
}

// leakyBucket is a quota as GCRA's parameters.
type leakyBucket struct {
	scale int64
	limit redis_rate.Limit
}

func newLeakyBucket(q *Quota) leakyBucket {
	perUnit := q.Window / time.Duration(q.Limit)
	scale := min(int64(perUnit/leakyTolerance), maxLeakyScale, MaxCount/max(q.Limit, q.burst()))
	if scale < 2 {
		return leakyBucket{1, redis_rate.Limit{Rate: int(q.Limit), Burst: int(q.burst()), Period: q.Window}}
	}
	return leakyBucket{scale, redis_rate.Limit{
		Rate: int(q.Limit * scale), Burst: int(q.burst()*scale) + 1, Period: q.Window,
	}}
}

// leakyOutcome is what GCRA says of a charge: in scaled units, and in seconds.
type leakyOutcome struct {
	allowed    bool
	remaining  int64
	retryAfter float64
	resetAfter float64
}

// result turns an outcome into the decision. Times are rounded to the microsecond that
// Redis's clock has; the tolerance is added back to the time of a retry.
func (b *leakyBucket) result(q *Quota, cost int64, o leakyOutcome) Result {
	r := Result{Allowed: o.allowed, Limit: q.Limit, Reset: leakyDuration(o.resetAfter)}
	switch {
	case cost > q.burst():
		r.Allowed = false // never
	case o.allowed:
		r.Remaining = o.remaining / b.scale
	default:
		retry := o.retryAfter
		if b.scale > 1 {
			retry += b.limit.Period.Seconds() / float64(b.limit.Rate)
		}
		r.RetryAfter = max(leakyDuration(retry), time.Microsecond)
	}
	return r
}

func leakyDuration(seconds float64) time.Duration {
	if seconds >= maxLeakyWait {
		return math.MaxInt64
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}

// allow is redis_rate's AllowN, operation by operation: tat is the stored time or, without
// one, now. It returns the time to store.
func (b *leakyBucket) allow(tat, now float64, n int64) (leakyOutcome, float64) {
	emissionInterval := b.limit.Period.Seconds() / float64(b.limit.Rate)
	// The conversions keep a compiler from fusing two operations into one that rounds
	// once, which Lua does not.
	increment := float64(emissionInterval * float64(n))
	burstOffset := float64(emissionInterval * float64(b.limit.Burst))
	tat = max(tat, now)
	newTAT := tat + increment
	allowAt := newTAT - burstOffset
	diff := now - allowAt
	remaining := diff / emissionInterval
	if remaining < 0 {
		return leakyOutcome{retryAfter: -diff, resetAfter: tat - now}, tat
	}
	return leakyOutcome{allowed: true, remaining: int64(remaining), resetAfter: newTAT - now}, newTAT
}

// leakyTime is a Unix time in nanoseconds as redis_rate's script has it.
func leakyTime(now int64) float64 {
	micros := now / int64(time.Microsecond)
	return float64(micros/1e6-leakyEpoch) + float64(micros%1e6)/1e6
}

// units is what is charged for a cost. One that can never fit charges nothing and only
// asks for the state.
func (b *leakyBucket) units(q *Quota, cost int64) int64 {
	if cost > q.burst() {
		return 0
	}
	return cost * b.scale
}

// chargeLeaky charges a leaky bucket in memory. The entry holds the TAT's bits, and ends
// when the bucket is empty.
func (e *entry) chargeLeaky(q *Quota, cost, now int64) Result {
	b := newLeakyBucket(q)
	at := leakyTime(now)
	tat := at
	if e.live(leakyEntry, now) {
		tat = math.Float64frombits(uint64(e.consumed))
	}
	outcome, tat := b.allow(tat, at, b.units(q, cost))
	e.kind, e.consumed = leakyEntry, int64(math.Float64bits(tat))
	e.end = addTime(now, leakyDuration(max(tat-at, 0))+time.Microsecond)
	return b.result(q, cost, outcome)
}

// chargeLeakyRedis charges a leaky bucket in Redis, through redis_rate.
func chargeLeakyRedis(ctx context.Context, c redis.UniversalClient, key string, cost int64, q *Quota) (r Result, err error) {
	b := newLeakyBucket(q)
	defer func() {
		// AllowN asserts the types of the reply.
		if p := recover(); p != nil {
			r, err = Result{}, fmt.Errorf("the script's reply is not a leaky bucket: %v", p)
		}
	}()
	reply, err := redis_rate.NewLimiter(c).AllowN(ctx, redisKey(LeakyBucket, key), b.limit, int(b.units(q, cost)))
	if err != nil {
		return Result{}, err
	}
	return b.result(q, cost, outcomeOf(reply)), nil
}

func outcomeOf(reply *redis_rate.Result) leakyOutcome {
	return leakyOutcome{
		// AllowN answers an admission with the Duration -1, not with a time.
		allowed:    reply.RetryAfter == -1,
		remaining:  int64(reply.Remaining),
		retryAfter: leakySeconds(reply.RetryAfter),
		resetAfter: leakySeconds(reply.ResetAfter),
	}
}

// leakySeconds is a time of AllowN's result, which wraps beyond the longest Duration.
func leakySeconds(d time.Duration) float64 {
	if d < 0 {
		return maxLeakyWait
	}
	return d.Seconds()
}
