package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
)

// noSuchService refuses what is asked of a service that APISIX does not have.
const noSuchService = "service not found"

// The order of the checks below is APISIX's: of a request with several faults, its tooling
// sees the same one reported.

// put creates or replaces the decoration of the id in the path or, failing that, the body.
func (h *Handler) put(ctx context.Context, c call) (int, any, error) {
	object, err := asObject(c.body)
	if err != nil {
		return 0, nil, err
	}
	if c.id == "" && given(object, memberID) {
		c.id = luaText(object[memberID])
	}
	owner, err := h.bind(ctx, c, object)
	if err != nil {
		return 0, nil, err
	}
	if c.id == "" {
		return 0, nil, refuse(http.StatusBadRequest, "missing "+kindName+" id")
	}
	if err := identify(object, c.id); err != nil {
		return 0, nil, err
	}
	return h.storeWhole(ctx, c, object, owner)
}

// post creates a decoration under an id that the store makes.
func (h *Handler) post(ctx context.Context, c call) (int, any, error) {
	object, err := asObject(c.body)
	if err != nil {
		return 0, nil, err
	}
	owner, err := h.bind(ctx, c, object)
	if err != nil {
		return 0, nil, err
	}
	if c.id != "" || given(object, memberID) {
		return 0, nil, refuse(http.StatusBadRequest, "wrong "+kindName+" id, do not need it")
	}
	delete(object, memberID)
	return h.storeWhole(ctx, c, object, owner)
}

// bind checks that the service exists and that its path is free, and makes the decoration
// the service's.
func (h *Handler) bind(ctx context.Context, c call, object map[string]any) (owner, error) {
	if given(object, memberServiceID) && luaText(object[memberServiceID]) != c.serviceID {
		return owner{}, refuse(http.StatusBadRequest, "wrong service_id, it is taken from the path")
	}
	o, err := h.owner(ctx, c.serviceID)
	if err != nil {
		return owner{}, err
	}
	if !o.exists {
		return owner{}, refuse(http.StatusNotFound, noSuchService)
	}
	object[memberServiceID] = c.serviceID
	return o, checkFree(o.records, c.id, object)
}

// owner is Reclaimer.owner where APISIX can be asked; where not, every service exists.
func (h *Handler) owner(ctx context.Context, serviceID string) (owner, error) {
	if h.reclaimer != nil {
		return h.reclaimer.owner(ctx, serviceID)
	}
	records, err := h.store.List(ctx, serviceID)
	return owner{exists: true, records: records}, err
}

// checkFree refuses a field path that another decoration has. The store's unique index has
// the last word; this comes before validation, where APISIX has it.
func checkFree(records []Record, id string, object map[string]any) error {
	fieldPath, ok := object[memberFieldPath].(string)
	if !ok {
		return nil
	}
	for _, record := range records {
		if record.FieldPath == fieldPath && record.ID != id {
			return &TakenError{FieldPath: fieldPath, Holder: record.ID}
		}
	}
	return nil
}

// identify makes id the decoration's and refuses another one in the body. An id that came
// from the body stays as it was sent until it has been validated.
func identify(object map[string]any, id string) error {
	if !given(object, memberID) {
		object[memberID] = id
	}
	if luaText(object[memberID]) != id {
		return refuse(http.StatusBadRequest, "wrong "+kindName+" id")
	}
	return nil
}

// checked validates a whole decoration and turns it into a draft.
func checked(c call, object map[string]any, incarnation string) (Draft, error) {
	for _, member := range []string{memberCreateTime, memberUpdateTime} {
		if given(object, member) {
			// The second space is APISIX's.
			return Draft{}, refuse(http.StatusBadRequest, "the property is forbidden:  "+member)
		}
	}
	if err := checkWritten(object); err != nil {
		return Draft{}, refuse(http.StatusBadRequest, err.Error())
	}
	d, err := draft(c.serviceID, c.id, object)
	d.Incarnation = incarnation
	return d, err
}

