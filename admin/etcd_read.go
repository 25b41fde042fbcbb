package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"graphql-limit-count/internal/etcd"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// serviceState is what etcd holds about a service at one revision.
type serviceState struct {
	serviceID string
	revision  int64
	life      life
	records   []Record // ordered by id
}

// gets are the operations that read a service's state.
func (s *Etcd) gets(serviceID string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(s.serviceKey(serviceID)),
		clientv3.OpGet(s.decorationsKey(serviceID), clientv3.WithPrefix()),
	}
}

// state reads what gets answered.
func (s *Etcd) state(serviceID string, response *clientv3.TxnResponse) serviceState {
	state := serviceState{serviceID: serviceID, revision: response.Header.Revision}
	if kvs := response.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		state.life = lifeOf(s.client.Decode(kvs[0]))
	}
	prefix := s.decorationsKey(serviceID)
	for _, kv := range response.Responses[1].GetResponseRange().Kvs {
		id := string(kv.Key)[len(prefix):]
		if checkID("decoration", id) == nil { // otherwise it is no decoration
			state.records = append(state.records, decodeRecord(serviceID, id, s.client.Decode(kv), state.life))
		}
	}
	return state
}

// read returns the state of a service.
func (s *Etcd) read(ctx context.Context, serviceID string) (serviceState, error) {
	if checkID("service", serviceID) != nil { // there can be none
		return serviceState{serviceID: serviceID}, nil
	}
	response, err := s.transact(ctx, nil, s.gets(serviceID), nil)
	if err != nil {
		return serviceState{}, err
	}
	return s.state(serviceID, response), nil
}

// find returns the record of an id.
func (s serviceState) find(id string) (Record, bool) {
	i, found := slices.BinarySearchFunc(s.records, id, func(r Record, id string) int {
		return cmp.Compare(r.ID, id)
	})
	if !found {
		return Record{}, false
	}
	return s.records[i], true
}

// List returns the decorations of a service, ordered by id.
func (s *Etcd) List(ctx context.Context, serviceID string) ([]Record, error) {
	state, err := s.read(ctx, serviceID)
	if err != nil {
		return nil, fmt.Errorf("list decorations of service %s: %w", serviceID, err)
	}
	return state.records, nil
}

// Get returns one decoration, or ErrNotFound.
func (s *Etcd) Get(ctx context.Context, serviceID, id string) (Record, error) {
	state, err := s.read(ctx, serviceID)
	if err != nil {
		return Record{}, fmt.Errorf("get decoration %s of service %s: %w", id, serviceID, err)
	}
	record, found := state.find(id)
	if !found {
		return Record{}, fmt.Errorf("get decoration %s of service %s: %w", id, serviceID, ErrNotFound)
	}
	return record, nil
}

// cachedRecords is what All returned, and the keys it was made from.
type cachedRecords struct {
	keys    []etcd.KV
	records []Record
}

// All returns the decorations of all services, ordered by service and id. It is called every
// few seconds on every host, so what changed since the last call is seen from the keys alone:
// without changes no value is sent.
func (s *Etcd) All(ctx context.Context) ([]Record, error) {
	keys, _, err := s.client.Keys(ctx, servicesPath)
	if err != nil {
		return nil, fmt.Errorf("list decorations: %w", err)
	}
	s.mu.Lock()
	cached := s.all
	s.mu.Unlock()
	if sameKeys(keys, cached.keys) {
		return slices.Clone(cached.records), nil
	}
	kvs, _, err := s.client.Snapshot(ctx, servicesPath)
	if err != nil {
		return nil, fmt.Errorf("list decorations: %w", err)
	}
	fresh := cachedRecords{records: recordsOf(kvs), keys: kvs}
	for i := range kvs {
		kvs[i].Value = nil
	}
	s.mu.Lock()
	s.all = fresh
	s.mu.Unlock()
	return slices.Clone(fresh.records), nil
}

func sameKeys(a, b []etcd.KV) bool {
	return b != nil && slices.EqualFunc(a, b, func(a, b etcd.KV) bool {
		return a.Key == b.Key && a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision
	})
}

// recordsOf picks the decorations out of everything below servicesPath.
func recordsOf(kvs []etcd.KV) []Record {
	lives := map[string]life{}
	for _, kv := range kvs {
		if serviceID, id, ok := splitKey(kv.Key); ok && id == "" {
			lives[serviceID] = lifeOf(kv)
		}
	}
	var records []Record
	for _, kv := range kvs {
		if serviceID, id, ok := splitKey(kv.Key); ok && id != "" {
			records = append(records, decodeRecord(serviceID, id, kv, lives[serviceID]))
		}
	}
	return sortRecords(records)
}

// sortRecords orders records by service and id. Keys are ordered as whole texts, in which
// "a-b/" comes before "a/".
func sortRecords(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.ServiceID, b.ServiceID), cmp.Compare(a.ID, b.ID))
	})
	return records
}
