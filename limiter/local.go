package limiter

import (
	"context"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxKeys is LocalConfig.MaxKeys when it is not set.
	DefaultMaxKeys = 1_000_000
	// DefaultSweepInterval is LocalConfig.SweepInterval when it is not set.
	DefaultSweepInterval = time.Second

	// keysPerShard is how many keys a shard holds when the limiter is full. It bounds
	// what one shard's lock can be held for.
	keysPerShard = 4096
	// minShards keeps goroutines from meeting at one lock while there are few keys.
	minShards = 64
	// minKeysPerShard keeps a small limiter from spreading so thin that a shard has
	// nothing to evict.
	minKeysPerShard = 64
	// sweepFraction is how many sweeps visit every shard once.
	sweepFraction = 8
	// sweepBatch is how many keys are looked at under one hold of a shard's lock.
	sweepBatch = 512
)

// LocalConfig configures a [Local].
type LocalConfig struct {
	// MaxKeys bounds the counters held; see [Local] for what happens beyond. With keys of
	// up to 96 bytes a counter takes less than 200 bytes, longer keys are held as their
	// digest. Default (0 or less): DefaultMaxKeys.
	MaxKeys int
	// SweepInterval is the time between two background sweeps, each of which visits an
	// eighth of the counters and frees expired ones. It is varied by a quarter so that
	// processes do not sweep in step. Default (0 or less): DefaultSweepInterval.
	SweepInterval time.Duration
	// Now is the clock, read once per charge. Time is measured against the reading at
	// construction, so with time.Now a step of the wall clock moves no window. It must be
	// safe for concurrent use. Default (nil): time.Now.
	Now func() time.Time
}

// LocalStats is what a [Local] holds and has dropped.
type LocalStats struct {
	// Keys is the number of counters held, expired ones that no sweep has met included.
	Keys int64
	// Expired is the number of counters freed after their window had ended.
	Expired uint64
	// Evicted is the number of counters dropped before their window had ended, to stay
	// within MaxKeys. Each handed its client a fresh quota.
	Evicted uint64
}

// Local is a [Limiter] in memory. Its counters are spread over shards with a lock each; a
// charge of an existing key allocates nothing.
//
// Beyond MaxKeys a new key takes the place of an old one of its shard. The search goes
// round the shard like the hand of a clock: an expired counter is taken at once, else the
// least used of the next few, where use is the number of recent charges (ageing each time
// the hand passes) and a refused charge counts as the heaviest use, which does not age, so
// that neither the busiest clients nor those at their limit lose their counter to a flood
// of new keys. The bound can be exceeded by at most one key per shard.
type Local struct {
	maxKeys   int64
	now       func() time.Time // nil for time.Now
	start     time.Time        // first reading of now; later ones are measured from it
	startNano int64            // start as Unix time, ns
	hash      func(string) uint64
	shards    []shard
	shardBits int

	keys    atomic.Int64
	expired atomic.Uint64
	evicted atomic.Uint64

	nextShard int // first shard of the next sweep; only the sweeper uses it
	closing   chan struct{}
	closeOnce sync.Once
	swept     sync.WaitGroup
}

var _ Limiter = (*Local)(nil)

// NewLocal returns an empty Local and starts its sweeper. Close it when done.
func NewLocal(cfg LocalConfig) *Local {
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}
	if cfg.SweepInterval <= 0 {
		cfg.SweepInterval = DefaultSweepInterval
	}
	seed := maphash.MakeSeed()
	start := time.Now()
	if cfg.Now != nil {
		start = cfg.Now()
	}
	n := shardCount(cfg.MaxKeys)
	l := &Local{
		maxKeys:   int64(cfg.MaxKeys),
		now:       cfg.Now,
		start:     start,
		startNano: start.UnixNano(),
		hash:      func(s string) uint64 { return maphash.String(seed, s) },
		shards:    make([]shard, n),
		shardBits: bits.TrailingZeros(uint(n)),
		closing:   make(chan struct{}),
	}
	l.swept.Go(func() { l.sweepEvery(cfg.SweepInterval) })
	return l
}

// shardCount is a power of two: about one shard per keysPerShard keys, but at least
// minShards where the keys suffice for that.
func shardCount(maxKeys int) int {
	n := max(maxKeys/keysPerShard, min(minShards, maxKeys/minKeysPerShard), 1)
	return 1 << bits.Len(uint(n-1))
}

