package extplugin

import "sync/atomic"

const (
	// minSlots is the least size of a token table; a power of two, as all are.
	minSlots = 64

	// A table is rebuilt when three quarters of it are taken, to between a quarter
	// and a half, or when less than an eighth is: probes stay short and a token
	// costs 11 to 32 bytes of table.
	fullNumerator, fullDenominator = 3, 4
	roomFor                        = 2
	sparse                         = 8
)

// confEntry is what a token stands for.
type confEntry struct {
	token uint32
	key   string // of the PrepareConf
	rules *ruleSet

	// seen is when the token was last prepared or used, in nanoseconds of the Unix
	// clock.
	seen atomic.Int64
}

// removedEntry marks a slot whose entry has gone, so that probes go on past it.
var removedEntry = new(confEntry)

// tokenTable finds entries by token. Lookups take no lock and write nothing, so
// that any number of requests can run at once; changes are made by one goroutine
// at a time. The tokens are hashes already and index the table as they are.
type tokenTable struct {
	slots atomic.Pointer[[]atomic.Pointer[confEntry]]
	live  int // entries
	taken int // entries and removed marks
}

func newTokenTable() *tokenTable {
	t := &tokenTable{}
	t.publish(make([]atomic.Pointer[confEntry], minSlots))
	return t
}

func (t *tokenTable) publish(slots []atomic.Pointer[confEntry]) { t.slots.Store(&slots) }

// get returns the entry of token, or nil.
func (t *tokenTable) get(token uint32) *confEntry {
	slots := *t.slots.Load()
	mask := uint32(len(slots) - 1)
	for i := token & mask; ; i = (i + 1) & mask {
		entry := slots[i].Load()
		if entry == nil {
			return nil
		}
		if entry.token == token && entry != removedEntry {
			return entry
		}
	}
}

// add inserts an entry whose token is not in the table.
func (t *tokenTable) add(entry *confEntry) {
	if slots := *t.slots.Load(); (t.taken+1)*fullDenominator > len(slots)*fullNumerator {
		t.rebuild(t.live + 1)
	}
	place(*t.slots.Load(), entry)
	t.live++
	t.taken++
}

func place(slots []atomic.Pointer[confEntry], entry *confEntry) {
	mask := uint32(len(slots) - 1)
	for i := entry.token & mask; ; i = (i + 1) & mask {
		if slots[i].Load() == nil {
			slots[i].Store(entry)
			return
		}
	}
}

// removeIf removes the entries that drop accepts.
func (t *tokenTable) removeIf(drop func(*confEntry) bool) {
	slots := *t.slots.Load()
	for i := range slots {
		entry := slots[i].Load()
		if entry == nil || entry == removedEntry || !drop(entry) {
			continue
		}
		slots[i].Store(removedEntry)
		t.live--
	}
	if len(slots) > minSlots && t.live*sparse < len(slots) {
		t.rebuild(t.live)
	}
}

// rebuild publishes a new table with room for n entries. A lookup that still has
// the old one finds there what was in it.
func (t *tokenTable) rebuild(n int) {
	size := minSlots
	for size < n*roomFor {
		size *= 2
	}
	slots := make([]atomic.Pointer[confEntry], size)
	for i, old := 0, *t.slots.Load(); i < len(old); i++ {
		if entry := old[i].Load(); entry != nil && entry != removedEntry {
			place(slots, entry)
		}
	}
	t.publish(slots)
	t.taken = t.live
}
