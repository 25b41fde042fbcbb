package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"graphql-limit-count/limiter"
)

const (
	// countersFile is where the counters of policy local are kept, in the data folder.
	countersFile = "counters.snapshot"
	// saveInterval is how much of what was counted a killed process may forget.
	saveInterval = 5 * time.Second
)

// counters keeps the counters of policy local across reloads, so that a reload
// hands nobody a fresh quota.
//
// APISIX starts the new runner before it ends the old one. The new one asks the old
// one for its counters before it serves; what the old one still counts in the
// moments until it ends is not known to the new one.
type counters struct {
	local *limiter.Local
	path  string
	lock  *handover
	log   *zap.Logger
}

// openCounters returns the counters, with what the runner before this one has
// counted, and saves them every few seconds and when ctx ends.
func (n *node) openCounters(ctx context.Context, f *runFlags) (*limiter.Local, error) {
	// Before the lock is taken: from then on other runners send the signal.
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, handoverSignal)
	lock, err := openHandover(f.dataDir)
	if err != nil {
		signal.Stop(requests)
		return nil, err
	}
	c := &counters{
		local: limiter.NewLocal(limiter.LocalConfig{MaxKeys: f.localKeysMax}),
		path:  filepath.Join(f.dataDir, countersFile), lock: lock, log: n.log,
	}
	n.onClose(func() {
		c.saveLast()
		signal.Stop(requests)
		lock.close()
		c.local.Close()
	})
	if !lock.claim(ctx) {
		n.log.Warn("the runner before this one did not hand over its counters in time")
	}
	c.restore()
	n.metrics.MustRegister(c.collectors()...)
	n.background("saving the counters", func() error {
		c.run(ctx, requests)
		return nil
	})
	return c.local, nil
}

// collectors are the metrics of the counters. An evicted counter is a client that got
// a fresh quota: --local-keys-max is too small.
func (c *counters) collectors() []prometheus.Collector {
	stat := func(of func(limiter.LocalStats) float64) func() float64 {
		return func() float64 { return of(c.local.Stats()) }
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "graphql_limit_count_local_keys", Help: "Counters of policy local in memory.",
		}, stat(func(s limiter.LocalStats) float64 { return float64(s.Keys) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "graphql_limit_count_local_keys_expired_total", Help: "Counters freed because their window had ended.",
		}, stat(func(s limiter.LocalStats) float64 { return float64(s.Expired) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "graphql_limit_count_local_keys_evicted_total", Help: "Live counters that made room for new ones.",
		}, stat(func(s limiter.LocalStats) float64 { return float64(s.Evicted) })),
	}
}

// restore reads what was saved last.
func (c *counters) restore() {
	restored, err := c.local.Restore(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.log.Error("the saved counters are not used: every client starts with a fresh quota", zap.Error(err))
	default:
		c.log.Info("restored the counters", zap.Int("keys", restored))
	}
}

// run saves every few seconds, at once when another runner asks for the counters,
// which then has them, and at once when ctx ends: APISIX kills a second later.
func (c *counters) run(ctx context.Context, requests <-chan os.Signal) {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			c.save()
			return
		case <-requests:
			c.save()
			c.lock.release()
		case <-ticker.C:
			c.save()
		}
	}
}

// save writes the counters, unless another runner has them.
func (c *counters) save() {
	if !c.lock.held() {
		return
	}
	if _, err := c.local.Save(c.path); err != nil {
		c.log.Error("saving the counters failed", zap.Error(err))
	}
}

// saveLast writes what was counted until the end. A runner that has handed over
// writes only if the other one is gone already.
func (c *counters) saveLast() {
	if c.lock.held() || c.lock.tryClaim() {
		c.save()
	}
}

// handoverSignal asks the runner that has the counters to hand them over.
const handoverSignal = syscall.SIGUSR1
