// Package introspect knows the GraphQL schemas of upstreams. A [Source] fetches
// a schema by introspection the first time a request needs it, keeps it, in memory and
// on disk, and answers every later request from memory. A schema that was given to it
// ([Source.Give]) stands in for introspection.
//
// A schema belongs to the APISIX service whose decorations are matched against
// it (to the route, else to the endpoint, where there is no service), together
// with the settings it was fetched with. A configuration whose endpoint or
// headers were corrected is therefore tried at once, whatever failed before, and
// two routes of one service with different settings do not take turns in
// evicting each other. It does not belong to the URL: the derived one holds the
// request's path, which the client chooses.
//
// A schema is fetched again in the background, while the old one stays in use, when it
// is older than the request's TTL, and once after it was read from disk. It is the same
// *cost.Schema, by which caches know it, until the upstream's answer differs in what
// bears on cost.
package introspect

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
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
	// MaxSchemas bounds how many schemas and failures are kept, and how many schemas
	// on disk. Beyond it the least recently used one goes and is read or fetched again
	// when it is needed.
	// Default 1024; give it more than there are services with decorations.
	MaxSchemas int
	// Dir is a folder in which fetched schemas are kept, so that they are known again
	// after a restart, whether or not the upstream answers then. It is made when the
	// first schema is written; several processes may share it. Empty: none is kept.
	Dir string
	// Now is the clock of failures and of a schema's age. Default time.Now.
	Now func() time.Time
	// Logger gets one line per fetch, and says what is wrong with Dir. Required.
	Logger *zap.Logger
}

// Request says whose schema is needed and how it may be fetched.
type Request struct {
	// ServiceID, else RouteID, is whose schema it is.
	ServiceID, RouteID string
	// Settings are those of the configuration.
	Settings Settings
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
	disk      *disk // nil: no schema is kept on disk
	now       func() time.Time
	started   time.Time // where the source's own time begins
	log       *zap.Logger
	exchange  time.Duration
	maxBody   int // bytes of an answer, decompressed

	// given are the schemas that Give gave, by service. The map is never changed.
	given atomic.Pointer[map[string]*cost.Schema]

	ctx    context.Context // of all fetches: ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of all fetches

	mu      sync.Mutex
	closed  bool
	memory  *memory
	flights map[key]*flight
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
	s.started = s.now()
	if cfg.Dir != "" {
		s.disk = newDisk(cfg.Dir, s.memory.max, s.maxBody, s.log)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Schema returns the schema that req asks for, from memory when it is there. Else
// it is read from disk or fetched, once for all who ask meanwhile; a caller whose
// context ends leaves with the context's error and the fetch goes on for the others. A
// fetch takes at most 7 s. A failure is returned to everybody for 10 s, except one that
// no upstream was asked for (no nodes, an unusable Host). Errors name the URL,
// without its query, and never a header's value.
func (s *Source) Schema(ctx context.Context, req Request) (*cost.Schema, error) {
	if schema := s.givenTo(req.ServiceID); schema != nil {
		return schema, nil
	}
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
// not, and has it fetched again in the background when that is due. Request.Path and
// Request.Host bear on a first fetch only and may be left out. It takes no lock.
func (s *Source) Cached(req Request) *cost.Schema {
	if schema := s.givenTo(req.ServiceID); schema != nil {
		return schema
	}
	k, err := keyOf(req)
	if err != nil {
		return nil
	}
	known := s.memory.schema(k)
	if known == nil {
		return nil
	}
	s.revalidate(known, req.TTL)
	return known.schema
}

// Known returns a schema of the service that is in memory: the one that was given, else
// the one that was fetched last under any settings, else nil. It never fetches.
func (s *Source) Known(serviceID string) *cost.Schema {
	if schema := s.givenTo(serviceID); schema != nil {
		return schema
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var latest *slot
	for _, known := range s.memory.of(ownedByService, serviceID) {
		if known.schema != nil && (latest == nil || known.fetched > latest.fetched) {
			latest = known
		}
	}
	if latest == nil {
		return nil
	}
	return latest.schema
}

// Give makes schema the one of a service: it is used instead of what introspection says,
// whatever the settings, and nothing is fetched for the service. Nil takes it away again;
// then the service is introspected as if there had been none.
func (s *Source) Give(serviceID string, schema *cost.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	given := map[string]*cost.Schema{}
	if present := s.given.Load(); present != nil {
		given = maps.Clone(*present)
	}
	if schema != nil {
		given[serviceID] = schema
	} else {
		delete(given, serviceID)
	}
	s.given.Store(&given)
}

// givenTo is the schema that was given to a service, nil when there is none.
func (s *Source) givenTo(serviceID string) *cost.Schema {
	given := s.given.Load()
	if given == nil {
		return nil
	}
	return (*given)[serviceID]
}

// Flush forgets the schemas and failures of a service, in memory and on disk, so that the
// next request fetches anew, also when a fetch is under way now. A schema that was given
// stays. To be called when the service was deleted, or created again under its id.
func (s *Source) Flush(serviceID string) {
	s.mu.Lock()
	s.memory.flush(ownedByService, serviceID)
	for k := range s.flights {
		if k.kind == ownedByService && k.owner == serviceID {
			delete(s.flights, k)
		}
	}
	s.mu.Unlock()
	// After the memory: what save finds missing there, it does not write.
	s.disk.remove(ownedByService, serviceID)
}

// Close ends every fetch and returns when the last one has; who waits for one
// gets ErrClosed. It may be called again.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.memory.known.Clear()
	s.given.Store(nil)
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}
