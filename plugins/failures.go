package plugins

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// failureLogInterval is how often failures of one kind are logged at most: when a
// store is down every request fails, and the log must not become the next outage.
const failureLogInterval = time.Second

// failureLog logs failures, of each kind the first of each interval. Clients can
// provoke some kinds; those must not hide the others.
type failureLog struct {
	logger *zap.Logger
	now    func() time.Time
	kinds  sync.Map // what failed, of which there are few -> *failureGate
}

// failureGate is one kind of failure.
type failureGate struct {
	next       atomic.Int64 // Unix nanoseconds before which nothing is logged
	suppressed atomic.Int64
}

func newFailureLog(logger *zap.Logger) *failureLog {
	return &failureLog{logger: logger, now: time.Now}
}

// failure logs that doing what failed because of cause, unless that was logged just now.
// what is one of a few constants.
func (l *failureLog) failure(what string, cause error, fields ...zap.Field) {
	found, ok := l.kinds.Load(what)
	if !ok {
		found, _ = l.kinds.LoadOrStore(what, &failureGate{})
	}
	gate := found.(*failureGate)
	now, next := l.now(), gate.next.Load()
	if now.UnixNano() < next || !gate.next.CompareAndSwap(next, now.Add(failureLogInterval).UnixNano()) {
		gate.suppressed.Add(1)
		return
	}
	fields = append(fields, zap.Error(cause), zap.Int64("failures_not_logged_before", gate.suppressed.Swap(0)))
	l.logger.Error(what+" failed", fields...)
}
