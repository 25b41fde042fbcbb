package introspect

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
	// settings is a digest of endpoint and headers, zero when there are none. A
	// digest rather than the text, because the headers hold credentials and the
	// key outlives the configuration.
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
	k := key{settings: digest(req.Endpoint, req.Headers)}
	switch {
	case req.ServiceID != "":
		k.kind, k.owner = ownedByService, req.ServiceID
	case req.RouteID != "":
		k.kind, k.owner = ownedByRoute, req.RouteID
	case req.Endpoint != "":
		k.kind, k.owner = ownedByEndpoint, req.Endpoint
	default:
		return key{}, errors.New("a schema needs a service, a route or an introspection_endpoint that it belongs to")
	}
	return k, nil
}

// digest is a hash over length-prefixed texts, so that no two settings share one.
func digest(endpoint string, headers map[string]string) (sum [sha256.Size]byte) {
	if endpoint == "" && len(headers) == 0 {
		return sum
	}
	text := appendText(nil, endpoint)
	for _, name := range sortedNames(headers) {
		text = appendText(appendText(text, name), headers[name])
	}
	return sha256.Sum256(text)
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func sortedNames(headers map[string]string) []string {
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// entry is what is known under a key: a schema, or a failure until retryAt, or
// only that a failure has been logged until quietUntil.
type entry struct {
	schema     *cost.Schema
	err        error
	retryAt    time.Time
	quietUntil time.Time
}

// memory is a bounded map that forgets an entry that was not used for long.
type memory struct {
	max   int
	order *list.List // of *slot, most recently used first
	slots map[key]*list.Element
	// known holds the slots with a schema. It is read without the lock that guards
	// the rest: every request of a decorated Service looks there.
	known sync.Map // key -> *slot
}

type slot struct {
	key key
	entry
	// used since it was last considered for forgetting.
	used atomic.Bool
}

// schema returns the schema under k, nil when there is none. It takes no lock.
func (m *memory) schema(k key) *cost.Schema {
	found, ok := m.known.Load(k)
	if !ok {
		return nil
	}
	s := found.(*slot)
	if !s.used.Load() { // a store by every request would share a cache line
		s.used.Store(true)
	}
	return s.entry.schema
}

func newMemory(max int) *memory {
	return &memory{max: max, order: list.New(), slots: make(map[key]*list.Element)}
}

// get returns the entry under k, nil when there is none. It is valid until put.
func (m *memory) get(k key) *entry {
	el := m.slots[k]
	if el == nil {
		return nil
	}
	m.order.MoveToFront(el)
	return &el.Value.(*slot).entry
}

// put replaces the entry under k.
func (m *memory) put(k key, e entry) {
	if old := m.slots[k]; old != nil {
		m.order.Remove(old)
	}
	s := &slot{key: k, entry: e}
	m.slots[k] = m.order.PushFront(s)
	if e.schema != nil {
		m.known.Store(k, s)
	} else {
		m.known.Delete(k)
	}
	if m.order.Len() > m.max {
		m.forget(m.unused())
	}
}

// unused is the entry that goes first: of those not used since they were last
// passed over, the least recently used one.
func (m *memory) unused() *list.Element {
	for range m.order.Len() {
		oldest := m.order.Back()
		if !oldest.Value.(*slot).used.Swap(false) {
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

func (m *memory) flush(kind ownerKind, owner string) {
	for k, el := range m.slots {
		if k.kind == kind && k.owner == owner {
			m.forget(el)
		}
	}
}
