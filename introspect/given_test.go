package introspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

func TestAGivenSchemaWins(t *testing.T) {
	b := newBench(t, Config{})
	given, err := cost.ParseSDL([]byte("type Query { given: Int }"))
	require.NoError(t, err)
	b.Give("s", given)
	require.Same(t, given, b.Cached(Request{ServiceID: "s"}))
	require.Same(t, given, b.Cached(aging("s")), "whatever the settings")
	require.Same(t, given, b.fetched(t, explicit("s")))
	require.Same(t, given, b.Known("s"))
	require.Zero(t, b.up.requests())
	b.Flush("s")
	require.Same(t, given, b.Cached(explicit("s")), "it is not introspection's to forget")
	require.Nil(t, b.Cached(explicit("t")))
	require.Nil(t, b.Cached(Request{RouteID: "s", Settings: NewSettings("http://e/g", nil)}), "a route is no service")

	b.Give("s", nil)
	require.Nil(t, b.Cached(explicit("s")))
	require.NotSame(t, given, b.fetched(t, explicit("s")))
	require.Equal(t, 1, b.up.requests())
	b.Give("never given", nil)
	b.Close()
	b.Give("s", given)
	require.Nil(t, b.Cached(explicit("s")))
}

func TestKnownIsTheNewest(t *testing.T) {
	b := newBench(t, Config{})
	require.Nil(t, b.Known("s"))
	b.up.set(status(503))
	_, err := b.Schema(t.Context(), explicit("s"))
	require.Error(t, err)
	require.Nil(t, b.Known("s"))
	for i, field := range []string{"a", "b"} {
		b.clock.add(time.Second)
		b.up.set(answer200(schemaWith(field)))
		b.fetched(t, Request{ServiceID: "s", Settings: NewSettings(fmt.Sprintf("http://%d/g", i), nil)})
	}
	b.fetched(t, Request{ServiceID: "s", Settings: NewSettings("http://0/g", nil)})
	require.True(t, hasField(b.Known("s"), "b"))
	require.Equal(t, 3, b.up.requests(), "nothing is fetched for it")
}

func TestCachedDoesNotAllocate(t *testing.T) {
	b := newBench(t, Config{})
	headers := map[string]string{"Authorization": "Bearer " + strings.Repeat("t", 500), "X-A": "a", "X-B": "b"}
	given, err := cost.ParseSDL([]byte("type Query { given: Int }"))
	require.NoError(t, err)
	b.Give("given", given)
	for name, req := range map[string]Request{
		"derived settings": aging("s"),
		"with headers":     {ServiceID: "s", Settings: NewSettings("http://e/g", headers), TTL: time.Minute},
		"given":            aging("given"),
	} {
		t.Run(name, func(t *testing.T) {
			b.fetched(t, req)
			require.Zero(t, testing.AllocsPerRun(100, func() { b.Cached(req) }))
		})
	}
}

func BenchmarkCached(b *testing.B) {
	for name, headers := range map[string]map[string]string{"settings=none": nil, "settings=headers": {"Authorization": "Bearer token"}} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, Config{Upstreams: oneService(httpUpstream("a"))})
			req := Request{ServiceID: "s", RouteID: "r", Settings: NewSettings("", headers), Path: "/graphql", Host: "h", TTL: time.Hour}
			s.fetched(b, req)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s.Cached(req)
				}
			})
		})
	}
}
