package limiter

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// delayedEntry is one counter of a Delayed: what Redis said last, and what was admitted
// since.
type delayedEntry struct {
	kind    WindowType
	key     string
	counter string // its name in Redis
	marker  string // the name of this sender's last settlement

	mu sync.Mutex
	// gone says that the entry is no longer the key's.
	gone bool
	// busy is closed when the request to Redis that is under way has ended; nil if there
	// is none. One at a time, so that answers come in the order of the requests.
	busy chan struct{}

	// known says that there is a state, which Redis gave at asOf (nanoseconds).
	known bool
	asOf  int64
	// A fixed window: what it held, and its end by this clock.
	consumed, end int64
	// A sliding window, and how far the server's clock is ahead of this one
	// (microseconds).
	window slidingWindow
	ahead  int64

	// pending is what was admitted in the window and not sent; inFlight what was sent as
	// the settlement id and is not confirmed.
	pending, inFlight int64
	id                string
	// failed says that the last settlement failed.
	failed bool
}

// settlement is what is sent to Redis of a counter.
type settlement struct {
	counter, marker, id string
	amount              int64
}

func (s *settlement) keys() []string { return []string{s.counter, s.marker} }

func (e *delayedEntry) unsettled() int64 { return e.pending + e.inFlight }

// micros is an instant of this clock by the server's.
func (e *delayedEntry) micros(now int64) int64 { return now/int64(time.Microsecond) + e.ahead }

// live reports whether the window that is known lasts.
func (e *delayedEntry) live(now int64) bool {
	if e.kind == Sliding {
		return e.known && e.micros(now) < e.window.start+e.window.length
	}
	return e.known && now < e.end
}

// forget drops what no longer matters to anyone: all of a fixed window that has ended, and
// of a sliding one when the next has ended too.
func (e *delayedEntry) forget(now int64) {
	if !e.known || e.live(now) || e.busy != nil {
		return
	}
	if e.kind == Sliding && e.micros(now) < e.window.start+2*e.window.length {
		return
	}
	e.known, e.pending, e.inFlight, e.failed = false, 0, 0, false
}

// decide charges the window that is known.
func (e *delayedEntry) decide(q *Quota, cost, now int64) Result {
	var r Result
	if e.kind == Sliding {
		w := e.window
		w.current = min(w.current+e.unsettled(), MaxCount)
		remaining := w.remaining(e.micros(now))
		r = w.result(q, cost, remaining, w.fits(q.Limit, cost, remaining))
	} else {
		r = decideFixed(q, min(e.consumed+e.unsettled(), MaxCount), cost, time.Duration(e.end-now))
	}
	if r.Allowed {
		e.pending += cost // within the limit with all the rest, so this cannot overflow
	}
	return r
}

// step is what a charge has to do next.
type step int

const (
	stepDecided step = iota // nothing: it is decided
	stepAgain               // look for the key's entry again: this one is gone
	stepClosed              // fail: the Delayed is closed
	stepWait                // wait for the request that is under way
	stepRefresh             // ask for the state, which is old; the charge holds busy
	stepAsk                 // charge in Redis; the charge holds busy
)

// chargeEntry charges an entry. It is not decided, without an error, when the entry is
// gone.
func (d *Delayed) chargeEntry(ctx context.Context, e *delayedEntry, cost int64, q *Quota) (r Result, decided bool, err error) {
	r, next, busy := d.step(e, cost, q)
	if next == stepDecided {
		return r, true, nil
	}
	// Whatever Redis is asked from here on takes the time of one decision.
	ctx, cancel := context.WithTimeout(ctx, d.store.timeout)
	defer cancel()
	for {
		switch next {
		case stepDecided:
			return r, true, nil
		case stepAgain:
			return Result{}, false, nil
		case stepClosed:
			return Result{}, false, d.errClosed()
		case stepWait:
			err = d.await(ctx, busy)
		case stepRefresh:
			err = d.refresh(ctx, e)
			d.idle(e)
		case stepAsk:
			r, err = d.ask(ctx, e, cost, q)
			d.idle(e)
			return r, err == nil, err
		}
		if err != nil {
			return Result{}, false, err
		}
		r, next, busy = d.step(e, cost, q)
	}
}

// step decides a charge if what is known allows it, or says what to do next.
func (d *Delayed) step(e *delayedEntry, cost int64, q *Quota) (r Result, next step, busy <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := d.nanos()
	live := e.live(now)
	switch {
	case d.closed.Load():
		return Result{}, stepClosed, nil
	case e.gone:
		return Result{}, stepAgain, nil
	case live && d.fresh(e, now):
		return e.decide(q, cost, now), stepDecided, nil
	case e.busy != nil:
		return Result{}, stepWait, e.busy
	}
	e.busy = make(chan struct{})
	if live {
		return Result{}, stepRefresh, nil
	}
	return Result{}, stepAsk, nil
}

// fresh reports whether what is known of the window may be decided from: it is not older
// than an interval, or will be settled within one, or Redis was just found to be away.
func (d *Delayed) fresh(e *delayedEntry, now int64) bool {
	return now-e.asOf <= int64(d.interval) || e.unsettled() > 0 || now < d.awayUntil.Load()
}

// await waits until the request of another has ended.
func (d *Delayed) await(ctx context.Context, busy <-chan struct{}) error {
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return d.store.run(ctx, func(ctx context.Context) error { return ctx.Err() })
	}
}

// idle ends the caller's request.
func (d *Delayed) idle(e *delayedEntry) {
	e.mu.Lock()
	close(e.busy)
	e.busy = nil
	e.mu.Unlock()
}

