package extplugin

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func sentHeader(pairs ...string) *header {
	h := &header{}
	h.reset(list(pairs...))
	return h
}

func TestHeaderIsReadInAnyCaseAndFirstValueFirst(t *testing.T) {
	h := sentHeader("content-type", "a/b", "x-a", "1", "X-A", "2")
	require.Equal(t, "a/b", h.Get("Content-Type"))
	require.Equal(t, "1", h.Get("X-a"))
	require.Empty(t, h.Get("x-b"))
	require.Equal(t, http.Header{"Content-Type": {"a/b"}, "X-A": {"1", "2"}}, h.View())
	require.Equal(t, []int{1, 2, 0, 3}, []int{h.Times("Content-Type"), h.Times("x-a"), h.Times("x-b"), h.Len()})
	h.Set("x-a", "3")
	h.Del("content-type")
	require.Equal(t, []int{0, 1}, []int{h.Times("content-type"), h.Times("X-A")})
}

func TestHeaderShowsWhatWasChanged(t *testing.T) {
	for _, viewFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("view taken before: %v", viewFirst), func(t *testing.T) {
			h := sentHeader("x-a", "1", "x-b", "2")
			if viewFirst {
				h.View()
			}
			h.Set("x-a", "new")
			h.Set("x-c", "3")
			h.Set("x-c", "4")
			h.Del("X-B")
			require.Equal(t, "new", h.Get("X-A"))
			require.Empty(t, h.Get("x-b"))
			require.Equal(t, "4", h.Get("x-c"))
			require.Equal(t, http.Header{"X-A": {"new"}, "X-C": {"4"}}, h.View())
			require.Len(t, h.changes, 3)
			h.Set("x-b", "back")
			require.Equal(t, "back", h.Get("x-b"))
			require.Len(t, h.changes, 3)
		})
	}
}

func TestOnlyHeadersThatBecameOthersAreSent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sent   *header
		change headerChange
		want   bool
	}{
		{"the same value", sentHeader("x-a", "1"), headerChange{name: "X-A", value: "1"}, false},
		{"another value", sentHeader("x-a", "1"), headerChange{name: "X-A", value: "2"}, true},
		{"one of two values", sentHeader("x-a", "1", "x-a", "2"), headerChange{name: "X-A", value: "2"}, true},
		{"a new header", sentHeader(), headerChange{name: "X-A", value: ""}, true},
		{"a header deleted", sentHeader("x-a", "1"), headerChange{name: "X-A", deleted: true}, true},
		{"a deleted header that was never there", sentHeader(), headerChange{name: "X-A", deleted: true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.sent.changed(tc.change)) })
	}
}

func TestReadingARequestChangesNothing(t *testing.T) {
	path := serve(t, filtering(func(_ http.ResponseWriter, r *request) {
		r.Header().View()
		r.Header().Set("X-One", r.Header().Get("x-one"))
		r.Args()
		r.RespHeader()
		r.SetPath(r.Path())
	})).path
	c := dial(t, path)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{}`)), &fixedAnswers{})
	require.NoError(t, err)
	require.Equal(t, Action{ID: 7}, got)
}

func TestWhatARequestHandsOutMayBeKept(t *testing.T) {
	type kept struct {
		path, ip, body, value []byte
		header, arg           string
		id, token             uint32
	}
	calls := make(chan kept, 50)
	path := serve(t, filtering(func(_ http.ResponseWriter, r *request) {
		k := kept{path: r.Path(), ip: r.SrcIP(), header: r.Header().Get("x-one"), arg: r.Args().Get("a"), id: r.ID(), token: r.ConfToken()}
		k.body, _ = r.Body()
		k.value, _ = r.Var("cookie_a")
		calls <- k
	})).path
	c := dial(t, path)
	token := prepare(t, c, "", `{}`)
	const n = 50
	text := func(i int) string { return string(bytes.Repeat([]byte{byte('A' + i)}, 20)) }
	for i := range n {
		req := suiteRequest(token)
		req.ID, req.Path, req.SrcIP = uint32(i), text(i), []byte{1, 2, 3, byte(i)}
		req.Headers = []KV{{Name: "x-one", Value: text(i)}}
		req.Args = []KV{{Name: "a", Value: text(i)}}
		_, err := c.HTTPReqCall(t.Context(), req, &fixedAnswers{body: []byte(text(i)), vars: map[string]string{"cookie_a": text(i)}})
		require.NoError(t, err)
	}
	for i := range n { // looked at only after all of them
		want := []byte(text(i))
		require.Equal(t, kept{path: want, ip: []byte{1, 2, 3, byte(i)}, body: want, value: want,
			header: text(i), arg: text(i), id: uint32(i), token: token}, <-calls)
	}
}

func TestResponseKeepsTheFirstStatusAndOnlyRealOnes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(w *response)
		want  int
	}{
		{"the first counts", func(w *response) { w.WriteHeader(403); w.WriteHeader(200) }, 403},
		{"writing means 200", func(w *response) { _, _ = w.WriteString("x"); w.WriteHeader(403) }, 200},
		{"no such status", func(w *response) { w.WriteHeader(0) }, 500},
		{"no such status either", func(w *response) { w.WriteHeader(70_000) }, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &response{}
			tc.write(w)
			require.Equal(t, tc.want, w.status)
			require.True(t, w.written)
		})
	}
}
