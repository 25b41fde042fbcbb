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
	followed   bool // something was read before
	blank      bool // it was told that there is no configuration
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
		message := "etcd cannot be followed, what it held last stays in force"
		if !o.followed {
			message = "etcd cannot be followed, nothing was read from it yet"
		}
		o.logger.Error(message, zap.String("path", f.client.prefix+f.path), zap.Error(err))
	}
}

// recovered notes that a follower follows.
func (o *outage) recovered(f *follower) {
	last := o.forget(f)
	o.mu.Lock()
	o.followed = true
	o.mu.Unlock()
	if last {
		// At the level of a warning, which is shown by default: whoever saw the outage begin
		// looks for its end.
		o.logger.Warn("etcd is followed again")
	}
}

// empty notes, once, that there is no configuration of APISIX: a new etcd, or more likely
// another prefix than APISIX's.
func (o *outage) empty(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.blank {
		o.blank = true
		o.logger.Warn("etcd holds no configuration of APISIX under the prefix; is it APISIX's own (etcd.prefix in its config.yaml)?",
			zap.String("prefix", prefix))
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
