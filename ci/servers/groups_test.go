package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
)

func TestAClusterServesEverySlotAndSurvivesAMaster(t *testing.T) {
	start := time.Now()
	c := servers.RunCluster(t)
	t.Logf("formed after %v", time.Since(start))
	ctx := t.Context()
	require.Len(t, c.Addrs(), 6)
	owner, slot, err := c.Owner(ctx, c.Nodes[1], "key")
	require.NoError(t, err)
	require.Equal(t, 12539, slot)
	require.Same(t, c.Nodes[2], owner)

	start = time.Now()
	require.NoError(t, owner.Stop())
	promoted, err := c.AwaitOwner(ctx, c.Nodes[0], owner, "key")
	require.NoError(t, err)
	require.Same(t, c.Nodes[5], promoted)
	t.Logf("failed over after %v", time.Since(start))
	require.NoError(t, owner.Start(ctx))
	require.NoError(t, c.AwaitReady(ctx))
}

func TestAClusterOverTLS(t *testing.T) {
	cert, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	c := servers.RunClusterTLS(t, cert)
	client := c.Client(c.Nodes[0])
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, c.AwaitReady(t.Context()))
}

func TestASentinelGroupFailsOver(t *testing.T) {
	start := time.Now()
	g := servers.RunSentinels(t, servers.SentinelConfig{
		Username: "limiter", Password: "server-secret",
		SentinelUsername: "watcher", SentinelPassword: "sentinel-secret",
	})
	t.Logf("ready after %v", time.Since(start))
	ctx := t.Context()
	require.Len(t, g.SentinelAddrs(), 3)
	master, err := g.Master(ctx)
	require.NoError(t, err)
	require.Same(t, g.Servers[0], master)

	start = time.Now()
	require.NoError(t, master.Pause())
	promoted, err := g.AwaitPromoted(ctx, master)
	require.NoError(t, err)
	require.Same(t, g.Servers[1], promoted)
	t.Logf("failed over after %v", time.Since(start))
	client := g.Client(promoted)
	defer client.Close()
	require.NoError(t, client.Set(ctx, "key", "value", 0).Err())
	require.NoError(t, master.Resume())
	require.NoError(t, g.AwaitReady(ctx))
}

func TestASentinelMayStandAloneAndAskForAPassword(t *testing.T) {
	g := servers.RunSentinels(t, servers.SentinelConfig{Sentinels: 1, SentinelPassword: "sentinel-secret"})
	line, err := ask(t, g.SentinelAddrs()[0], "SENTINEL MASTERS", answerTimeout)
	require.NoError(t, err)
	require.Contains(t, line, "NOAUTH")
	master, err := g.Master(t.Context())
	require.NoError(t, err)
	require.Same(t, g.Servers[0], master)
}
