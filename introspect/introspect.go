// Package introspect knows the GraphQL schemas of upstreams. A [Source] fetches
// a schema by introspection the first time a request needs it, keeps it, and
// answers every later request from memory.
//
// A schema belongs to the APISIX service whose decorations are matched against
// it (to the route, else to the endpoint, where there is no service), together
// with the settings it was fetched with. A configuration whose endpoint or
// headers were corrected is therefore tried at once, whatever failed before, and
// two routes of one service with different settings do not take turns in
// evicting each other. It does not belong to the URL: the derived one holds the
// request's path, which the client chooses.
package introspect

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"graphql-limit-count/cost"
	"graphql-limit-count/internal/apisix"
)

const (
	// connectTimeout bounds the TCP connect, exchangeTimeout everything from
	// asking APISIX for the upstream to the last byte of the answer.
	connectTimeout  = 2 * time.Second
	exchangeTimeout = 7 * time.Second
	// failureTTL is how long a failure is remembered, so that an upstream that
	// answers nothing does not get one introspection per client request.
	failureTTL = 10 * time.Second
	// quietTTL is how long a failure that is not remembered is logged only once.
	quietTTL = 10 * time.Second
	// maxResponseBytes bounds an answer, counted after decompression.
	maxResponseBytes = 32 << 20
	// defaultMaxSchemas is Config.MaxSchemas where it is not set.
	defaultMaxSchemas = 1024
)

// ErrClosed is returned by Schema after Close.
var ErrClosed = errors.New("the schema source is closed")

// UpstreamResolver says what APISIX has configured. [apisix.Cache] is the one for
// production: it keeps a failing upstream from turning into Admin API calls.
type UpstreamResolver interface {
	Service(ctx context.Context, id string) (apisix.Service, error)
	Route(ctx context.Context, id string) (apisix.Route, error)
	Upstream(ctx context.Context, id string) (apisix.Upstream, error)
}

// Config holds the settings of a [Source].
type Config struct {
	// Upstreams derives the endpoint of a request that names none. Nil: such a
	// request is an error that says so.
	Upstreams UpstreamResolver
	// DialContext opens connections to upstreams; whatever it is, it gets 2 s.
	// Default: net.Dialer. Proxies named by the environment are never used.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLSVerify checks the certificates of https endpoints. Default false, as
	// APISIX does for the upstreams that it proxies to: the nodes are usually
	// addresses that no certificate names. Turn it on where introspection_headers
	// carry a credential over a network that is not trusted.
	TLSVerify bool
	// RootCAs are what certificates are checked against with TLSVerify. Default:
	// the system's.
	RootCAs *x509.CertPool
	// MaxSchemas bounds how many schemas and failures are kept. Beyond it the
	// least recently used one goes and is fetched again when it is needed.
	// Default 1024; give it more than there are services with decorations.
	MaxSchemas int
	// Now is the clock of the failure memory. Default time.Now.
	Now func() time.Time
	// Logger gets one line per fetch. Required.
	Logger *zap.Logger
}

// Request says whose schema is needed and how it may be fetched. Its map must not
// be changed afterwards.
type Request struct {
	// ServiceID, else RouteID, is whose schema it is.
	ServiceID, RouteID string
	// Endpoint is introspection_endpoint, empty to derive it from the upstream.
	Endpoint string
	// Headers are introspection_headers, applied last.
	Headers map[string]string
	// TTL is introspection_ttl: how old a schema may get before the next request
	// that uses it has it fetched again in the background. 0 or less: any age.
	TTL time.Duration
	// Path is the upstream path of the client's request, decoded, as APISIX's
	// $uri. Used for a derived endpoint, up to the first question mark.
	Path string
	// Host is the client's Host header ($http_host), verbatim. Used for a derived
	// endpoint whose upstream has pass_host pass.
	Host string
}

// Source fetches and keeps schemas. It is safe for concurrent use.
type Source struct {
	upstreams UpstreamResolver
	dialHook  func(ctx context.Context, network, addr string) (net.Conn, error)
	tlsVerify bool
	rootCAs   *x509.CertPool
	now       func() time.Time
	log       *zap.Logger
	exchange  time.Duration
	maxBody   int // bytes of an answer, decompressed

	ctx    context.Context // of all fetches: ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of all fetches

	mu      sync.Mutex
	closed  bool
	memory  *memory
	flights map[key]*flight
}

// flight is one fetch and everybody who waits for it. schema and err are written
// before done is closed.
type flight struct {
	done   chan struct{}
	schema *cost.Schema
	err    error
}

