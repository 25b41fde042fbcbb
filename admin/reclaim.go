package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/internal/apisix"

	"go.uber.org/zap"
)

const (
	// defaultReclaimInterval leaves room for two failed rounds in the ten seconds within
	// which the decorations of a deleted service must be gone.
	defaultReclaimInterval = 3 * time.Second
	// noService is the incarnation of a decoration that was written without asking APISIX and
	// whose service was then found not to exist. APISIX's incarnations never look like it.
	noService = "none"
	// timeIncarnation begins the incarnations that apisix derives from a creation time.
	timeIncarnation = "t"
)

// ServiceDirectory is what APISIX knows about its services; *apisix.Client is one. Service's
// error wraps apisix.ErrNotFound only when APISIX itself said that there is no such service.
type ServiceDirectory interface {
	Service(ctx context.Context, id string) (apisix.Service, error)
	Services(ctx context.Context) ([]apisix.Service, error)
}

// Forgetter holds what is known about services apart from the store; *introspect.Source is
// one.
type Forgetter interface {
	// Flush forgets what is known about a service.
	Flush(serviceID string)
}

// ReclaimerConfig holds the settings of a Reclaimer.
type ReclaimerConfig struct {
	// Store holds the decorations and the uploaded schemas. Required.
	Store Store
	// Models are told what was reclaimed. Required.
	Models *Models
	// Uploads is told which uploaded schemas were reclaimed. Nil: it learns of them by
	// following the store.
	Uploads Follower
	// Schemas are flushed when a service turns out to be another one: introspected schemas
	// are those of the earlier one. Nil: there are none.
	Schemas Forgetter
	// Directory answers for APISIX. Required.
	Directory ServiceDirectory
	// Logger is told what was reclaimed, and when APISIX cannot be asked at most once a
	// minute. Required.
	Logger *zap.Logger
	// Interval is the time between two rounds. Default 3 s; more than 10 s breaks the
	// promise of when decorations are gone.
	Interval time.Duration
	// Changed makes the next round come at once, with each value received. Nil: the interval
	// alone decides.
	Changed <-chan struct{}
}

// Reclaimer removes decorations and uploaded schemas whose service APISIX no longer has, or has
// again as another service under the same id: a service created again starts without any.
//
// Each of them notes the incarnation of its service, by which two lives of one id differ, when
// it is written. It is removed when APISIX says that its service does not exist, or exists with
// another incarnation. One that was written without asking APISIX has none: it is kept until
// its service exists and then becomes that service's, unless the service was found not to exist
// in between; then the service is newer than it, and it is removed. One that was written after
// the time at which its service was created, by the service's own account, is the service's
// whatever the incarnations say: they change for all services when APISIX's configuration is
// copied to another etcd. No other answer than a clear one removes anything: not an Admin API that is unreachable or refuses the key, and not an id
// that is merely missing from a listing.
type Reclaimer struct {
	store     Store
	models    *Models
	uploads   Follower
	schemas   Forgetter
	directory ServiceDirectory
	logger    *zap.Logger
	complaint *throttled
	interval  time.Duration
	changed   <-chan struct{}
	readOnly  atomic.Bool // the store has said that it takes no writes

	mu    sync.Mutex
	lives map[string]string // the incarnation that each service was last listed with
}

// NewReclaimer returns a reclaimer; Run makes it work in the background.
func NewReclaimer(cfg ReclaimerConfig) *Reclaimer {
	r := &Reclaimer{
		store: cfg.Store, models: cfg.Models, uploads: cfg.Uploads, schemas: cfg.Schemas, directory: cfg.Directory,
		logger: cfg.Logger, complaint: newThrottled(cfg.Logger), interval: cfg.Interval,
		changed: cfg.Changed,
		lives:   map[string]string{},
	}
	if r.interval <= 0 {
		r.interval = defaultReclaimInterval
	}
	return r
}

// Run does a round every interval, and when told of a change, until ctx is done and returns ctx's error.
func (r *Reclaimer) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	for {
		if err := r.Reconcile(ctx); err != nil && ctx.Err() == nil {
			r.complaint.Error("decorations of deleted services cannot be reclaimed for now", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-r.changed:
		}
	}
}

