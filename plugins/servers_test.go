package plugins_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
)

// Servers that tests share, each started by the first test that asks for it. They
// are found and left in any state but broken.
var (
	plainRedis  = shared(func() (*servers.Redis, error) { return servers.StartRedis(context.Background()) })
	secretRedis = shared(func() (*servers.Redis, error) {
		return servers.StartRedis(context.Background(), "--requirepass", "foobared")
	})
	tlsRedis = shared(func() (*servers.Redis, error) {
		certificate, err := newCertificate()
		if err != nil {
			return nil, err
		}
		return servers.StartRedisTLS(context.Background(), certificate)
	})
	plainCluster = shared(func() (*servers.Cluster, error) { return servers.StartCluster(context.Background()) })
	tlsCluster   = shared(func() (*servers.Cluster, error) {
		certificate, err := newCertificate()
		if err != nil {
			return nil, err
		}
		return servers.StartClusterTLS(context.Background(), certificate)
	})
	openGroup       = sharedGroup(servers.SentinelConfig{})
	serverAuthGroup = sharedGroup(servers.SentinelConfig{Username: "master", Password: "master-password"})
	watchAuthGroup  = sharedGroup(servers.SentinelConfig{SentinelUsername: "admin", SentinelPassword: "admin-password"})
)

// started ends what tests have shared.
var started []func() error

// shared starts a server when it is first asked for, and ends it after the last test.
func shared[T interface{ Close() error }](start func() (T, error)) func(tb testing.TB) T {
	once := sync.OnceValues(func() (T, error) {
		server, err := start()
		if err == nil {
			started = append(started, server.Close)
		}
		return server, err
	})
	return func(tb testing.TB) T {
		tb.Helper()
		server, err := once()
		require.NoError(tb, err)
		return server
	}
}

// sharedGroup is a server with one sentinel: nothing fails over in what is shared.
func sharedGroup(cfg servers.SentinelConfig) func(tb testing.TB) *servers.SentinelGroup {
	cfg.Sentinels = 1
	return shared(func() (*servers.SentinelGroup, error) {
		return servers.StartSentinels(context.Background(), cfg)
	})
}

// newCertificate makes a certificate that no authority of the system has signed.
func newCertificate() (servers.Certificate, error) {
	folder, err := os.MkdirTemp("", "glc")
	if err != nil {
		return servers.Certificate{}, err
	}
	started = append(started, func() error { return os.RemoveAll(folder) })
	return servers.NewCertificate(folder)
}

// redisClient returns a client for looking into a server that needs no certificate.
func redisClient(tb testing.TB, server *servers.Redis, password string, database int) *redis.Client {
	return lookInto(tb, redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, DB: database}))
}

// masterClient returns a client for looking into the master of a group.
func masterClient(tb testing.TB, group *servers.SentinelGroup, database int) *redis.Client {
	tb.Helper()
	master, err := group.Master(context.Background())
	require.NoError(tb, err)
	client := group.Client(master)
	options := *client.Options()
	require.NoError(tb, client.Close())
	options.DB = database
	return lookInto(tb, redis.NewClient(&options))
}

// clusterClients returns a client for looking into each master of a cluster.
func clusterClients(tb testing.TB, cluster *servers.Cluster) []*redis.Client {
	clients := make([]*redis.Client, 0, len(cluster.Nodes)/2)
	for _, master := range cluster.Nodes[:len(cluster.Nodes)/2] {
		clients = append(clients, lookInto(tb, cluster.Client(master)))
	}
	return clients
}

func lookInto(tb testing.TB, client *redis.Client) *redis.Client {
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
