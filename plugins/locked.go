package plugins

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// unlockInterval is how often a configuration whose secrets cannot be read is tried again
// at most, and so how long after its keyring was mended it is in force.
const unlockInterval = time.Second

// locked is a configuration with a secret that could not be read. A runner reads a
// configuration once and keeps it while requests come in, so without another attempt a
// keyring that arrives after the configuration would change nothing.
type locked struct {
	raw    []byte
	next   atomic.Int64 // Unix nanoseconds before which no attempt is made
	opened atomic.Pointer[route]

	attempt sync.Mutex // one at a time
}

// newLocked returns what is needed to read a configuration again, nil when that would
// change nothing.
func (p *Plugin) newLocked(raw []byte, err error) *locked {
	var invalid *ConfigError
	if !errors.As(err, &invalid) || !invalid.locked {
		return nil
	}
	l := &locked{raw: bytes.Clone(raw)}
	l.next.Store(p.options.Now().Add(unlockInterval).UnixNano())
	return l
}

// unlocked returns the route that a locked one has become, or the same while its secrets
// cannot be read.
func (p *Plugin) unlocked(rt *route) *route {
	l := rt.locked
	if l == nil {
		return rt
	}
	if opened := l.opened.Load(); opened != nil {
		return opened
	}
	now := p.options.Now()
	if now.UnixNano() < l.next.Load() || !l.attempt.TryLock() {
		return rt
	}
	defer l.attempt.Unlock()
	if opened := l.opened.Load(); opened != nil { // by who had the lock just now
		return opened
	}
	l.next.Store(now.Add(unlockInterval).UnixNano())
	cfg, err := ParseConfig(l.raw, p.options.Secrets)
	if err != nil {
		return rt
	}
	opened := p.newRoute(cfg)
	l.opened.Store(opened)
	p.options.Logger.Info("a configuration whose secrets could not be read is in force now", zap.String("digest", cfg.Digest))
	return opened
}

// close gives up what the configuration holds, if it was ever read.
func (l *locked) close() error {
	if opened := l.opened.Load(); opened != nil {
		return opened.Close()
	}
	return nil
}
