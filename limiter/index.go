package limiter

// index finds the entries of a shard: an open-addressed table with linear probing, so
// that a look takes one line of the processor's cache, where a map's takes several. Its
// size, a power of two, is its capacity; its length is how many entries it finds, so
// that a slice is all it takes.
type index []slot

// slot holds the low half of a key's hash, by which it is found, and the place of the
// entry; see newSlot. The shard was chosen by the high half. 0 is an empty slot.
type slot uint64

const (
	// placeBits is where a slot's half of the hash begins.
	placeBits = 32
	// minSlots is the least size of an index.
	minSlots = 8
	// An index is doubled when more than fullNumerator/fullDenominator of it is taken:
	// a counter costs 11 to 21 bytes of it, and probes stay short.
	fullNumerator, fullDenominator = 3, 4
)

// newIndex returns an index with room for n entries.
func newIndex(n int) index {
	size := minSlots
	for size*fullNumerator < n*fullDenominator {
		size *= 2
	}
	return make(index, 0, size)
}

func newSlot(hash uint64, place int32) slot {
	return slot(hash<<placeBits | uint64(place+1))
}

func (s slot) hash() uint32 { return uint32(s >> placeBits) }

func (s slot) place() int32 { return int32(uint32(s)) - 1 }

// slots is the whole table.
func (x index) slots() []slot { return x[:cap(x)] }

// home is the slot that a hash is looked for first.
func (x index) home(hash uint32) int { return int(hash) & (cap(x) - 1) }

// after is the slot behind another.
func (x index) after(at int) int { return (at + 1) & (cap(x) - 1) }

// add enters an entry that is not there.
func (x *index) add(hash uint64, place int32) {
	if (len(*x)+1)*fullDenominator > cap(*x)*fullNumerator {
		x.grow()
	}
	x.put(newSlot(hash, place))
}

func (x *index) grow() {
	grown := make(index, 0, max(2*cap(*x), minSlots))
	for _, s := range x.slots() {
		if s != 0 {
			grown.put(s)
		}
	}
	*x = grown
}

func (x *index) put(s slot) {
	slots, at := x.slots(), x.home(s.hash())
	for slots[at] != 0 {
		at = x.after(at)
	}
	slots[at] = s
	*x = slots[:len(*x)+1]
}

// remove takes the entry at a place out. Those behind it that are not at home move up,
// so that no mark has to stay (Knuth, The Art of Computer Programming, volume 3,
// section 6.4, algorithm R).
func (x *index) remove(hash uint64, place int32) {
	slots, gone := x.slots(), newSlot(hash, place)
	hole := x.home(gone.hash())
	for slots[hole] != gone {
		hole = x.after(hole)
	}
	mask := len(slots) - 1
	for at := x.after(hole); slots[at] != 0; at = x.after(at) {
		if home := x.home(slots[at].hash()); (at-home)&mask >= (at-hole)&mask {
			slots[hole] = slots[at]
			hole = at
		}
	}
	slots[hole] = 0
	*x = slots[:len(*x)-1]
}
