package introspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// never is a time that the source's own time does not reach.
const never = math.MaxInt64

var (
	// ErrUnasked is returned, wrapped, by Refresh for a service whose schema no request has
	// asked for yet: how to fetch it stands in the configuration of its routes.
	ErrUnasked = errors.New("no request has needed the schema yet, so that it is not known how to fetch it")
	// ErrGiven is returned, wrapped, by Refresh for a service whose schema was given.
	ErrGiven = errors.New("the schema was uploaded, it is not introspected")
)

// revalidate starts a refresh in the background when known is due for one: older than
// ttl, or not confirmed since it was read from disk, and no attempt is under way or less
// than 10 s old. Every request comes here: it takes no lock unless it starts one.
func (s *Source) revalidate(known *slot, ttl time.Duration) {
	if ttl <= 0 && !known.unconfirmed {
		return
	}
	now := s.now().Sub(s.started)
	notBefore := known.notBefore.Load()
	if int64(now) < notBefore || !known.unconfirmed && now-known.fetched < ttl {
		return
	}
	if known.notBefore.CompareAndSwap(notBefore, never) {
		s.refreshKnown(known)
	}
}

// refreshKnown starts a flight, unless known is history or one is under way. It was marked
// as being refreshed, which lasts until that flight has landed.
func (s *Source) refreshKnown(known *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.memory.get(known.key) != known || s.flights[known.key] != nil {
		return
	}
	s.take(known.key, known.request, false)
}

// Refresh fetches the schemas of a service again, now, under all settings by which
// requests asked for them, and returns when the outcome is in force. Settings that no request
// has had since the last Refresh, while others were in use, are forgotten instead: a
// configuration that was corrected is no failure. What a fetch that
// was under way before the call brings is not taken for it: that answer may be older.
// A schema that cannot be fetched stays as it is. The error names every fetch that failed;
// it wraps ErrUnasked, ErrGiven or ErrClosed where there was nothing to fetch. When ctx
// ends, Refresh returns its error, and the fetches go on.
func (s *Source) Refresh(ctx context.Context, serviceID string) error {
	if err := s.refresh(ctx, serviceID); err != nil {
		return fmt.Errorf("refresh the schema of service %q: %w", serviceID, err)
	}
	return nil
}

func (s *Source) refresh(ctx context.Context, serviceID string) error {
	if s.givenTo(serviceID) != nil {
		return ErrGiven
	}
	underWay, requests, err := s.settingsOf(serviceID)
	if err != nil {
		return err
	}
	for _, f := range underWay {
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	flights, err := s.takeAll(requests)
	if err != nil {
		return err
	}
	var failures []error
	for _, f := range flights {
		if err := f.wait(ctx); err != nil {
			return err
		}
		if f.err != nil {
			failures = append(failures, f.err)
		}
	}
	slices.SortFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(failures...)
}

// wait returns when the flight has landed, or with ctx's error when that ends.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settingsOf returns the flights of a service and everything by which its schemas are asked
// for.
func (s *Source) settingsOf(serviceID string) (underWay []*flight, requests map[key]Request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	requests = map[key]Request{}
	for _, known := range s.memory.inUse(ownedByService, serviceID) {
		requests[known.key] = known.request
	}
	for k, f := range s.flights {
		if k.kind == ownedByService && k.owner == serviceID {
			underWay = append(underWay, f)
			requests[k] = f.request
		}
	}
	if len(requests) == 0 {
		return nil, nil, ErrUnasked
	}
	return underWay, requests, nil
}

// takeAll starts a flight to the upstream for each request, or joins the one that others
// have started.
func (s *Source) takeAll(requests map[key]Request) ([]*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	var flights []*flight
	for k, req := range requests {
		f := s.flights[k]
		if f == nil {
			f = s.take(k, req, false)
		}
		flights = append(flights, f)
	}
	return flights, nil
}
