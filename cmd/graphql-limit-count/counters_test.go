package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/runner"
	"graphql-limit-count/internal/extplugin"
)

// tenAMinute allows two queries of depth 4 and leaves 2.
const tenAMinute = `{"count":10,"time_window":60}`

// bodyOnly answers what the plugin asks APISIX: a query of depth 4.
type bodyOnly struct{}

func (bodyOnly) Var(string) ([]byte, bool) { return nil, false }
func (bodyOnly) Body() ([]byte, error)     { return []byte("{a{b{c{d}}}}"), nil }

// remaining sends a query of depth 4 to a runner and returns X-RateLimit-Remaining.
func remaining(t *testing.T, socket string) string {
	t.Helper()
	ctx := context.Background()
	client, err := extplugin.Dial(ctx, socket)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	token, err := client.PrepareConf(ctx, "route#r#ext-plugin-pre-req#1", []extplugin.NamedConf{
		{Name: "graphql-limit-count", Value: tenAMinute},
	})
	require.NoError(t, err)
	action, err := client.HTTPReqCall(ctx, extplugin.Request{
		ID: 1, Token: token, SrcIP: net.IPv4(192, 0, 2, 1).To4(), Method: "POST", Path: "/",
		Headers: []extplugin.KV{{Name: "content-type", Value: "application/graphql"}},
	}, bodyOnly{})
	require.NoError(t, err)
	headers := action.RespHeaders
	if action.Kind == extplugin.Stop {
		require.Equal(t, 503, action.Status)
		headers = action.Headers
	}
	for _, h := range headers {
		if h.Name == "X-RateLimit-Remaining" {
			return h.Value
		}
	}
	return ""
}

func runnerConfig(t *testing.T) runner.Config {
	t.Helper()
	dir := t.TempDir()
	return runner.Config{
		Binary: asCommand(t), Socket: filepath.Join(dir, "s"), DataDir: dir,
		AdminAddr: "127.0.0.1:0", AdminKey: "k", StopTimeout: startTimeout, Log: os.Stderr,
	}
}

func TestAReloadKeepsTheCounters(t *testing.T) {
	config := runnerConfig(t)
	old, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	defer old.Stop()
	require.Equal(t, "6", remaining(t, config.Socket))
	require.Equal(t, "2", remaining(t, config.Socket))

	// As APISIX does: the new one starts while the old one runs.
	next, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	defer next.Stop()
	require.Equal(t, "0", remaining(t, config.Socket), "the third does not fit")
	require.NoError(t, old.Stop())
	require.NoError(t, next.Stop())

	third, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	defer third.Stop()
	require.Equal(t, "0", remaining(t, config.Socket), "what the old one saved at its end did not replace what the new one counted")
}

func TestARunnerThatHandedOverSavesWhenTheOtherIsGone(t *testing.T) {
	config := runnerConfig(t)
	old, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	defer old.Stop()
	lock, err := openHandover(config.DataDir)
	require.NoError(t, err)
	require.True(t, lock.claim(t.Context()), "the runner hands over when it is asked")
	require.Equal(t, "6", remaining(t, config.Socket), "and serves on")
	lock.close()
	require.NoError(t, old.Stop())
	next, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	defer next.Stop()
	require.Equal(t, "2", remaining(t, config.Socket))
}

func TestOneOfSeveralHasTheCounters(t *testing.T) {
	dir := t.TempDir()
	first, err := openHandover(dir)
	require.NoError(t, err)
	defer first.close()
	second, err := openHandover(dir)
	require.NoError(t, err)
	defer second.close()
	require.True(t, first.tryClaim())
	require.True(t, first.tryClaim(), "who has them has them")
	require.False(t, second.tryClaim())
	require.False(t, second.held())
	first.release()
	require.False(t, first.held())
	require.True(t, second.claim(t.Context()))
	ended, end := context.WithCancel(t.Context())
	end()
	require.False(t, first.claim(ended))
}
