package limiter

import (
	"context"
	_ "embed" // the script
	"errors"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed sliding.lua
var slidingSource string

var slidingScript = redis.NewScript(slidingSource)

const (
	// maxSlidingMicros is the longest sliding window, some 71 years in microseconds:
	// instants two windows ahead stay exact in float64 and, as nanoseconds, in int64.
	// Longer ones count as this long.
	maxSlidingMicros = 1 << 51
	// slidingResetStep is what a sliding window's Reset is rounded up to, as APISIX does.
	slidingResetStep = 10 * time.Millisecond
)

// slidingWindow is a window with what was consumed in it and in the one before. Times are
// in microseconds, Redis's resolution. Windows are aligned to the clock: one starts at
// every multiple of its length.
type slidingWindow struct {
	start, length     int64
	current, previous int64
}

// at is the state at an instant: w itself while its window lasts, whatever length is asked
// for now, else the window of this length that the instant lies in. The old window's
// consumption is carried over if it ended less than a window before.
func (w slidingWindow) at(now, length int64) slidingWindow {
	if w.length > 0 && now < w.start+w.length {
		return w
	}
	opened := slidingWindow{start: now - now%length, length: length}
	if w.length > 0 && w.start+w.length > opened.start-length {
		opened.previous = w.current
	}
	return opened
}

// remaining is the time to the window's end. A clock that stepped back before the window's
// start cannot make it longer than the window.
func (w *slidingWindow) remaining(now int64) int64 {
	return min(w.start+w.length-now, w.length)
}

// weighted is the previous window's share: its consumption, at most the limit, times the
// part of it that a window ending now still covers.
func (w *slidingWindow) weighted(limit, remaining int64) float64 {
	return float64(min(w.previous, limit)) * float64(remaining) / float64(w.length)
}

// fits is the rule: what is left of the limit after this charge must cover the previous
// window's share.
func (w *slidingWindow) fits(limit, cost, remaining int64) bool {
	left := limit - w.current - cost
	return left >= 0 && w.weighted(limit, remaining) <= float64(left)
}

// result describes a decision on the state before the charge.
func (w *slidingWindow) result(q *Quota, cost, remaining int64, fits bool) Result {
	r := Result{Allowed: fits, Limit: q.Limit, Reset: slidingReset(remaining)}
	left := q.Limit - w.current - cost
	switch {
	case fits:
		r.Remaining = left - int64(math.Ceil(w.weighted(q.Limit, remaining)))
	case cost > q.Limit:
		// never
	case left >= 0:
		wait := w.wait(q.Limit, left, remaining)
		r.RetryAfter = saturatingDuration(wait, time.Microsecond)
		r.Reset = slidingReset(wait)
	default:
		// Not in this window. In the next, this one is the previous.
		next := slidingWindow{length: w.length, previous: w.current}
		wait := remaining
		if left := q.Limit - cost; !next.fits(q.Limit, cost, next.length) {
			wait += next.wait(q.Limit, left, next.length)
		}
		r.RetryAfter = saturatingDuration(wait, time.Microsecond)
	}
	return r
}

// wait is how long the previous window's share, too large now, takes to shrink to left.
func (w *slidingWindow) wait(limit, left, remaining int64) int64 {
	last := float64(min(w.previous, limit))
	wait := remaining - int64(float64(left)*float64(w.length)/last)
	if w.weighted(limit, remaining-wait) > float64(left) {
		wait++ // the division was rounded
	}
	return max(wait, 1)
}

func slidingReset(micros int64) time.Duration {
	d := saturatingDuration(micros, time.Microsecond)
	return saturatingDuration(roundUp(d, slidingResetStep), slidingResetStep)
}

func slidingLength(window time.Duration) int64 {
	return min(roundUp(window, time.Microsecond), maxSlidingMicros)
}

// chargeSliding charges a sliding window in memory. The entry's end is when its window
// and the next are over, and nothing of it matters any more.
func (e *entry) chargeSliding(q *Quota, cost, now int64) Result {
	var held slidingWindow
	if e.live(slidingEntry, now) {
		held = slidingWindow{
			start:  e.end/int64(time.Microsecond) - 2*e.length,
			length: e.length, current: e.consumed, previous: e.previous,
		}
	}
	micros := now / int64(time.Microsecond)
	w := held.at(micros, slidingLength(q.Window))
	remaining := w.remaining(micros)
	fits := w.fits(q.Limit, cost, remaining)
	r := w.result(q, cost, remaining, fits)
	if fits {
		w.current += cost
	}
	e.kind, e.consumed, e.previous, e.length = slidingEntry, w.current, w.previous, w.length
	e.end = (w.start + 2*w.length) * int64(time.Microsecond)
	return r
}

// slidingReplySize is how many integers the script returns.
const slidingReplySize = 6

var errNoSlidingWindow = errors.New("the script's reply is not a sliding window")

// chargeSlidingRedis charges a sliding window in Redis.
func chargeSlidingRedis(ctx context.Context, c redis.Scripter, key string, cost int64, q *Quota) (Result, error) {
	w, now, fits, err := askSliding(ctx, c, key, cost, q)
	if err != nil {
		return Result{}, err
	}
	return w.result(q, cost, w.remaining(now), fits), nil
}

// askSliding charges a sliding window in Redis, and returns its state before, the server's
// time in microseconds, and whether the charge fitted.
func askSliding(ctx context.Context, c redis.Scripter, key string, cost int64, q *Quota) (w slidingWindow, now int64, fits bool, err error) {
	return slidingReply(slidingScript.Run(ctx, c, []string{redisKey(Sliding, key)},
		cost, slidingLength(q.Window), q.Limit))
}

// settleSliding adds what was admitted elsewhere in the window that started at start, once
// however often it is sent, and returns the state then and the server's time.
func settleSliding(ctx context.Context, c redis.Scripter, s *settlement, start, length int64) (w slidingWindow, now int64, err error) {
	w, now, _, err = slidingReply(slidingScript.Run(ctx, c, s.keys(), s.amount, length, MaxCount, s.id, start))
	return w, now, err
}

func slidingReply(cmd *redis.Cmd) (w slidingWindow, now int64, fits bool, err error) {
	reply, err := cmd.Int64Slice()
	if err != nil {
		return slidingWindow{}, 0, false, err
	}
	if len(reply) != slidingReplySize {
		return slidingWindow{}, 0, false, errNoSlidingWindow
	}
	w = slidingWindow{current: reply[1], previous: reply[2], start: reply[3], length: reply[4]}
	if !w.valid() {
		return slidingWindow{}, 0, false, errNoSlidingWindow
	}
	return w, reply[5], reply[0] == 1, nil
}

// valid reports whether the state can be one of this package's: what the arithmetic above
// relies on.
func (w *slidingWindow) valid() bool {
	return w.current >= 0 && w.current <= MaxCount && w.previous >= 0 &&
		w.start >= 0 && w.start <= MaxCount && w.length > 0 && w.length <= maxSlidingMicros
}
