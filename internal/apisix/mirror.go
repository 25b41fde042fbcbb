package apisix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/internal/etcd"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// defaultFirstWait is MirrorConfig.FirstWait where it is not set.
const defaultFirstWait = 3 * time.Second

// errNoSnapshot says that etcd has not been read yet.
var errNoSnapshot = errors.New("etcd has not been read yet")

// MirrorConfig holds the settings of a [Mirror].
type MirrorConfig struct {
	// Etcd is followed. Required.
	Etcd *etcd.Client
	// Logger is told of objects that cannot be read. Required.
	Logger *zap.Logger
	// FirstWait is how long after its creation a mirror lets who asks wait for the first
	// reading of etcd: an owner that is guessed until then and known afterwards is a fresh
	// quota, and an upstream that is not known is a refused request. Default 3 s.
	FirstWait time.Duration
}

// Mirror holds what APISIX keeps in etcd and follows the changes. It answers from
// memory: without etcd what was known last, before etcd was first read, for which it
// waits a little, an error. It is safe for concurrent use; what it returns is shared and
// must not be changed.
type Mirror struct {
	etcd   *etcd.Client
	log    *zap.Logger
	tables [kinds]*table[object]

	unread   atomic.Int32  // collections that have not been read yet
	read     chan struct{} // closed when there are none
	waitEnds time.Time

	servicesChanged chan struct{}
}

// NewMirror returns a mirror that knows nothing yet. It does no I/O; Run makes it
// follow etcd.
func NewMirror(cfg MirrorConfig) *Mirror {
	if cfg.FirstWait <= 0 {
		cfg.FirstWait = defaultFirstWait
	}
	m := &Mirror{
		etcd: cfg.Etcd, log: cfg.Logger, read: make(chan struct{}), waitEnds: time.Now().Add(cfg.FirstWait),
		servicesChanged: make(chan struct{}, 1),
	}
	m.unread.Store(int32(kinds))
	for of := range m.tables {
		m.tables[of] = newTable[object]()
	}
	return m
}

// Run follows etcd until ctx is done and returns ctx's error. It may run once.
func (m *Mirror) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for of := range kinds {
		all.Go(func() error {
			path := pathOf(of)
			first := sync.OnceFunc(m.oneRead)
			return m.etcd.Follow(ctx, path, func(change etcd.Change) error {
				m.apply(of, path, change)
				if change.Snapshot {
					first()
				}
				return nil
			})
		})
	}
	return all.Wait()
}

// Read is closed once all of etcd has been read for the first time.
func (m *Mirror) Read() <-chan struct{} { return m.read }

// ServicesChanged receives after services were created or deleted, and may do so
// without cause. Notices that nobody took come to one.
func (m *Mirror) ServicesChanged() <-chan struct{} { return m.servicesChanged }

func (m *Mirror) oneRead() {
	if m.unread.Add(-1) == 0 {
		close(m.read)
	}
}

// Service returns a service as it was told last. ErrNotFound is what the mirror
// knows, which may be late; [Etcd] knows for certain.
func (m *Mirror) Service(ctx context.Context, id string) (Service, error) {
	o, err := m.object(ctx, services, id)
	if err != nil {
		return Service{}, fmt.Errorf("read service %q: %w", id, err)
	}
	return o.service(id), nil
}

// Route returns a route as it was told last, with errors as Service's.
func (m *Mirror) Route(ctx context.Context, id string) (Route, error) {
	o, err := m.object(ctx, routes, id)
	if err != nil {
		return Route{}, fmt.Errorf("read route %q: %w", id, err)
	}
	return o.route(id), nil
}

// Upstream returns an upstream object as it was told last, with errors as Service's.
func (m *Mirror) Upstream(ctx context.Context, id string) (Upstream, error) {
	o, err := m.object(ctx, upstreams, id)
	if err != nil {
		return Upstream{}, fmt.Errorf("read upstream %q: %w", id, err)
	}
	return o.upstreamObject(id), nil
}

func (m *Mirror) object(ctx context.Context, of kind, id string) (*object, error) {
	if !m.complete() && !m.waitForFirst(ctx.Done()) {
		return nil, errNoSnapshot
	}
	if o := m.tables[of].get(id); o != nil {
		return o, o.err
	}
	return nil, ErrNotFound
}

func (m *Mirror) complete() bool { return m.unread.Load() == 0 }

// Owner says who owns the configuration of a place; the zero Owner says that it is
// not known. It takes no lock and allocates nothing. Before etcd was first read it
// waits for that, but not beyond MirrorConfig.FirstWait.
func (m *Mirror) Owner(at Place) Owner {
	if !m.complete() && !m.waitForFirst(nil) {
		return Owner{}
	}
	owner, _ := resolve(m, at)
	return owner
}

// waitForFirst reports whether etcd was first read in time, and before who asks gave up.
func (m *Mirror) waitForFirst(givenUp <-chan struct{}) bool {
	left := time.Until(m.waitEnds)
	if left <= 0 {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-m.read:
		return true
	case <-timer.C:
	case <-givenUp:
	}
	return false
}

// What stands for objects that are not in a table.
var (
	goneObject = &object{gone: true}
	// plainConsumer is a consumer with plugins, none of them an attachment, as most
	// are; those are not kept.
	plainConsumer = &object{plugins: hasPlugins}
	// bareConsumer is one without plugins.
	bareConsumer = &object{}
)

// find implements knower. A mirror knows everything, also what is not there.
func (m *Mirror) find(of ref, _ version) *object {
	if o := m.tables[of.kind].get(of.id); o != nil {
		return o
	}
	if of.kind == consumers {
		return plainConsumer
	}
	return goneObject
}

// apply puts a change in force.
func (m *Mirror) apply(of kind, path string, change etcd.Change) {
	changed := change.Snapshot
	if change.Snapshot {
		values := make(map[string]*object, len(change.Puts))
		for _, kv := range change.Puts {
			if id := objectID(kv.Key, path); id != "" {
				if o := m.decode(of, id, kv); o != nil {
					values[strings.Clone(id)] = o
				}
			}
		}
		m.tables[of].replace(values)
	} else {
		for _, kv := range change.Puts {
			if id := objectID(kv.Key, path); id != "" {
				old, o := m.tables[of].get(id), m.decode(of, id, kv)
				m.tables[of].set(strings.Clone(id), o)
				changed = changed || old == nil || o == nil || old.created != o.created
			}
		}
		for _, key := range change.Deletes {
			if id := objectID(key, path); id != "" {
				m.tables[of].set(id, nil)
				changed = true
			}
		}
	}
	if of == services && changed {
		select {
		case m.servicesChanged <- struct{}{}:
		default:
		}
	}
}

// decode returns what is kept of an object, nil if nothing is.
func (m *Mirror) decode(of kind, id string, kv etcd.KV) *object {
	o := decodeObject(of, kv.Value, kv.CreateRevision, kv.ModRevision)
	if o.err != nil {
		m.log.Warn("an object of APISIX cannot be read",
			zap.String("collection", collections[of]), zap.String("id", id), zap.Error(o.err))
	}
	if of != consumers || o.plugins&^hasPlugins != 0 {
		return o
	}
	if o.plugins.Any() || o.err != nil {
		return nil
	}
	return bareConsumer
}
