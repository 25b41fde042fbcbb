package extplugin

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// mostDrain is what Serve may take once its context is done: the time that it gives to
// requests, and what a busy machine adds. APISIX kills a runner 1 s after SIGTERM.
const mostDrain = DefaultDrainTimeout + 5*time.Second

// stopTimed stops the server and returns how long Serve took to return.
func (s *served) stopTimed(t *testing.T) time.Duration {
	start := time.Now()
	s.stop()
	require.NoError(t, <-s.done)
	return time.Since(start)
}

func TestAnIdleServerStopsAtOnce(t *testing.T) {
	s := serve(t)
	for range 50 {
		prepare(t, dial(t, s.path), "", `{}`) // all of them idle now
	}
	s.cfg.DrainTimeout = time.Hour // whatever is waited for shows
	require.Less(t, s.stopTimed(t), patience)
	require.Zero(t, s.Stats().Open)
	_, err := Dial(t.Context(), s.path)
	require.ErrorIs(t, err, syscall.ENOENT)
}

func TestARequestInFlightIsAnsweredBeforeTheServerStops(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		close(entered)
		<-leave
		value, err := r.Var("cookie_a") // the exchange with APISIX still works
		if err != nil {
			value = []byte(err.Error())
		}
		_, _ = w.Write(value)
	}))
	c := dial(t, s.path)
	token := prepare(t, c, "", `{}`)
	got := make(chan Action, 1)
	go func() {
		action, _ := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{vars: map[string]string{"cookie_a": "late"}})
		got <- action
	}()
	<-entered
	s.stop()
	require.Eventually(t, s.draining.Load, patience, time.Millisecond)
	close(leave)
	require.Equal(t, "late", string((<-got).Body))
	require.NoError(t, <-s.done)
	_, err := c.f.br.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestARequestThatIsStuckIsGivenUpAfterTheDrain(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	cancelled := make(chan error, 1)
	s := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		close(entered)
		<-r.Context().Done()
		cancelled <- r.Context().Err()
		<-leave // heeds nothing
	}))
	defer close(leave)
	c := dial(t, s.path)
	token := prepare(t, c, "", `{}`)
	failed := make(chan error, 1)
	go func() {
		_, err := c.HTTPReqCall(context.Background(), suiteRequest(token), &fixedAnswers{})
		failed <- err
	}()
	<-entered
	took := s.stopTimed(t)
	require.Less(t, took, mostDrain)
	require.GreaterOrEqual(t, took, DefaultDrainTimeout)
	require.ErrorIs(t, <-cancelled, context.Canceled)
	require.Error(t, <-failed)
}

func TestAPluginThatIsStuckClosingDoesNotHoldTheServer(t *testing.T) {
	leave := make(chan struct{})
	defer close(leave)
	s := serve(t, func(cfg *Config) {
		p := &funcPlugin{name: "script", parse: func([]byte) (any, error) {
			return closerFunc(func() error { <-leave; return nil }), nil
		}}
		cfg.Plugins = append(cfg.Plugins[:0:0], p)
	})
	prepare(t, dial(t, s.path), "", `{}`)
	require.Less(t, s.stopTimed(t), mostDrain)
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

func TestRequestsSentBeforeTheStopAreAnswered(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		<-release
		w.WriteHeader(http.StatusTeapot)
	}))
	token := prepare(t, dial(t, s.path), "", `{}`)
	var frames []byte
	for range 3 {
		frame, err := (&Client{}).encodeCall(suiteRequest(token))
		require.NoError(t, err)
		frames = append(frames, frame...)
	}
	c := dialRaw(t, s.path)
	c.write(frames)
	require.Eventually(t, func() bool { return s.Stats().Requests == 1 }, patience, time.Millisecond)
	s.stop()
	require.Eventually(t, s.draining.Load, patience, time.Millisecond)
	close(release)
	for range 3 {
		ty, _ := c.read()
		require.Equal(t, frameHTTPReqCall, ty)
	}
	require.NoError(t, <-s.done)
}

