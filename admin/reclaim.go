package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// ReclaimerConfig holds the settings of a Reclaimer.
type ReclaimerConfig struct {
	// Store holds the decorations. Required.
	Store Store
	// Models are told what was reclaimed. Required.
	Models *Models
	// Directory answers for APISIX. Required.
	Directory ServiceDirectory
	// Logger is told what was reclaimed, and when APISIX cannot be asked at most once a
	// minute. Required.
	Logger *zap.Logger
	// Interval is the time between two rounds. Default 3 s; more than 10 s breaks the
	// promise of when decorations are gone.
	Interval time.Duration
}

// Reclaimer removes decorations whose service APISIX no longer has, or has again as another
// service under the same id: a service created again starts without decorations.
//
// Every decoration notes the incarnation of its service, by which two lives of one id
// differ, when it is written. A decoration is removed when APISIX says that its service does
// not exist, or exists with another incarnation. One that was written without asking APISIX
// has none: it is kept until its service exists and then becomes that service's, unless the
// service was found not to exist in between; then the service is newer than the decoration,
// which is removed. No other answer than a clear one removes anything: not an Admin API that
// is unreachable or refuses the key, and not an id that is merely missing from a listing.
type Reclaimer struct {
	store     Store
	models    *Models
	directory ServiceDirectory
	logger    *zap.Logger
	complaint *throttled
	interval  time.Duration
}

// NewReclaimer returns a reclaimer; Run makes it work in the background.
func NewReclaimer(cfg ReclaimerConfig) *Reclaimer {
	r := &Reclaimer{
		store: cfg.Store, models: cfg.Models, directory: cfg.Directory,
		logger: cfg.Logger, complaint: newThrottled(cfg.Logger), interval: cfg.Interval,
	}
	if r.interval <= 0 {
		r.interval = defaultReclaimInterval
	}
	return r
}

// Run does a round every interval until ctx is done and returns ctx's error.
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
		}
	}
}

// Reconcile does one round over all services.
func (r *Reclaimer) Reconcile(ctx context.Context) error {
	records, err := r.store.All(ctx)
	if err != nil || len(records) == 0 {
		return err
	}
	// The records are read before APISIX is asked: a service that is missing in an answer
	// given later is really gone, it cannot have been created and decorated in between.
	services, err := r.directory.Services(ctx)
	if err != nil {
		return err
	}
	incarnations := make(map[string]string, len(services))
	for _, s := range services {
		incarnations[s.ID] = s.Incarnation
	}
	var failures []error
	for len(records) > 0 {
		n := sameService(records)
		incarnation, exists := incarnations[records[0].ServiceID]
		if suspicious(records[:n], incarnation, exists) {
			_, err := r.confirm(ctx, records[0].ServiceID, records[:n])
			failures = append(failures, err)
		}
		records = records[n:]
	}
	return errors.Join(failures...)
}

// sameService counts the records at the front that belong to one service.
func sameService(records []Record) int {
	n := 1
	for n < len(records) && records[n].ServiceID == records[0].ServiceID {
		n++
	}
	return n
}

// suspicious tells whether a service's records need a closer look after a listing.
func suspicious(records []Record, incarnation string, exists bool) bool {
	if !exists {
		incarnation = noService
	}
	for _, record := range records {
		if record.Incarnation != incarnation {
			return true
		}
	}
	return false
}

// owner is a service as far as its decorations are concerned.
type owner struct {
	exists      bool
	incarnation string
	records     []Record // its decorations, without those that were reclaimed
}

// owner asks APISIX for a service and returns it with its decorations, after removing those
// that are not its own. An error means that APISIX could not be asked, or the store failed.
func (r *Reclaimer) owner(ctx context.Context, serviceID string) (owner, error) {
	records, err := r.store.List(ctx, serviceID) // before APISIX is asked, see Reconcile
	if err != nil {
		return owner{}, err
	}
	return r.confirm(ctx, serviceID, records)
}

// confirm asks APISIX for the service of the records and settles them.
func (r *Reclaimer) confirm(ctx context.Context, serviceID string, records []Record) (owner, error) {
	service, err := r.directory.Service(ctx, serviceID)
	if err != nil && !errors.Is(err, apisix.ErrNotFound) {
		return owner{}, fmt.Errorf("ask APISIX for service %s: %w", serviceID, err)
	}
	o := owner{exists: err == nil, incarnation: service.Incarnation}
	if !o.exists {
		o.incarnation = noService
	}
	var foreign, unclaimed []Record
	for _, record := range records {
		switch {
		case record.Incarnation == o.incarnation:
			o.records = append(o.records, record)
		case o.incarnation == "": // APISIX does not tell whose life this is
			o.records = append(o.records, record)
		case adoptable(record.Incarnation, o.incarnation):
			unclaimed = append(unclaimed, record)
			o.records = append(o.records, record)
		default:
			foreign = append(foreign, record)
		}
	}
	if err := r.store.Adopt(ctx, unclaimed, o.incarnation); err != nil {
		return owner{}, err
	}
	return o, r.reclaim(ctx, serviceID, foreign)
}

// adoptable tells whether a decoration of one incarnation may turn out to belong to another:
// when it has none, and when one is an index and the other a time, which another version of
// the Admin API shows for the same service.
func adoptable(record, service string) bool {
	if record == "" {
		return true
	}
	if record == noService || service == noService {
		return false
	}
	return strings.HasPrefix(record, timeIncarnation) != strings.HasPrefix(service, timeIncarnation)
}

func (r *Reclaimer) reclaim(ctx context.Context, serviceID string, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	count, err := r.store.Reclaim(ctx, records)
	if err != nil {
		return err
	}
	r.logger.Warn("reclaimed the decorations of a service that was deleted in APISIX",
		zap.String("service_id", serviceID), zap.Int("decorations", count))
	return r.models.Refresh(ctx, serviceID)
}
