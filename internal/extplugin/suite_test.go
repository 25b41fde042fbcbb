package extplugin

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/api7/ext-plugin-proto/go/A6/Err"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPRespCall"
	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/require"
)

// One suite for this package's server and for the stock runner, which both have
// to understand the client, and to do the same.

func TestSuiteOnThisServer(t *testing.T) { runSuite(t, serve(t).path) }

func TestSuiteOnTheStockRunner(t *testing.T) { runSuite(t, startProcess(t, runAsStock)) }

// request is what the suite's cases send unless they say otherwise.
func suiteRequest(token uint32) Request {
	return Request{
		ID: 7, Token: token, SrcIP: net.IP{192, 0, 2, 1}, Method: http.MethodPost, Path: "/graphql",
		Args:    []KV{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}, {Name: "b", Value: "3"}},
		Headers: []KV{{Name: "host", Value: "example.com"}, {Name: "x-one", Value: "1"}},
	}
}

type suiteCase struct {
	name   string
	script string
	body   string
	vars   map[string]string
	want   Action
}

var suiteCases = []suiteCase{
	{name: "a filter that does nothing lets the request go on", script: `{}`,
		want: Action{Kind: Continue}},
	{name: "a status and a body stop the request", script: `{"status":403,"headers":{"X-A":["1"]},"body":"no"}`,
		want: Action{Kind: Stop, Status: 403, Headers: []KV{{Name: "X-A", Value: "1"}}, Body: []byte("no")}},
	{name: "a repeated header of an answer is sent as often", script: `{"status":400,"headers":{"X-A":["1","2"]}}`,
		want: Action{Kind: Stop, Status: 400, Headers: []KV{{Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}}}},
	{name: "a body alone is answered with 200", script: `{"body":"yes"}`,
		want: Action{Kind: Stop, Status: 200, Body: []byte("yes")}},
	{name: "headers alone do not stop the request", script: `{"headers":{"X-A":["1"]}}`,
		want: Action{Kind: Continue}},
	{name: "a header that is set is sent to the upstream", script: `{"set_headers":{"x-new":"n"}}`,
		want: Action{Kind: Rewrite, RewriteHeaders: []KV{{Name: "X-New", Value: "n"}}}},
	{name: "a header that is replaced is sent to the upstream", script: `{"set_headers":{"X-ONE":"n"}}`,
		want: Action{Kind: Rewrite, RewriteHeaders: []KV{{Name: "X-One", Value: "n"}}}},
	{name: "a header that is deleted is named without a value", script: `{"del_headers":["X-One"]}`,
		want: Action{Kind: Rewrite, RewriteHeaders: []KV{{Name: "X-One", NoValue: true}}}},
	{name: "a path that is set is sent", script: `{"set_path":"/other"}`,
		want: Action{Kind: Rewrite, Path: "/other"}},
	{name: "an argument that is replaced is sent with all its values", script: `{"set_args":{"a":["x","y"]}}`,
		want: Action{Kind: Rewrite, Args: []KV{{Name: "a", Value: "x"}, {Name: "a", Value: "y"}}}},
	{name: "an argument that is deleted is named without a value", script: `{"del_args":["b"]}`,
		want: Action{Kind: Rewrite, Args: []KV{{Name: "b", NoValue: true}}}},
	{name: "headers for the client's response are sent", script: `{"resp_headers":{"X-R":["1","2"]}}`,
		want: Action{Kind: Rewrite, RespHeaders: []KV{{Name: "X-R", Value: "1"}, {Name: "X-R", Value: "2"}}}},
	{name: "variables are asked: with a value, empty, and absent", script: `{"vars":["cookie_a","cookie_b","cookie_c"]}`,
		vars: map[string]string{"cookie_a": "1", "cookie_b": ""},
		want: Action{Kind: Stop, Status: 200, Body: []byte(`{"cookie_a":"1","cookie_b":"","cookie_c":null}`)}},
	{name: "the body is asked", script: `{"tell":["body"]}`, body: "{ a }",
		want: Action{Kind: Stop, Status: 200, Body: []byte(`{"body":"{ a }"}`)}},
	{name: "a body that is empty is absent", script: `{"tell":["body"]}`,
		want: Action{Kind: Stop, Status: 200, Body: []byte(`{"body":null}`)}},
	{name: "the request tells what the call says", script: `{"tell":["method","path","src_ip","args","header"]}`,
		want: Action{Kind: Stop, Status: 200, Body: []byte(`{"args":{"a":["1"],"b":["2","3"]},` +
			`"header":{"Host":["example.com"],"X-One":["1"]},"method":"POST","path":"/graphql","src_ip":"192.0.2.1"}`)}},
}

