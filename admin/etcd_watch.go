package admin

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"graphql-limit-count/internal/etcd"

	"go.uber.org/zap"
)

const (
	// gatherTime is how long a change waits for others to be told with it: APISIX's Admin API
	// writes decorations one by one, and each telling costs a reading of them all.
	gatherTime = 50 * time.Millisecond
	// retellTime is the pause after a telling that was not taken.
	retellTime = 200 * time.Millisecond
)

// Watch follows etcd; see Store and etcd.Client.Follow. A service is also told when APISIX
// deletes it or creates it again: whose its decorations are has changed then.
//
// A server that lost all its data changes nothing: the last known models stay in force until
// something is stored in it again.
func (s *Etcd) Watch(ctx context.Context, changed func(services []string) error) error {
	w := &etcdWatch{wake: make(chan struct{}, 1), pending: s.shownBefore(), begun: map[string]bool{}, seed: maphash.MakeSeed(),
		views: map[string]map[string]version{servicesPath: nil, uploadsPath: nil}}
	var group sync.WaitGroup
	for _, path := range []string{servicesPath, uploadsPath} {
		group.Go(func() {
			// It only ends with its context.
			_ = s.client.Follow(ctx, path, func(change etcd.Change) error {
				if change.Snapshot {
					s.forget()
				}
				if w.apply(path, change); !change.Snapshot && w.empty() {
					s.held.Store(false) // it was emptied on purpose, key by key
				}
				if path == servicesPath {
					s.remember(w, change)
				}
				return nil
			})
		})
	}
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		if err := s.tell(ctx, w, changed); err != nil {
			return err
		}
	}
}

// remember notes what a change says of whether there are decorations. That a snapshot has none
// says nothing of why.
func (s *Etcd) remember(w *etcdWatch, change etcd.Change) {
	if slices.ContainsFunc(change.Puts, func(kv etcd.KV) bool { return isDecoration(kv.Key) }) {
		s.note(true)
		return
	}
	if !change.Snapshot && slices.ContainsFunc(change.Deletes, isDecoration) && !w.decorated() {
		s.note(false)
	}
}

// shownBefore are the services that were shown to have something. What one of them lost since is
// not in the first reading of etcd, but is to be told.
func (s *Etcd) shownBefore() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.shown)
}

// forget drops what was remembered by revision: after a lost connection, it may be another
// server's revisions.
func (s *Etcd) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.uploads = cachedRecords{}, nil
	clear(s.alive)
}

// etcdWatch is the state of one Watch.
type etcdWatch struct {
	seed maphash.Seed
	wake chan struct{} // holds one when there is something to tell

	mu      sync.Mutex
	views   map[string]map[string]version // per path: the version of each key; nil: not read yet
	pending map[string]bool               // the services to be told
	begun   map[string]bool               // the services whose life began or ended
	told    bool                          // something was told
}

// version is what tells two states of a key apart. The revision alone does not when a server
// lost its data and began to count again.
type version struct {
	revision int64
	content  uint64
}

// version returns the service that a key belongs to and the key's version: of a service only
// its beginning matters here, not what is written into it.
func (w *etcdWatch) version(path string, kv etcd.KV) (serviceID string, v version, ok bool) {
	serviceID, own := ownerOf(path, kv.Key)
	if own {
		return serviceID, version{revision: kv.CreateRevision}, serviceID != ""
	}
	return serviceID, version{kv.ModRevision, maphash.Bytes(w.seed, kv.Value)}, serviceID != ""
}

// ownerOf returns the service that a key belongs to, or none, and whether it is the service's
// own.
func ownerOf(path, key string) (serviceID string, own bool) {
	if path == uploadsPath {
		if serviceID = strings.TrimPrefix(key, uploadsPath); checkID("service", serviceID) != nil {
			return "", false
		}
		return serviceID, false
	}
	serviceID, id, _ := splitKey(key)
	return serviceID, id == ""
}

// apply notes a change.
func (w *etcdWatch) apply(path string, change etcd.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := w.views[path]
	next := view
	if change.Snapshot || view == nil {
		next = make(map[string]version, len(change.Puts))
	}
	for _, kv := range change.Puts {
		serviceID, now, ok := w.version(path, kv)
		if !ok {
			continue
		}
		if view[kv.Key] != now {
			w.mark(path, kv.Key, serviceID)
		}
		next[kv.Key] = now
	}
	gone := change.Deletes
	if change.Snapshot {
		for key := range view {
			if _, still := next[key]; !still {
				gone = append(gone, key)
			}
		}
	}
	for _, key := range gone {
		serviceID, _ := ownerOf(path, key)
		w.mark(path, key, serviceID)
		delete(next, key)
	}
	w.views[path] = next
	w.signal()
}

func (w *etcdWatch) mark(path, key, serviceID string) {
	if _, own := ownerOf(path, key); own {
		w.begun[serviceID] = true
	} else if serviceID != "" {
		w.pending[serviceID] = true
	}
}

// signal wakes Watch when there is something to tell: once every path was read, what changed,
// and the first time whatever there is.
func (w *etcdWatch) signal() {
	for _, view := range w.views {
		if view == nil {
			return
		}
	}
	w.settle()
	if len(w.pending) == 0 && w.told {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// empty tells whether nothing at all is stored under the watched paths.
func (w *etcdWatch) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, view := range w.views {
		if view == nil || len(view) > 0 {
			return false
		}
	}
	return true
}

// decorated tells whether there is any decoration.
func (w *etcdWatch) decorated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.views[servicesPath] {
		if isDecoration(key) {
			return true
		}
	}
	return false
}

// tell calls changed until it takes what there is to be told, or ctx is done.
func (s *Etcd) tell(ctx context.Context, w *etcdWatch, changed func([]string) error) error {
	wait := gatherTime
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		services := w.take()
		if services == nil {
			return nil
		}
		err := changed(services)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			s.logger.Error("changes in etcd cannot be put in force, the last good models stay", zap.Error(err))
		}
		w.giveBack(services)
		wait = retellTime
	}
}

// take returns the services to be told, nil when there are none.
func (w *etcdWatch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 && w.told {
		return nil
	}
	services := slices.AppendSeq(make([]string, 0, len(w.pending)), maps.Keys(w.pending))
	slices.Sort(services)
	clear(w.pending)
	w.told = true
	return services
}

// giveBack is for services that were not taken.
func (w *etcdWatch) giveBack(services []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = false
	for _, service := range services {
		w.pending[service] = true
	}
}

// settle adds the services whose life began or ended to those to be told, if they have
// anything: most of APISIX's services have no decorations.
func (w *etcdWatch) settle() {
	if len(w.begun) == 0 {
		return
	}
	for path, view := range w.views {
		for key := range view {
			if serviceID, own := ownerOf(path, key); !own && w.begun[serviceID] {
				w.pending[serviceID] = true
			}
		}
	}
	clear(w.begun)
}
