package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// etcd takes at most 128 operations in a transaction by default (--max-txn-ops), counting
	// those of a transaction inside another together with that other's. So one that does more
	// is built of inner ones: 63 of 64 operations.
	flatOperations  = 100
	innerOperations = 64
	innerBatches    = 63
	maxOperations   = innerBatches * innerOperations
	// maxComparedKeys is how many of the records that a write replaces or removes are
	// compared one by one, beside the whole set.
	maxComparedKeys = 60
)

// edit is what a write does to a service's decorations.
type edit struct {
	write  []Record // ModifiedIndex is filled in when it is done, CreatedIndex when that is 0
	remove []Record
}

// change reads a service's decorations, lets decide say what to do to them and does that in
// one transaction, again and again until no other writer comes between. It returns what was
// done. decide's error ends it and is returned as it is.
func (s *Etcd) change(ctx context.Context, serviceID string, decide func(serviceState) (edit, error)) (edit, error) {
	if err := checkID("service", serviceID); err != nil {
		return edit{}, err
	}
	state, err := s.read(ctx, serviceID)
	if err != nil {
		return edit{}, err
	}
	for attempt := range writeAttempts {
		e, err := decide(state)
		if err != nil || len(e.write)+len(e.remove) == 0 {
			return e, err
		}
		operations, err := s.operations(e)
		if err != nil {
			return edit{}, err
		}
		response, err := s.transact(ctx, s.unchanged(state, e), operations, s.gets(serviceID))
		if err != nil {
			return edit{}, describeTooLarge(err, e)
		}
		if response.Succeeded {
			e.at(response.Header.Revision)
			return e, nil
		}
		if state, err = s.state(ctx, serviceID, response); err != nil {
			return edit{}, err
		}
		if err := pause(ctx, attempt); err != nil {
			return edit{}, err
		}
	}
	return edit{}, errContended
}

// unchanged compares what etcd holds with what the edit was decided upon: no decoration of the
// service was written, and the service is in the same life or still absent.
//
// That a decoration was deleted is seen of those that the edit writes or removes, but of no
// other: to them the edit does nothing, so it is as if the deletion came after it.
func (s *Etcd) unchanged(state serviceState, e edit) []clientv3.Cmp {
	decorations := s.decorationsKey(state.serviceID)
	compares := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(decorations).WithPrefix(), "<", state.revision+1),
		clientv3.Compare(clientv3.CreateRevision(s.serviceKey(state.serviceID)), "=", state.life.revision),
	}
	for _, record := range slices.Concat(e.write, e.remove) {
		old, _ := state.find(record.ID) // revision 0: there is none
		if len(compares) < maxComparedKeys {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(decorations+record.ID), "=", old.ModifiedIndex))
		}
	}
	return compares
}

// operations are the edit's puts and deletions.
func (s *Etcd) operations(e edit) ([]clientv3.Op, error) {
	var operations []clientv3.Op
	for _, record := range e.remove {
		operations = append(operations, clientv3.OpDelete(s.decorationsKey(record.ServiceID)+record.ID))
	}
	for _, record := range e.write {
		if err := checkID("decoration", record.ID); err != nil {
			return nil, err
		}
		value, err := encodeRecord(record)
		if err != nil {
			return nil, err
		}
		operations = append(operations, clientv3.OpPut(s.decorationsKey(record.ServiceID)+record.ID, value))
	}
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("%w: %d decorations change, etcd takes %d in one transaction", ErrTooLarge, len(operations), maxOperations)
	}
	if len(operations) <= flatOperations {
		return operations, nil
	}
	var nested []clientv3.Op
	for batch := range slices.Chunk(operations, innerOperations) {
		nested = append(nested, clientv3.OpTxn(nil, batch, nil))
	}
	return nested, nil
}

// describeTooLarge says which of etcd's limits a write is over.
func describeTooLarge(err error, e edit) error {
	changes := len(e.write) + len(e.remove)
	switch {
	case tooManyBytes(err):
		return fmt.Errorf("%w: %d decorations change, together they have more bytes than etcd takes in one request (%s)",
			ErrTooLarge, changes, requestLimit)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %d decorations change, etcd takes fewer in one transaction than its default of 128 operations (--max-txn-ops) would allow",
			ErrTooLarge, changes)
	}
	return err
}

// requestLimit names etcd's bound of a request.
const requestLimit = "--max-request-bytes, 1.5 MiB by default"

// tooManyBytes tells whether etcd, or the gRPC server before it, refused a request's size.
func tooManyBytes(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return errors.Is(err, rpctypes.ErrRequestTooLarge)
	}
	return status.Code(err) == codes.ResourceExhausted
}

// at notes the revision of the transaction.
func (e edit) at(revision int64) {
	for i := range e.write {
		e.write[i].ModifiedIndex = revision
		if e.write[i].CreatedIndex == 0 {
			e.write[i].CreatedIndex = revision
		}
	}
}

// record is what a draft becomes in a state. The record that it replaces gives the time of
// its creation, unless it belonged to an earlier life of the service.
func (s *Etcd) record(state serviceState, draft Draft) (record Record, created bool) {
	now := s.now().Unix()
	record = Record{Draft: draft, CreateTime: now, UpdateTime: now}
	old, exists := state.find(draft.ID)
	created = !exists || foreign(old.Incarnation)
	if exists {
		record.CreatedIndex = old.CreatedIndex
	}
	if !created {
		record.keepCreation(old)
	}
	record.Incarnation = state.life.current()
	return record, created
}

// foreign tells whether something belongs to an earlier life of its service.
func foreign(incarnation string) bool { return incarnation == noService || incarnation == endedService }