func runSuite(t *testing.T, path string) {
	for _, tc := range suiteCases {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, path)
			token := prepare(t, c, "route#"+tc.name+"#ext-plugin-pre-req#1", tc.script)
			answers := &fixedAnswers{vars: tc.vars, body: []byte(tc.body)}
			got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), answers)
			require.NoError(t, err)
			tc.want.ID = 7
			require.Equal(t, tc.want, got)
			require.False(t, c.Broken())
		})
	}
	t.Run("plugins run in order until one answers", func(t *testing.T) { suiteOrder(t, path) })
	t.Run("an unknown plugin is skipped when another is known", func(t *testing.T) { suiteUnknownPlugin(t, path) })
	t.Run("an unknown token is an error of its own", func(t *testing.T) { suiteUnknownToken(t, path) })
	t.Run("a frame of unknown type is refused and the connection kept", func(t *testing.T) { suiteUnknownType(t, path) })
	t.Run("a response is left as it is", func(t *testing.T) { suiteResponse(t, path) })
	t.Run("a body of 100 KB arrives whole", func(t *testing.T) { suiteBody(t, path, 100<<10) })
	t.Run("connections are served at the same time", func(t *testing.T) { suiteConcurrency(t, path) })
}

func suiteOrder(t *testing.T, path string) {
	c := dial(t, path)
	token, err := c.PrepareConf(t.Context(), "order", []NamedConf{
		{Name: "second", Value: `{"set_headers":{"X-First":"1"}}`},
		{Name: "script", Value: `{"status":429,"body":"stop"}`},
		{Name: "second", Value: `{"panic":"is not reached"}`},
	})
	require.NoError(t, err)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.NoError(t, err)
	require.Equal(t, Action{Kind: Stop, ID: 7, Status: 429, Body: []byte("stop")}, got)
}

func suiteUnknownPlugin(t *testing.T, path string) {
	c := dial(t, path)
	token, err := c.PrepareConf(t.Context(), "unknown plugin", []NamedConf{
		{Name: "nobody", Value: `{}`}, {Name: "script", Value: `{"set_path":"/p"}`},
	})
	require.NoError(t, err)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.NoError(t, err)
	require.Equal(t, Action{Kind: Rewrite, ID: 7, Path: "/p"}, got)
}

func suiteUnknownToken(t *testing.T, path string) {
	c := dial(t, path)
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(4294967295), &fixedAnswers{})
	require.ErrorIs(t, err, ErrConfTokenNotFound)
	require.False(t, c.Broken())
	token := prepare(t, c, "after unknown token", `{}`)
	_, err = c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.NoError(t, err)
}

func suiteUnknownType(t *testing.T, path string) {
	c := dialRaw(t, path)
	for range 2 {
		c.write(frameOf(9, []byte("whatever")))
		ty, payload := c.read()
		require.Equal(t, frameError, ty)
		require.Equal(t, byte(Err.CodeBAD_REQUEST), decodeErrorCode(payload))
	}
}

func suiteResponse(t *testing.T, path string) {
	token := prepare(t, dial(t, path), "response", `{}`)
	b := flatbuffers.NewBuilder(0)
	HTTPRespCall.ReqStart(b)
	HTTPRespCall.ReqAddId(b, 11)
	HTTPRespCall.ReqAddStatus(b, 200)
	HTTPRespCall.ReqAddConfToken(b, token)
	b.Finish(HTTPRespCall.ReqEnd(b))

	c := dialRaw(t, path)
	c.write(frameOf(frameHTTPRespCall, b.FinishedBytes()))
	ty, payload := c.read()
	require.Equal(t, frameHTTPRespCall, ty)
	resp := HTTPRespCall.GetRootAsResp(payload, 0)
	require.Equal(t, uint32(11), resp.Id())
	require.Zero(t, resp.Status())
	require.Zero(t, resp.HeadersLength())
	require.Nil(t, resp.BodyBytes())
}

func suiteBody(t *testing.T, path string, size int) {
	c := dial(t, path)
	token := prepare(t, c, "body", `{"tell":["body_sum"]}`)
	body := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{body: body})
	require.NoError(t, err)
	want, err := json.Marshal(map[string]string{"body_sum": bodySum(body)})
	require.NoError(t, err)
	require.Equal(t, string(want), string(got.Body))
}

func suiteConcurrency(t *testing.T, path string) {
	const connections, calls = 16, 50
	pool := NewPool(path, connections)
	defer func() { require.NoError(t, pool.Close()) }()
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			c, err := pool.Get(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Put(c)
			name := string(rune('a' + i))
			token, err := c.PrepareConf(t.Context(), "concurrent "+name, []NamedConf{{Name: "script", Value: `{"vars":["cookie_` + name + `"]}`}})
			if err != nil {
				t.Error(err)
				return
			}
			for range calls {
				got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{vars: map[string]string{"cookie_" + name: name}})
				if err != nil || string(got.Body) != `{"cookie_`+name+`":"`+name+`"}` {
					t.Errorf("%s: got %q, %v", name, got.Body, err)
					return
				}
			}
		})
	}
	all.Wait()
}
