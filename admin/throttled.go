package admin

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// logInterval is how often at most one place repeats a complaint: a store or an Admin API
// that is down is asked several times a second and would fill the log.
const logInterval = time.Minute

// throttled logs errors at most once in logInterval.
type throttled struct {
	logger *zap.Logger
	now    func() time.Time
	mu     sync.Mutex
	last   time.Time
}

func newThrottled(logger *zap.Logger) *throttled {
	return &throttled{logger: logger, now: time.Now}
}

// Error logs unless it did so less than logInterval ago.
func (t *throttled) Error(message string, fields ...zap.Field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.last.IsZero() && now.Sub(t.last) < logInterval {
		return
	}
	t.last = now
	t.logger.Error(message, fields...)
}
