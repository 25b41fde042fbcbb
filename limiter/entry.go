package limiter

import "time"

// entryKind says whose numbers an entry holds.
type entryKind uint8

const (
	// freeEntry marks an unused place of the slab.
	freeEntry entryKind = iota
	// newEntry is a counter that no charge has written yet.
	newEntry
	// fixedEntry holds a fixed window.
	fixedEntry
)

// maxUse is where an entry's count of recent charges stops.
const maxUse = 15

// entry is one counter of a shard. It is kept small: a million of them are ordinary.
type entry struct {
	key      string
	consumed int64 // in the window
	end      int64 // when everything here is forgotten, Unix ns
	next     int32 // place of the next entry with the same hash, else noEntry
	kind     entryKind
	use      uint8 // recent charges, at most maxUse
}

// live reports whether the entry holds a window of this kind that has not ended.
func (e *entry) live(kind entryKind, now int64) bool {
	return e != nil && e.kind == kind && now < e.end
}

// peek reports the state without changing it. The entry may be nil.
func (e *entry) peek(q *Quota, now int64) Result {
	if !e.live(fixedEntry, now) {
		return decideFixed(q, 0, 0, q.Window)
	}
	return decideFixed(q, e.consumed, 0, time.Duration(e.end-now))
}

// charge adds cost (above 0) and decides.
func (e *entry) charge(q *Quota, cost, now int64) Result {
	first := e.kind == newEntry
	if !e.live(fixedEntry, now) {
		e.kind, e.consumed, e.end = fixedEntry, 0, addTime(now, q.Window)
	}
	r := decideFixed(q, e.consumed, cost, time.Duration(e.end-now))
	if r.Allowed || !q.ForgiveRejected {
		e.consumed = addSaturating(e.consumed, cost)
	}
	e.note(r.Allowed, first)
	return r
}

// note counts a charge as use. A key's first charge is none, so that a flood of keys
// charged once competes only with itself; a refused one is the heaviest use there is.
func (e *entry) note(allowed, first bool) {
	switch {
	case first:
	case !allowed:
		e.use = maxUse
	case e.use < maxUse:
		e.use++
	}
}
