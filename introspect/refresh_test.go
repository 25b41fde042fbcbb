package introspect

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// landed is how long the end of something in the background is waited for.
const landed = 30 * time.Second

// schemaWith is an introspection response whose Query has these fields.
func schemaWith(fields ...string) string {
	var list []string
	for _, f := range fields {
		list = append(list, `{"name":"`+f+`","args":[],"type":{"name":"Int"}}`)
	}
	return `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[{"name":"Query","fields":[` +
		strings.Join(list, ",") + `]},{"name":"Int","fields":null}]}}}`
}

func answer200(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// underWay is how many flights there are.
func (b *bench) underWay() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.flights)
}

// settle waits until no flight is under way.
func (b *bench) settle(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool { return b.underWay() == 0 }, landed, time.Millisecond)
}

func (b *bench) fetched(tb testing.TB, req Request) *cost.Schema {
	tb.Helper()
	schema, err := b.Schema(tb.Context(), req)
	require.NoError(tb, err)
	require.NotNil(tb, schema)
	return schema
}

// awaitLog waits for a line that is logged in the background.
func (b *bench) awaitLog(tb testing.TB, text string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return strings.Contains(b.logged(), text) }, landed, time.Millisecond, text)
}

func hasField(schema *cost.Schema, field string) bool {
	_, ok := schema.FieldType("Query", field)
	return ok
}

func aging(service string) Request {
	req := explicit(service)
	req.TTL = time.Minute
	return req
}

func TestAnOldSchemaIsFetchedAgainInTheBackground(t *testing.T) {
	b := newBench(t, Config{})
	old := b.fetched(t, aging("s"))
	entered, release := hold(b)
	b.clock.add(time.Minute - 1)
	require.Same(t, old, b.Cached(aging("s")))
	require.Zero(t, b.underWay(), "it is not old enough")

	b.clock.add(1)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if b.Cached(aging("s")) != old {
				t.Error("requests do not wait for the refresh")
			}
		})
	}
	wg.Wait()
	require.Same(t, old, b.fetched(t, aging("s")), "nor does Schema")
	<-entered
	require.Equal(t, 2, b.up.requests(), "one refresh for all")
	close(release)
	b.settle(t)
	require.Same(t, old, b.Cached(aging("s")), "its answer is the same")

	b.up.set(answer200(schemaWith("b")))
	b.clock.add(time.Minute)
	require.Same(t, old, b.Cached(aging("s")))
	b.settle(t)
	renewed := b.Cached(aging("s"))
	require.True(t, hasField(renewed, "b"))
	b.awaitLog(t, "the upstream graphql schema has changed")
	require.Equal(t, 3, b.up.requests())
}

func TestWithoutTTLASchemaNeverAges(t *testing.T) {
	b := newBench(t, Config{})
	old := b.fetched(t, explicit("s"))
	entered, release := hold(b)
	b.clock.add(100 * 365 * 24 * time.Hour)
	require.Same(t, old, b.Cached(explicit("s")))
	require.Zero(t, b.underWay())
	require.Same(t, old, b.Cached(aging("s")), "a route with a TTL of its own has it fetched for all")
	<-entered
	close(release)
	b.settle(t)
}

func TestWhatBearsOnNoCostDoesNotReplaceASchema(t *testing.T) {
	const query = `{"name":"Query","fields":[{"name":"a","args":[{"name":"n","defaultValue":"1"},{"name":"m"}],"type":{"name":"Int"}}]}`
	const scalar = `{"name":"Int","fields":null}`
	inOrder := `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[` + query + "," + scalar + `]}}}`
	tests := []struct {
		name, answer string
		same         bool
	}{
		{"the same bytes", inOrder, true},
		{"types in another order, and a trace", `{"extensions":{"took":1},"data":{"__schema":{"queryType":{"name":"Query"},"types":[` + scalar + "," + query + `]}}}`, true},
		{"another default", strings.Replace(inOrder, `"1"`, `"2"`, 1), false},
		{"another result", strings.Replace(inOrder, `"type":{"name":"Int"}`, `"type":{"name":"Query"}`, 1), false},
		{"another root", strings.Replace(inOrder, `"queryType":{"name":"Query"}`, `"queryType":{"name":"Int"}`, 1), false},
		{"another type", strings.Replace(inOrder, scalar, scalar+`,{"name":"X"}`, 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.up.set(answer200(inOrder))
			old := b.fetched(t, aging("s"))
			b.up.set(answer200(tt.answer))
			b.clock.add(time.Hour)
			require.Same(t, old, b.Cached(aging("s")))
			b.settle(t)
			if tt.same {
				require.Same(t, old, b.Cached(aging("s")))
			} else {
				require.NotSame(t, old, b.Cached(aging("s")))
			}
		})
	}
}

