package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"graphql-limit-count/internal/etcd"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
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
func (s *Etcd) state(ctx context.Context, serviceID string, response *clientv3.TxnResponse) (serviceState, error) {
	state := serviceState{serviceID: serviceID, revision: response.Header.Revision}
	prefix := s.decorationsKey(serviceID)
	kvs := slices.DeleteFunc(response.Responses[1].GetResponseRange().Kvs, func(kv *mvccpb.KeyValue) bool {
		leave := !isDecoration(strings.TrimPrefix(string(kv.Key), s.client.Prefix()))
		if leave {
			s.leaveOut(s.client.Decode(kv).Key)
		}
		return leave
	})
	newest := int64(0)
	for _, kv := range kvs {
		newest = max(newest, kv.ModRevision)
	}
	var err error
	service := s.decode(response.Responses[0].GetResponseRange().Kvs)
	if state.life, err = s.lifeAt(ctx, serviceID, service, state.revision, newest); err != nil {
		return serviceState{}, err
	}
	for _, kv := range kvs {
		state.records = append(state.records, decodeRecord(serviceID, string(kv.Key)[len(prefix):], s.client.Decode(kv), state.life))
	}
	return state, nil
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
	state, err := s.state(ctx, serviceID, response)
	switch {
	case err != nil:
		return serviceState{}, err
	case len(state.records) > 0:
		s.held.Store(true)
	case state.life.revision == 0:
		err = s.plausible(ctx)
	}
	return state, err
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
	fresh, err := s.snapshot(ctx)
	switch {
	case err != nil:
	case len(fresh.records) > 0:
		s.held.Store(true)
	case len(fresh.keys) == 0:
		err = s.plausible(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list decorations: %w", err)
	}
	s.mu.Lock()
	s.all = fresh
	for _, record := range fresh.records {
		s.shown[record.ServiceID] = true
	}
	s.mu.Unlock()
	return slices.Clone(fresh.records), nil
}

func sameKeys(a, b []etcd.KV) bool {
	return b != nil && slices.EqualFunc(a, b, func(a, b etcd.KV) bool {
		return a.Key == b.Key && a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision
	})
}

// snapshot reads the decorations of all services.
func (s *Etcd) snapshot(ctx context.Context) (cachedRecords, error) {
	kvs, revision, err := s.client.Snapshot(ctx, servicesPath)
	if err != nil {
		return cachedRecords{}, err
	}
	services, newest := map[string][]etcd.KV{}, map[string]int64{}
	for _, kv := range kvs {
		switch serviceID, id, ok := splitKey(kv.Key); {
		case ok && id == "":
			services[serviceID] = []etcd.KV{kv}
		case ok:
			newest[serviceID] = max(newest[serviceID], kv.ModRevision)
		default:
			s.leaveOut(kv.Key)
		}
	}
	lives := make(map[string]life, len(newest))
	for serviceID, written := range newest {
		if lives[serviceID], err = s.lifeAt(ctx, serviceID, services[serviceID], revision, written); err != nil {
			return cachedRecords{}, err
		}
	}
	var records []Record
	for i, kv := range kvs {
		if serviceID, id, ok := splitKey(kv.Key); ok && id != "" {
			records = append(records, decodeRecord(serviceID, id, kv, lives[serviceID]))
		}
		kvs[i].Value = nil // only the versions are kept
	}
	return cachedRecords{keys: kvs, records: sortRecords(records)}, nil
}

// leaveOut complains once about a key, without the prefix, that stands where decorations do
// and is none's. Directory markers are left out silently.
func (s *Etcd) leaveOut(key string) {
	if strings.HasSuffix(key, "/") || !strings.Contains(key, "/"+decorationsSegment+"/") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strange[key] || len(s.strange) >= maxStrange {
		return
	}
	s.strange[key] = true
	s.logger.logger.Error("a key in etcd has an id that no decoration can have and is left out, remove it",
		zap.String("key", shown(s.client.Prefix()+key)))
}

// sortRecords orders records by service and id. Keys are ordered as whole texts, in which
// "a-b/" comes before "a/".
func sortRecords(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.ServiceID, b.ServiceID), cmp.Compare(a.ID, b.ID))
	})
	return records
}
