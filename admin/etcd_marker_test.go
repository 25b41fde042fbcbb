package admin

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// rememberedStore is a store whose process remembers what it saw.
type rememberedStore struct {
	etcdStore
	marker string
	logs   *observer.ObservedLogs
}

// remembered is what a process that starts has, with the data folder of the one before.
func remembered(t *testing.T, server *servers.Etcd, marker, prefix string) rememberedStore {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	client := openEtcd(t, server, prefix).client
	return rememberedStore{etcdStore{NewEtcd(EtcdConfig{Client: client, Logger: zap.New(core), Marker: marker}), t}, marker, logs}
}

// seen is an etcd in which a process saw a decoration before it ended.
func seen(t *testing.T) (server *servers.Etcd, marker string) {
	t.Helper()
	server, marker = servers.RunEtcd(t), filepath.Join(t.TempDir(), "marker.json")
	s := remembered(t, server, marker, etcd.DefaultPrefix)
	require.NoError(t, s.Recall(t.Context()))
	require.NoFileExists(t, marker, "an etcd that never had any")
	put(t, s, testDraft("shop", "d1", "Query.a"))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	watching := make(chan error, 1)
	go func() { watching <- s.Watch(ctx, func([]string) error { return nil }) }()
	require.Eventually(t, func() bool { _, err := os.Stat(marker); return err == nil }, patience, testPoll)
	end()
	require.ErrorIs(t, <-watching, context.Canceled)
	return server, marker
}

func lose(t *testing.T, server *servers.Etcd) {
	t.Helper()
	require.NoError(t, server.Kill())
	require.NoError(t, server.LoseData())
	require.NoError(t, server.Start(t.Context()))
}

func TestNothingStartsWithAnEtcdThatLostEverything(t *testing.T) {
	t.Parallel()
	server, marker := seen(t)
	s := remembered(t, server, marker, etcd.DefaultPrefix)
	require.NoError(t, s.Recall(t.Context()), "all is there")
	lose(t, server)
	s = remembered(t, server, marker, etcd.DefaultPrefix)
	s.set("/plugins", "[]") // as APISIX does when it starts
	for range 2 {
		require.EqualError(t, s.Recall(t.Context()), "etcd holds no configuration of APISIX at all under /apisix, but held decorations before: "+
			"its data seems to be lost, and without decorations every query is cheap. Restore a backup, or set APISIX and the decorations up again; "+
			"to start without decorations, remove "+marker)
	}
	require.NoError(t, remembered(t, server, marker, "/other").Recall(t.Context()), "another prefix never had any")
	require.NoError(t, os.WriteFile(marker, []byte("{"), 0o600))
	require.ErrorContains(t, s.Recall(t.Context()), "its data seems to be lost", "nobody knows what a damaged file said")
	require.NoError(t, os.Remove(marker))
	require.NoError(t, s.Recall(t.Context()))
	require.Zero(t, s.logs.Len())
}

func TestDecorationsThatAreMissingAmongOtherConfigurationAreComplainedAbout(t *testing.T) {
	t.Parallel()
	server, marker := seen(t)
	lose(t, server)
	s := remembered(t, server, marker, etcd.DefaultPrefix)
	s.set("/services/shop", `{}`)
	require.NoError(t, s.Recall(t.Context()))
	require.Equal(t, 1, s.logs.Len())
	entry := s.logs.All()[0]
	require.Equal(t, zap.ErrorLevel, entry.Level)
	require.Contains(t, entry.Message, "etcd holds no decorations any more, but held some before")
	require.Equal(t, map[string]any{"prefix": "/apisix", "file": marker}, entry.ContextMap())
	put(t, s, testDraft("shop", "d2", "Query.b"))
	s = remembered(t, server, marker, etcd.DefaultPrefix)
	require.NoError(t, s.Recall(t.Context()))
	require.Zero(t, s.logs.Len(), "they are back")
}

func TestWhatIsDeletedOnPurposeIsNotMissed(t *testing.T) {
	t.Parallel()
	server, marker := seen(t)
	s := remembered(t, server, marker, etcd.DefaultPrefix)
	require.NoError(t, s.Recall(t.Context()))
	put(t, s, testDraft("shop", "d2", "Query.b"))
	told := make(chan []string, 10)
	background(t, func(ctx context.Context) error {
		return s.Watch(ctx, func(services []string) error { told <- services; return nil })
	})
	<-told
	require.NoError(t, s.Delete(t.Context(), "shop", "d1"))
	<-told
	require.FileExists(t, marker, "there is another one")
	s.unset(decorationKey + "d2") // by another program
	require.Eventually(t, func() bool { _, err := os.Stat(marker); return os.IsNotExist(err) }, patience, testPoll)
	put(t, s, testDraft("shop", "d3", "Query.c"))
	require.Eventually(t, func() bool { _, err := os.Stat(marker); return err == nil }, patience, testPoll)
}
