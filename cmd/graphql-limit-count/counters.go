package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"graphql-limit-count/limiter"
)

const (
	// countersFile is where the counters of policy local are kept, in the data folder.
	countersFile = "counters.snapshot"
	// saveInterval is how much of what was counted a killed process may forget.
	saveInterval = 5 * time.Second
)

// openCounters returns the counters of policy local, with what the runner before
// this one had counted, so that a reload hands nobody a fresh quota. They are saved
// every few seconds, at once when ctx ends (APISIX kills a second later), and again
// when the requests in flight are through.
func (n *node) openCounters(ctx context.Context, f *runFlags) *limiter.Local {
	local := limiter.NewLocal(limiter.LocalConfig{MaxKeys: f.localKeysMax})
	n.onClose(local.Close)
	path := filepath.Join(f.dataDir, countersFile)
	restored, err := local.Restore(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		n.log.Error("the saved counters are not used: every client starts with a fresh quota", zap.Error(err))
	default:
		n.log.Info("restored the counters", zap.Int("keys", restored))
	}
	save := func() {
		if _, err := local.Save(path); err != nil {
			n.log.Error("saving the counters failed", zap.Error(err))
		}
	}
	n.onClose(save)
	n.background("saving the counters", func() error {
		ticker := time.NewTicker(saveInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				save()
				return nil
			case <-ticker.C:
				save()
			}
		}
	})
	return local
}