// New returns a source without any schema. It does no I/O. Close ends it.
func New(cfg Config) *Source {
	s := &Source{
		upstreams: cfg.Upstreams,
		dialHook:  cfg.DialContext,
		tlsVerify: cfg.TLSVerify,
		rootCAs:   cfg.RootCAs,
		now:       cfg.Now,
		log:       cfg.Logger,
		exchange:  exchangeTimeout,
		maxBody:   maxResponseBytes,
		memory:    newMemory(cmp.Or(max(cfg.MaxSchemas, 0), defaultMaxSchemas)),
		flights:   make(map[key]*flight),
	}
	if s.dialHook == nil {
		s.dialHook = (&net.Dialer{}).DialContext
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Schema returns the schema that req asks for, from memory when it is there. Else
// it is fetched, once for all who ask meanwhile; a caller whose context ends
// leaves with the context's error and the fetch goes on for the others. A fetch
// takes at most 7 s. A failure is returned to everybody for 10 s, except one that
// no upstream was asked for (no nodes, an unusable Host). Errors name the URL,
// without its query, and never a header's value.
func (s *Source) Schema(ctx context.Context, req Request) (*cost.Schema, error) {
	k, err := keyOf(req)
	if err != nil {
		return nil, err
	}
	schema, f, err := s.lookUpOrJoin(k, req)
	if f == nil {
		return schema, err
	}
	select {
	case <-f.done:
		return f.schema, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the schema of %s: %w", k, ctx.Err())
	}
}

// Cached returns the schema that Schema would return from memory, nil when it would
// not. Request.Path and Request.Host bear on a fetch only and may be left out. It takes
// no lock.
func (s *Source) Cached(req Request) *cost.Schema {
	k, err := keyOf(req)
	if err != nil {
		return nil
	}
	return s.memory.schema(k)
}

// lookUpOrJoin returns what is remembered, or the flight to wait for. One lock
// covers the look and the start, so that a fetch that ends in between is seen.
func (s *Source) lookUpOrJoin(k key, req Request) (*cost.Schema, *flight, error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	if e := s.memory.get(k); e != nil {
		if e.schema != nil {
			return e.schema, nil, nil
		}
		if e.err != nil && now.Before(e.retryAt) {
			return nil, nil, e.err
		}
	}
	f := s.flights[k]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flights[k] = f
		s.wg.Add(1)
		go s.fly(k, f, req)
	}
	return nil, f, nil
}

func (s *Source) fly(k key, f *flight, req Request) {
	defer s.wg.Done()
	defer close(f.done)
	started := time.Now()
	var t target
	t, f.schema, f.err = s.fetchSafely(req)
	switch tell := s.land(k, f); {
	case !tell:
	case f.err != nil:
		s.log.Warn("failed to introspect the upstream graphql schema", zap.Stringer("of", k), zap.Error(f.err))
	default:
		s.log.Info("introspected the upstream graphql schema", zap.Stringer("of", k),
			zap.String("url", t.shown), zap.Duration("took", time.Since(started)))
	}
}

// land keeps the outcome of a flight and reports whether it is worth a log line.
// One that was flushed away is not kept: its waiters get its answer, nobody else.
// A failure that is not remembered could recur with every request, so it is worth
// a line only now and then.
func (s *Source) land(k key, f *flight) (tell bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.flights[k] != f {
		return true
	}
	delete(s.flights, k)
	var unasked *unaskedError
	switch {
	case f.err == nil:
		s.memory.put(k, entry{schema: f.schema})
	case errors.As(f.err, &unasked):
		if e := s.memory.get(k); e != nil && now.Before(e.quietUntil) {
			return false
		}
		s.memory.put(k, entry{quietUntil: now.Add(quietTTL)})
	default:
		s.memory.put(k, entry{err: f.err, retryAt: now.Add(failureTTL)})
	}
	return true
}

// fetchSafely is introspect under the source's own context and deadline. A panic
// here would not be in any request's goroutine, where the server recovers it.
func (s *Source) fetchSafely(req Request) (t target, schema *cost.Schema, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.exchange)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic while introspecting", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			schema, err = nil, fmt.Errorf("introspect %s: panic: %v", t.shown, p)
		}
	}()
	t, err = s.resolve(ctx, req)
	if err != nil {
		return t, nil, err
	}
	body, err := s.fetch(ctx, t, req.Headers)
	if err != nil {
		return t, nil, s.explain(err)
	}
	schema, err = cost.ParseIntrospection(body)
	if err != nil {
		return t, nil, fmt.Errorf("introspect %s: %w", t.shown, err)
	}
	return t, schema, nil
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

// Flush forgets the schemas and failures of a service, so that the next request
// fetches anew, also when a fetch is under way now.
func (s *Source) Flush(serviceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.flush(ownedByService, serviceID)
	for k := range s.flights {
		if k.kind == ownedByService && k.owner == serviceID {
			delete(s.flights, k)
		}
	}
}

// Close ends every fetch and returns when the last one has; who waits for one
// gets ErrClosed. It may be called again.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.memory.known.Clear()
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}
