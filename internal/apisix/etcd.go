package apisix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"graphql-limit-count/internal/etcd"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errBlank says that an etcd without any configuration says nothing of services.
var errBlank = errors.New("etcd holds no configuration of APISIX at all: its data seems to be lost, or the prefix is another one")

// errReplaced says that an etcd whose history went back says nothing of what it does not have.
var errReplaced = errors.New("etcd's data was lost or replaced since this process started: what is missing in it may " +
	"only not be there yet; restart the runner when the configuration is whole again")

// Etcd reads objects from the etcd that APISIX keeps them in, one linearizable read
// each: every write that was acknowledged before a call is in its answer. It is safe
// for concurrent use.
//
// That an object is missing is believed only where etcd holds some configuration of
// APISIX, and whose history has not gone back since the first answer: an empty data
// directory, a mistyped prefix, or a configuration that is written anew object by object
// must not make every service look deleted.
type Etcd struct {
	client   *etcd.Client
	newest   atomic.Int64 // the latest revision that an answer was of
	replaced atomic.Bool  // an answer was of an earlier revision than one before it
}

// NewEtcd returns a reader of what is stored under the client's prefix. It does no I/O.
func NewEtcd(client *etcd.Client) *Etcd { return &Etcd{client: client} }

// Service reads one service. An id that APISIX does not have, or could not have, is
// ErrNotFound.
func (e *Etcd) Service(ctx context.Context, id string) (Service, error) {
	o, err := e.object(ctx, services, id)
	if err != nil {
		return Service{}, fmt.Errorf("read service %q from etcd: %w", id, err)
	}
	return o.service(id), nil
}

// Route reads one route. An id that APISIX does not have, or could not have, is
// ErrNotFound.
func (e *Etcd) Route(ctx context.Context, id string) (Route, error) {
	o, err := e.object(ctx, routes, id)
	if err != nil {
		return Route{}, fmt.Errorf("read route %q from etcd: %w", id, err)
	}
	return o.route(id), nil
}

// Upstream reads one upstream object. An id that APISIX does not have, or could not
// have, is ErrNotFound.
func (e *Etcd) Upstream(ctx context.Context, id string) (Upstream, error) {
	o, err := e.object(ctx, upstreams, id)
	if err != nil {
		return Upstream{}, fmt.Errorf("read upstream %q from etcd: %w", id, err)
	}
	return o.upstreamObject(id), nil
}

// Services lists every service there is, at one revision of etcd, with ID and
// Incarnation only. The listing is whole or it is an error, and never ErrNotFound.
func (e *Etcd) Services(ctx context.Context) ([]Service, error) {
	list, err := e.services(ctx)
	if err == nil && len(list) == 0 {
		err = e.notBlank(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	return list, nil
}

func (e *Etcd) services(ctx context.Context) ([]Service, error) {
	path := pathOf(services)
	before := e.newest.Load() // as in get
	keys, revision, err := e.client.Keys(ctx, path)
	if err != nil {
		return nil, err
	}
	e.note(before, revision)
	list := []Service{}
	for _, kv := range keys {
		if id := objectID(kv.Key, path); id != "" {
			list = append(list, Service{ID: id, Incarnation: (&object{created: kv.CreateRevision}).incarnation()})
		}
	}
	return list, nil
}

// object reads one object.
func (e *Etcd) object(ctx context.Context, of kind, id string) (*object, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	answer, err := e.get(ctx, e.client.Prefix()+pathOf(of)+id)
	if err != nil {
		return nil, err
	}
	if len(answer.Kvs) == 0 {
		if err := e.notBlank(ctx); err != nil {
			return nil, err
		}
		return nil, ErrNotFound
	}
	kv := answer.Kvs[0]
	o := decodeObject(of, kv.Value, kv.CreateRevision, kv.ModRevision)
	if o.err != nil {
		return nil, fmt.Errorf("decode what is stored: %w", o.err)
	}
	return o, nil
}

// notBlank is an error where nothing that etcd does not have is believed.
func (e *Etcd) notBlank(ctx context.Context) error {
	blank, err := e.client.Blank(ctx)
	switch {
	case err != nil:
		return err
	case blank:
		return errBlank
	case e.replaced.Load():
		return errReplaced
	}
	return nil
}

func (e *Etcd) get(ctx context.Context, key string) (*clientv3.GetResponse, error) {
	ctx, cancel := e.client.WithTimeout(ctx)
	defer cancel()
	before := e.newest.Load() // answers to calls at the same time may come in any order
	answer, err := e.client.Get(ctx, key)
	if err == nil {
		e.note(before, answer.Header.Revision)
	}
	return answer, err
}

// note keeps the latest revision. Reads are linearizable, so one that began after another
// had ended is never of an earlier revision, unless the history is another one.
func (e *Etcd) note(before, revision int64) {
	if revision < before {
		e.replaced.Store(true)
	}
	for newest := e.newest.Load(); revision > newest; newest = e.newest.Load() {
		if e.newest.CompareAndSwap(newest, revision) {
			return
		}
	}
}

// pathOf is what stands before the ids of a kind's objects in etcd, without the client's prefix.
func pathOf(of kind) string { return "/" + collections[of] + "/" }

// objectID is the id of the object that is stored under a key of a collection, empty
// for what is stored below an object, such as a service's decorations or a consumer's
// credentials, and for APISIX's directory markers.
func objectID(key, path string) string {
	id, ok := strings.CutPrefix(key, path)
	if !ok || strings.Contains(id, "/") {
		return ""
	}
	return id
}
