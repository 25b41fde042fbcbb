package introspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"graphql-limit-count/cost"
)

// flight is one look for a schema, on disk or at the upstream, and everybody who waits
// for it. schema and err are written before done is closed.
type flight struct {
	request Request
	done    chan struct{}
	schema  *cost.Schema
	err     error
}

// answer is what a fetch came to.
type answer struct {
	target  target
	body    []byte
	content [sha256.Size]byte // digest of body
	schema  *cost.Schema
	// incarnation is the owner's life in which it was fetched, empty where that is not known.
	incarnation string
	err         error
}

// lookUpOrJoin returns what is remembered, or the flight to wait for. One lock
// covers the look and the start, so that a fetch that ends in between is seen.
func (s *Source) lookUpOrJoin(k key, req Request) (*cost.Schema, *flight, error) {
	if known := s.memory.schema(k); known != nil {
		s.revalidate(known, req.TTL)
		return known.schema, nil, nil
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	known := s.memory.get(k)
	if known != nil {
		if known.schema != nil {
			return known.schema, nil, nil
		}
		if known.err != nil && now.Before(known.retryAt) {
			known.markUsed()
			return nil, nil, known.err
		}
	}
	if f := s.flights[k]; f != nil {
		return nil, f, nil
	}
	// After a failure there is nothing on disk, or nothing that can be read.
	return nil, s.take(k, req, s.disk != nil && known == nil), nil
}

// take starts a flight, on disk first or straight to the upstream. There is none under k,
// the source is not closed, and the caller holds the lock.
func (s *Source) take(k key, req Request, fromDisk bool) *flight {
	f := &flight{request: req, done: make(chan struct{})}
	s.flights[k] = f
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if !fromDisk || !s.flyToDisk(k, f) {
			s.fly(k, f)
		}
	}()
	return f
}

// fly fetches, lands, tells those who wait, and then writes to disk what is new: nobody
// waits for that.
func (s *Source) fly(k key, f *flight) {
	started := time.Now()
	a := s.fetchSafely(k, f.request)
	landed := s.land(k, f, a)
	s.report(k, a, landed, time.Since(started))
	close(f.done)
	if landed.slot != nil && s.ctx.Err() == nil {
		s.keep(landed, a)
	}
}

// landing is what became of a flight.
type landing struct {
	slot *slot // what is known now; nil when the flight failed or was flushed away
	// first: there was no schema before. changed: it is another one than before.
	first, changed bool
	// quiet: not worth a log line.
	quiet bool
}

// land keeps the outcome of a flight. One that was flushed away is not kept: its waiters
// get its answer, nobody else. A failure that is not remembered could recur with every
// request, so it is worth a line only now and then.
func (s *Source) land(k key, f *flight, a answer) landing {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.schema, f.err = a.schema, a.err
	if s.closed {
		return landing{quiet: true}
	}
	if s.flights[k] != f {
		return landing{first: true}
	}
	delete(s.flights, k)
	before := s.memory.get(k)
	if a.err != nil {
		return landing{first: before == nil || before.schema == nil, quiet: s.landFailure(k, f, before, now)}
	}
	l := landing{slot: &slot{key: k, request: f.request, schema: a.schema, content: a.content, fetched: now.Sub(s.started)}}
	l.first = before == nil || before.schema == nil
	l.changed = !l.first && before.schema != a.schema
	s.memory.put(l.slot)
	return l
}

// landFailure keeps a failure, unless there is a schema, which then stays. It reports
// whether the failure is not worth a log line.
func (s *Source) landFailure(k key, f *flight, before *slot, now time.Time) (quiet bool) {
	if before != nil && before.schema != nil {
		before.notBefore.Store(int64(now.Sub(s.started) + failureTTL))
		return false
	}
	next := &slot{key: k, request: f.request}
	var unasked *unaskedError
	if !errors.As(f.err, &unasked) {
		next.err, next.retryAt = f.err, now.Add(failureTTL)
	} else if before != nil && now.Before(before.quietUntil) {
		return true
	} else {
		next.quietUntil = now.Add(quietTTL)
	}
	s.memory.put(next)
	return false
}

// report logs the end of a flight.
func (s *Source) report(k key, a answer, l landing, took time.Duration) {
	of, url, span := zap.Stringer("of", k), zap.String("url", a.target.shown), zap.Duration("took", took)
	switch {
	case l.quiet:
	case a.err != nil && l.first:
		s.log.Warn("failed to introspect the upstream graphql schema", of, zap.Error(a.err))
	case a.err != nil:
		s.log.Warn("failed to refresh the upstream graphql schema, the old one stays in use", of, zap.Error(a.err))
	case l.first:
		s.log.Info("introspected the upstream graphql schema", of, url, span)
	case l.changed:
		s.log.Info("the upstream graphql schema has changed", of, url, span)
	default:
		s.log.Debug("refreshed the upstream graphql schema, it is unchanged", of, url, span)
	}
}

// fetchSafely is fetchSchema under the source's own context and deadline. A panic
// here would not be in any request's goroutine, where the server recovers it.
func (s *Source) fetchSafely(k key, req Request) (a answer) {
	ctx, cancel := context.WithTimeout(s.ctx, s.exchange)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic while introspecting", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			a.schema, a.err = nil, fmt.Errorf("introspect %s: panic: %v", a.target.shown, p)
		}
	}()
	if s.disk != nil { // before the fetch: an answer must not pass for that of a later life
		a.incarnation, _ = s.incarnation(ctx, k)
	}
	a.err = s.fetchSchema(ctx, k, req, &a)
	return a
}

// fetchSchema asks the upstream and reads the answer. One that is known byte by byte is
// not read again.
func (s *Source) fetchSchema(ctx context.Context, k key, req Request, a *answer) (err error) {
	if a.target, err = s.resolve(ctx, req); err != nil {
		return err
	}
	if a.body, err = s.fetch(ctx, a.target, req.Settings.headers); err != nil {
		return s.explain(err)
	}
	a.content = sha256.Sum256(a.body)
	if a.schema = s.readBefore(a.content); a.schema != nil {
		return nil
	}
	if a.schema, err = cost.ParseIntrospection(a.body); err != nil {
		return fmt.Errorf("introspect %s: %w", a.target.shown, err)
	}
	if known := s.memory.schema(k); known != nil && known.schema.Equal(a.schema) {
		a.schema = known.schema // caches know a schema by its pointer
	}
	return nil
}

// readBefore is the schema of an answer with that digest, nil when none is known.
func (s *Source) readBefore(content [sha256.Size]byte) *cost.Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.read(content)
}

// explain says of a fetch that ran out of time, or out of source, that it did.
func (s *Source) explain(err error) error {
	switch {
	case s.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (connecting may take %v, the whole exchange %v)", err, connectTimeout, s.exchange)
	default:
		return err
	}
}
