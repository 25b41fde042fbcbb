package extplugin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// fakeRunner accepts one connection and hands it to play.
func fakeRunner(t *testing.T, play func(*rawConn)) (path string) {
	path = socketPath(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		play(&rawConn{tb: t, f: newFramed(nc, MaxPayload)})
		_ = nc.Close()
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return path
}

func TestDialNamesWhatFailed(t *testing.T) {
	_, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorContains(t, err, "connecting to the runner")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Dial(ctx, serve(t).path)
	require.ErrorContains(t, err, "connecting to the runner")
}

func TestACallEndsWithItsContext(t *testing.T) {
	leave := make(chan struct{})
	entered := make(chan struct{}, 2)
	s := serve(t, filtering(func(http.ResponseWriter, *request) {
		entered <- struct{}{}
		<-leave
	}))
	defer close(leave)
	for _, tc := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		{"its deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		}, os.ErrDeadlineExceeded},
		{"its cancellation", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-entered
				cancel()
			}()
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for len(entered) > 0 {
				<-entered
			}
			c := dial(t, s.path)
			token := prepare(t, c, "", `{}`)
			ctx, cancel := tc.ctx()
			defer cancel()
			_, err := c.HTTPReqCall(ctx, suiteRequest(token), &fixedAnswers{})
			require.ErrorIs(t, err, tc.want)
			require.True(t, c.Broken())
			_, err = c.PrepareConf(t.Context(), "", nil)
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
	c := dial(t, s.path)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.PrepareConf(done, "k", nil)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, c.Broken(), "nothing was sent")
}

func TestAClientBreaksOffWithARunnerThatBreaksTheProtocol(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		answer     []byte
	}{
		{"a frame of another type", "frame of unexpected type 1", frameOf(framePrepareConf, []byte{0, 0, 0, 0})},
		{"a malformed action", "malformed message", frameOf(frameHTTPReqCall, []byte{255, 255, 255, 255})},
		{"an empty action", "malformed message", frameOf(frameHTTPReqCall, nil)},
		{"a malformed question", "malformed message", frameOf(frameExtraInfo, []byte{255, 255, 255, 255})},
		{"a question of unknown kind", "information of unknown kind 0", frameOf(frameExtraInfo, []byte{0, 0, 0, 0})},
		{"half a frame", "unexpected EOF", []byte{2, 0, 0, 9, 1}},
		{"nothing", "EOF", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, fakeRunner(t, func(r *rawConn) {
				r.read()
				r.write(tc.answer)
			}))
			_, err := c.HTTPReqCall(t.Context(), suiteRequest(1), &fixedAnswers{})
			require.ErrorContains(t, err, tc.want)
			require.True(t, c.Broken())
		})
	}
}

func TestAClientRefusesWhatTheProtocolCannotSay(t *testing.T) {
	c := dial(t, serve(t).path)
	req := suiteRequest(1)
	req.Method = "LINK"
	_, err := c.HTTPReqCall(t.Context(), req, &fixedAnswers{})
	require.EqualError(t, err, `calling the runner: the protocol has no method "LINK"`)
	_, err = c.PrepareConf(t.Context(), "", []NamedConf{{Name: "script", Value: string(make([]byte, MaxPayload))}})
	require.ErrorIs(t, err, errMessageTooLong)
	require.False(t, c.Broken())

	token := prepare(t, c, "", `{"tell":["body"]}`)
	_, err = c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{body: make([]byte, MaxPayload)})
	require.ErrorIs(t, err, errMessageTooLong)
	require.True(t, c.Broken())
}

func TestPoolKeepsConnectionsThatCanBeUsedAgain(t *testing.T) {
	s := serve(t)
	pool := NewPool(s.path, 2)
	defer func() { require.NoError(t, pool.Close()) }()
	get := func() *Client {
		c, err := pool.Get(t.Context())
		require.NoError(t, err)
		return c
	}
	a, b, c := get(), get(), get()
	pool.Put(a)
	pool.Put(b)
	pool.Put(c)
	require.Equal(t, 2, pool.Idle(), "the third is closed")
	require.True(t, c.Broken())
	require.Same(t, b, get(), "the last one used comes first")
	require.NoError(t, b.Close())
	pool.Put(b)
	require.Equal(t, 1, pool.Idle(), "a broken one is not kept")
	require.Same(t, a, get())
	pool.Put(a)
	require.Equal(t, DefaultMaxIdle, NewPool("", 0).maxIdle)
}

func TestPoolDropsConnectionsThatTheRunnerHasClosed(t *testing.T) {
	path := socketPath(t)
	old := serveAt(t, path)
	pool := NewPool(path, 0)
	defer func() { require.NoError(t, pool.Close()) }()
	for range 3 {
		c, err := Dial(t.Context(), path)
		require.NoError(t, err)
		prepare(t, c, "", `{}`)
		pool.Put(c)
	}
	old.stop()
	require.NoError(t, <-old.done)
	_, err := pool.Get(t.Context())
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Zero(t, pool.Idle())

	serveAt(t, path)
	c, err := pool.Get(t.Context())
	require.NoError(t, err)
	prepare(t, c, "", `{}`)
	pool.Put(c)
	require.Equal(t, 1, pool.Idle())
}

func TestPoolClosesWhatHasBeenIdleTooLong(t *testing.T) {
	pool := NewPool(serve(t).path, 0)
	c, err := pool.Get(t.Context())
	require.NoError(t, err)
	pool.Put(c)
	pool.idle[0].since = time.Now().Add(-idleKeep - time.Second)
	d, err := pool.Get(t.Context())
	require.NoError(t, err)
	require.NotSame(t, c, d)
	require.True(t, c.Broken())

	require.NoError(t, pool.Close())
	pool.Put(d)
	require.True(t, d.Broken())
	_, err = pool.Get(t.Context())
	require.True(t, errors.Is(err, errPoolClosed))
}

func TestCollectorTellsTheCounts(t *testing.T) {
	s := serve(t)
	c := dial(t, s.path)
	token := prepare(t, c, "", `{"vars":["cookie_a"]}`)
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.NoError(t, err)
	_, err = c.HTTPReqCall(t.Context(), suiteRequest(token+1), &fixedAnswers{})
	require.ErrorIs(t, err, ErrConfTokenNotFound)

	require.Equal(t, Stats{Accepted: 1, Open: 1, Prepared: 1, Requests: 1, Stopped: 1, Questions: 1, Tokens: 1, Configs: 1}, s.Stats())
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(s.Collector()))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		metric := family.GetMetric()[0]
		values[family.GetName()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	require.Equal(t, map[string]float64{
		"graphql_limit_count_runner_connections_accepted_total":    1,
		"graphql_limit_count_runner_connections_refused_total":     0,
		"graphql_limit_count_runner_connections_open":              1,
		"graphql_limit_count_runner_configurations_prepared_total": 1,
		"graphql_limit_count_runner_requests_total":                1,
		"graphql_limit_count_runner_requests_stopped_total":        1,
		"graphql_limit_count_runner_questions_total":               1,
		"graphql_limit_count_runner_panics_total":                  0,
		"graphql_limit_count_runner_errors_total":                  0,
		"graphql_limit_count_runner_tokens":                        1,
		"graphql_limit_count_runner_configurations":                1,
	}, values)
}
