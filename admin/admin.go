// Package admin keeps the decorations of GraphQL cost models and serves the endpoint that
// manages them.
//
// A decoration belongs to a service of APISIX and gives a type or field its weight. The
// endpoint has the paths, verbs, status codes and bodies that APISIX's Admin API has for
// sub-resources of a service:
//
//	GET|POST              /apisix/admin/services/{service_id}/graphql_cost_decorations
//	GET|PUT|PATCH|DELETE  /apisix/admin/services/{service_id}/graphql_cost_decorations/{id}
//
// The parts: a Store keeps Records and uploaded Schemas (SQLite is the embedded one, shared by
// several processes of a host); Models compiles the records into the cost models that requests
// read without a lock; Follow keeps Models and other Followers up to date with a store;
// Reclaimer drops what belongs to services that APISIX no longer has; Handler is the endpoint
// and Server its listener.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotFound is returned, wrapped, by Store methods that are given the id of a decoration
// that does not exist.
var ErrNotFound = errors.New("decoration not found")

// ErrNoSchema is returned, wrapped, by Store methods that are given a service without an
// uploaded schema.
var ErrNoSchema = errors.New("the service has no uploaded schema")

// ErrDamaged is returned, wrapped, by GetSchema when what is stored for a service is no schema
// that this package wrote. Asking again does not help, writing it anew does.
var ErrDamaged = errors.New("what is stored is damaged")

// ErrReadOnly is returned, wrapped, by every write to a store that takes none: one that is
// read from a file.
var ErrReadOnly = errors.New("the decorations are read from a file, which is the place to change them")

// MaxSchemaBytes bounds the text of an uploaded schema: GitHub's, one of the largest that are
// public, has 1.5 MB as SDL and 6 MB as introspection JSON.
const MaxSchemaBytes = 8 << 20

// TakenError says that a field path is decorated already: a service decorates a path at most
// once, whoever writes and from whichever process.
type TakenError struct {
	FieldPath string // the path that was to be decorated
	Holder    string // id of the decoration that has it
}

// Error is the text that APISIX answers.
func (e *TakenError) Error() string {
	return "field_path " + e.FieldPath + " is already decorated on this service by [" + e.Holder + "]"
}

// Draft is a decoration to be written.
type Draft struct {
	// ServiceID is the service that it belongs to. Required.
	ServiceID string
	// ID is its id within the service. Empty: the store makes one that no decoration of the
	// service has (Create).
	ID string
	// FieldPath is Value's field_path, unique within the service. Required.
	FieldPath string
	// Value is the JSON object as it was sent, defaults left out and without the members that
	// the store keeps by itself: id, service_id, create_time, update_time. Required.
	Value json.RawMessage
	// Incarnation tells which life of the service this belongs to, when APISIX could be asked
	// (see Reclaimer); empty when it could not.
	Incarnation string
}

// Record is a stored decoration.
type Record struct {
	Draft
	// CreateTime and UpdateTime are seconds since 1970. They are 0 in a record that was put
	// into the store by other means than this package.
	CreateTime, UpdateTime int64
	// CreatedIndex and ModifiedIndex are the store's revision at which the record was created
	// and last written; a later write has a higher one.
	CreatedIndex, ModifiedIndex int64
}

// Object returns the whole decoration as the endpoint shows it: the members that were sent,
// id, service_id and, where they are known, the times. Numbers are json.Number, as sent.
func (r Record) Object() (map[string]any, error) {
	object, err := decodeObject(r.Value)
	if err != nil {
		return nil, fmt.Errorf("read decoration %s of service %s: %w", r.ID, r.ServiceID, err)
	}
	object[memberID] = r.ID
	object[memberServiceID] = r.ServiceID
	if r.CreateTime > 0 {
		object[memberCreateTime] = r.CreateTime
	}
	if r.UpdateTime > 0 {
		object[memberUpdateTime] = r.UpdateTime
	}
	return object, nil
}

// keepCreation takes over when the record that this one replaces was created.
func (r *Record) keepCreation(old Record) {
	r.CreatedIndex = old.CreatedIndex
	if old.CreateTime > 0 {
		r.CreateTime = old.CreateTime
	}
}

// Members of a decoration that the store or the handler reads; the rest is cost.Decoration's.
const (
	memberID         = "id"
	memberServiceID  = "service_id"
	memberFieldPath  = "field_path"
	memberName       = "name"
	memberLabels     = "labels"
	memberCreateTime = "create_time"
	memberUpdateTime = "update_time"
)

