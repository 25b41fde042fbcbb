package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/extplugin"
)

func TestTheRunnerSeesTheRequest(t *testing.T) {
	g, _ := testPair(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Show: true})))
	r := send(t, http.MethodPut, g.FrontURL()+"/a/../b%20c?x=1&x=2&flag&e=%26", "body", "Host", "client.test:81", "X-Multi", "1", "X-Multi", "2", "User-Agent", "test")
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, map[string]any{
		"src": "127.0.0.1", "bytes": 4.0, "method": "PUT", "path": "/b c",
		"args": map[string]any{"x": []any{"1", "2"}, "flag": []any{""}, "e": []any{"&"}},
		"headers": map[string]any{
			"Host": []any{"client.test:81"}, "X-Multi": []any{"1", "2"}, "User-Agent": []any{"test"}, "Content-Length": []any{"4"},
			"Accept-Encoding": []any{"gzip"}, "Connection": []any{"close"},
		},
	}, r.json(t))
}

func TestVariables(t *testing.T) {
	g, _ := testPair(t)
	asked := []string{
		"remote_addr", "server_addr", "route_id", "route_name", "service_id", "service_name", "consumer_name", "uri", "request_uri",
		"upstream_uri", "upstream_host", "args", "query_string", "is_args", "request_method", "scheme", "host", "http_host", "http_x_one",
		"http_x_multi", "http_absent", "http_cookie", "arg_a", "arg_flag", "arg_absent", "cookie_c", "cookie_absent", "server_protocol",
		"content_type", "content_length", "unknown",
	}
	g.put(t, "services/s", `{"name":"a service"}`)
	plain := fmt.Sprintf(`"plugins":{"ext-plugin-post-req":%s}`, ext(t, script{Ask: asked, Body: true}))
	g.put(t, "routes/bound", `{"uri":"/bound","name":"a route","service_id":"s",`+plain+`}`)
	g.put(t, "routes/free", `{"uri":"/free",`+plain+`}`)
	want := map[string]any{
		"remote_addr": "127.0.0.1", "server_addr": "127.0.0.1", "route_id": "bound", "route_name": "a route", "service_id": "s", "service_name": "a service",
		"consumer_name": nil, "uri": "/bound", "request_uri": "/bound?a=1&a=2&flag", "upstream_uri": "", "upstream_host": "Client.test:81",
		"args": "a=1&a=2&flag", "query_string": "a=1&a=2&flag", "is_args": "?", "request_method": "POST", "scheme": "http", "host": "client.test",
		"http_host": "Client.test:81", "http_x_one": "1", "http_x_multi": "1, 2", "http_absent": nil, "http_cookie": "c=d; e=f", "arg_a": "1",
		"arg_flag": "true", "arg_absent": nil, "cookie_c": "d", "cookie_absent": nil, "server_protocol": "HTTP/1.1", "content_type": "text/x",
		"content_length": "4", "unknown": nil, "body": "text",
	}
	headers := []string{"Host", "Client.test:81", "X-One", "1", "X-Multi", "1", "X-Multi", "2", "Cookie", "c=d; e=f", "Content-Type", "text/x"}
	require.Equal(t, want, send(t, http.MethodPost, g.FrontURL()+"/bound?a=1&a=2&flag", "text", headers...).json(t))

	got := send(t, http.MethodGet, g.FrontURL()+"/free", "").json(t)
	for _, absent := range []string{"service_id", "service_name", "route_name", "content_type", "content_length"} {
		require.Nil(t, got[absent], absent)
	}
	require.Equal(t, "", got["args"], "empty, not absent")
	require.Equal(t, "", got["is_args"])
	require.Equal(t, "", got["body"])
}

