package extplugin

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// Log messages that a peer or a client can provoke are bounded to gateBurst in
// each gatePeriod.
const (
	gateBurst  = 10
	gatePeriod = 10 * time.Second
)

// gate lets a bounded number of log messages through and counts the others.
type gate struct {
	mu         sync.Mutex
	start      time.Time
	passed     int
	suppressed int
}

func newGate() *gate { return &gate{} }

// pass reports whether a message may be logged now, with a field that says how
// many were not since the last one that was.
func (g *gate) pass() (zap.Field, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.start) >= gatePeriod {
		g.start, g.passed = now, 0
	}
	if g.passed >= gateBurst {
		g.suppressed++
		return zap.Skip(), false
	}
	g.passed++
	if g.suppressed == 0 {
		return zap.Skip(), true
	}
	field := zap.Int("suppressed", g.suppressed)
	g.suppressed = 0
	return field, true
}
