package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultDelayedMaxKeys is DelayedConfig.MaxKeys when it is not set: the queue of
	// APISIX's delayed syncer.
	DefaultDelayedMaxKeys = 10_000
	// MinSyncInterval is the shortest DelayedConfig.Interval, shorter ones count as this:
	// the smallest sync_interval that the plugin's configuration takes.
	MinSyncInterval = 100 * time.Millisecond

	// settlers is how many settlements are under way at once.
	settlers = 16
	// evictionProbes is how many keys are looked at for one to drop.
	evictionProbes = 8
)

// DelayedConfig configures a Delayed.
type DelayedConfig struct {
	// Store is where counters are settled. It stays the caller's: Close it after the
	// Delayed. Required.
	Store *Redis
	// Interval is the time between two settlements. Default (less than MinSyncInterval):
	// MinSyncInterval.
	Interval time.Duration
	// MaxKeys bounds the counters held. Default (0 or less): DefaultDelayedMaxKeys.
	MaxKeys int
	// Now is the clock. It must be safe for concurrent use. Settlements come at the pace
	// of the real time whatever it says. Default (nil): time.Now.
	Now func() time.Time
	// SettleFailed, if set, is told of an error of every round of settlements that had
	// one. It is called from one goroutine and should return soon.
	SettleFailed func(error)
}

// Delayed is a [Limiter] that decides from memory and settles with Redis once an interval
// (the configuration's sync_interval).
//
// The first charge of a key in a window asks Redis. From then on charges are decided from
// what Redis said last and what was admitted here since. What was admitted is added to the
// counter in Redis in the background, in one round trip per key and interval, whose answer
// brings what other nodes have added.
//
// # What differs from deciding in Redis
//
//   - Over-admission: a node does not see what others admit within an interval. Together
//     they admit at most the limit plus, for each node but one, what it admits in one
//     interval. While Redis is away, each goes on to the end of the window with what was
//     left at the last settlement.
//   - A charge that is refused adds nothing, as in APISIX, also in a [Fixed] window and
//     whatever Quota.ForgiveRejected says: who is refused costs no round trip either.
//     Charges that Redis decides for want of room (below) are treated alike.
//
// # Nothing is lost or counted twice
//
// A settlement is sent again until Redis has confirmed it, under an identity by which Redis
// knows one that it has made already. So charges survive an outage that ends before their
// window does. What belongs to a window that has ended counts in a [Sliding] window as the
// previous one's; a [Fixed] window forgets it, as it forgets everything.
//
// # What is charged directly
//
// LeakyBucket charges, charges whose window is not longer than the interval, and those of
// new keys while MaxKeys others wait for their settlement, are decided by Redis. A key that
// was not charged for an interval asks Redis for its state before it decides, and decides
// from what it knew if there is no answer, for another interval.
type Delayed struct {
	store        *Redis
	interval     time.Duration
	maxKeys      int
	now          func() time.Time
	settleFailed func(error)
	start        time.Time
	// sender names this Delayed in Redis; sequence numbers its settlements.
	sender   string
	sequence atomic.Uint64
	// awayUntil is when Redis, which did not answer, is worth waiting for again.
	awayUntil atomic.Int64

	mu      sync.RWMutex
	entries map[delayedKey]*delayedEntry

	closed atomic.Bool
	stop   context.CancelFunc
	done   chan struct{}
}

type delayedKey struct {
	kind WindowType
	key  string
}

var _ Limiter = (*Delayed)(nil)

