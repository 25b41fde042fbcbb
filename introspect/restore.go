package introspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"graphql-limit-count/cost"
	"graphql-limit-count/internal/apisix"
)

const (
	// incarnationTimeout bounds asking APISIX whose life it is, which is not worth more:
	// without an answer a schema counts as its owner's.
	incarnationTimeout = time.Second
	// timeIncarnation begins the incarnations that are made of a creation time.
	timeIncarnation = "t"
)

// flyToDisk ends a flight with a schema from disk, which is then compared with the
// upstream's in the background. It reports whether there was one.
func (s *Source) flyToDisk(k key, f *flight) bool {
	restored := s.restoreSafely(k, f.request)
	if restored == nil || !s.landRestored(f, restored) {
		return false
	}
	s.revalidate(restored, f.request.TTL)
	close(f.done)
	return true
}

// landRestored keeps a schema from disk. It reports false for one that was flushed away in
// the meantime: who waits must not get that.
func (s *Source) landRestored(f *flight, restored *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		f.err = ErrClosed
		return true
	}
	if s.flights[restored.key] != f {
		return false
	}
	delete(s.flights, restored.key)
	f.schema = restored.schema
	s.memory.put(restored)
	return true
}

// restoreSafely is restore, which answers a panic with nothing: it is in no request's
// goroutine, where the server recovers it.
func (s *Source) restoreSafely(k key, req Request) (restored *slot) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic while reading a kept schema", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			restored = nil
		}
	}()
	return s.restore(k, req)
}

// restore reads a schema from disk, nil when there is none that belongs to the owner.
func (s *Source) restore(k key, req Request) *slot {
	c, confirmed, ok := s.disk.load(k)
	if !ok {
		return nil
	}
	incarnation, err := s.incarnation(s.ctx, k)
	if errors.Is(err, apisix.ErrNotFound) || !sameLife(c.Incarnation, incarnation) {
		s.log.Info("a kept schema is that of an earlier life of its owner, it is fetched again", zap.Stringer("of", k))
		return nil
	}
	restored := &slot{key: k, request: req, content: sha256.Sum256(c.body), unconfirmed: true}
	if restored.schema = s.readBefore(restored.content); restored.schema == nil {
		if restored.schema, err = cost.ParseIntrospection(c.body); err != nil {
			s.log.Warn("a kept schema cannot be read, it is fetched again", zap.Stringer("of", k), zap.Error(err))
			return nil
		}
	}
	now := s.now()
	age := max(now.Sub(confirmed), 0)
	restored.fetched = now.Sub(s.started) - age
	s.log.Info("read the upstream graphql schema from disk", zap.Stringer("of", k), zap.Duration("age", age))
	return restored
}

// keep writes to disk what a flight brought.
func (s *Source) keep(l landing, a answer) {
	s.disk.save(l.slot.key, content{Incarnation: a.incarnation, body: a.body},
		s.started.Add(l.slot.fetched), !l.first && !l.changed, func() bool { return s.isKnown(l.slot) })
}

// isKnown reports whether nothing else is known instead of it.
func (s *Source) isKnown(known *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.get(known.key) == known
}

// incarnation asks APISIX for the life of a key's owner: empty where there is none, or
// where APISIX cannot be asked. The error wraps apisix.ErrNotFound when the owner is gone.
func (s *Source) incarnation(ctx context.Context, k key) (string, error) {
	if s.upstreams == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, incarnationTimeout)
	defer cancel()
	switch k.kind {
	case ownedByService:
		service, err := s.upstreams.Service(ctx, k.owner)
		return service.Incarnation, err
	case ownedByRoute:
		route, err := s.upstreams.Route(ctx, k.owner)
		return route.Incarnation, err
	default:
		return "", nil
	}
}

// sameLife reports whether two incarnations may be one: an unknown one may be any, and so
// may one that is an index and one that is a time, as two versions of APISIX show it.
func sameLife(a, b string) bool {
	return a == b || a == "" || b == "" ||
		strings.HasPrefix(a, timeIncarnation) != strings.HasPrefix(b, timeIncarnation)
}
