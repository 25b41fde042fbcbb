package etcd

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// complaintInterval is the time between two lines about what cannot be followed.
const complaintInterval = time.Minute

// outage logs that followers fail: one line for all of a client when the first of them does,
// then one a minute, and one when all of them follow again.
type outage struct {
	logger *zap.Logger

	mu         sync.Mutex
	failing    map[*follower]bool
	complained time.Time
}

func newOutage(logger *zap.Logger) *outage {
	return &outage{logger: logger, failing: map[*follower]bool{}}
}

// failed notes that a follower's session ended.
func (o *outage) failed(f *follower, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := len(o.failing) == 0
	o.failing[f] = true
	if now := time.Now(); first || now.Sub(o.complained) >= complaintInterval {
		o.complained = now
		o.logger.Error("etcd cannot be followed, what it held last stays in force",
			zap.String("path", f.client.prefix+f.path), zap.Error(err))
	}
}

// recovered notes that a follower follows.
func (o *outage) recovered(f *follower) {
	if o.forget(f) {
		o.logger.Info("etcd is followed again")
	}
}

// forget drops a follower and tells whether it was the last that failed.
func (o *outage) forget(f *follower) (last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[f] {
		return false
	}
	delete(o.failing, f)
	return len(o.failing) == 0
}
