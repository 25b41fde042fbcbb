package admin

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"

	"graphql-limit-count/internal/etcd"

	"golang.org/x/sync/errgroup"
)

// Watch follows etcd; see Store and etcd.Client.Follow. A service is also told when APISIX
// deletes it or creates it again: whose its decorations are has changed then.
//
// A server that lost all its data changes nothing: the last known models stay in force until
// something is stored in it again.
func (s *Etcd) Watch(ctx context.Context, changed func(services []string) error) error {
	w := &etcdWatch{changed: changed, pending: map[string]bool{}, begun: map[string]bool{}, seed: maphash.MakeSeed(),
		views: map[string]map[string]version{servicesPath: nil, uploadsPath: nil}}
	followers, following := errgroup.WithContext(ctx)
	for _, path := range []string{servicesPath, uploadsPath} {
		followers.Go(func() error {
			return s.client.Follow(following, path, func(change etcd.Change) error {
				if change.Snapshot {
					s.forget()
				}
				return w.apply(path, change)
			})
		})
	}
	_ = followers.Wait() // Follow only ends with its context
	return ctx.Err()
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
	changed func([]string) error
	seed    maphash.Seed

	mu      sync.Mutex                    // changed is called by one follower at a time
	views   map[string]map[string]version // per path: the version of each key; nil: not read yet
	pending map[string]bool               // the services that changed has to be told of
	begun   map[string]bool               // the services whose life began or ended
	told    bool
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

// apply notes a change and tells what is to be told.
func (w *etcdWatch) apply(path string, change etcd.Change) error {
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
	return w.tell()
}

func (w *etcdWatch) mark(path, key, serviceID string) {
	if _, own := ownerOf(path, key); own {
		w.begun[serviceID] = true
	} else if serviceID != "" {
		w.pending[serviceID] = true
	}
}

// tell calls changed once every path was read.
func (w *etcdWatch) tell() error {
	for _, view := range w.views {
		if view == nil {
			return nil
		}
	}
	w.settle()
	if len(w.pending) == 0 && w.told {
		return nil
	}
	if err := w.changed(slices.Sorted(maps.Keys(w.pending))); err != nil {
		return err
	}
	clear(w.pending)
	w.told = true
	return nil
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
