package introspect

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/internal/apisix"
)

// hold makes the upstream wait: entered gets a value per request, and each request
// is answered once release is closed.
func hold(b *bench) (entered chan struct{}, release chan struct{}) {
	entered, release = make(chan struct{}, 16), make(chan struct{})
	b.up.set(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-release:
			_, _ = w.Write([]byte(introspected))
		case <-r.Context().Done():
		}
	})
	return entered, release
}

func TestOneFlightForAllWhoAsk(t *testing.T) {
	b := newBench(t, Config{})
	entered, release := hold(b)
	var wg sync.WaitGroup
	errs := make(chan error, 50)
	for range 50 {
		wg.Go(func() {
			_, err := b.Schema(t.Context(), explicit("s"))
			errs <- err
		})
	}
	<-entered
	close(release)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, b.up.requests())
}

func TestAWaiterLeavesAlone(t *testing.T) {
	b := newBench(t, Config{})
	entered, release := hold(b)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := b.Schema(ctx, explicit("s"))
		left <- err
	}()
	<-entered
	leave()
	err := <-left
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `wait for the schema of service "s"`)
	close(release)
	_, err = b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.Equal(t, 1, b.up.requests(), "the fetch went on without the one who started it")
}

func TestAFlushedFlightIsNotKept(t *testing.T) {
	b := newBench(t, Config{})
	entered, release := hold(b)
	done := make(chan error, 1)
	go func() {
		_, err := b.Schema(t.Context(), explicit("s"))
		done <- err
	}()
	<-entered
	b.Flush("other")
	b.Flush("s")
	close(release)
	require.NoError(t, <-done, "who waited gets the answer")
	_, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.Equal(t, 2, b.up.requests(), "who asks after the flush gets a newer one")
}

func TestCloseEndsFlights(t *testing.T) {
	b := newBench(t, Config{})
	entered, _ := hold(b)
	done := make(chan error, 1)
	go func() {
		_, err := b.Schema(context.Background(), explicit("s"))
		done <- err
	}()
	<-entered
	b.Close()
	require.ErrorIs(t, <-done, ErrClosed)
	_, err := b.Schema(t.Context(), explicit("s"))
	require.ErrorIs(t, err, ErrClosed)
	require.Empty(t, b.logged())
	b.Close()
}

func TestAnExchangeThatTakesTooLongIsAFailure(t *testing.T) {
	b := newBench(t, Config{})
	_, _ = hold(b)
	b.Source.exchange = 10 * time.Millisecond
	_, err := b.Schema(t.Context(), explicit("s"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "post the introspection query to http://e/g")
	require.ErrorContains(t, err, "the whole exchange 10ms")
	_, err = b.Schema(t.Context(), explicit("s"))
	require.Error(t, err)
	require.Equal(t, 1, b.up.requests())
}

func TestBoundsOfAnExchange(t *testing.T) {
	require.Equal(t, 2*time.Second, connectTimeout)
	s := New(Config{Logger: zap.NewNop()})
	defer s.Close()
	require.Equal(t, 7*time.Second, s.exchange)
	require.Equal(t, 32<<20, s.maxBody)
}

func TestAPanicIsAnError(t *testing.T) {
	b := newBench(t, Config{Upstreams: panicking{}})
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/g"})
	require.ErrorContains(t, err, "panic: resolver")
	require.Contains(t, b.logged(), "panicking.Service", "the stack is logged")
}

type panicking struct{ UpstreamResolver }

func (panicking) Service(context.Context, string) (apisix.Service, error) { panic("resolver") }

func TestAnAdminAPIFailureIsRemembered(t *testing.T) {
	k := oneService(httpUpstream("a"))
	k.err = errors.New("admin API down")
	b := newBench(t, Config{Upstreams: k})
	for range 2 {
		_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/g", Host: "h"})
		require.EqualError(t, err, "derive the introspection endpoint: admin API down")
	}
	require.Equal(t, 1, k.asked)
	k.err = nil
	b.clock.add(10 * time.Second)
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/g", Host: "h"})
	require.NoError(t, err)
}

func TestAFailureThatAskedNobodyIsNotRememberedButLoggedOnce(t *testing.T) {
	k := oneService(apisix.Upstream{Scheme: "http"})
	b := newBench(t, Config{Upstreams: k})
	ask := func() error {
		_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/g", Host: "h"})
		return err
	}
	for range 3 {
		require.ErrorContains(t, ask(), "no upstream nodes: set introspection_endpoint")
	}
	require.Equal(t, 3, k.asked)
	require.Equal(t, 1, b.logs.Len())
	b.clock.add(10 * time.Second)
	require.Error(t, ask())
	require.Equal(t, 2, b.logs.Len(), "and again when it lasts")

	k.services["s"] = oneService(httpUpstream("a")).services["s"]
	require.NoError(t, ask(), "a node that is added is used at once")
}
