package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// stream is one stream of changes.
//
// etcd's own watcher is not used because it hides what matters here: it continues by itself
// after a lost connection, and would then wait forever on a server whose data was lost and
// whose revisions are therefore lower. A stream ends with its connection.
type stream struct {
	key       string // what is watched is below it
	watch     etcdserverpb.Watch_WatchClient
	cancel    context.CancelFunc
	revision  int64 // the highest that was seen
	receiver  sync.WaitGroup
	responses chan *etcdserverpb.WatchResponse // closed when the stream has ended
	err       error                            // why; may be read after that
}

// stream opens a stream that can tell the changes of what is stored under a path. close ends
// it.
func (c *Client) stream(ctx context.Context, path string) (*stream, error) {
	// A member that has lost its leader would otherwise go on without telling any change.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	s := &stream{key: c.prefix + path, cancel: cancel, responses: make(chan *etcdserverpb.WatchResponse)}
	// Signing in, which comes first, would wait as long as a server hangs.
	late := time.AfterFunc(RequestTimeout, cancel)
	defer late.Stop()
	var err error
	s.watch, err = etcdserverpb.NewWatchClient(c.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch %s in etcd: %w", s.key, err)
	}
	s.receiver.Go(func() { s.receive(ctx) })
	return s, nil
}

func (s *stream) close() {
	s.cancel()
	s.receiver.Wait()
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

// follow tells the changes after a revision until the stream ends or tell fails.
func (s *stream) follow(ctx context.Context, revision int64, tell func(*etcdserverpb.WatchResponse) error) error {
	s.revision = revision
	if err := s.run(ctx, tell); err != nil {
		return fmt.Errorf("watch %s in etcd: %w", s.key, err)
	}
	return nil
}

func (s *stream) run(ctx context.Context, tell func(*etcdserverpb.WatchResponse) error) error {
	err := s.watch.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(s.key), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(s.key)), StartRevision: s.revision + 1,
		}}})
	if err != nil {
		return s.failure()
	}
	probe := time.NewTicker(probeInterval)
	defer probe.Stop()
	deaf := time.NewTimer(silence)
	defer deaf.Stop()
	for {
		select {
		case response, open := <-s.responses:
			if !open {
				return s.failure()
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
				return s.failure()
			}
		case <-deaf.C:
			return fmt.Errorf("the server did not answer with revision %d or a later one for %s", s.revision, silence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failure waits for the end of a stream that is ending and says why it did.
func (s *stream) failure() error {
	for range s.responses {
		// What it still brought is in the next snapshot.
	}
	if errors.Is(s.err, io.EOF) {
		return errors.New("the server ended the stream")
	}
	return s.err
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