// put is the edit that writes one draft.
func (s *Etcd) put(state serviceState, draft Draft) (e edit, created bool, err error) {
	for _, other := range state.records {
		if other.FieldPath == draft.FieldPath && other.ID != draft.ID {
			return edit{}, false, &TakenError{FieldPath: draft.FieldPath, Holder: other.ID}
		}
	}
	record, created := s.record(state, draft)
	return edit{write: []Record{record}}, created, nil
}

// Put writes a decoration; see Store.
func (s *Etcd) Put(ctx context.Context, draft Draft) (Record, bool, error) {
	record, created, err := s.putOrGenerate(ctx, draft)
	if err != nil {
		return Record{}, false, fmt.Errorf("put decoration %s of service %s: %w", draft.ID, draft.ServiceID, err)
	}
	return record, created, nil
}

// putOrGenerate tries another id when a generated one exists: its author chose it.
func (s *Etcd) putOrGenerate(ctx context.Context, draft Draft) (record Record, created bool, err error) {
	generate := draft.ID == ""
	for {
		if generate {
			if draft.ID, err = s.generate(ctx); err != nil {
				return Record{}, false, err
			}
		}
		exists := false
		done, err := s.change(ctx, draft.ServiceID, func(state serviceState) (edit, error) {
			if _, exists = state.find(draft.ID); exists && generate {
				return edit{}, nil
			}
			var e edit
			var err error
			e, created, err = s.put(state, draft)
			return e, err
		})
		if err != nil {
			return Record{}, false, err
		}
		if !exists || !generate {
			return done.write[0], created, nil
		}
	}
}

// generate makes an id as APISIX does: the revision of a write made for that purpose, in 20
// digits. No other id is made of that revision, here or by APISIX, which overwrites whatever
// has an id that it generated.
func (s *Etcd) generate(ctx context.Context) (string, error) {
	ctx, cancel := s.client.WithTimeout(ctx)
	defer cancel()
	response, err := s.client.Put(ctx, s.client.Prefix()+generatedID, "1")
	if err != nil {
		return "", fmt.Errorf("generate an id: %w", s.client.Explain(err))
	}
	return fmt.Sprintf("%020d", response.Header.Revision), nil
}

// Patch changes a decoration; see Store.
func (s *Etcd) Patch(ctx context.Context, serviceID, id string, change func(Record) (Draft, error)) (Record, error) {
	var refusal error
	done, err := s.change(ctx, serviceID, func(state serviceState) (edit, error) {
		old, found := state.find(id)
		if !found {
			return edit{}, ErrNotFound
		}
		draft, err := change(old)
		if err != nil {
			refusal = err
			return edit{}, err
		}
		draft.ServiceID, draft.ID = serviceID, id
		e, _, err := s.put(state, draft)
		return e, err
	})
	if refusal != nil {
		return Record{}, refusal
	}
	if err != nil {
		return Record{}, fmt.Errorf("patch decoration %s of service %s: %w", id, serviceID, err)
	}
	return done.write[0], nil
}

// Delete removes one decoration, or returns ErrNotFound.
func (s *Etcd) Delete(ctx context.Context, serviceID, id string) error {
	if err := s.remove(ctx, serviceID, id); err != nil {
		return fmt.Errorf("delete decoration %s of service %s: %w", id, serviceID, err)
	}
	return nil
}

func (s *Etcd) remove(ctx context.Context, serviceID, id string) error {
	if checkID("service", serviceID) != nil || checkID("decoration", id) != nil {
		return ErrNotFound
	}
	ctx, cancel := s.client.WithTimeout(ctx)
	defer cancel()
	response, err := s.client.Delete(ctx, s.decorationsKey(serviceID)+id)
	if err == nil && response.Deleted == 0 {
		err = ErrNotFound
	}
	return s.client.Explain(err)
}

// Replace makes the decorations of a service those that plan returns; see Store.
func (s *Etcd) Replace(ctx context.Context, serviceID string, plan func([]Record) ([]Draft, error)) ([]Record, error) {
	var refusal error
	var kept []Record
	done, err := s.change(ctx, serviceID, func(state serviceState) (edit, error) {
		wanted, refused := plan(slices.Clone(state.records))
		if refused != nil && wanted == nil {
			refusal = refused
			return edit{}, refused
		}
		replacement, err := PlanReplacement(serviceID, state.records, wanted)
		if err != nil {
			return edit{}, err
		}
		kept = replacement.Keep
		e := edit{remove: replacement.Remove}
		for _, draft := range replacement.Write {
			record, _ := s.record(state, draft)
			e.write = append(e.write, record)
		}
		if refused != nil {
			if err := s.rehearse(ctx, state, e); err != nil {
				return edit{}, err
			}
			refusal = refused
		}
		return e, refused
	})
	if refusal != nil {
		return nil, refusal
	}
	if err != nil {
		return nil, fmt.Errorf("replace the decorations of service %s: %w", serviceID, err)
	}
	return sortRecords(slices.Concat(kept, done.write)), nil
}

// rehearse sends an edit in a transaction whose condition never holds: etcd writes nothing, and
// still says whether the edit is more than it takes, by the limits that its operator gave it.
func (s *Etcd) rehearse(ctx context.Context, state serviceState, e edit) error {
	operations, err := s.operations(e)
	if err != nil || len(operations) == 0 {
		return err
	}
	never := clientv3.Compare(clientv3.Version(s.serviceKey(state.serviceID)), "<", 0)
	_, err = s.transact(ctx, append(s.unchanged(state, e), never), operations, nil)
	return describeTooLarge(err, e)
}
