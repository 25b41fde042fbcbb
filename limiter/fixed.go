package limiter

import "time"

// decideFixed is the rule of fixed windows: consumed is what the window held before this
// charge (0 to MaxCount), reset the time to the window's end (above 0). Deciding on the
// sum before it saturates keeps a quota of MaxCount exact.
func decideFixed(q *Quota, consumed, cost int64, reset time.Duration) Result {
	r := Result{Limit: q.Limit, Reset: reset}
	left := q.Limit - consumed
	switch {
	case cost <= left:
		r.Allowed = true
		r.Remaining = left - cost
	case cost <= q.Limit:
		r.RetryAfter = reset
	}
	return r
}

// addSaturating is consumed+cost, at most MaxCount. Both are 0 to MaxCount, so the sum
// cannot overflow.
func addSaturating(consumed, cost int64) int64 {
	return min(consumed+cost, MaxCount)
}
