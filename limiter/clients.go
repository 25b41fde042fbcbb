package limiter

import "sync"

// Clients shares connections: one limiter per distinct settings, for as long as anyone
// holds it. The zero Clients is ready; it is safe for concurrent use.
type Clients struct {
	mu    sync.Mutex
	redis map[RedisConfig]*sharedRedis
}

type sharedRedis struct {
	limiter *Redis
	holders int
}

// Redis returns the limiter for cfg, making it if nobody holds one with equal settings (a
// default left out equals one written down), and the function that gives it up. When the
// last holder has given it up its connections are closed; decisions under way are not cut
// short. release may be called again and never blocks.
func (c *Clients) Redis(cfg RedisConfig) (lim Limiter, release func()) {
	cfg = cfg.withDefaults()
	c.mu.Lock()
	defer c.mu.Unlock()
	shared := c.redis[cfg]
	if shared == nil {
		if c.redis == nil {
			c.redis = make(map[RedisConfig]*sharedRedis)
		}
		shared = &sharedRedis{limiter: NewRedis(cfg)}
		c.redis[cfg] = shared
	}
	shared.holders++
	var once sync.Once
	return shared.limiter, func() { once.Do(func() { c.giveUp(cfg, shared) }) }
}

func (c *Clients) giveUp(cfg RedisConfig, shared *sharedRedis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shared.holders--
	if shared.holders == 0 {
		delete(c.redis, cfg)
		shared.limiter.Close()
	}
}
