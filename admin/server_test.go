package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestListenWaitsForItsAddressAndSaysSoOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	old, err := Listen(t.Context(), "127.0.0.1:0", zap.New(core))
	require.NoError(t, err)
	listening := make(chan net.Listener)
	go func() {
		defer close(listening)
		if l, err := Listen(t.Context(), old.Addr().String(), zap.New(core)); err == nil {
			listening <- l
		}
	}()
	require.Eventually(t, func() bool { return logs.Len() == 1 }, patience, testPoll)
	time.Sleep(3 * listenRetry) // for more attempts, which must stay silent
	require.NoError(t, old.Close())
	l := <-listening
	require.NotNil(t, l)
	require.NoError(t, l.Close())
	require.Equal(t, 1, logs.Len())
}

func TestListenGivesUpWithItsContextAndOnOtherFaults(t *testing.T) {
	old, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	defer old.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Listen(ctx, old.Addr().String(), zap.NewNop())
	require.ErrorIs(t, err, context.Canceled)
	_, err = Listen(t.Context(), "no.such.host.invalid:1", zap.NewNop())
	require.ErrorContains(t, err, "listen for the admin endpoint on no.such.host.invalid:1")
}

func TestServeLetsARunningRequestFinish(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	listener, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- NewServer(handler, zap.NewNop()).Serve(ctx, listener) }()
	answered := make(chan string, 1)
	go func() {
		defer close(answered)
		transport := &http.Transport{DisableKeepAlives: true}
		response, err := (&http.Client{Transport: transport}).Get("http://" + listener.Addr().String())
		if err != nil {
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answered <- string(text)
	}()
	<-arrived
	stop()
	close(release)
	require.Equal(t, "done", <-answered)
	require.NoError(t, <-served)
}

func TestServeCutsOffARequestThatNeverEnds(t *testing.T) {
	arrived := make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	listener, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- NewServer(handler, zap.NewNop()).Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-arrived
	stop()
	select {
	case err := <-served:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the server does not stop")
	}
}