// TestDrainUnderLoad stops a server while connections call it as fast as they can.
func TestDrainUnderLoad(t *testing.T) {
	s := serve(t)
	const connections = 32
	var calls atomic.Int64
	var all sync.WaitGroup
	for range connections {
		c := dial(t, s.path)
		token := prepare(t, c, "", `{"tell":["body"]}`)
		all.Go(func() {
			for {
				got, err := c.HTTPReqCall(context.Background(), suiteRequest(token), &fixedAnswers{body: []byte("b")})
				if err != nil {
					return
				}
				if string(got.Body) != `{"body":"b"}` {
					t.Errorf("got %q", got.Body)
				}
				calls.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return calls.Load() > 100*connections }, patience, time.Millisecond)
	require.Less(t, s.stopTimed(t), mostDrain)
	all.Wait()
	require.Zero(t, s.Stats().Open)
}

// TestConnectionsInTheBacklogAreServedThoughTheDeadlineHasPassed has the server
// stop before it has accepted anything: whatever the scheduler does, the accept's
// deadline is over when it comes to the connections.
func TestConnectionsInTheBacklogAreServedThoughTheDeadlineHasPassed(t *testing.T) {
	s := NewServer(Config{Plugins: scriptPlugins(), Logger: zap.NewNop()})
	path := socketPath(t)
	l, err := s.Listen(path)
	require.NoError(t, err)
	token := s.confs.prepare([]byte("k"), list("script", `{"status":418}`))
	frame, err := (&Client{}).encodeCall(suiteRequest(token))
	require.NoError(t, err)
	var conns []*rawConn
	for range 20 {
		c := dialRaw(t, path)
		c.write(frame)
		conns = append(conns, c)
	}
	require.NoError(t, l.(*socketListener).SetDeadline(time.Unix(1, 0)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.draining.Store(true)
	require.NoError(t, s.acceptAll(ctx, t.Context(), l))
	require.NoError(t, l.Close())
	for _, c := range conns {
		ty, _ := c.read()
		require.Equal(t, frameHTTPReqCall, ty)
	}
	require.Eventually(t, func() bool { return s.Stats().Open == 0 }, patience, time.Millisecond)
}

func TestAConnectionJustMadeMayStillSendWhileTheServerDrains(t *testing.T) {
	for _, tc := range []struct {
		name   string
		grace  time.Duration
		served bool
	}{
		{"one that is new is waited for", patience, true},
		{"one that is no longer new is closed", 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewServer(Config{Plugins: scriptPlugins(), Logger: zap.NewNop()})
			s.newcomerGrace = tc.grace
			token := s.confs.prepare([]byte("k"), list("script", `{"status":418}`))
			frame, err := (&Client{}).encodeCall(suiteRequest(token))
			require.NoError(t, err)
			near, far := socketPair(t)
			c := newConn(s, far, t.Context())
			require.True(t, s.remember(c))
			s.draining.Store(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.serve()
			}()
			if !tc.served {
				_, err := near.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				<-done
				return
			}
			raw := &rawConn{tb: t, f: newFramed(near, MaxPayload)}
			raw.write(frame)
			ty, _ := raw.read()
			require.Equal(t, frameHTTPReqCall, ty)
			<-done // and is closed after its answer
		})
	}
}

func TestAServerServesOnce(t *testing.T) {
	s := serve(t)
	requireServes(t, s.path)
	require.ErrorIs(t, s.Serve(t.Context(), nil), errServedBefore)
}

func TestAListenerThatFailsEndsServe(t *testing.T) {
	path := socketPath(t)
	s := NewServer(Config{Logger: serve(t).log})
	l, err := s.Listen(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, s.Serve(t.Context(), l), net.ErrClosed)
}

// flakyListener fails some accepts as when no file descriptor is left.
type flakyListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestAcceptingGoesOnAfterAFailure(t *testing.T) {
	logs, logged := observed()
	cfg := Config{Plugins: scriptPlugins()}
	logged(&cfg)
	s := NewServer(cfg)
	path := socketPath(t)
	inner, err := s.Listen(path)
	require.NoError(t, err)
	l := &flakyListener{Listener: inner}
	l.failures.Store(3)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	requireServes(t, path)
	stop()
	require.NoError(t, <-done)
	require.Equal(t, 3, logs.FilterMessage("accepting a connection failed; trying again").Len())
}

func TestARequestsContextEndsWithTheRequest(t *testing.T) {
	contexts := make(chan context.Context, 1)
	s := serve(t, filtering(func(w http.ResponseWriter, r *request) { contexts <- r.Context() }))
	c := dial(t, s.path)
	before := time.Now()
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{}`)), &fixedAnswers{})
	require.NoError(t, err)
	ctx := <-contexts
	deadline, ok := ctx.Deadline()
	require.True(t, ok)
	require.WithinRange(t, deadline, before, time.Now().Add(DefaultRequestTimeout))
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestARequestsContextHasADeadline(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, func(cfg *Config) { cfg.RequestTimeout = time.Millisecond },
		filtering(func(w http.ResponseWriter, r *request) {
			<-r.Context().Done()
			ended <- r.Context().Err()
		}))
	c := dial(t, s.path)
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{}`)), &fixedAnswers{})
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}
