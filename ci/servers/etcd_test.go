package servers_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"graphql-limit-count/ci/servers"
)

func etcdClient(t *testing.T, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	cfg.Logger = zap.NewNop()
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// count returns how many keys there are, which also shows that the server answers.
func count(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	response, err := client.Get(ctx, "a", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return response.Count
}

func TestAnEtcdKeepsItsDataUntilItLosesThem(t *testing.T) {
	e := servers.RunEtcd(t)
	client := etcdClient(t, clientv3.Config{Endpoints: []string{e.Endpoint()}})
	_, err := client.Put(t.Context(), "a", "1")
	require.NoError(t, err)
	require.NoError(t, e.Stop())
	require.Error(t, e.Pause(), "nothing runs")
	require.NoError(t, e.Start(t.Context()))
	require.EqualValues(t, 1, count(t, client))
	require.NoError(t, e.Kill())
	require.NoError(t, e.Start(t.Context()))
	require.EqualValues(t, 1, count(t, client))
	require.NoError(t, e.Stop())
	require.NoError(t, e.LoseData())
	require.NoError(t, e.Start(t.Context()))
	require.EqualValues(t, 0, count(t, client))
}

func TestAnEtcdWithAPasswordAsksForIt(t *testing.T) {
	e := servers.RunEtcd(t)
	require.NoError(t, e.RequirePassword(t.Context(), "user", "secret", "a"))
	client := etcdClient(t, clientv3.Config{Endpoints: []string{e.Endpoint()}, Username: "user", Password: "secret"})
	require.EqualValues(t, 0, count(t, client))
	_, err := client.Get(t.Context(), "b")
	require.ErrorContains(t, err, "permission denied")
	stranger := etcdClient(t, clientv3.Config{Endpoints: []string{e.Endpoint()}})
	_, err = stranger.Get(t.Context(), "a")
	require.ErrorContains(t, err, "user name is empty")
}

func TestAnEtcdThatCannotStartSaysWhy(t *testing.T) {
	_, err := servers.StartEtcd(context.Background(), "--no-such-directive")
	require.ErrorContains(t, err, "starting etcd: it ended at once")
	require.ErrorContains(t, err, "no-such-directive")
}