func TestEveryRequestHasAnIDOfItsOwn(t *testing.T) {
	g, _ := testPair(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Ask: []string{"request_id", "remote_port", "server_port"}})))
	first, second := send(t, http.MethodGet, g.FrontURL()+"/", "").json(t), send(t, http.MethodGet, g.FrontURL()+"/", "").json(t)
	require.Regexp(t, "^[0-9a-f]{32}$", first["request_id"])
	require.NotEqual(t, first["request_id"], second["request_id"])
	require.Regexp(t, "^[0-9]+$", first["remote_port"])
	require.True(t, strings.HasSuffix(g.FrontURL(), ":"+first["server_port"].(string)))
}

func TestAfterARewriteTheRunnerSeesTheUpstreamsPath(t *testing.T) {
	g, _ := testPair(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"proxy-rewrite":{"uri":"/new path?b=2"},"ext-plugin-post-req":%s}}`, ext(t, script{Show: true})))
	g.put(t, "routes/q", fmt.Sprintf(`{"uri":"/q","plugins":{"proxy-rewrite":{"uri":"/new"},"ext-plugin-post-req":%s}}`, ext(t, script{Ask: []string{"uri", "upstream_uri"}})))
	r := send(t, http.MethodGet, g.FrontURL()+"/old?a=1", "")
	require.Equal(t, "/new%20path", r.json(t)["path"])
	require.Equal(t, map[string]any{"b": []any{"2"}}, r.json(t)["args"])
	require.Equal(t, map[string]any{"uri": "/q", "upstream_uri": "/new?a=1"}, send(t, http.MethodGet, g.FrontURL()+"/q?a=1", "").json(t))
}

func TestStop(t *testing.T) {
	g, _ := testPair(t)
	for _, c := range []struct {
		name        string
		script      script
		status      int
		contentType string
		text        string
	}{
		{"a body and headers", script{Status: status(418), Text: "no", Headers: map[string]string{"Content-Type": "text/x", "X-H": "1"}}, 418, "text/x", "no"},
		{"status 0 is 200", script{Status: status(0), Text: "yes"}, 200, "text/plain; charset=utf-8", "yes"},
		{"an empty refusal is a page", script{Status: status(503)}, 503, "text/html; charset=utf-8", string(page(503))},
		{"an empty refusal is a page whatever its type", script{Status: status(401), Headers: map[string]string{"Content-Type": "application/json"}}, 401, "text/html; charset=utf-8", string(page(401))},
		{"an empty success is empty", script{Status: status(204)}, 204, "text/plain; charset=utf-8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, c.script)))
			r := send(t, http.MethodPost, g.FrontURL()+"/", "x")
			require.Equal(t, c.status, r.status)
			require.Equal(t, c.contentType, r.header.Get("Content-Type"))
			require.Equal(t, strings.TrimSpace(c.text), r.text)
			require.Equal(t, c.script.Headers["X-H"], r.header.Get("X-H"))
		})
	}
}

func TestRewrite(t *testing.T) {
	g, _ := testPair(t)
	change := script{
		Path: "/new path", Args: map[string]string{"a": "&", "gone": ""},
		SetHeaders:  map[string]string{"X-Set": "1", "X-Gone": "", "Host": "other.test"},
		RespHeaders: map[string]string{"X-Plugin": "1", "X-Upstream": "plugin", "Content-Type": "text/x", "Server": "x", "Location": "/x"},
	}
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/*","plugins":{"ext-plugin-pre-req":%s},"upstream":{"nodes":{%q:1}}}`, ext(t, change), upstreamServer(t, "u")))
	r := send(t, http.MethodPost, g.FrontURL()+"/old?a=1&gone=2&kept", "the body", "X-Gone", "1")
	got := r.echoed(t)
	require.Equal(t, "/new%20path?kept&a=%26", got.URI)
	require.Equal(t, "the body", got.Body)
	require.Equal(t, "1", got.Header.Get("X-Set"))
	require.NotContains(t, got.Header, "X-Gone")
	require.Equal(t, "other.test", got.Host)
	require.Equal(t, "1", r.header.Get("X-Plugin"))
	require.Equal(t, []string{"plugin", "u"}, r.header["X-Upstream"], "the upstream's own comes after")
	require.Equal(t, []string{"application/json"}, r.header["Content-Type"])
	require.Equal(t, []string{ServerName}, r.header["Server"])
	require.Empty(t, r.header.Get("Location"))
}