// NewDelayed returns a Delayed that knows no key, and starts its settlements. Close it when
// done.
func NewDelayed(cfg DelayedConfig) *Delayed {
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = DefaultDelayedMaxKeys
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.SettleFailed == nil {
		cfg.SettleFailed = func(error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &Delayed{
		store:        cfg.Store,
		interval:     max(cfg.Interval, MinSyncInterval),
		maxKeys:      cfg.MaxKeys,
		now:          cfg.Now,
		settleFailed: cfg.SettleFailed,
		start:        cfg.Now(),
		sender:       rand.Text(),
		entries:      make(map[delayedKey]*delayedEntry),
		stop:         stop,
		done:         make(chan struct{}),
	}
	go d.settleEveryInterval(ctx)
	return d
}

// nanos is the time since construction.
func (d *Delayed) nanos() int64 { return int64(d.now().Sub(d.start)) }

// Charge implements [Limiter]. It asks Redis when it must, and then takes no longer than
// the store's timeout.
func (d *Delayed) Charge(ctx context.Context, key string, cost int64, q Quota) (Result, error) {
	if err := q.check(cost); err != nil {
		return Result{}, err
	}
	if q.Type == "" {
		q.Type = Fixed
	}
	if q.Type == LeakyBucket || q.Window <= d.interval {
		if d.closed.Load() {
			return Result{}, d.errClosed()
		}
		return d.store.Charge(ctx, key, cost, q)
	}
	q.ForgiveRejected = true
	for {
		e := d.entry(delayedKey{q.Type, localKey(key)}, key)
		if e == nil {
			return d.store.Charge(ctx, key, cost, q)
		}
		r, decided, err := d.chargeEntry(ctx, e, cost, &q)
		if decided || err != nil {
			return r, err
		}
	}
}

func (d *Delayed) errClosed() error {
	return fmt.Errorf("charging a counter on %s: %w", d.store.place, ErrClosed)
}

// entry returns the entry of a key, a new one if need be, or nil if there is no room.
func (d *Delayed) entry(k delayedKey, key string) *delayedEntry {
	d.mu.RLock()
	e := d.entries[k]
	d.mu.RUnlock()
	if e != nil {
		return e
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e = d.entries[k]; e != nil {
		return e
	}
	if len(d.entries) >= d.maxKeys && !d.evict() {
		return nil
	}
	name := redisKey(k.kind, key)
	e = &delayedEntry{kind: k.kind, key: key, counter: name, marker: settledKey(name, d.sender)}
	d.entries[k] = e
	return e
}

// evict drops a key that has nothing to settle, if one is among the next few.
func (d *Delayed) evict() bool {
	probes := 0
	for k, e := range d.entries {
		if probes++; probes > evictionProbes {
			return false
		}
		if d.drop(k, e, false) {
			return true
		}
	}
	return false
}

// drop forgets a key that has nothing to settle and, if asked to, whose window has ended.
func (d *Delayed) drop(k delayedKey, e *delayedEntry, ended bool) bool {
	if !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	now := d.nanos()
	e.forget(now)
	if e.busy != nil || e.unsettled() > 0 || ended && e.live(now) {
		return false
	}
	e.gone = true
	delete(d.entries, k)
	return true
}

// settleEveryInterval settles until ctx ends.
func (d *Delayed) settleEveryInterval(ctx context.Context) {
	defer close(d.done)
	ticker := time.NewTicker(d.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		round, cancel := context.WithTimeout(ctx, max(d.interval, d.store.timeout))
		if err := d.Settle(round); err != nil && ctx.Err() == nil {
			d.settleFailed(err)
		}
		cancel()
	}
}

// Settle settles what was admitted until now, without waiting for the interval to end. It
// returns an error if anything is left unsettled, and tries that again the next time. Keys
// whose settlement failed the last time come last.
func (d *Delayed) Settle(ctx context.Context) error {
	due := d.due()
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var wg sync.WaitGroup
	for range min(settlers, len(due)) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(len(due)); i = next.Add(1) {
				if err := d.settleEntry(ctx, due[i-1]); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// due returns the keys with something to settle, and forgets those whose window is over.
func (d *Delayed) due() []*delayedEntry {
	var due, again []*delayedEntry
	var over []delayedKey
	d.mu.RLock()
	for k, e := range d.entries {
		e.mu.Lock()
		now := d.nanos()
		e.forget(now)
		switch {
		case e.unsettled() > 0 && e.failed:
			again = append(again, e)
		case e.unsettled() > 0:
			due = append(due, e)
		case !e.live(now):
			over = append(over, k)
		}
		e.mu.Unlock()
	}
	d.mu.RUnlock()
	d.mu.Lock()
	for _, k := range over {
		if e := d.entries[k]; e != nil {
			d.drop(k, e, true)
		}
	}
	d.mu.Unlock()
	return append(due, again...)
}

// Close refuses further charges, settles what is left, for as long as the store's timeout
// allows, and ends. It may be called again.
func (d *Delayed) Close() {
	if !d.closed.CompareAndSwap(false, true) {
		<-d.done
		return
	}
	d.stop()
	<-d.done
	ctx, cancel := context.WithTimeout(context.Background(), d.store.timeout)
	defer cancel()
	// The first round may only confirm settlements that were under way.
	if err := errors.Join(d.Settle(ctx), d.Settle(ctx)); err != nil {
		d.settleFailed(err)
	}
}

// DelayedStats is what a Delayed holds.
type DelayedStats struct {
	// Keys is the number of counters held.
	Keys int
	// Pending is the number of those with charges that Redis has not confirmed.
	Pending int
}

// Stats returns the current numbers.
func (d *Delayed) Stats() DelayedStats {
	d.mu.RLock()
	defer d.mu.RUnlock()
	stats := DelayedStats{Keys: len(d.entries)}
	for _, e := range d.entries {
		e.mu.Lock()
		if e.unsettled() > 0 {
			stats.Pending++
		}
		e.mu.Unlock()
	}
	return stats
}