// Charge implements [Limiter]. It never blocks for longer than a shard's lock is held
// (well under a millisecond), so ctx is not consulted; the only errors are those of a
// quota or cost out of range.
func (l *Local) Charge(_ context.Context, key string, cost int64, q Quota) (Result, error) {
	// What is usual is found to be so, and done, with as few calls as can be.
	fixed := q.Type == Fixed || q.Type == ""
	if !q.inRange(cost) || !fixed {
		if err := q.check(cost); err != nil {
			return Result{}, err
		}
	}
	if !plainLocalKey(key) {
		key = localKey(key)
	}
	now := l.clock()
	hash := l.hash(key)
	s := l.shard(hash)
	s.mu.Lock()
	e := s.find(hash, key)
	if fixed && e != nil && cost > 0 && e.admitFixed(q.Limit, cost, now) {
		r := Result{Allowed: true, Limit: q.Limit, Remaining: q.Limit - e.consumed, Reset: time.Duration(e.end - now)}
		s.mu.Unlock()
		return r, nil
	}
	var r Result
	switch {
	case cost == 0:
		r = e.peek(&q, now)
	case e == nil:
		// The caller's text may be part of a larger buffer, which must not live on.
		r = l.insert(s, hash, strings.Clone(key), now).charge(&q, cost, now)
	default:
		r = e.charge(&q, cost, now)
	}
	s.mu.Unlock()
	return r, nil
}

// Stats returns the current numbers. They are read one by one, not at one instant.
func (l *Local) Stats() LocalStats {
	return LocalStats{Keys: l.keys.Load(), Expired: l.expired.Load(), Evicted: l.evicted.Load()}
}

// Close stops the sweeper and waits for it. Charges still work afterwards; it may be
// called again.
func (l *Local) Close() {
	l.closeOnce.Do(func() { close(l.closing) })
	l.swept.Wait()
}

// clock is the time as Unix time in nanoseconds, on the monotonic clock where Now has one.
func (l *Local) clock() int64 {
	if l.now != nil {
		return l.startNano + int64(l.now().Sub(l.start))
	}
	return l.startNano + int64(time.Since(l.start)) // reads one clock, time.Now two
}

// reading is a reading of the clock, and what clock returns for it.
func (l *Local) reading() (time.Time, int64) {
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	reading := now()
	return reading, l.startNano + int64(reading.Sub(l.start))
}

// shard picks by the hash's high bits: the index inside the shard uses others.
func (l *Local) shard(hash uint64) *shard {
	return &l.shards[hash>>(64-l.shardBits)]
}

// insert makes a counter for key in s, whose lock is held, and keeps the bound on keys.
// The global count rather than the shard's decides, so that all of MaxKeys can be used
// however the keys are spread.
func (l *Local) insert(s *shard, hash uint64, key string, now int64) *entry {
	if l.keys.Add(1) > l.maxKeys {
		if found, wasExpired := s.evict(l.hash, now); found {
			l.keys.Add(-1)
			l.count(wasExpired)
		}
	}
	return s.insert(hash, key)
}

func (l *Local) count(wasExpired bool) {
	if wasExpired {
		l.expired.Add(1)
	} else {
		l.evicted.Add(1)
	}
}

func (l *Local) sweepEvery(interval time.Duration) {
	timer := time.NewTimer(jitter(interval))
	defer timer.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-timer.C:
			l.sweep()
			timer.Reset(jitter(interval))
		}
	}
}

// jitter is d, give or take an eighth: a quarter from end to end.
func jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(max(d/4, 1))
}

// sweep visits the next part of the shards, and in each a batch of keys at a time, so
// that no charge waits for more than one batch.
func (l *Local) sweep() {
	for range max(len(l.shards)/sweepFraction, 1) {
		s := &l.shards[l.nextShard]
		l.nextShard = (l.nextShard + 1) % len(l.shards)
		for from := 0; from >= 0; {
			var freed int
			freed, from = s.sweepFrom(from, l.hash, l.clock())
			l.keys.Add(int64(-freed))
			l.expired.Add(uint64(freed))
		}
	}
}
