package introspect

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/cost"
)

// ownerKind says what a key's owner is an id of.
type ownerKind byte

const (
	ownedByService ownerKind = iota + 1
	ownedByRoute
	ownedByEndpoint
)

func (k ownerKind) String() string {
	switch k {
	case ownedByService:
		return "service"
	case ownedByRoute:
		return "route"
	default:
		return "endpoint"
	}
}

// key is whose schema it is and how it was to be fetched.
type key struct {
	kind  ownerKind
	owner string
	// settings is the digest of the Settings.
	settings [sha256.Size]byte
}

// String names the owner for logs and errors.
func (k key) String() string {
	if k.kind == ownedByEndpoint { // the owner is a digest's source and may hold a password
		return "the configured endpoint"
	}
	return fmt.Sprintf("%s %q", k.kind, k.owner)
}

func keyOf(req Request) (key, error) {
	k := key{settings: req.Settings.digest}
	switch {
	case req.ServiceID != "":
		k.kind, k.owner = ownedByService, req.ServiceID
	case req.RouteID != "":
		k.kind, k.owner = ownedByRoute, req.RouteID
	case req.Settings.endpoint != "":
		k.kind, k.owner = ownedByEndpoint, req.Settings.endpoint
	default:
		return key{}, errors.New("a schema needs a service, a route or an introspection_endpoint that it belongs to")
	}
	return k, nil
}

// slot is what is known under a key: a schema, or a failure, or only that a failure has
// been logged. All but the atomics is fixed: other knowledge is another slot.
type slot struct {
	key key
	// request is how the schema was asked for, and is asked for again.
	request Request

	schema *cost.Schema
	// content is the digest of the answer that schema was read from.
	content [sha256.Size]byte
	// fetched is when the upstream gave that answer, or last confirmed it, by the source's
	// own time; before the source began (negative) for a schema from disk.
	fetched time.Duration
	// unconfirmed: from disk, and not compared with the upstream yet.
	unconfirmed bool

	err        error
	retryAt    time.Time // err counts until then
	quietUntil time.Time // a failure that is not remembered is not logged until then

	// notBefore is when the next refresh in the background may start, by the source's own
	// time; never while one is under way.
	notBefore atomic.Int64
	// use holds the marks of requests that were answered from it, see usedSinceEviction.
	use atomic.Uint32
}

// Each mark is set by use and cleared by what asks about it.
const (
	// usedSinceEviction: since the slot was last considered for forgetting.
	usedSinceEviction = 1 << iota
	// usedSinceRefresh: since the last Refresh.
	usedSinceRefresh
	used = usedSinceEviction | usedSinceRefresh
)

// markUsed notes a request. A store by every one would share a cache line.
func (s *slot) markUsed() {
	if s.use.Load() != used {
		s.use.Store(used)
	}
}

// clear clears a mark and reports whether it was set.
func (s *slot) clear(mark uint32) bool { return s.use.And(^mark)&mark != 0 }

// memory is a bounded map that forgets what was not used for long.
type memory struct {
	max   int
	order *list.List // of *slot, most recently used first
	slots map[key]*list.Element
	// known holds the slots with a schema. It is read without the lock that guards
	// the rest: every request of a decorated Service looks there.
	known sync.Map // key -> *slot
}

func newMemory(max int) *memory {
	return &memory{max: max, order: list.New(), slots: make(map[key]*list.Element)}
}

// schema returns the slot under k if it has a schema, else nil. It takes no lock.
func (m *memory) schema(k key) *slot {
	found, ok := m.known.Load(k)
	if !ok {
		return nil
	}
	s := found.(*slot)
	s.markUsed()
	return s
}

// get returns the slot under k, nil when there is none.
func (m *memory) get(k key) *slot {
	el := m.slots[k]
	if el == nil {
		return nil
	}
	m.order.MoveToFront(el)
	return el.Value.(*slot)
}

// put replaces the slot under s.key. A new key is used: somebody asked for it.
func (m *memory) put(s *slot) {
	if old := m.slots[s.key]; old != nil {
		s.use.Store(old.Value.(*slot).use.Load())
		m.order.Remove(old)
	} else {
		s.use.Store(usedSinceRefresh)
	}
	m.slots[s.key] = m.order.PushFront(s)
	if s.schema != nil {
		m.known.Store(s.key, s)
	} else {
		m.known.Delete(s.key)
	}
	if m.order.Len() > m.max {
		m.forget(m.unused())
	}
}

// read returns the schema that was read from an answer with that digest, nil when no slot
// has it: many services may have one upstream.
func (m *memory) read(content [sha256.Size]byte) *cost.Schema {
	for el := m.order.Front(); el != nil; el = el.Next() {
		if s := el.Value.(*slot); s.schema != nil && s.content == content {
			return s.schema
		}
	}
	return nil
}

// of returns the slots of an owner, the most recently used one first.
func (m *memory) of(kind ownerKind, owner string) []*slot {
	var slots []*slot
	for el := m.order.Front(); el != nil; el = el.Next() {
		if s := el.Value.(*slot); s.key.kind == kind && s.key.owner == owner {
			slots = append(slots, s)
		}
	}
	return slots
}

// unused is the entry that goes first: of those not used since they were last
// passed over, the least recently used one.
func (m *memory) unused() *list.Element {
	for range m.order.Len() {
		oldest := m.order.Back()
		if !oldest.Value.(*slot).clear(usedSinceEviction) {
			return oldest
		}
		m.order.MoveToFront(oldest)
	}
	return m.order.Back()
}

func (m *memory) forget(el *list.Element) {
	m.order.Remove(el)
	k := el.Value.(*slot).key
	delete(m.slots, k)
	m.known.Delete(k)
}

// inUse returns the slots of an owner that were used since it was last asked, and forgets
// the others: they are those of settings that were replaced. Where none was used, it returns
// all, for there may just have been no requests.
func (m *memory) inUse(kind ownerKind, owner string) (slots []*slot) {
	var unused []*slot
	for _, s := range m.of(kind, owner) {
		if s.clear(usedSinceRefresh) {
			slots = append(slots, s)
		} else {
			unused = append(unused, s)
		}
	}
	if len(slots) == 0 {
		return unused
	}
	for _, s := range unused {
		m.forget(m.slots[s.key])
	}
	return slots
}

func (m *memory) flush(kind ownerKind, owner string) {
	for _, s := range m.of(kind, owner) {
		m.forget(m.slots[s.key])
	}
}
