package apisix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Defaults of [OwnersConfig].
const (
	defaultOwnersWait    = 500 * time.Millisecond
	defaultOwnersRefresh = 30 * time.Second
	defaultOwnersMax     = 200_000
)

const (
	// retryPause is how long after a failure an object is asked for again.
	retryPause = 2 * time.Second
	// versionPause is how long after an answer the Admin API is asked again for a version
	// that it did not have: it may stand before an etcd member that lags.
	versionPause = time.Second
	// maxFetches bounds the calls to the Admin API at a time, maxFlights those that wait
	// for their turn.
	maxFetches = 4
	maxFlights = 1024
	// complaintInterval is the time between two lines about an Admin API that fails.
	complaintInterval = time.Minute
)

// OwnersConfig holds the settings of [Owners].
type OwnersConfig struct {
	// Client asks the Admin API. Required.
	Client *Client
	// Logger is told when the Admin API cannot be asked, at most once a minute. Required.
	Logger *zap.Logger
	// Wait is how long Owner waits for the first answer about an object. An owner that is
	// guessed at first and known later is a fresh quota. Default 500 ms.
	Wait time.Duration
	// Refresh is how old an answer may grow where versions do not tell that it is still
	// good. Default 30 s.
	Refresh time.Duration
	// MaxObjects bounds how many objects of each kind are remembered, some 200 bytes each.
	// Beyond it some make room. Default 200 000.
	MaxObjects int
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Owners says who owns plugin configurations by what APISIX's Admin API answers. It
// remembers the answers: only an object that is seen for the first time makes Owner
// wait. An answer is renewed in the background when the place's versions tell that the
// object was changed, and by age where there are no versions; until then, and while the
// Admin API fails, what was known last stays. It is safe for concurrent use.
type Owners struct {
	client  *Client
	log     *zap.Logger
	wait    time.Duration
	refresh time.Duration
	max     int
	now     func() time.Time

	tables  [kinds]*table[answer]
	hanging atomic.Bool // the Admin API did not answer in time, and has not answered since

	ctx     context.Context // of all calls: ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	turns   chan struct{}

	mu         sync.Mutex
	closed     bool
	flights    map[ref]chan struct{} // closed when the call has ended
	complained time.Time
}

// answer is what is known of an object, and since when. object is nil where the Admin
// API was asked in vain.
type answer struct {
	object *object
	at     int64        // nanoseconds
	due    atomic.Int64 // when it is to be renewed, nanoseconds
	sought atomic.Int64 // the highest version that it was renewed for
}

// NewOwners returns owners that nothing is known of yet. It does no I/O. Close ends it.
func NewOwners(cfg OwnersConfig) *Owners {
	o := &Owners{
		client: cfg.Client, log: cfg.Logger, now: cfg.Now,
		wait:    cmp.Or(cfg.Wait, defaultOwnersWait),
		refresh: cmp.Or(cfg.Refresh, defaultOwnersRefresh),
		max:     cmp.Or(cfg.MaxObjects, defaultOwnersMax),
		turns:   make(chan struct{}, maxFetches),
		flights: map[ref]chan struct{}{},
	}
	if o.now == nil {
		o.now = time.Now
	}
	for of := range o.tables {
		o.tables[of] = newTable[answer]()
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Close ends the calls and waits for them. Owner then answers from memory.
func (o *Owners) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cancel()
	o.running.Wait()
}

// Owner says who owns the configuration of a place; the zero Owner says that it is not
// known. Where all that matters is remembered it takes no lock and allocates nothing;
// otherwise it waits for the Admin API, but not longer than OwnersConfig.Wait, and not
// at all from when it once waited in vain to the next answer.
func (o *Owners) Owner(at Place) Owner {
	owner, missing := resolve(o, at)
	if missing.kind == noKind {
		return owner
	}
	return o.firstSight(at, missing)
}

// firstSight asks for one object after another until the owner is known or time is up.
func (o *Owners) firstSight(at Place, missing ref) Owner {
	timer := time.NewTimer(o.wait)
	defer timer.Stop()
	for {
		if o.tables[missing.kind].get(missing.id) != nil {
			return Owner{} // asked in vain
		}
		done := o.ask(missing)
		if done == nil || o.hanging.Load() {
			return Owner{}
		}
		select {
		case <-done:
		case <-timer.C:
			o.hanging.Store(true)
			return Owner{}
		}
		var owner Owner
		if owner, missing = resolve(o, at); missing.kind == noKind {
			return owner
		}
	}
}

// find implements knower, and has what it finds renewed where it is due.
func (o *Owners) find(of ref, seen version) *object {
	a := o.tables[of.kind].get(of.id)
	if a == nil {
		return nil
	}
	// A plugin_config's version is not its own in every release of APISIX.
	wanted := seen.number()
	if a.object != nil && wanted > 0 && a.object.modified >= wanted && !seen.after {
		return a.object
	}
	now, due := o.now().UnixNano(), a.due.Load()
	outdated := a.object != nil && a.object.modified < wanted &&
		(wanted > a.sought.Load() || now >= a.at+int64(versionPause))
	if (now >= due || outdated) && a.due.CompareAndSwap(due, now+int64(o.refresh)) {
		a.sought.Store(wanted)
		o.ask(of)
	}
	return a.object
}

// ask begins to ask for an object, unless that is under way. It returns what is closed
// afterwards, nil if it cannot be asked for now.
func (o *Owners) ask(of ref) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if done := o.flights[of]; done != nil {
		return done
	}
	if o.closed || len(o.flights) >= maxFlights {
		return nil
	}
	done := make(chan struct{})
	o.flights[of] = done
	o.running.Go(func() {
		o.fetch(of)
		o.mu.Lock()
		delete(o.flights, of)
		o.mu.Unlock()
		close(done)
	})
	return done
}

// fetch asks the Admin API for an object and remembers the answer.
func (o *Owners) fetch(of ref) {
	select {
	case o.turns <- struct{}{}:
		defer func() { <-o.turns }()
	case <-o.ctx.Done():
		return
	}
	found, err := o.client.fetch(o.ctx, of)
	if o.ctx.Err() != nil {
		return
	}
	t := o.tables[of.kind]
	last := t.get(of.id)
	pause := o.refresh
	if err == nil {
		o.hanging.Store(false)
	} else {
		o.complain(err)
		pause = retryPause
		if last != nil {
			found = last.object
		}
	}
	a := &answer{object: found, at: o.now().UnixNano()}
	a.due.Store(a.at + int64(pause))
	if last != nil {
		a.sought.Store(last.sought.Load())
	}
	if t.len() >= o.max {
		t.forget(of.id)
	}
	t.set(of.id, a)
}

func (o *Owners) complain(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.now(); o.complained.IsZero() || now.Sub(o.complained) >= complaintInterval {
		o.complained = now
		o.log.Warn("APISIX cannot be asked what a configuration stands on: what is known stays, "+
			"and where nothing is known the counter is the service's, else the route's", zap.Error(err))
	}
}

// fetch reads what matters to an owner of any object. One that APISIX does not have is
// gone, not an error.
func (c *Client) fetch(ctx context.Context, of ref) (*object, error) {
	tooLong := of.kind != consumers && !validID(of.id) || len(of.id) > maxUsernameLength
	if tooLong || !validName(of.id) {
		return &object{gone: true}, nil
	}
	o, err := c.fetchValid(ctx, of)
	if errors.Is(err, ErrNotFound) {
		return &object{gone: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %q from APISIX's Admin API: %w", collections[of.kind], of.id, err)
	}
	return o, nil
}

func (c *Client) fetchValid(ctx context.Context, of ref) (*object, error) {
	body, err := c.get(ctx, "/"+collections[of.kind]+"/"+of.id, maxRecordBytes)
	if err != nil {
		return nil, err
	}
	rec, err := decodeRecord(body)
	if err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	var wire struct {
		PluginConfigID scalar      `json:"plugin_config_id"`
		Plugins        Attachments `json:"plugins"`
	}
	if err := json.Unmarshal(rec.Value, &wire); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	modified, _ := strconv.ParseInt(string(rec.ModifiedIndex), 10, 64) // some answers have none
	return &object{modified: modified, pluginConfigID: shared(wire.PluginConfigID), plugins: wire.Plugins}, nil
}
