package plugins

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// failureLogInterval is how often failures are logged at most: when a store is
// down every request fails, and the log must not become the next outage.
const failureLogInterval = time.Second

// failureLog logs failures, the first of each interval.
type failureLog struct {
	logger     *zap.Logger
	now        func() time.Time
	next       atomic.Int64 // Unix nanoseconds before which nothing is logged
	suppressed atomic.Int64
}

func newFailureLog(logger *zap.Logger) *failureLog {
	return &failureLog{logger: logger, now: time.Now}
}

// failure logs that doing what failed because of cause, unless one was logged just now.
func (l *failureLog) failure(what string, cause error, fields ...zap.Field) {
	now, next := l.now(), l.next.Load()
	if now.UnixNano() < next || !l.next.CompareAndSwap(next, now.Add(failureLogInterval).UnixNano()) {
		l.suppressed.Add(1)
		return
	}
	fields = append(fields, zap.Error(cause), zap.Int64("failures_not_logged_before", l.suppressed.Swap(0)))
	l.logger.Error(what+" failed", fields...)
}
