package limiter

import (
	"math"
	"time"
)

// WindowSeconds is the Window of so many seconds (above 0). What a time.Duration cannot
// hold, some 292 years, saturates.
func WindowSeconds(seconds int64) time.Duration {
	return saturatingDuration(seconds, time.Second)
}

// saturatingDuration is n units, or the longest Duration if that does not hold them.
func saturatingDuration(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// roundUp is d (0 or more) in whole units, rounded up.
func roundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// addTime is the instant d after now, in Unix nanoseconds; it saturates.
func addTime(now int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + int64(d)
}
