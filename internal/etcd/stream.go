package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

const (
	// probeInterval is how often the server is asked, on the stream, how far it is.
	probeInterval = time.Second
	// silence is how long a stream may bring nothing although the server is asked.
	silence = 4 * time.Second
)

// stream tells the changes of what is stored under a path after a revision, until the stream
// ends or tell fails.
//
// etcd's own watcher is not used because it hides what matters here: it continues by itself
// after a lost connection, and would then wait forever on a server whose data was lost and
// whose revisions are therefore lower. A stream ends with its connection.
func (c *Client) stream(ctx context.Context, path string, revision int64, tell func(*etcdserverpb.WatchResponse) error) error {
	// A member that has lost its leader would otherwise go on without telling any change.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	watch, err := etcdserverpb.NewWatchClient(c.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		cancel()
		return fmt.Errorf("watch %s%s in etcd: %w", c.prefix, path, err)
	}
	s := &stream{watch: watch, revision: revision, responses: make(chan *etcdserverpb.WatchResponse)}
	s.receiver.Go(func() { s.receive(ctx) })
	defer s.receiver.Wait()
	defer cancel()
	if err := s.follow(ctx, c.prefix+path, tell); err != nil {
		return fmt.Errorf("watch %s%s in etcd: %w", c.prefix, path, err)
	}
	return nil
}

// stream is one stream of changes.
type stream struct {
	watch     etcdserverpb.Watch_WatchClient
	revision  int64 // the highest that was seen
	receiver  sync.WaitGroup
	responses chan *etcdserverpb.WatchResponse // closed when the stream has ended
	err       error                            // why; may be read after that
}

func (s *stream) receive(ctx context.Context) {
	defer close(s.responses)
	for {
		response, err := s.watch.Recv()
		if err != nil {
			s.err = err
			return
		}
		select {
		case s.responses <- response:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

func (s *stream) follow(ctx context.Context, key string, tell func(*etcdserverpb.WatchResponse) error) error {
	err := s.watch.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(key), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(key)), StartRevision: s.revision + 1,
		}}})
	if err != nil {
		return s.failure(err)
	}
	probe := time.NewTicker(probeInterval)
	defer probe.Stop()
	deaf := time.NewTimer(silence)
	defer deaf.Stop()
	for {
		select {
		case response, open := <-s.responses:
			if !open {
				return s.failure(s.err)
			}
			current, err := s.take(response, tell)
			if err != nil {
				return err
			}
			if current {
				deaf.Reset(silence)
			}
		case <-probe.C:
			err := s.watch.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
				ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
			if err != nil {
				return s.failure(err)
			}
		case <-deaf.C:
			return fmt.Errorf("the server did not answer with revision %d or a later one for %s", s.revision, silence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failure is why the stream ended: Send itself only says that it has.
func (s *stream) failure(err error) error {
	if err == nil {
		return errors.New("the stream ended")
	}
	return err
}

// take passes a response on. It tells whether the server is as far as was seen before: one
// that stays behind has other data than the server of the snapshot.
func (s *stream) take(response *etcdserverpb.WatchResponse, tell func(*etcdserverpb.WatchResponse) error) (current bool, err error) {
	switch {
	case response.CompactRevision != 0:
		return false, fmt.Errorf("the changes before revision %d were compacted", response.CompactRevision)
	case response.Canceled:
		return false, fmt.Errorf("the server ended it: %s", response.CancelReason)
	}
	if len(response.Events) > 0 {
		if err := tell(response); err != nil {
			return false, err
		}
	}
	current = response.Header.Revision >= s.revision
	s.revision = max(s.revision, response.Header.Revision)
	return current, nil
}