func TestServicesWithEqualAnswersShareASchema(t *testing.T) {
	b := newBench(t, Config{})
	require.Same(t, b.fetched(t, explicit("s")), b.fetched(t, explicit("t")))
	require.Equal(t, 2, b.up.requests())
}

func TestAFailedRefreshKeepsTheSchemaAndIsTriedAgainAfterTenSeconds(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"a status": status(503), "no schema": answer200(`{"errors":[]}`),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			old := b.fetched(t, aging("s"))
			b.up.set(fail)
			b.clock.add(time.Hour)
			require.Same(t, old, b.Cached(aging("s")))
			b.settle(t)
			b.awaitLog(t, "failed to refresh the upstream graphql schema, the old one stays in use")
			require.Equal(t, 2, b.up.requests())

			b.up.set(answer200(schemaWith("b")))
			b.clock.add(9999 * time.Millisecond)
			require.Same(t, old, b.Cached(aging("s")))
			require.Same(t, old, b.fetched(t, aging("s")))
			require.Zero(t, b.underWay())
			b.clock.add(time.Millisecond)
			require.Same(t, old, b.Cached(aging("s")))
			b.settle(t)
			require.True(t, hasField(b.Cached(aging("s")), "b"))
			require.Equal(t, 3, b.up.requests())
		})
	}
}

// TestARefreshAsksAsTheFirstFetchDid: a request that is answered from memory does not tell its
// path and Host.
func TestARefreshAsksAsTheFirstFetchDid(t *testing.T) {
	b := newBench(t, Config{Upstreams: oneService(httpUpstream("n"))})
	req := Request{ServiceID: "s", Path: "/graphql", Host: "shop.example", TTL: time.Minute, Settings: NewSettings("", map[string]string{"A": "b"})}
	b.fetched(t, req)
	b.clock.add(time.Hour)
	req.Path, req.Host = "", ""
	require.NotNil(t, b.Cached(req))
	b.settle(t)
	require.Equal(t, 2, b.up.requests())
	last := b.up.last(t)
	require.Equal(t, "/graphql", last.uri)
	require.Equal(t, "shop.example", last.host)
	require.Equal(t, "b", last.header.Get("A"))
}

func TestAFlushedServiceIsNotRefreshed(t *testing.T) {
	b := newBench(t, Config{})
	b.fetched(t, aging("s"))
	entered, release := hold(b)
	b.clock.add(time.Hour)
	b.Cached(aging("s"))
	<-entered
	b.Flush("s")
	close(release)
	b.settle(t)
	b.up.set(answer200(schemaWith("b")))
	require.Nil(t, b.Cached(aging("s")), "what the refresh brought is not kept")
	require.True(t, hasField(b.fetched(t, aging("s")), "b"))
}

func TestCloseEndsARefresh(t *testing.T) {
	b := newBench(t, Config{})
	b.fetched(t, aging("s"))
	entered, _ := hold(b)
	b.clock.add(time.Hour)
	known := b.memory.schema(mustKey(t, aging("s")))
	b.Cached(aging("s"))
	<-entered
	b.Close()
	b.revalidate(known, time.Nanosecond)
	known.notBefore.Store(0)
	b.revalidate(known, time.Nanosecond)
	require.Nil(t, b.Cached(aging("s")))
}

func mustKey(tb testing.TB, req Request) key {
	tb.Helper()
	k, err := keyOf(req)
	require.NoError(tb, err)
	return k
}

func TestRefreshFetchesNow(t *testing.T) {
	b := newBench(t, Config{})
	old := b.fetched(t, explicit("s"))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.Same(t, old, b.Cached(explicit("s")), "nothing has changed")
	b.up.set(answer200(schemaWith("b")))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.True(t, hasField(b.Cached(explicit("s")), "b"))
	require.Equal(t, 3, b.up.requests())
}

func TestRefreshLiftsARememberedFailure(t *testing.T) {
	b := newBench(t, Config{})
	b.up.set(status(503))
	_, err := b.Schema(t.Context(), explicit("s"))
	require.Error(t, err)
	b.up.set(nil)
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.NotNil(t, b.Cached(explicit("s")))
}