func TestARouteMaySwitchItsServicesPluginsOff(t *testing.T) {
	g, server := testPair(t)
	stop := ext(t, script{Status: status(418), Text: "stopped"})
	g.put(t, "services/s", fmt.Sprintf(`{"upstream":{"nodes":{%q:1}},"plugins":{"ext-plugin-pre-req":%s,"ext-plugin-post-req":%s}}`, upstreamServer(t, "u"), stop, stop))
	g.put(t, "routes/on", `{"uri":"/on","service_id":"s"}`)
	g.put(t, "routes/off", `{"uri":"/off","service_id":"s","plugins":{"ext-plugin-pre-req":{"_meta":{"disable":true}},"ext-plugin-post-req":{"_meta":{"disable":true}}}}`)
	require.Equal(t, 418, send(t, http.MethodGet, g.FrontURL()+"/on", "").status)
	require.Equal(t, 200, send(t, http.MethodGet, g.FrontURL()+"/off", "").status)
	require.EqualValues(t, 1, server.Stats().Requests)
}

func TestHeadersOfAPluginSurviveALaterAnswer(t *testing.T) {
	g, _ := testPair(t)
	set := ext(t, script{RespHeaders: map[string]string{"X-Plugin": "1"}})
	g.put(t, "routes/stop", fmt.Sprintf(`{"uri":"/stop","plugins":{"ext-plugin-pre-req":%s,"ext-plugin-post-req":%s}}`, set, ext(t, script{Status: status(403), Text: "no"})))
	g.put(t, "routes/auth", fmt.Sprintf(`{"uri":"/auth","plugins":{"ext-plugin-pre-req":%s,"key-auth":{}}}`, set))
	g.put(t, "routes/bad", fmt.Sprintf(`{"uri":"/bad","plugins":{"ext-plugin-pre-req":%s},"upstream":{"nodes":{"127.0.0.1:1":1}}}`, set))
	for path, want := range map[string]int{"/stop": 403, "/auth": 401, "/bad": 502} {
		r := send(t, http.MethodGet, g.FrontURL()+path, "")
		require.Equal(t, want, r.status, path)
		require.Equal(t, "1", r.header.Get("X-Plugin"), path)
	}
}

func TestABodyThatTheRunnerReadStillReachesTheUpstream(t *testing.T) {
	g, server := testPair(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s,"ext-plugin-post-req":%s}}`, ext(t, script{}), ext(t, script{Body: true})))
	body := strings.Repeat("0123456789abcdef", maxBody/16)
	r := send(t, http.MethodPost, g.FrontURL()+"/", body)
	require.Equal(t, 200, r.status)
	require.True(t, r.json(t)["body"] == body, "8 MiB arrive whole")
	require.EqualValues(t, 1, server.Stats().Questions)

	chunked := struct{ io.Reader }{strings.NewReader(body + "x")} // no length announced
	req, err := http.NewRequest(http.MethodPost, g.FrontURL()+"/", chunked)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 413, resp.StatusCode)
}

func TestConsumers(t *testing.T) {
	g, server := testPair(t)
	address := upstreamServer(t, "u")
	who := ext(t, script{Ask: []string{"consumer_name", "route_id", "service_id"}})
	g.put(t, "services/s", fmt.Sprintf(`{"upstream":{"nodes":{%q:1}},"plugins":{"ext-plugin-post-req":%s}}`, address, who))
	g.put(t, "routes/r", `{"uri":"/r","service_id":"s","plugins":{"key-auth":{}}}`)
	g.put(t, "routes/early", fmt.Sprintf(`{"uri":"/early","service_id":"s","plugins":{"key-auth":{},"ext-plugin-pre-req":%s}}`, ext(t, script{RespHeaders: map[string]string{"X-Early": "1"}})))
	g.put(t, "consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"one"}}}`)
	g.put(t, "consumers/jill", `{"username":"jill","plugins":{"key-auth":{"key":"two"}}}`)
	g.put(t, "consumers/own", fmt.Sprintf(`{"username":"own","plugins":{"key-auth":{"key":"three"},"ext-plugin-pre-req":%s}}`, ext(t, script{Status: status(429), Text: "own"})))
	as := func(key, path string) reply { return send(t, http.MethodGet, g.FrontURL()+path, "", "apikey", key) }
	for key, name := range map[string]string{"one": "jack", "two": "jill"} {
		for range 2 {
			require.Equal(t, map[string]any{"consumer_name": name, "route_id": "r", "service_id": "s"}, as(key, "/r").json(t))
		}
	}
	require.EqualValues(t, 2, server.Stats().Tokens, "a token for each consumer")
	require.EqualValues(t, 1, server.Stats().Configs)
	require.Equal(t, "own", as("three", "/r").text, "the consumer's own runs after authentication")
	r := as("three", "/early")
	require.Equal(t, "1", r.header.Get("X-Early"), "the route's ran before")
	require.Equal(t, 200, r.status, "and the consumer's does not run as well")
}

