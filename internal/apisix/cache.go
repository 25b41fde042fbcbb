package apisix

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Defaults of [CacheConfig].
const (
	defaultCacheTTL     = time.Second
	defaultCacheEntries = 1024
)

// CacheConfig holds the settings of a [Cache].
type CacheConfig struct {
	// TTL is how long an answer is used. Default 1 s.
	TTL time.Duration
	// MaxEntries bounds how many answers are kept. Default 1024.
	MaxEntries int
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Cache answers Service, Route and Upstream like its [Client] and remembers each
// answer, also that there is no such object, for a short while. Other errors are
// not remembered. It is safe for concurrent use; what it returns is shared and
// must not be changed.
type Cache struct {
	client *Client
	ttl    time.Duration
	max    int
	now    func() time.Time

	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
}

type cacheKey struct{ collection, id string }

type cacheEntry struct {
	value   any // Service, Route or Upstream
	err     error
	expires time.Time
}

// NewCache returns a cache in front of client.
func NewCache(client *Client, cfg CacheConfig) *Cache {
	c := &Cache{
		client:  client,
		ttl:     cmp.Or(cfg.TTL, defaultCacheTTL),
		max:     cmp.Or(cfg.MaxEntries, defaultCacheEntries),
		now:     cfg.Now,
		entries: make(map[cacheKey]cacheEntry),
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Service is [Client.Service], at most CacheConfig.TTL old.
func (c *Cache) Service(ctx context.Context, id string) (Service, error) {
	return cached(ctx, c, cacheKey{"services", id}, c.client.Service)
}

// Route is [Client.Route], at most CacheConfig.TTL old.
func (c *Cache) Route(ctx context.Context, id string) (Route, error) {
	return cached(ctx, c, cacheKey{"routes", id}, c.client.Route)
}

// Upstream is [Client.Upstream], at most CacheConfig.TTL old.
func (c *Cache) Upstream(ctx context.Context, id string) (Upstream, error) {
	return cached(ctx, c, cacheKey{"upstreams", id}, c.client.Upstream)
}

func cached[T any](ctx context.Context, c *Cache, key cacheKey, read func(context.Context, string) (T, error)) (T, error) {
	c.mu.Lock()
	entry, ok := c.entries[key]
	c.mu.Unlock()
	if ok && c.now().Before(entry.expires) {
		return entry.value.(T), entry.err
	}
	value, err := read(ctx, key.id)
	if err == nil || errors.Is(err, ErrNotFound) {
		c.put(key, cacheEntry{value: value, err: err, expires: c.now().Add(c.ttl)})
	}
	return value, err
}

// put keeps an entry. A full cache first drops what has expired, then everything:
// at a second's life nothing in it is worth choosing among.
func (c *Cache) put(key cacheKey, entry cacheEntry) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= c.max {
		for k, e := range c.entries {
			if !now.Before(e.expires) {
				delete(c.entries, k)
			}
		}
		if len(c.entries) >= c.max {
			clear(c.entries)
		}
	}
	c.entries[key] = entry
}
