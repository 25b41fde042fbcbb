package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	patience = 30 * time.Second
	look     = 10 * time.Millisecond
)

func open(t *testing.T, endpoint string) *Client {
	t.Helper()
	client, err := Open(Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// view is what a Follow makes of its path.
type view struct {
	mu        sync.Mutex
	content   map[string]string
	snapshots int
	fail      error // what apply returns
}

func (v *view) apply(change Change) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fail != nil {
		return v.fail
	}
	if change.Snapshot {
		v.content = map[string]string{}
		v.snapshots++
	}
	for _, kv := range change.Puts {
		v.content[kv.Key] = string(kv.Value)
	}
	for _, key := range change.Deletes {
		delete(v.content, key)
	}
	return nil
}

func (v *view) get() map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.content)
}

func (v *view) seen() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.snapshots
}

func (v *view) failWith(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fail = err
}

func follow(t *testing.T, client *Client, path string) *view {
	t.Helper()
	v := &view{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- client.Follow(ctx, path, v.apply) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	return v
}

func (v *view) becomes(t *testing.T, want map[string]string) {
	t.Helper()
	require.Eventually(t, func() bool { return maps.Equal(want, v.get()) && v.seen() > 0 }, patience, look,
		"want %v", want)
}

func put(t *testing.T, client *Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := client.Put(ctx, client.Prefix()+key, value)
	require.NoError(t, err)
}

func remove(t *testing.T, client *Client, key string, options ...clientv3.OpOption) {
	t.Helper()
	_, err := client.Delete(t.Context(), client.Prefix()+key, options...)
	require.NoError(t, err)
}

func TestFollowTellsWhatIsThereAndThenEachChange(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/", "init_dir")
	put(t, client, "/services/a", "1")
	put(t, client, "/routes/a", "another path")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	put(t, client, "/services/b", "2")
	put(t, client, "/services/a", "3")
	v.becomes(t, map[string]string{"/services/a": "3", "/services/b": "2"})
	remove(t, client, "/services/a")
	v.becomes(t, map[string]string{"/services/b": "2"})
	require.Equal(t, 1, v.seen())
}

func TestWhatApplyRefusesIsToldAgain(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{})
	v.failWith(errors.New("not now"))
	put(t, client, "/services/a", "1")
	require.Never(t, func() bool { return len(v.get()) > 0 }, 3*retryPause, look)
	v.failWith(nil)
	v.becomes(t, map[string]string{"/services/a": "1"})
}

func TestAChangeWhileEtcdWasStoppedArrives(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	require.NoError(t, server.Stop())
	require.Never(t, func() bool { return len(v.get()) != 1 }, 2*retryPause, look)
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/services/b", "2")
	v.becomes(t, map[string]string{"/services/a": "1", "/services/b": "2"})
}

func TestFollowOutlivesCompaction(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	for i := range 20 {
		put(t, client, "/services/b", fmt.Sprint(i))
		response, err := client.Get(t.Context(), "x")
		require.NoError(t, err)
		_, err = client.Compact(t.Context(), response.Header.Revision)
		require.NoError(t, err)
	}
	v.becomes(t, map[string]string{"/services/a": "1", "/services/b": "19"})
}

func TestAStreamFromACompactedRevisionEnds(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	for i := range 5 {
		put(t, client, "/services/a", fmt.Sprint(i))
	}
	_, err := client.Compact(t.Context(), 5)
	require.NoError(t, err)
	s, err := client.stream(t.Context(), "/services/")
	require.NoError(t, err)
	defer s.close()
	err = s.follow(t.Context(), 1, nil)
	require.ErrorContains(t, err, "watch /apisix/services/ in etcd: the changes before revision 5 were compacted")
}

func TestLostDataIsHeldUntilSomethingIsStoredAgain(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	for i := range 30 {
		put(t, client, "/services/a", fmt.Sprint(i))
	}
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "29"})

	require.NoError(t, server.Kill())
	require.NoError(t, server.LoseData())
	require.NoError(t, server.Start(t.Context()))
	// What APISIX writes by itself is no configuration.
	put(t, client, "/services/", "init_dir")
	put(t, client, "/plugins", "[]")
	put(t, client, "/data_plane/server_info/x", "{}")
	require.Never(t, func() bool { return v.get()["/services/a"] != "29" }, 6*retryPause, look)

	// Its revision is far below the last one known.
	put(t, client, "/services/b", "new")
	v.becomes(t, map[string]string{"/services/b": "new"})
	put(t, client, "/services/b", "newer")
	v.becomes(t, map[string]string{"/services/b": "newer"})
}

func TestAnythingUnderThePrefixMakesAnEmptyPathBelievable(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	require.NoError(t, server.Stop())
	require.NoError(t, server.LoseData())
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/routes/r", "{}")
	v.becomes(t, map[string]string{})
}

func TestTheLastKeyCanBeDeleted(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	remove(t, client, "/", clientv3.WithPrefix())
	v.becomes(t, map[string]string{})
}

func TestAHungServerIsFollowedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	v := follow(t, client, "/services/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	require.NoError(t, server.Pause())
	require.Never(t, func() bool { return len(v.get()) != 1 }, silence+2*probeInterval, look)
	require.NoError(t, server.Resume())
	put(t, client, "/services/b", "2")
	v.becomes(t, map[string]string{"/services/a": "1", "/services/b": "2"})
	require.Greater(t, v.seen(), 1, "the silence was noticed")
}

func TestOpenAndFollowDoNotWaitForAServer(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	require.NoError(t, server.Stop())
	client := open(t, server.Endpoint())
	v := follow(t, client, "/services/")
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/services/a", "1")
	v.becomes(t, map[string]string{"/services/a": "1"})
}

func TestWhatTakesManyPagesIsWhole(t *testing.T) {
	t.Parallel()
	const keys, perWrite = listedKeys + 1, 100
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	for i := 0; i < keys; i += perWrite {
		var puts []clientv3.Op
		for j := i; j < min(keys, i+perWrite); j++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/apisix/services/%05d", j), "x"))
		}
		_, err := client.Txn(t.Context()).Then(puts...).Commit()
		require.NoError(t, err)
	}
	const revisions = 1 + keys/perWrite + 1 // an empty etcd is at 1
	for _, read := range []func(context.Context, string) ([]KV, int64, error){client.Snapshot, client.Keys} {
		kvs, revision, err := read(t.Context(), "/services/")
		require.NoError(t, err)
		require.Len(t, kvs, keys)
		require.Equal(t, "/services/10000", kvs[keys-1].Key)
		require.EqualValues(t, revisions, revision)
		require.EqualValues(t, 2, kvs[0].CreateRevision)
	}
}
