package limiter

// entryKind says whose numbers an entry holds.
type entryKind uint8

const (
	// freeEntry marks an unused place of the slab.
	freeEntry entryKind = iota
	// newEntry is a counter that no charge has written yet.
	newEntry
	// The others are of the window type they are named after.
	fixedEntry
	slidingEntry
	leakyEntry
)

const (
	// maxUse is where an entry's count of recent charges stops.
	maxUse = 15
	// atLimit is the use of an entry whose last charge was refused. It does not age: to
	// drop the entry would lift the refusal, and it ends with its window anyway.
	atLimit = maxUse + 1
)

// entry is one counter of a shard. It is kept small: a million of them are ordinary.
type entry struct {
	key      string
	consumed int64 // in the window; of a leaky bucket, the bits of its TAT
	end      int64 // when everything here is forgotten, Unix ns
	kind     entryKind
	use      uint8 // recent charges, at most maxUse, or atLimit
	previous int64 // in the window before; only of a sliding window
	length   int64 // of the window, microseconds; only of a sliding window
}

// live reports whether the entry holds numbers of this kind that still matter.
func (e *entry) live(kind entryKind, now int64) bool {
	return e.kind == kind && now < e.end
}

// peek reports the state without changing it. The entry may be nil.
func (e *entry) peek(q *Quota, now int64) Result {
	var scratch entry
	if e != nil {
		scratch = *e
	}
	return scratch.charge(q, 0, now)
}

// charge adds cost, as the quota's window type says, and decides.
func (e *entry) charge(q *Quota, cost, now int64) (r Result) {
	first := e.kind == newEntry
	switch q.Type {
	case Sliding:
		r = e.chargeSliding(q, cost, now)
	case LeakyBucket:
		r = e.chargeLeaky(q, cost, now)
	default:
		r = e.chargeFixed(q, cost, now)
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
		e.use = atLimit
	default:
		e.use = min(e.use+1, maxUse)
	}
}

// age forgets a charge. It reports whether the entry has no use left to forget.
func (e *entry) age() (unused bool) {
	switch e.use {
	case 0:
		return true
	case atLimit:
	default:
		e.use--
	}
	return false
}
