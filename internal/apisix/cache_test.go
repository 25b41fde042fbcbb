package apisix

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCacheAsksOncePerTTL(t *testing.T) {
	status, body := 200, `{"value":{"id":"x","nodes":{"u:1":1}}}`
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) { replies(status, body)(w, r) })
	now := time.Unix(1000, 0)
	c := NewCache(a.Client, CacheConfig{Now: func() time.Time { return now }})
	ask := func() error {
		_, err1 := c.Service(t.Context(), "x")
		_, err2 := c.Route(t.Context(), "x")
		_, err3 := c.Upstream(t.Context(), "x")
		require.Equal(t, err1 == nil, err2 == nil)
		require.Equal(t, err1 == nil, err3 == nil)
		return err1
	}
	require.NoError(t, ask())
	now = now.Add(999 * time.Millisecond)
	require.NoError(t, ask())
	require.EqualValues(t, 3, a.calls.Load(), "an answer is used for a second")

	now = now.Add(time.Millisecond)
	status, body = 404, `{"message":"Key not found"}`
	require.ErrorIs(t, ask(), ErrNotFound)
	require.ErrorIs(t, ask(), ErrNotFound)
	require.EqualValues(t, 6, a.calls.Load(), "that there is none is an answer too")

	now = now.Add(time.Second)
	status = 500
	require.Error(t, ask())
	require.Error(t, ask())
	require.EqualValues(t, 12, a.calls.Load(), "a failure is not an answer")
}

func TestCacheIsBounded(t *testing.T) {
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"value":{"id":"` + r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] + `"}}`))
	})
	now := time.Unix(1000, 0)
	c := NewCache(a.Client, CacheConfig{MaxEntries: 2, TTL: time.Minute, Now: func() time.Time { return now }})
	ask := func(id string) {
		s, err := c.Service(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, s.ID)
	}
	ask("a")
	now = now.Add(30 * time.Second)
	ask("b")
	now = now.Add(30 * time.Second)
	ask("c")
	require.Len(t, c.entries, 2, "the expired entry made room")
	ask("d")
	require.Len(t, c.entries, 1, "nothing had expired, so all made room")
}

func TestCacheKeepsTimeByDefault(t *testing.T) {
	a := startAdmin(t, replies(200, `{"value":{}}`))
	c := NewCache(a.Client, CacheConfig{TTL: time.Hour})
	for range 2 {
		_, err := c.Service(t.Context(), "s")
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, a.calls.Load())
}
