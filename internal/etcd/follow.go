package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// retryPause is the time between two attempts to follow.
	retryPause = 250 * time.Millisecond
)

// Change is what became of the keys under a followed path.
type Change struct {
	// Snapshot says that Puts is everything there is: what was known and is not in it is gone.
	Snapshot bool
	// Puts are the keys that were written, each once, as they are now.
	Puts []KV
	// Deletes are the keys, without the client's prefix, that are no longer there.
	Deletes []string
	// Revision is etcd's revision after the change.
	Revision int64
}

// errBlank ends a session with servers that have no configuration any more.
var errBlank = errors.New("it holds no configuration at all: its data seems to be lost")

// Follow tells apply what is stored under the client's prefix and path, first all of it and
// then each change, until ctx is done; it then returns ctx's error. Calls of apply do not
// overlap. An error of apply is no loss: what is stored is told again, as a snapshot, soon.
//
// There is no moment at which changes can be missed. One connection's stream of changes
// continues where the snapshot before it ended, and whenever that stream ends, for whatever
// reason (the connection broke, the server stopped, hangs or lost its leader, the changes were
// compacted away), the next one begins with a new snapshot. So a server that comes back with
// older data, or with none, is followed as well, although its revisions start again.
// While no server answers nothing is told: what was told last stays in force.
//
// One snapshot is not believed: that of servers which hold no APISIX configuration at all,
// while some was known under the path. No operator removes everything, but a lost data
// directory does. Nothing is told then, until something is stored again under the prefix.
func (c *Client) Follow(ctx context.Context, path string, apply func(Change) error) error {
	f := &follower{client: c, path: path, apply: apply, known: map[string]bool{}}
	defer c.outage.forget(f)
	for {
		err := f.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.outage.failed(f, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

// follower is the state of one Follow.
type follower struct {
	client *Client
	path   string
	apply  func(Change) error
	known  map[string]bool // the keys that apply was told of
}

// session takes a snapshot and follows the changes after it until that fails. The stream of
// changes is opened before, because that is when a user signs in anew.
func (f *follower) session(ctx context.Context) error {
	s, err := f.client.stream(ctx, f.path)
	if err != nil {
		return err
	}
	defer s.close()
	kvs, revision, err := f.client.Snapshot(ctx, f.path)
	if err != nil {
		return err
	}
	if len(kvs) == 0 {
		blank, err := f.client.Blank(ctx)
		switch {
		case err != nil:
			return err
		case blank && len(f.known) > 0:
			return errBlank
		case blank:
			f.client.outage.empty(f.client.prefix)
		}
	}
	if err := f.tell(Change{Snapshot: true, Puts: kvs, Revision: revision}); err != nil {
		return err
	}
	f.client.outage.recovered(f)
	return s.follow(ctx, revision, func(response *etcdserverpb.WatchResponse) error {
		return f.tell(f.change(response))
	})
}

// tell passes a change on and notes what is known from then on.
func (f *follower) tell(change Change) error {
	if !change.Snapshot && len(change.Puts) == 0 && len(change.Deletes) == 0 {
		return nil
	}
	if err := f.apply(change); err != nil {
		return fmt.Errorf("put what etcd holds in force: %w", err)
	}
	if change.Snapshot {
		clear(f.known)
	}
	for _, kv := range change.Puts {
		f.known[kv.Key] = true
	}
	for _, key := range change.Deletes {
		delete(f.known, key)
	}
	return nil
}

// change is what a response's events come to: a key that was written several times is told
// once.
func (f *follower) change(response *etcdserverpb.WatchResponse) Change {
	change := Change{Revision: response.Header.Revision}
	last := make(map[string]int, len(response.Events))
	for i, event := range response.Events {
		last[string(event.Kv.Key)] = i
	}
	for i, event := range response.Events {
		key := string(event.Kv.Key)
		switch {
		case last[key] != i || marker(key):
		case event.Type == mvccpb.Event_DELETE:
			change.Deletes = append(change.Deletes, f.client.Decode(event.Kv).Key)
		default:
			change.Puts = append(change.Puts, f.client.Decode(event.Kv))
		}
	}
	return change
}