// ask charges a key whose window is not known, or over, in Redis. The caller holds busy.
func (d *Delayed) ask(ctx context.Context, e *delayedEntry, cost int64, q *Quota) (Result, error) {
	// Only a sliding window has something left of the last one, which counts in this.
	for d.leftover(e) {
		if err := d.settleOnce(ctx, e); err != nil {
			return Result{}, err
		}
	}
	var r Result
	err := d.store.run(ctx, func(ctx context.Context) (err error) {
		if e.kind == Sliding {
			r, err = d.askSliding(ctx, e, cost, q)
		} else {
			r, err = d.askFixed(ctx, e, cost, q)
		}
		return err
	})
	return r, err
}

func (d *Delayed) leftover(e *delayedEntry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kind != Sliding {
		e.pending, e.inFlight = 0, 0
	}
	return e.unsettled() > 0
}

func (d *Delayed) askFixed(ctx context.Context, e *delayedEntry, cost int64, q *Quota) (Result, error) {
	sent := d.nanos()
	consumed, reset, err := askFixed(ctx, d.store.client, e.key, cost, q)
	if err != nil {
		return Result{}, err
	}
	r := decideFixed(q, consumed, cost, reset)
	if r.Allowed {
		consumed = min(consumed+cost, MaxCount)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// A peek opens no window: without consumption there may be none.
	e.known = cost > 0 || consumed > 0
	e.consumed, e.end, e.asOf = consumed, addTime(sent, reset), sent
	return r, nil
}

func (d *Delayed) askSliding(ctx context.Context, e *delayedEntry, cost int64, q *Quota) (Result, error) {
	w, server, fits, err := askSliding(ctx, d.store.client, e.key, cost, q)
	if err != nil {
		return Result{}, err
	}
	r := w.result(q, cost, w.remaining(server), fits)
	if fits {
		w.current += cost
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = cost > 0
	e.learn(w, server, d.nanos())
	return r, nil
}

// learn takes over a sliding window's state of an instant of the server's clock.
func (e *delayedEntry) learn(w slidingWindow, server, now int64) {
	e.window, e.ahead, e.asOf = w, server-now/int64(time.Microsecond), now
}

// refresh brings an old state up to date. If that fails the old one will do: another
// interval, and for every key. The caller holds busy.
func (d *Delayed) refresh(ctx context.Context, e *delayedEntry) error {
	err := d.settleOnce(ctx, e)
	if err == nil {
		return nil
	}
	if d.store.closed.Load() {
		return err
	}
	now := d.nanos()
	e.mu.Lock()
	e.asOf = now
	e.mu.Unlock()
	return nil
}

// settleEntry settles one key when no other request about it is under way.
func (d *Delayed) settleEntry(ctx context.Context, e *delayedEntry) error {
	for {
		e.mu.Lock()
		if e.gone || e.unsettled() == 0 {
			e.mu.Unlock()
			return nil
		}
		busy := e.busy
		if busy == nil {
			e.busy = make(chan struct{})
		}
		e.mu.Unlock()
		if busy == nil {
			defer d.idle(e)
			return d.settleOnce(ctx, e)
		}
		if err := d.await(ctx, busy); err != nil {
			return err
		}
	}
}

// settleOnce sends one settlement: the one that is not confirmed, or else what is pending,
// and nothing if there is nothing, which only asks for the state. The caller holds busy.
func (d *Delayed) settleOnce(ctx context.Context, e *delayedEntry) error {
	e.mu.Lock()
	if e.inFlight == 0 {
		e.inFlight, e.pending = e.pending, 0
		e.id = strconv.FormatUint(d.sequence.Add(1), 10)
	}
	s := settlement{counter: e.counter, marker: e.marker, id: e.id, amount: e.inFlight}
	window, end := e.window, e.end
	e.mu.Unlock()

	err := d.store.run(ctx, func(ctx context.Context) error {
		if e.kind == Sliding {
			return d.settleSliding(ctx, e, &s, window)
		}
		return d.settleFixed(ctx, e, &s, end)
	})
	if err != nil {
		d.awayUntil.Store(addTime(d.nanos(), d.interval))
	} else {
		d.awayUntil.Store(0)
	}
	e.mu.Lock()
	e.failed = err != nil
	e.mu.Unlock()
	return err
}

func (d *Delayed) settleFixed(ctx context.Context, e *delayedEntry, s *settlement, end int64) error {
	sent := d.nanos()
	left := time.Duration(max(end-sent, int64(time.Millisecond)))
	var consumed int64
	var reset time.Duration
	var err error
	if s.amount == 0 {
		consumed, reset, err = askFixed(ctx, d.store.client, e.key, 0, &Quota{Limit: 1, Window: left})
	} else {
		consumed, reset, err = settleFixed(ctx, d.store.client, s, left)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.consumed, e.end, e.asOf, e.inFlight = consumed, addTime(sent, reset), sent, 0
	return nil
}

func (d *Delayed) settleSliding(ctx context.Context, e *delayedEntry, s *settlement, window slidingWindow) error {
	var w slidingWindow
	var server int64
	var err error
	if s.amount == 0 {
		q := Quota{Limit: MaxCount, Window: saturatingDuration(window.length, time.Microsecond), Type: Sliding}
		w, server, _, err = askSliding(ctx, d.store.client, e.key, 0, &q)
	} else {
		w, server, err = settleSliding(ctx, d.store.client, s, window.start, window.length)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight = 0
	if e.pending > 0 && w.start > window.start {
		// The server is in the next window already, and what is pending belongs to this:
		// it is settled before the state is taken over.
		return nil
	}
	e.learn(w, server, d.nanos())
	return nil
}