// Schema is a GraphQL schema that was uploaded for a service.
type Schema struct {
	// ServiceID is the service that it belongs to. Required.
	ServiceID string
	// Text is SDL or introspection JSON as it was sent, at most MaxSchemaBytes. Nil in a
	// listing.
	Text []byte
	// Incarnation is as a Draft's.
	Incarnation string
	// CreateTime, UpdateTime, CreatedIndex and ModifiedIndex are as a Record's.
	CreateTime, UpdateTime      int64
	CreatedIndex, ModifiedIndex int64
}

// Store keeps decorations and uploaded schemas. Its methods are safe for concurrent use, and a
// write that returned without an error is durable. Errors other than ErrNotFound, ErrNoSchema,
// ErrDamaged, ErrReadOnly and *TakenError mean that the store could not be reached or read.
type Store interface {
	// List returns the decorations of a service, ordered by id; none is not an error.
	List(ctx context.Context, serviceID string) ([]Record, error)
	// All returns the decorations of all services, ordered by service and id.
	All(ctx context.Context) ([]Record, error)
	// Get returns one decoration, or ErrNotFound.
	Get(ctx context.Context, serviceID, id string) (Record, error)
	// Put writes a decoration under the draft's id, or under a new one when that is empty. It
	// replaces a decoration of that id and keeps its CreateTime and CreatedIndex; created
	// tells which it was. *TakenError: another decoration of the service has the field path.
	Put(ctx context.Context, draft Draft) (record Record, created bool, err error)
	// Patch replaces a decoration by what change makes of it; no other writer comes between
	// the reading and the writing. change may be called more than once. Its error ends the
	// call and is returned as it is. The draft's ServiceID and ID are those of the call.
	// Errors as Put's and Get's.
	Patch(ctx context.Context, serviceID, id string, change func(Record) (Draft, error)) (Record, error)
	// Delete removes one decoration, or returns ErrNotFound.
	Delete(ctx context.Context, serviceID, id string) error
	// Replace makes the decorations of a service those that plan returns, all or nothing: no
	// reader sees a part of it, and no other writer comes between the reading and the writing.
	// plan gets the present records, ordered by id, and returns the whole new set; every
	// draft has an ID and the call's ServiceID, no two have the same id or field path.
	// Records that are missing from it are removed. Those whose FieldPath and Value are
	// unchanged (see SameValue) are left alone, indexes, times and incarnation included; the
	// others are written as Put does. plan may be called more than once. Its error ends the
	// call and is returned as it is, so a dry run is a plan that returns one. Drafts that come
	// with the error are compared with what the store can write at once: ErrTooLarge comes
	// before the error of the plan.
	// The records after the write are returned, ordered by id. Errors as Put's.
	Replace(ctx context.Context, serviceID string, plan func(current []Record) ([]Draft, error)) ([]Record, error)
	// Reclaim removes those of the records that are still stored exactly as given and
	// returns how many those were.
	Reclaim(ctx context.Context, records []Record) (int, error)
	// Adopt notes the incarnation of the service in those of the records that are still
	// stored exactly as given. It changes neither indexes nor times.
	Adopt(ctx context.Context, records []Record, incarnation string) error
	// GetSchema returns the uploaded schema of a service, or ErrNoSchema, or ErrDamaged.
	GetSchema(ctx context.Context, serviceID string) (Schema, error)
	// PutSchema writes the schema of a service; of s, ServiceID, Text and Incarnation count.
	// It replaces one that is there and keeps its CreateTime and CreatedIndex; created tells
	// which it was.
	PutSchema(ctx context.Context, s Schema) (stored Schema, created bool, err error)
	// DeleteSchema removes the schema of a service, or returns ErrNoSchema.
	DeleteSchema(ctx context.Context, serviceID string) error
	// Schemas returns the uploaded schemas of all services, ordered by service and without
	// their texts.
	Schemas(ctx context.Context) ([]Schema, error)
	// ReclaimSchema removes a schema if it is still stored exactly as given, Text aside, and
	// tells whether it was.
	ReclaimSchema(ctx context.Context, s Schema) (bool, error)
	// AdoptSchema notes the incarnation of the service in a schema that is still stored
	// exactly as given, Text aside. It changes neither indexes nor times.
	AdoptSchema(ctx context.Context, s Schema, incarnation string) error
	// Watch calls changed with the services whose decorations or uploaded schema changed
	// since the previous call, whoever changed them, until ctx is done; the first call names
	// every service that ever had any. When changed returns an error, the next call comes
	// soon and names at least the same services. A change is told within a second. Watch
	// returns ctx's error when ctx is done, and retries by itself while the store fails.
	Watch(ctx context.Context, changed func(services []string) error) error
}