func TestKeysOfConfigurations(t *testing.T) {
	s := newStore(func() time.Time { return time.UnixMilli(20) })
	put := func(plural, id, text string) {
		value, err := decodeJSON([]byte(text))
		require.NoError(t, err)
		_, _, err = s.put(kinds[plural], id, value.(map[string]any))
		require.NoError(t, err)
	}
	put("services", "svc1", `{}`)                                                                // 21
	put("routes", "k1", `{"uri":"/k1","service_id":"svc1"}`)                                     // 22
	put("routes", "k4", `{"uri":"/k4","plugins":{"key-auth":{}}}`)                               // 23
	put("consumers", "jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)           // 24
	put("consumers", "plain", `{"username":"plain","plugins":{}}`)                               // 25
	put("routes", "k1", `{"uri":"/k1","service_id":"svc1","plugins":{"ext-plugin-pre-req":{}}}`) // 26
	keys := func(path string, consumer string) string {
		router := s.router.Load()
		bound, err := router.resolve(router.match("GET", "", path))
		require.NoError(t, err)
		if consumer == "" {
			return bound.key(preReq)
		}
		return bound.with(s.get(kinds["consumers"], consumer)).key(postReq)
	}
	require.Equal(t, "route#k4#ext-plugin-pre-req#23", keys("/k4", ""))
	require.Equal(t, "route&service#k1&svc1#ext-plugin-pre-req#26&21", keys("/k1", ""))
	require.Equal(t, "route&consumer#k4&jack#ext-plugin-post-req#23&24", keys("/k4", "jack"))
	require.Equal(t, "route&service&consumer#k1&svc1&jack#ext-plugin-post-req#26&21&24", keys("/k1", "jack"))
	require.Equal(t, "route#k4#ext-plugin-post-req#23", keys("/k4", "plain"), "a consumer without plugins changes nothing")
}

func TestAConfigurationIsPreparedOncePerVersionAndLifetime(t *testing.T) {
	g, server := testPair(t)
	get := func() int { return send(t, http.MethodGet, g.FrontURL()+"/", "").status }
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Status: status(201)})))
	require.Equal(t, []int{201, 201}, []int{get(), get()})
	require.EqualValues(t, 1, server.Stats().Prepared)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Status: status(202)})))
	require.Equal(t, []int{202, 202}, []int{get(), get()})
	require.EqualValues(t, 2, server.Stats().Prepared)
}

func TestATokenExpires(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runner.sock")
	server, _ := testRunner(t, socket)
	now := time.Unix(0, 0)
	r := newRunner(Config{RunnerSocket: socket, ConfExpire: time.Minute})
	r.now = func() time.Time { return now }
	defer r.close()
	value := `{}`
	conf := &extPlugin{Conf: []namedConf{{Name: "scripted", Value: &value}}}
	call := func() {
		_, err := r.call(context.Background(), "route#r#ext-plugin-pre-req#1", conf, extplugin.Request{SrcIP: net.IPv4zero.To4(), Method: "GET", Path: "/"}, nil)
		require.NoError(t, err)
	}
	call()
	now = now.Add(time.Minute - 1)
	call()
	require.EqualValues(t, 1, server.Stats().Prepared)
	now = now.Add(1)
	call()
	require.EqualValues(t, 2, server.Stats().Prepared)
}

