package apisix

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// tableBuckets is into how many maps a table is divided. A change copies one of
// them: some hundred entries of a hundred thousand.
const tableBuckets = 1024

// table holds values by id. Reading takes no lock and allocates nothing.
type table[T any] struct {
	seed    maphash.Seed
	buckets [tableBuckets]atomic.Pointer[map[string]*T]
	size    atomic.Int64
	write   sync.Mutex
}

func newTable[T any]() *table[T] { return &table[T]{seed: maphash.MakeSeed()} }

func (t *table[T]) bucket(id string) *atomic.Pointer[map[string]*T] {
	return &t.buckets[maphash.String(t.seed, id)%tableBuckets]
}

// get returns the value of an id, nil if there is none.
func (t *table[T]) get(id string) *T {
	entries := t.bucket(id).Load()
	if entries == nil {
		return nil
	}
	return (*entries)[id]
}

// len returns how many values there are.
func (t *table[T]) len() int { return int(t.size.Load()) }

// set puts value under id, or takes away what is there if value is nil.
func (t *table[T]) set(id string, value *T) {
	t.write.Lock()
	defer t.write.Unlock()
	b := t.bucket(id)
	var next map[string]*T
	if old := b.Load(); old != nil {
		next = maps.Clone(*old)
	} else {
		next = make(map[string]*T, 1)
	}
	before := len(next)
	if value == nil {
		delete(next, id)
	} else {
		next[id] = value
	}
	b.Store(&next)
	t.size.Add(int64(len(next) - before))
}

// forget empties the bucket of an id: some of what is there, by chance.
func (t *table[T]) forget(id string) {
	t.write.Lock()
	defer t.write.Unlock()
	if old := t.bucket(id).Swap(nil); old != nil {
		t.size.Add(-int64(len(*old)))
	}
}

// replace makes the table hold exactly these values. A reader sees each bucket
// before or after it.
func (t *table[T]) replace(values map[string]*T) {
	next := make([]map[string]*T, tableBuckets)
	for id, value := range values {
		i := maphash.String(t.seed, id) % tableBuckets
		if next[i] == nil {
			next[i] = make(map[string]*T, len(values)/tableBuckets+1)
		}
		next[i][id] = value
	}
	t.write.Lock()
	defer t.write.Unlock()
	for i := range next {
		if next[i] == nil {
			t.buckets[i].Store(nil)
			continue
		}
		t.buckets[i].Store(&next[i])
	}
	t.size.Store(int64(len(values)))
}