// storeWhole validates and writes one whole decoration and answers with it.
func (h *Handler) storeWhole(ctx context.Context, c call, object map[string]any, o owner) (int, any, error) {
	d, err := checked(c, object, o.incarnation)
	if err != nil {
		return 0, nil, err
	}
	if err := errors.Join(checkReserved(o.records, c.id), checkRoom(o.records, c.id)); err != nil {
		return 0, nil, err
	}
	record, created, err := h.store.Put(ctx, d)
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return h.written(ctx, status, record)
}

// patch merges the body into a decoration.
func (h *Handler) patch(ctx context.Context, c call) (int, any, error) {
	object, err := asObject(c.body)
	if err != nil {
		return 0, nil, err
	}
	if given(object, memberServiceID) {
		return 0, nil, refuse(http.StatusBadRequest, "service_id can not be patched")
	}
	records, err := h.store.List(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	if err := checkFree(records, c.id, object); err != nil {
		return 0, nil, err
	}
	if c.id == "" {
		return 0, nil, refuse(http.StatusBadRequest, "missing "+kindName+" id")
	}
	if _, err := h.store.Get(ctx, c.serviceID, c.id); err != nil {
		return 0, nil, err
	}
	// Only now APISIX is asked, as only now there is a decoration whose service may be gone.
	o, err := h.owner(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	record, err := h.store.Patch(ctx, c.serviceID, c.id, func(old Record) (Draft, error) {
		return patched(c, old, object, o.incarnation)
	})
	if err != nil {
		return 0, nil, err
	}
	return h.written(ctx, http.StatusOK, record)
}

// patched merges the body of c into a record.
func patched(c call, old Record, body map[string]any, incarnation string) (Draft, error) {
	object, err := decodeObject(old.Value)
	if err != nil {
		return Draft{}, fmt.Errorf("patch decoration %s of service %s: %w", c.id, c.serviceID, err)
	}
	merge(object, body)
	if err := identify(object, c.id); err != nil {
		return Draft{}, err
	}
	object[memberServiceID] = c.serviceID
	return checked(c, object, incarnation)
}

// delete removes a decoration. It asks nobody about the service: removing is right whether or
// not that still exists.
func (h *Handler) delete(ctx context.Context, c call) (int, any, error) {
	if c.id == "" {
		return 0, nil, refuse(http.StatusBadRequest, "missing "+kindName+" id")
	}
	if err := h.store.Delete(ctx, c.serviceID, c.id); err != nil {
		return 0, nil, err
	}
	h.refresh(ctx, c.serviceID)
	return http.StatusOK, map[string]any{"deleted": "1", "key": key(c.serviceID, c.id)}, nil
}

// written puts a write in force and answers with the record.
func (h *Handler) written(ctx context.Context, status int, record Record) (int, any, error) {
	h.refresh(ctx, record.ServiceID)
	object, err := record.Object()
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{"key": key(record.ServiceID, record.ID), "value": object}
	if warnings := warningsFor(h.known(record.ServiceID), record); len(warnings) > 0 {
		answer[memberWarnings] = warnings
	}
	return status, answer, nil
}

// refresh puts the write of decorations in force.
func (h *Handler) refresh(ctx context.Context, serviceID string) {
	h.putInForce(ctx, h.models, serviceID)
}

// putInForce has a follower read what was written. The write itself has succeeded; should
// reading it back fail, the follower catches up when the store can be read again. A client
// that has gone does not keep the write from being in force.
func (h *Handler) putInForce(ctx context.Context, follower Follower, serviceID string) {
	if err := follower.Refresh(context.WithoutCancel(ctx), serviceID); err != nil {
		h.complaint.Error("a write is not in force yet", zap.Error(err))
	}
}

// given tells whether Lua would take the member for present: null is a value, false is not.
func given(object map[string]any, member string) bool {
	value, ok := object[member]
	return ok && value != false
}
