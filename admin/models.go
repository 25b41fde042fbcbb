package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/cost"

	"go.uber.org/zap"
)

// Models holds the cost model of every service that has decorations, in memory, and follows
// a store. Reading takes no lock; a service keeps its *cost.Model, by which caches know it,
// until a decoration of its own changes in a way that bears on cost. While the store fails
// the last good models stay in force.
type Models struct {
	store   Store
	logger  *zap.Logger
	current atomic.Pointer[map[string]*cost.Model]

	mu      sync.Mutex // serialises refreshes, so an older reading never replaces a newer one
	sources map[string][]cost.Decoration
	read    map[string]map[string]reading // by service and id, as of the last refresh
	broken  map[brokenRecord]complaint    // by record, those that are there
	now     func() time.Time
}

// reading is what a record was found to say. Validating thousands of records takes most of a
// second, which a write of one of them should not.
type reading struct {
	fieldPath, value string
	decoration       cost.Decoration
	err              error
}

// brokenRecord is a record that no model can be made of.
type brokenRecord struct{ serviceID, id string }

// complaint is what was logged of a record.
type complaint struct {
	modified int64 // the version
	at       time.Time
}

// NewModels returns empty models of what store has; a nil store and a nil logger are not
// allowed. Load fills them and Follow keeps them up to date.
func NewModels(store Store, logger *zap.Logger) *Models {
	m := &Models{
		store: store, logger: logger,
		sources: map[string][]cost.Decoration{},
		read:    map[string]map[string]reading{},
		broken:  map[brokenRecord]complaint{},
		now:     time.Now,
	}
	m.current.Store(&map[string]*cost.Model{})
	return m
}

// Model returns the cost model of a service, nil when it has no decorations.
func (m *Models) Model(serviceID string) *cost.Model {
	return (*m.current.Load())[serviceID]
}

// Load reads every service's decorations once: before the first request is served, so that
// none is costed without them.
func (m *Models) Load(ctx context.Context) error {
	records, err := m.store.All(ctx)
	if err != nil {
		return fmt.Errorf("load cost models: %w", err)
	}
	var services []string
	for _, r := range records { // ordered by service
		if len(services) == 0 || services[len(services)-1] != r.ServiceID {
			services = append(services, r.ServiceID)
		}
	}
	return m.Refresh(ctx, services...)
}

// Refresh reads the decorations of the given services and puts what changed in force. An
// error means that the store failed for at least one of them, which then keeps its model.
func (m *Models) Refresh(ctx context.Context, services ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(*m.current.Load())
	changed := false
	var failures []error
	for _, service := range services {
		records, err := m.store.List(ctx, service)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if m.rebuild(next, service, records) {
			changed = true
		}
	}
	if changed {
		m.current.Store(&next)
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("refresh cost models: %w", err)
	}
	return nil
}

// rebuild puts a service's model into models and tells whether it is another one.
func (m *Models) rebuild(models map[string]*cost.Model, service string, records []Record) bool {
	decorations := m.decorations(service, records)
	if reflect.DeepEqual(decorations, m.sources[service]) {
		return false
	}
	if len(decorations) == 0 {
		delete(m.sources, service)
		delete(models, service)
		return true
	}
	model, err := cost.NewModel(decorations)
	if err != nil {
		m.logger.Error("decorations make no cost model, the service keeps its last good one",
			zap.String("service_id", service), zap.Error(err))
		return false
	}
	m.sources[service] = decorations
	models[service] = model
	return true
}

// decorations returns those of the records that are usable. The endpoint stores no other; one
// that was put into the store by hand is left out, because leaving out the service's other
// decorations as well would make its queries cheaper. Of several for one path, which APISIX's
// Admin API can store, the last counts, as in APISIX.
func (m *Models) decorations(service string, records []Record) []cost.Decoration {
	var decorations []cost.Decoration
	readings := m.readings(service, records)
	place := map[string]int{} // of each path
	for _, r := range records {
		decoration := readings[r.ID].decoration
		if err := readings[r.ID].err; err != nil {
			m.complain(r, "stored decoration is not valid and is left out", err)
			continue
		}
		if i, twice := place[decoration.FieldPath]; twice {
			m.complain(r, "a path is decorated twice, the last decoration of it counts",
				fmt.Errorf("field_path %s has another decoration", decoration.FieldPath))
			decorations[i] = decoration
			continue
		}
		place[decoration.FieldPath] = len(decorations)
		decorations = append(decorations, decoration)
	}
	return decorations
}

// readings reads the records of a service, apart from those that are as they were.
func (m *Models) readings(service string, records []Record) map[string]reading {
	before, after := m.read[service], make(map[string]reading, len(records))
	defer m.prune(service, before, after)
	for _, r := range records {
		known, ok := before[r.ID]
		if !ok || known.fieldPath != r.FieldPath || known.value != string(r.Value) {
			known = reading{fieldPath: r.FieldPath, value: string(r.Value)}
			known.decoration, known.err = costDecoration(r)
		}
		after[r.ID] = known
	}
	m.read[service] = after
	if len(after) == 0 {
		delete(m.read, service)
	}
	return after
}

// prune forgets the complaints about records that are gone.
func (m *Models) prune(service string, before, after map[string]reading) {
	for id := range before {
		if _, still := after[id]; !still {
			delete(m.broken, brokenRecord{service, id})
		}
	}
}

// complain logs what is wrong with a record, once per version of it and at most once in
// logInterval: a program can write versions faster than anybody reads them.
func (m *Models) complain(r Record, fault string, err error) {
	record, now := brokenRecord{r.ServiceID, r.ID}, m.now()
	last, known := m.broken[record]
	if known && (last.modified == r.ModifiedIndex || now.Sub(last.at) < logInterval) {
		return
	}
	m.broken[record] = complaint{r.ModifiedIndex, now}
	m.logger.Error(fault, zap.String("service_id", r.ServiceID), zap.String("id", r.ID), zap.Error(err))
}
