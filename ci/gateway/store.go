package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// keyPrefix is APISIX's default etcd prefix, which its Admin API shows in `key`.
const keyPrefix = "/apisix/"

// generatedIDDigits is the width of an id that POST generates from the revision.
const generatedIDDigits = 20

// record is one stored object. It is immutable: a change stores a new record.
type record struct {
	id                string
	value             map[string]any // what the Admin API answers
	parsed            any            // *route, *service, *upstream or *consumer
	created, modified int64          // revisions, as etcd's createdIndex and modifiedIndex
}

// table is the objects of one kind by id. A table is never changed once published.
type table map[string]*record

// tables is every kind's table by the kind's plural.
type tables map[string]table

// store keeps the objects of the Admin API in memory and publishes a router built
// from them after every change, so that a request never sees half a change.
type store struct {
	now func() time.Time

	mu       sync.RWMutex
	revision int64
	tables   tables

	router atomic.Pointer[router]
}

// newStore returns an empty store. Revisions start at the clock's milliseconds:
// whoever remembers a createdIndex across a restart of this gateway (which forgets
// everything) must not take an object for the one that had its id before.
func newStore(now func() time.Time) *store {
	s := &store{now: now, revision: now().UnixMilli(), tables: tables{}}
	for plural := range kinds {
		s.tables[plural] = table{}
	}
	s.router.Store(newRouter(s.tables))
	return s
}

// get returns the record, or nil.
func (s *store) get(k *kind, id string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[k.plural][id]
}

// list returns all records of a kind in the order of their keys, as etcd does.
func (s *store) list(k *kind) []*record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.tables[k.plural]), func(a, b *record) int {
		return strings.Compare(a.id, b.id)
	})
}

// put stores value under id, or under a generated id when id is empty, and says
// whether that created it.
func (s *store) put(k *kind, id string, value map[string]any) (rec *record, created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value = maps.Clone(value)
	if id == "" {
		id = fmt.Sprintf("%0*d", generatedIDDigits, s.revision+1)
		value["id"] = id
	}
	old := s.tables[k.plural][id]
	now := json.Number(fmt.Sprint(s.now().Unix()))
	value["create_time"], value["update_time"] = now, now
	if old != nil {
		value["create_time"] = old.value["create_time"]
	}
	rec, err = s.write(k, id, value)
	return rec, old == nil && err == nil, err
}

// patch replaces the value under id by what change makes of it.
func (s *store) patch(k *kind, id string, change func(old map[string]any) (map[string]any, error)) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tables[k.plural][id]
	if old == nil {
		return nil, errKeyNotFound
	}
	value, err := change(old.value)
	if err != nil {
		return nil, err
	}
	value["update_time"] = json.Number(fmt.Sprint(s.now().Unix()))
	return s.write(k, id, value)
}

// write checks value, stores it and publishes the new router. The caller holds mu.
func (s *store) write(k *kind, id string, value map[string]any) (*record, error) {
	parsed, err := k.parse(s.tables, id, value)
	if err != nil {
		return nil, err
	}
	s.revision++
	rec := &record{id: id, value: value, parsed: parsed, created: s.revision, modified: s.revision}
	if old := s.tables[k.plural][id]; old != nil {
		rec.created = old.created
	}
	next := maps.Clone(s.tables[k.plural])
	next[id] = rec
	s.publish(k, next)
	return rec, nil
}

// remove deletes the object. Unless force is set, it is kept while another uses it.
func (s *store) remove(k *kind, id string, force bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[k.plural][id] == nil {
		return errKeyNotFound
	}
	if k.user != nil && !force {
		if user := k.user(s.tables, id); user != "" {
			return badRequest("can not delete this %s%s, %s is still using it now", k.singular, k.directly, user)
		}
	}
	s.revision++
	next := maps.Clone(s.tables[k.plural])
	delete(next, id)
	s.publish(k, next)
	return nil
}

// publish replaces one table and the router. The caller holds mu.
func (s *store) publish(k *kind, next table) {
	all := maps.Clone(s.tables)
	all[k.plural] = next
	s.tables = all
	s.router.Store(newRouter(all))
}
