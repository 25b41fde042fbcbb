package limiter

import (
	"sync"
	"time"
)

// StoreConfig is the configuration of a Redis deployment: a [RedisConfig], [ClusterConfig]
// or [SentinelConfig].
type StoreConfig interface {
	// settings is a value that is equal for configurations that mean the same.
	settings() any
	// open returns a limiter of its own, which connects when first used.
	open() *Redis
}

// Clients shares connections: one limiter per distinct settings, for as long as anyone
// holds it. The zero Clients is ready; it is safe for concurrent use.
type Clients struct {
	// SettleFailed, if set before the first use, is told of an error of every round of
	// settlements that had one: see DelayedConfig.
	SettleFailed func(error)

	mu     sync.Mutex
	shared map[any]*sharedLimiter
	// closing is how many limiters were given up and still settle; idle, if anyone waits
	// for it, is closed when there is none. A WaitGroup must not be counted up while it
	// is waited for, but configurations may be given up until the process ends.
	closing int
	idle    chan struct{}
}

// delayedSettings tells a Delayed from others.
type delayedSettings struct {
	store    any
	interval time.Duration
}

type sharedLimiter struct {
	limiter Limiter
	// close gives up what the limiter holds, without blocking. Clients is locked.
	close   func()
	holders int
}

// Redis returns the limiter for cfg, making it if nobody holds one with equal settings (a
// default left out equals one written down), and the function that gives it up. When the
// last holder has given it up its connections are closed; decisions under way are not cut
// short. release may be called again and never blocks.
func (c *Clients) Redis(cfg RedisConfig) (lim Limiter, release func()) { return c.store(cfg) }

// Cluster is Redis for a cluster.
func (c *Clients) Cluster(cfg ClusterConfig) (lim Limiter, release func()) { return c.store(cfg) }

// Sentinel is Redis for the server that sentinels name.
func (c *Clients) Sentinel(cfg SentinelConfig) (lim Limiter, release func()) { return c.store(cfg) }

// Delayed returns a limiter that settles with the store of cfg once an interval, shared by
// all that ask for both, on the connections of all that ask for the store. When the last
// holder has given it up it settles what is left, in the background: see Wait.
func (c *Clients) Delayed(cfg StoreConfig, interval time.Duration) (lim Limiter, release func()) {
	interval = max(interval, MinSyncInterval)
	c.mu.Lock()
	defer c.mu.Unlock()
	shared, release := c.hold(delayedSettings{cfg.settings(), interval}, func() *sharedLimiter {
		store, releaseStore := c.hold(cfg.settings(), openStore(cfg))
		d := NewDelayed(DelayedConfig{
			Store: store.limiter.(*Redis), Interval: interval, SettleFailed: c.SettleFailed,
		})
		return &sharedLimiter{limiter: d, close: func() {
			c.closing++
			go func() {
				d.Close()
				releaseStore()
				c.settled()
			}()
		}}
	})
	return shared.limiter, release
}

// settled counts down what Wait waits for.
func (c *Clients) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing--
	if c.closing == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Wait waits until the limiters that were given up have settled, or failed to within their
// timeouts. Those that are given up meanwhile count, unless it has returned before.
func (c *Clients) Wait() {
	c.mu.Lock()
	if c.closing == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	<-idle
}

func (c *Clients) store(cfg StoreConfig) (lim Limiter, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shared, release := c.hold(cfg.settings(), openStore(cfg))
	return shared.limiter, release
}

func openStore(cfg StoreConfig) func() *sharedLimiter {
	return func() *sharedLimiter {
		r := cfg.open()
		return &sharedLimiter{limiter: r, close: r.Close}
	}
}

// hold returns what is shared under a key, making it if nobody holds it. The caller has
// locked c.
func (c *Clients) hold(key any, open func() *sharedLimiter) (*sharedLimiter, func()) {
	shared := c.shared[key]
	if shared == nil {
		if c.shared == nil {
			c.shared = make(map[any]*sharedLimiter)
		}
		shared = open()
		c.shared[key] = shared
	}
	shared.holders++
	return shared, sync.OnceFunc(func() { c.giveUp(key, shared) })
}

func (c *Clients) giveUp(key any, shared *sharedLimiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shared.holders--
	if shared.holders == 0 {
		delete(c.shared, key)
		shared.close()
	}
}
