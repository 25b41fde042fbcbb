package limiter

import "sync"

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
	mu     sync.Mutex
	shared map[any]*sharedLimiter
}

type sharedLimiter struct {
	limiter Limiter
	// close gives up what the limiter holds, without blocking.
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

func (c *Clients) store(cfg StoreConfig) (lim *Redis, release func()) {
	shared, release := c.hold(cfg.settings(), func() *sharedLimiter {
		r := cfg.open()
		return &sharedLimiter{limiter: r, close: r.Close}
	})
	return shared.limiter.(*Redis), release
}

// hold returns what is shared under a key, making it if nobody holds it.
func (c *Clients) hold(key any, open func() *sharedLimiter) (*sharedLimiter, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
