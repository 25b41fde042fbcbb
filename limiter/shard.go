package limiter

import "sync"

const (
	// noEntry is no place.
	noEntry int32 = -1
	// evictionScan is how many counters an eviction compares at most.
	evictionScan = 64
	// shrinkFraction: a shard with fewer live keys than this part of its places is
	// rebuilt, to give the memory back after a flood.
	shrinkFraction = 4
	// minPlaces is the size below which a rebuild frees nothing worth having.
	minPlaces = 64
)

// shard is a part of a Local's counters behind one lock. Entries live in a slab, so that
// the eviction hand and the sweeper can walk them; index finds one by its hash.
type shard struct {
	mu      sync.Mutex
	index   index
	entries []entry
	free    []int32  // unused places of entries
	hand    int      // place that the next eviction looks at first
	_       [40]byte // shards that different cores lock share no cache line
}

// find returns the entry of key, or nil. It is valid until the lock is released or an
// entry is inserted.
func (s *shard) find(hash uint64, key string) *entry {
	slots := s.index.slots()
	if len(slots) == 0 {
		return nil
	}
	for at := s.index.home(uint32(hash)); ; at = s.index.after(at) {
		switch slot := slots[at]; {
		case slot == 0:
			return nil
		case slot.hash() == uint32(hash):
			if e := &s.entries[slot.place()]; e.key == key {
				return e
			}
		}
	}
}

// insert adds an entry for key, which must not be there and is kept.
func (s *shard) insert(hash uint64, key string) *entry {
	at := s.place()
	s.index.add(hash, at)
	s.entries[at] = entry{key: key, kind: newEntry}
	return &s.entries[at]
}

// place finds room for an entry.
func (s *shard) place() int32 {
	if n := len(s.free); n > 0 {
		at := s.free[n-1]
		s.free = s.free[:n-1]
		return at
	}
	s.entries = append(s.entries, entry{})
	return int32(len(s.entries) - 1)
}

// remove frees the entry at a place that is in use.
func (s *shard) remove(hash func(string) uint64, at int32) {
	e := &s.entries[at]
	s.index.remove(hash(e.key), at)
	*e = entry{}
	s.free = append(s.free, at)
}

// evict makes room: it frees an expired entry if the hand meets one, else the least used
// of the next evictionScan. It reports whether it freed one and whether that had expired.
func (s *shard) evict(hash func(string) uint64, now int64) (found, wasExpired bool) {
	victim := noEntry
	for steps, seen := 0, 0; steps < len(s.entries) && seen < evictionScan; steps++ {
		if s.hand >= len(s.entries) {
			s.hand = 0
		}
		at := int32(s.hand)
		s.hand++
		e := &s.entries[at]
		if e.kind == freeEntry {
			continue
		}
		seen++
		if now >= e.end {
			s.remove(hash, at)
			return true, true
		}
		if victim == noEntry || e.use < s.entries[victim].use {
			victim = at
		}
		if e.age() {
			break
		}
	}
	if victim == noEntry {
		return false, false
	}
	s.remove(hash, victim)
	return true, false
}

// sweepFrom frees the expired among sweepBatch places and returns how many those were,
// and where to go on: -1 after the last, when the shard gives memory back if much of it
// is unused.
func (s *shard) sweepFrom(from int, hash func(string) uint64, now int64) (freed, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := min(from+sweepBatch, len(s.entries))
	for at := from; at < to; at++ {
		if e := &s.entries[at]; e.kind != freeEntry && now >= e.end {
			s.remove(hash, int32(at))
			freed++
		}
	}
	if to < len(s.entries) {
		return freed, to
	}
	s.shrink(hash)
	return freed, -1
}

// shrink rebuilds a shard that is mostly empty.
func (s *shard) shrink(hash func(string) uint64) {
	live := len(s.entries) - len(s.free)
	if len(s.entries) < minPlaces || live*shrinkFraction > len(s.entries) {
		return
	}
	old := s.entries
	s.index, s.free, s.hand = newIndex(live), nil, 0
	s.entries = make([]entry, 0, live)
	for i := range old {
		if e := &old[i]; e.kind != freeEntry {
			s.index.add(hash(e.key), int32(len(s.entries)))
			s.entries = append(s.entries, *e)
		}
	}
}
