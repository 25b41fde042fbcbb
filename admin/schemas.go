package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"graphql-limit-count/cost"

	"go.uber.org/zap"
)

// SchemaSink takes the schemas that were uploaded; *introspect.Source is one.
type SchemaSink interface {
	// Give makes schema that of a service, nil takes it away.
	Give(serviceID string, schema *cost.Schema)
}

// Schemas hands the uploaded schema of every service, compiled, to a sink, and follows a
// store. A service keeps its *cost.Schema, by which caches know it, until a text is uploaded
// that differs in what bears on cost. A text that no schema can be made of is logged once,
// and the last good one stays in force, as all do while the store fails.
type Schemas struct {
	store  Store
	sink   SchemaSink
	logger *zap.Logger

	mu   sync.Mutex // serialises refreshes, so an older reading never replaces a newer one
	seen map[string]uploadVersion
	good map[string]*cost.Schema
}

// uploadVersion tells one upload from the next. A store that was made anew counts its
// revisions from the beginning, so these alone are not enough.
type uploadVersion struct {
	createdIndex, modifiedIndex int64
	createTime, updateTime      int64
}

func versionOf(s Schema) uploadVersion {
	return uploadVersion{s.CreatedIndex, s.ModifiedIndex, s.CreateTime, s.UpdateTime}
}

var _ Follower = (*Schemas)(nil)

// NewSchemas returns a follower of store that has given the sink nothing yet; nothing may be
// nil. Call Load, and give it to Follow.
func NewSchemas(store Store, sink SchemaSink, logger *zap.Logger) *Schemas {
	return &Schemas{
		store: store, sink: sink, logger: logger,
		seen: map[string]uploadVersion{}, good: map[string]*cost.Schema{},
	}
}

// Load reads every uploaded schema once: before the first request is served, so that none is
// costed by what introspection says instead. An error means that the store failed.
func (s *Schemas) Load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uploads, err := s.store.Schemas(ctx)
	if err != nil {
		return fmt.Errorf("load uploaded schemas: %w", err)
	}
	services := make([]string, 0, len(uploads))
	for _, u := range uploads {
		services = append(services, u.ServiceID)
	}
	return s.apply(ctx, services, uploads)
}

// Refresh reads the uploaded schemas of the given services and puts what changed in force. An
// error means that the store failed for at least one of them, which then keeps its schema.
func (s *Schemas) Refresh(ctx context.Context, services ...string) error {
	if len(services) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Without the texts, of which hardly any has changed when decorations have.
	uploads, err := s.store.Schemas(ctx)
	if err != nil {
		return fmt.Errorf("refresh uploaded schemas: %w", err)
	}
	return s.apply(ctx, services, uploads)
}

// apply puts in force what the listing says of the given services.
func (s *Schemas) apply(ctx context.Context, services []string, uploads []Schema) error {
	listed := make(map[string]Schema, len(uploads))
	for _, u := range uploads {
		listed[u.ServiceID] = u
	}
	var failures []error
	for _, service := range services {
		upload, exists := listed[service]
		switch seen, known := s.seen[service]; {
		case !exists:
			s.takeAway(service)
		case known && seen == versionOf(upload):
		default:
			failures = append(failures, s.read(ctx, upload))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("refresh uploaded schemas: %w", err)
	}
	return nil
}

func (s *Schemas) takeAway(service string) {
	delete(s.seen, service)
	if s.good[service] == nil {
		return
	}
	delete(s.good, service)
	s.sink.Give(service, nil)
	s.logger.Info("an uploaded schema was removed", zap.String("service_id", service))
}

// read compiles the schema of a service, which is listed as changed, and gives it to the sink.
func (s *Schemas) read(ctx context.Context, listed Schema) error {
	service := listed.ServiceID
	upload, err := s.store.GetSchema(ctx, service)
	switch {
	case errors.Is(err, ErrNoSchema): // it was deleted meanwhile
		s.takeAway(service)
		return nil
	case errors.Is(err, ErrDamaged):
		// No failure of the store: one such value must neither keep a process from starting
		// nor have all changes told again and again.
		s.unusable(listed, err)
		return nil
	case err != nil:
		return err
	}
	schema, err := cost.ParseSchema(upload.Text)
	if err != nil {
		s.unusable(upload, err)
		return nil
	}
	s.seen[service] = versionOf(upload)
	if s.good[service].Equal(schema) {
		return nil
	}
	s.good[service] = schema
	s.sink.Give(service, schema)
	s.logger.Info("an uploaded schema is in force", zap.String("service_id", service))
	return nil
}

// unusable leaves a service its last good schema, and says so once for each version.
func (s *Schemas) unusable(upload Schema, err error) {
	s.seen[upload.ServiceID] = versionOf(upload)
	s.logger.Error("an uploaded schema cannot be used, the service keeps its last good one",
		zap.String("service_id", upload.ServiceID), zap.Error(err))
}
