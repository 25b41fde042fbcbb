package introspect

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// memory is a bounded map that forgets the least recently used entry.
type memory struct {
	max   int
	order *list.List // of *slot, most recently used first
	slots map[key]*list.Element
}

type slot struct {
	key key
	entry
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

func (m *memory) put(k key, e entry) {
	if old := m.get(k); old != nil {
		*old = e
		return
	}
	m.slots[k] = m.order.PushFront(&slot{key: k, entry: e})
	if m.order.Len() > m.max {
		oldest := m.order.Back()
		m.order.Remove(oldest)
		delete(m.slots, oldest.Value.(*slot).key)
	}
}

func (m *memory) flush(kind ownerKind, owner string) {
	for k, el := range m.slots {
		if k.kind == kind && k.owner == owner {
			m.order.Remove(el)
			delete(m.slots, k)
		}
	}
}