// Reconcile does one round over all services.
func (r *Reclaimer) Reconcile(ctx context.Context) error {
	holdings, err := r.holdings(ctx)
	if err != nil || len(holdings) == 0 {
		return err
	}
	// What is stored is read before APISIX is asked: a service that is missing in an answer
	// given later is really gone, it cannot have been created and decorated in between.
	services, err := r.directory.Services(ctx)
	if err != nil {
		return err
	}
	incarnations := make(map[string]string, len(services))
	for _, s := range services {
		incarnations[s.ID] = s.Incarnation
	}
	r.notice(incarnations)
	if r.readOnly.Load() {
		return nil // nothing can be removed or noted, however often APISIX is asked
	}
	var failures []error
	for _, h := range holdings {
		incarnation, exists := incarnations[h.serviceID]
		if h.suspicious(incarnation, exists) {
			_, err := r.confirm(ctx, h)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// notice flushes the introspected schemas of services that are listed with another incarnation
// than before. Whether there was anything to reclaim does not matter: another process may have
// been the one to do it. A service that is missing from a listing is remembered as it was.
func (r *Reclaimer) notice(incarnations map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, incarnation := range incarnations {
		if before, seen := r.lives[id]; seen && before != incarnation {
			r.flush(id)
		}
		r.lives[id] = incarnation
	}
}

func (r *Reclaimer) flush(serviceID string) {
	if r.schemas != nil {
		r.schemas.Flush(serviceID)
	}
}

// holding is what the store has of one service.
type holding struct {
	serviceID string
	records   []Record
	upload    *Schema // without its text; nil: there is none
}

// holdings returns what the store has, in the order of the services' ids.
func (r *Reclaimer) holdings(ctx context.Context) ([]holding, error) {
	records, err := r.store.All(ctx)
	if err != nil {
		return nil, err
	}
	uploads, err := r.store.Schemas(ctx)
	if err != nil {
		return nil, err
	}
	services := map[string]holding{}
	for _, record := range records {
		h := services[record.ServiceID]
		h.records = append(h.records, record)
		services[record.ServiceID] = h
	}
	for _, upload := range uploads {
		h := services[upload.ServiceID]
		h.upload = &upload
		services[upload.ServiceID] = h
	}
	holdings := make([]holding, 0, len(services))
	for _, id := range slices.Sorted(maps.Keys(services)) {
		h := services[id]
		h.serviceID = id
		holdings = append(holdings, h)
	}
	return holdings, nil
}

// suspicious tells whether a service's belongings need a closer look after a listing.
func (h holding) suspicious(incarnation string, exists bool) bool {
	if !exists {
		incarnation = noService
	}
	if h.upload != nil && h.upload.Incarnation != incarnation {
		return true
	}
	return slices.ContainsFunc(h.records, func(r Record) bool { return r.Incarnation != incarnation })
}

// owner is a service as far as its decorations and its uploaded schema are concerned.
type owner struct {
	exists      bool
	incarnation string
	created     int64    // when it was created, seconds since 1970; 0: it does not say
	records     []Record // its decorations, without those that were reclaimed
	upload      bool     // the uploaded schema that was asked about is its own
}

// owner asks APISIX for a service and returns it with its decorations, after removing those
// that are not its own. An *unaskedError means that APISIX could not be asked, any other that
// the store failed.
func (r *Reclaimer) owner(ctx context.Context, serviceID string) (owner, error) {
	records, err := r.store.List(ctx, serviceID) // before APISIX is asked, see Reconcile
	if err != nil {
		return owner{}, err
	}
	return r.confirm(ctx, holding{serviceID: serviceID, records: records})
}

// ownsUpload tells whether an uploaded schema that was just read is that of the present
// service, after removing it if it is not. Errors as owner's.
func (r *Reclaimer) ownsUpload(ctx context.Context, upload Schema) (bool, error) {
	o, err := r.confirm(ctx, holding{serviceID: upload.ServiceID, upload: &upload})
	return o.upload, err
}

// confirm asks APISIX for the service of a holding and settles what is in it.
func (r *Reclaimer) confirm(ctx context.Context, h holding) (owner, error) {
	service, err := r.directory.Service(ctx, h.serviceID)
	if err != nil && !errors.Is(err, apisix.ErrNotFound) {
		return owner{}, &unaskedError{fmt.Errorf("ask APISIX for service %s: %w", h.serviceID, err)}
	}
	o := owner{exists: err == nil, incarnation: service.Incarnation, created: service.CreateTime}
	if !o.exists {
		o.incarnation = noService
	}
	var foreign, unclaimed []Record
	for _, record := range h.records {
		switch o.judge(record.Incarnation, max(record.CreateTime, record.UpdateTime)) {
		case adopted:
			unclaimed = append(unclaimed, record)
			fallthrough
		case own:
			o.records = append(o.records, record)
		case stranger:
			foreign = append(foreign, record)
		}
	}
	if err := r.writable(r.store.Adopt(ctx, unclaimed, o.incarnation)); err != nil {
		return owner{}, err
	}
	if err := r.settleUpload(ctx, h.upload, &o); err != nil {
		return owner{}, err
	}
	return o, r.reclaim(ctx, h.serviceID, foreign)
}

// writable leaves out that a store takes no writes, and notes it: what is in a file is for its
// author to remove.
func (r *Reclaimer) writable(err error) error {
	if errors.Is(err, ErrReadOnly) {
		r.readOnly.Store(true)
		return nil
	}
	return err
}

// verdict is whose something is.
type verdict int

const (
	own      verdict = iota // the service's
	adopted                 // nobody's so far, and now the service's
	stranger                // an earlier service's
)

// judge compares the incarnation that something was written with, and when that was, with those
// of the service.
func (o *owner) judge(written string, at int64) verdict {
	switch {
	case written == o.incarnation:
		return own
	case o.exists && o.incarnation == "": // APISIX does not tell whose life this is
		return own
	case adoptable(written, o.incarnation):
		return adopted
	case o.exists && o.created > 0 && at > o.created && written != noService && written != endedService:
		return adopted
	}
	return stranger
}

// adoptable tells whether what has one incarnation may turn out to belong to another: when it
// has none, and when one is an index and the other a time, which another version of the Admin
// API shows for the same service.
func adoptable(written, service string) bool {
	if written == "" {
		return true
	}
	if written == noService || service == noService {
		return false
	}
	return strings.HasPrefix(written, timeIncarnation) != strings.HasPrefix(service, timeIncarnation)
}

// reclaim removes decorations of an earlier service.
func (r *Reclaimer) reclaim(ctx context.Context, serviceID string, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	r.flush(serviceID)
	count, err := r.store.Reclaim(ctx, records)
	if err != nil {
		return r.writable(err)
	}
	r.logger.Warn("reclaimed the decorations of a service that was deleted in APISIX",
		zap.String("service_id", serviceID), zap.Int("decorations", count))
	return r.models.Refresh(ctx, serviceID)
}

// settleUpload keeps, adopts or removes an uploaded schema, if there is one, and notes in o
// whether it is the service's.
func (r *Reclaimer) settleUpload(ctx context.Context, upload *Schema, o *owner) error {
	if upload == nil {
		return nil
	}
	switch o.judge(upload.Incarnation, max(upload.CreateTime, upload.UpdateTime)) {
	case stranger:
		return r.reclaimUpload(ctx, *upload)
	case adopted:
		if err := r.writable(r.store.AdoptSchema(ctx, *upload, o.incarnation)); err != nil {
			return err
		}
	}
	o.upload = true
	return nil
}

// reclaimUpload removes the uploaded schema of an earlier service.
func (r *Reclaimer) reclaimUpload(ctx context.Context, upload Schema) error {
	r.flush(upload.ServiceID)
	removed, err := r.store.ReclaimSchema(ctx, upload)
	if err != nil {
		return r.writable(err)
	}
	if removed {
		r.logger.Warn("reclaimed the uploaded schema of a service that was deleted in APISIX",
			zap.String("service_id", upload.ServiceID))
	}
	if r.uploads == nil {
		return nil
	}
	return r.uploads.Refresh(ctx, upload.ServiceID)
}