func TestTheTokenCacheIsBounded(t *testing.T) {
	r := newRunner(Config{ConfExpire: time.Minute})
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	for i := range maxTokens {
		r.remember(fmt.Sprint(i), 1)
	}
	require.Len(t, r.tokens, maxTokens)
	r.remember("one more", 1)
	require.Len(t, r.tokens, 1)
	now = now.Add(time.Minute)
	for i := range maxTokens {
		r.remember(fmt.Sprint(i), 1)
	}
	require.LessOrEqual(t, len(r.tokens), maxTokens)
}

func TestARestartedRunnerIsServedWithoutAnError(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runner.sock")
	_, stop := testRunner(t, socket)
	g := testGateway(t, func(c *Config) { c.RunnerSocket = socket })
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Status: status(200), Text: "served"})))
	require.Equal(t, "served", send(t, http.MethodGet, g.FrontURL()+"/", "").text)
	stop()
	second, _ := testRunner(t, socket)
	require.Equal(t, "served", send(t, http.MethodGet, g.FrontURL()+"/", "").text)
	require.EqualValues(t, 1, second.Stats().Prepared, "the token of the first was not known to the second")
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	g, server := testPair(t)
	g.put(t, "routes/r", fmt.Sprintf(`{"uri":"/","plugins":{"ext-plugin-pre-req":%s}}`, ext(t, script{Status: status(200)})))
	for range 10 {
		require.Equal(t, 200, send(t, http.MethodGet, g.FrontURL()+"/", "").status)
	}
	require.EqualValues(t, 1, server.Stats().Accepted)
	var clients sync.WaitGroup
	for range 100 {
		clients.Go(func() {
			if r, err := client.Get(g.FrontURL() + "/"); err == nil {
				_ = r.Body.Close()
			}
		})
	}
	clients.Wait()
	require.EqualValues(t, 110, server.Stats().Requests)
}

func TestAFailedCallIs503UnlessTheRouteMayDegrade(t *testing.T) {
	dir := t.TempDir()
	address := upstreamServer(t, "u")
	for name, socket := range map[string]string{
		"no socket":                           "",
		"no runner":                           filepath.Join(dir, "none.sock"),
		"a runner that closes without answer": closingRunner(t, filepath.Join(dir, "closing.sock")),
	} {
		t.Run(name, func(t *testing.T) {
			log, logs := observed()
			g := testGateway(t, func(c *Config) { c.RunnerSocket, c.Logger = socket, log })
			conf := ext(t, script{})
			g.put(t, "routes/strict", fmt.Sprintf(`{"uri":"/strict","plugins":{"ext-plugin-pre-req":%s},"upstream":{"nodes":{%q:1}}}`, conf, address))
			g.put(t, "routes/lax", fmt.Sprintf(`{"uri":"/lax","plugins":{"ext-plugin-pre-req":%s},"upstream":{"nodes":{%q:1}}}`,
				strings.TrimSuffix(conf, "}")+`,"allow_degradation":true}`, address))
			r := send(t, http.MethodPost, g.FrontURL()+"/strict", "x")
			require.Equal(t, 503, r.status)
			require.Contains(t, r.text, "503 Service Temporarily Unavailable")
			require.Equal(t, "x", send(t, http.MethodPost, g.FrontURL()+"/lax", "x").echoed(t).Body)
			require.Equal(t, "the runner failed", logs.All()[0].Message)
		})
	}
}

// closingRunner accepts connections and closes them when a call arrives.
func closingRunner(t *testing.T, socket string) string {
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadByte()
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return socket
}
