// Package limiter counts what clients have spent and says whether a charge still fits.
//
// The contract is [Limiter]: charge a cost to a key under a [Quota], now. [Local] keeps
// the counters in this process, [Redis] keeps them in Redis (one server, a cluster, or the
// master that sentinels name), where several processes share them; all obey the same rules
// and pass the same suite. [Delayed] decides from memory and settles with Redis once an
// interval. [Clients] shares the connections of equal settings.
//
// # Fixed windows
//
// The first charge of a key opens a window of Quota.Window, also when that charge is
// refused. Later charges neither extend nor move it. The cost is always added, and a
// charge that takes the sum above Quota.Limit is refused; so a refused charge consumes,
// unless Quota.ForgiveRejected. The sum saturates at [MaxCount].
//
// # Sliding windows
//
// Windows are aligned to the clock. What counts is the consumption of the current window
// plus that of the previous one, at most the limit, weighted by the part of it that a
// window ending now still covers. A charge that does not fit is refused and consumes
// nothing.
//
// # Leaky buckets
//
// A bucket of Quota.Burst drains at Limit per Window (GCRA). A charge that does not fit is
// refused and consumes nothing. Times are float64 seconds: where a unit drains in less
// than some 4 microseconds (Limit above 250 000 a second), single units get lost in
// rounding.
//
// # Variable quotas
//
// Limit and window may differ between charges of one key (both can come from request
// variables): the limit that counts is the one of the charge, the window's length the
// one in force when the window was opened.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxCount is the largest limit, cost, burst and consumption: 2^53-1, the largest integer
// that JSON clients, Lua and float64 all hold exactly. Sums saturate here.
const MaxCount int64 = 1<<53 - 1

// ErrClosed is returned by a limiter that was closed.
var ErrClosed = errors.New("limiter is closed")

// WindowType names how consumption expires. The texts are those of the configuration
// field window_type.
type WindowType string

const (
	// Fixed forgets everything at the end of a window. The zero WindowType means Fixed.
	Fixed WindowType = "fixed"
	// Sliding weighs the previous window by its remaining overlap.
	Sliding WindowType = "sliding"
	// LeakyBucket drains continuously (GCRA).
	LeakyBucket WindowType = "leaky_bucket"
)

// Quota is what a key may spend.
type Quota struct {
	// Limit is how much may be spent per Window: 1 to MaxCount.
	Limit int64
	// Window is the length of a window: above 0. Redis counts in whole milliseconds and
	// rounds up.
	Window time.Duration
	// Type is the kind of window. Default (the zero value): Fixed.
	Type WindowType
	// Burst is how much a full LeakyBucket holds: 1 to MaxCount. Default (0): Limit.
	// The other window types ignore it.
	Burst int64
	// ForgiveRejected makes a refused charge add nothing, so that only what fits is
	// counted (the configuration's charge_rejected: false). A refused first charge still
	// opens the window. Default: a refused charge is added like any other. Sliding and
	// LeakyBucket never charge what they refuse.
	ForgiveRejected bool
}

// Result is the decision on one charge, with all that a response's headers need.
type Result struct {
	// Allowed reports that the charge fits.
	Allowed bool
	// Limit is the limit in force for this charge.
	Limit int64
	// Remaining is what is left after this charge: 0 to Limit (LeakyBucket: to Burst), and
	// 0 when it was refused.
	Remaining int64
	// Reset is the time to the end of the window, above 0; for a key without a window, the
	// whole window. A Sliding window's is rounded up to 10 ms, and of a charge that is
	// refused because of the previous window it is the time until it fits. A LeakyBucket's
	// is the time until it is empty, 0 if it is.
	Reset time.Duration
	// RetryAfter is the time after which the same charge may pass, if nothing else is
	// charged until then. It is 0 when the charge was allowed, and 0 when it was refused
	// and can never pass, because its cost exceeds the limit (LeakyBucket: the burst).
	RetryAfter time.Duration
}

// Limiter charges counters. Implementations are safe for concurrent use.
type Limiter interface {
	// Charge adds cost (0 to MaxCount) to the counter named key under q, and decides.
	// A cost of 0 peeks: it reports the state, and neither adds nor opens a window; it is
	// allowed while consumption is within the limit.
	// Keys are any bytes and any length; an error never names the key, because keys
	// identify people. After an error of a remote store the charge may or may not have
	// been counted; it is never counted twice.
	Charge(ctx context.Context, key string, cost int64, q Quota) (Result, error)
}

// inRange reports whether the numbers are what check takes: none below 0, where it is
// unsigned, is within the bounds.
func (q *Quota) inRange(cost int64) bool {
	const most = uint64(MaxCount)
	return uint64(cost) <= most && uint64(q.Limit-1) < most && q.Window > 0 && uint64(q.Burst) <= most
}

// check refuses what no store may be asked.
func (q *Quota) check(cost int64) error {
	switch {
	case cost < 0 || cost > MaxCount:
		return fmt.Errorf("charging a counter: cost %d is not between 0 and %d", cost, MaxCount)
	case q.Limit < 1 || q.Limit > MaxCount:
		return fmt.Errorf("charging a counter: limit %d is not between 1 and %d", q.Limit, MaxCount)
	case q.Window <= 0:
		return fmt.Errorf("charging a counter: window %s is not above 0", q.Window)
	case q.Burst < 0 || q.Burst > MaxCount:
		return fmt.Errorf("charging a counter: burst %d is not between 0 and %d", q.Burst, MaxCount)
	}
	switch q.Type {
	case Fixed, Sliding, LeakyBucket, "":
		return nil
	default:
		return fmt.Errorf("charging a counter: unsupported window type %q", string(q.Type))
	}
}