func TestRefreshNamesWhatFailedAndKeepsTheSchema(t *testing.T) {
	b := newBench(t, Config{})
	one, two := explicit("s"), Request{ServiceID: "s", Settings: NewSettings("http://user:secret@f/g?token=secret", map[string]string{"Authorization": "secret"})}
	old := b.fetched(t, one)
	b.fetched(t, two)
	b.fetched(t, explicit("other"))
	b.up.set(status(503))
	err := b.Refresh(t.Context(), "s")
	require.EqualError(t, err, "refresh the schema of service \"s\": unexpected status 503 from http://e/g\nunexpected status 503 from http://f/g")
	require.Equal(t, 5, b.up.requests(), "both settings of the service, and no other service's")
	require.Same(t, old, b.Cached(one))
	require.NotContains(t, b.logged(), "secret")
}

// TestRefreshForgetsSettingsThatAreNoLongerUsed: a configuration was corrected, and nobody can
// say of the old settings more than that no request has them.
func TestRefreshForgetsSettingsThatAreNoLongerUsed(t *testing.T) {
	b := newBench(t, Config{})
	right := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer200(introspected)(w, r)
	})
	b.up.set(right)
	wrong, corrected, idle := explicit("s"), explicit("s"), Request{ServiceID: "s", Settings: NewSettings("http://f/g", map[string]string{"Authorization": "right"})}
	wrong.Settings = NewSettings("http://e/g", map[string]string{"Authorization": "wrong"})
	corrected.Settings = NewSettings("http://e/g", map[string]string{"Authorization": "right"})
	_, err := b.Schema(t.Context(), wrong)
	require.ErrorContains(t, err, "401")
	b.fetched(t, corrected)
	b.fetched(t, idle)

	require.ErrorContains(t, b.Refresh(t.Context(), "s"), "unexpected status 401", "it was in use")
	require.NotNil(t, b.Cached(corrected))
	before := b.up.requests()
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.Equal(t, before+1, b.up.requests())
	require.Nil(t, b.Cached(idle), "fetched again when it is needed")
	require.NotNil(t, b.Cached(corrected))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.NoError(t, b.Refresh(t.Context(), "s"), "without a request in between it stays")
	require.Equal(t, before+3, b.up.requests())

	b.up.set(status(503))
	_, err = b.Schema(t.Context(), wrong)
	require.Error(t, err)
	require.Error(t, b.Refresh(t.Context(), "s"))
	_, err = b.Schema(t.Context(), wrong) // the remembered failure
	require.Error(t, err)
	b.up.set(answer200(introspected))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.NotNil(t, b.Cached(wrong), "who is told of a failure uses it")
}

func TestRefreshWithNothingToFetch(t *testing.T) {
	b := newBench(t, Config{})
	require.ErrorIs(t, b.Refresh(t.Context(), "s"), ErrUnasked)
	b.fetched(t, Request{RouteID: "s", Settings: NewSettings("http://e/g", nil)})
	require.ErrorIs(t, b.Refresh(t.Context(), "s"), ErrUnasked, "a route is no service")
	b.Give("s", &cost.Schema{})
	require.ErrorIs(t, b.Refresh(t.Context(), "s"), ErrGiven)
	b.Close()
	require.ErrorIs(t, b.Refresh(t.Context(), "s"), ErrClosed)
}

// TestRefreshDoesNotTakeAnOlderAnswer: what was asked before may have been answered before the
// schema changed.
func TestRefreshDoesNotTakeAnOlderAnswer(t *testing.T) {
	b := newBench(t, Config{})
	entered, release := hold(b)
	first := make(chan error, 1)
	go func() {
		_, err := b.Schema(t.Context(), explicit("s"))
		first <- err
	}()
	<-entered
	b.up.set(answer200(schemaWith("b")))
	const refreshing = 8
	refreshed := make(chan error, refreshing)
	for range refreshing {
		go func() { refreshed <- b.Refresh(t.Context(), "s") }()
	}
	close(release)
	require.NoError(t, <-first)
	for range refreshing {
		require.NoError(t, <-refreshed)
		require.True(t, hasField(b.Cached(explicit("s")), "b"))
	}
}

func TestWhoRefreshesMayLeave(t *testing.T) {
	b := newBench(t, Config{})
	b.fetched(t, explicit("s"))
	entered, release := hold(b)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 2)
	go func() { left <- b.Refresh(ctx, "s") }()
	<-entered
	go func() { left <- b.Refresh(ctx, "s") }()
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.ErrorIs(t, <-left, context.Canceled)
	close(release)
	b.settle(t)
}
