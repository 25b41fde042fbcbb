package plugins

import "hash/maphash"

// fewNames is up to how many names comparing one by one is about as fast as hashing.
const fewNames = 16

// nameSet is a set of names. A few are compared one by one; more are found by a hash
// that clients cannot foresee, so that the work stays linear however many a request
// holds.
type nameSet struct {
	names [][]byte
	// table is nil while there are few. At least half of it is free.
	table []nameEntry
	seed  maphash.Seed
}

// nameEntry is a name in the table: at the place that its hash names, or behind it. The
// zero entry is a free place.
type nameEntry struct{ hash, number uint32 } // number is the name's index plus one

// reset empties the set.
func (n *nameSet) reset() {
	n.names, n.table = n.names[:0], nil
}

// add adds a name, which must stay as it is, and reports whether it was not there.
func (n *nameSet) add(name []byte) bool {
	if n.table == nil {
		for _, present := range n.names {
			if string(present) == string(name) {
				return false
			}
		}
	} else if !n.enter(name) {
		return false
	}
	n.names = append(n.names, name)
	switch count := len(n.names); {
	case count > fewNames && n.table == nil:
		n.seed = maphash.MakeSeed()
		n.table = make([]nameEntry, 8*fewNames)
		for i, name := range n.names {
			n.put(nameEntry{n.hash(name), uint32(i + 1)})
		}
	case 2*count >= len(n.table) && n.table != nil:
		n.grow()
	}
	return true
}

func (n *nameSet) hash(name []byte) uint32 { return uint32(maphash.Bytes(n.seed, name)) }

// enter puts the name that comes next into the table, and reports whether it was not
// there.
func (n *nameSet) enter(name []byte) bool {
	hash, last := n.hash(name), len(n.table)-1 // the length is a power of two
	at := int(hash) & last
	for ; n.table[at].number != 0; at = (at + 1) & last {
		if e := n.table[at]; e.hash == hash && string(n.names[e.number-1]) == string(name) {
			return false
		}
	}
	n.table[at] = nameEntry{hash, uint32(len(n.names) + 1)}
	return true
}

// put puts an entry that is not there into the table.
func (n *nameSet) put(e nameEntry) {
	last := len(n.table) - 1
	at := int(e.hash) & last
	for n.table[at].number != 0 {
		at = (at + 1) & last
	}
	n.table[at] = e
}

// grow makes the table four times as large.
func (n *nameSet) grow() {
	entries := n.table
	n.table = make([]nameEntry, 4*len(entries))
	for _, e := range entries {
		if e.number != 0 {
			n.put(e)
		}
	}
}
