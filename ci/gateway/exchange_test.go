package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/internal/extplugin"
)

func testExchange(method, target, body string) *exchange {
	return newExchange(httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader(body)))
}

func TestARewrittenBodyReplacesTheClients(t *testing.T) {
	x := testExchange(http.MethodPost, "/", "old")
	require.Nil(t, x.apply(extplugin.Action{Kind: extplugin.Rewrite, Body: []byte("brand new")}))
	body, err := x.Body()
	require.NoError(t, err)
	require.Equal(t, "brand new", string(body))
	sent, err := io.ReadAll(x.request.Body)
	require.NoError(t, err)
	require.Equal(t, "brand new", string(sent))
	require.EqualValues(t, 9, x.request.ContentLength)
	length, _ := x.Var("content_length")
	require.Equal(t, "9", string(length))
}

func TestAnArgumentMayGetSeveralValues(t *testing.T) {
	x := testExchange(http.MethodGet, "/?a=1&b=2&a=3", "")
	x.apply(extplugin.Action{Kind: extplugin.Rewrite, Args: []extplugin.KV{{Name: "a", Value: "x"}, {Name: "a", Value: "y z"}}})
	require.Equal(t, "b=2&a=x&a=y+z", x.rawArgs)
}

func TestSourceIP(t *testing.T) {
	for remote, want := range map[string]int{"192.0.2.1:1": 4, "[::ffff:192.0.2.1]:1": 4, "[2001:db8::1]:1": 16, "": 0, "@": 0} {
		require.Len(t, sourceIP(remote), want, remote)
	}
}

func TestARequestListsABoundedNumberOfHeaders(t *testing.T) {
	x := testExchange(http.MethodGet, "/", "")
	for range 2 * maxListedHeaders {
		x.request.Header.Add("X", "1")
	}
	require.Len(t, x.call().Headers, maxListedHeaders)
}

func TestWithoutAddressesThereAreNoVariablesForThem(t *testing.T) {
	x := testExchange(http.MethodGet, "/", "")
	x.request.RemoteAddr = "@"
	for _, name := range []string{"remote_addr", "server_addr", "server_nothing", "remote_nothing"} {
		_, ok := x.Var(name)
		require.False(t, ok, name)
	}
}

func FuzzArgs(f *testing.F) {
	for _, seed := range []string{"", "a", "a=", "=", "&&", "a=%zz&b=%41", "a=1&a=2", "+=%2B", ";"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		args := parseArgs(raw)
		require.Equal(t, args, parseArgs(encodeArgs(args)), "what is encoded decodes to the same")
	})
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"", "/", "/a/../b", "//", "/./", "a", "/a/..", "/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, decoded string) {
		once := normalise(decoded)
		require.True(t, strings.HasPrefix(once, "/"))
		require.NotContains(t, once, "//")
		require.Equal(t, once, normalise(once))
	})
}

func TestDefaults(t *testing.T) {
	cfg := Config{Logger: zap.NewNop()}.withDefaults()
	require.Equal(t, "127.0.0.1:9080", cfg.FrontAddr)
	require.Equal(t, "127.0.0.1:9180", cfg.AdminAddr)
	require.Equal(t, "edd1c9f034335f136f87ad84b625c8f1", cfg.AdminKey)
	require.Equal(t, time.Hour, cfg.ConfExpire)
}
