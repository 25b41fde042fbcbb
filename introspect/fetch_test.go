package introspect

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/graphql-go/graphql"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
	"graphql-limit-count/internal/apisix"
)

func readAll(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

func TestTheRequest(t *testing.T) {
	b := newBench(t, Config{Upstreams: oneService(httpUpstream("a"))})
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/graphql", Host: "shop.example"})
	require.NoError(t, err)
	got := b.up.last(t)
	require.Equal(t, "POST", got.method)
	require.Equal(t, "shop.example", got.host)
	var body map[string]string
	require.NoError(t, json.Unmarshal([]byte(got.body), &body))
	require.Equal(t, map[string]string{"query": introspectionQuery}, body)
	delete(got.header, "Content-Length")
	require.Equal(t, http.Header{
		"Accept":          {"application/json"},
		"Accept-Encoding": {"gzip"},
		"Connection":      {"close"},
		"Content-Type":    {"application/json"},
		"User-Agent":      {"graphql-limit-count"},
	}, got.header)
}

func TestHeadersOfTheConfigurationAreAppliedLast(t *testing.T) {
	b := newBench(t, Config{Upstreams: oneService(httpUpstream("a"))})
	_, err := b.Schema(t.Context(), Request{ServiceID: "s", Path: "/graphql", Host: "shop.example", Settings: NewSettings("", map[string]string{
		"content-type": "application/graphql", "hOST": "other.example", "authorization": "Bearer t", "User-Agent": "x",
	})})
	require.NoError(t, err)
	got := b.up.last(t)
	require.Equal(t, "other.example", got.host)
	require.Equal(t, []string{"application/graphql"}, got.header.Values("Content-Type"))
	require.Equal(t, []string{"Bearer t"}, got.header.Values("Authorization"))
	require.Equal(t, []string{"x"}, got.header.Values("User-Agent"))
}

func TestNoHeaderValueIsShown(t *testing.T) {
	tests := []struct {
		name    string
		headers map[string]string
		err     string
	}{
		{"a value with a line break", map[string]string{"Authorization": "secret\r\n"}, "Authorization"},
		{"a name that is none", map[string]string{"A b": "secret"}, "A b"},
		{"a Host that is none", map[string]string{"Host": "secret host"}, "the Host of introspection_headers is not a valid header value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			_, err := b.Schema(t.Context(), Request{Settings: NewSettings("http://e/g", tt.headers)})
			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error()+b.logged(), "secret")
			require.Zero(t, b.up.requests())
		})
	}
}

func TestOnlyStatus200IsGood(t *testing.T) {
	for code, text := range map[int]string{201: "201", 204: "204", 301: "301", 307: "307", 401: "401", 500: "500"} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t, Config{})
			b.up.set(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://e/elsewhere")
				w.WriteHeader(code)
			})
			_, err := b.Schema(t.Context(), explicit("s"))
			require.EqualError(t, err, "unexpected status "+text+" from http://e/g")
			require.Equal(t, 1, b.up.requests(), "redirects are not followed")
		})
	}
}

func gzipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, err := zw.Write(text)
	require.NoError(tb, err)
	require.NoError(tb, zw.Close())
	return b.Bytes()
}

func TestBodies(t *testing.T) {
	const limit = 4096
	tooLong := bytes.Repeat([]byte{' '}, limit+1)
	justFits := append(bytes.Repeat([]byte{' '}, limit-len(introspected)), introspected...)
	tests := []struct {
		name, encoding string
		body           []byte
		err            string
	}{
		{"plain", "", []byte(introspected), ""},
		{"identity", "identity", []byte(introspected), ""},
		{"gzip", "gzip", gzipped(t, []byte(introspected)), ""},
		{"as long as it may be", "", justFits, ""},
		{"too long", "", tooLong, "read the introspection response of http://e/g: larger than 4096 bytes"},
		{"too long once decompressed", "gzip", gzipped(t, tooLong), "larger than 4096 bytes"},
		{"not gzip", "gzip", []byte(introspected), "decompress: gzip: invalid header"},
		{"gzip cut short", "gzip", gzipped(t, []byte(introspected))[:40], "unexpected EOF"},
		{"another encoding", "br", []byte("x"), `content encoding "br" was not asked for`},
		{"no schema", "", []byte(`{"data":{}}`), "introspect http://e/g: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.Source.maxBody = limit
			b.up.set(func(w http.ResponseWriter, _ *http.Request) {
				if tt.encoding != "" {
					w.Header().Set("Content-Encoding", tt.encoding)
				}
				_, _ = w.Write(tt.body)
			})
			_, err := b.Schema(t.Context(), explicit("s"))
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
		})
	}
}

func TestConnectingGetsTwoSeconds(t *testing.T) {
	b := newBench(t, Config{})
	var left time.Duration
	dial := b.Source.dialHook
	b.Source.dialHook = func(ctx context.Context, network, addr string) (net.Conn, error) {
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		left = time.Until(deadline)
		return dial(ctx, network, addr)
	}
	_, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	require.LessOrEqual(t, left, 2*time.Second)
}

func TestNoProxyIsUsed(t *testing.T) {
	require.Nil(t, newBench(t, Config{}).transport(target{}).Proxy)
}

func TestTLS(t *testing.T) {
	up := startUpstream(t, true)
	trusted := x509.NewCertPool()
	trusted.AddCert(up.server.Certificate()) // for example.com and 127.0.0.1
	node := func(host string) *known {
		return oneService(apisix.Upstream{Scheme: "https", Nodes: []apisix.Node{{Host: host}}})
	}
	tests := []struct {
		name      string
		cfg       Config
		req       Request
		sni, fail string
	}{
		{name: "certificates are not verified by default", cfg: Config{Upstreams: node("a")}, req: Request{Host: "any.example:9080"}, sni: "any.example"},
		{name: "verified, the Host names the certificate", cfg: Config{Upstreams: node("10.0.0.1"), TLSVerify: true, RootCAs: trusted}, req: Request{Host: "example.com"}, sni: "example.com"},
		{name: "verified, another name", cfg: Config{Upstreams: node("10.0.0.1"), TLSVerify: true, RootCAs: trusted}, req: Request{Host: "other.test"}, fail: "certificate is valid for"},
		{name: "verified, an unknown authority", cfg: Config{TLSVerify: true, RootCAs: x509.NewCertPool()}, req: Request{Settings: NewSettings("https://example.com/g", nil)}, fail: "unknown authority"},
		{name: "verified, an endpoint names itself", cfg: Config{TLSVerify: true, RootCAs: trusted}, req: Request{Settings: NewSettings("https://example.com/g", map[string]string{"Host": "h"})}, sni: "example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBenchOn(t, up, tt.cfg)
			tt.req.ServiceID = "s"
			_, err := b.Schema(t.Context(), tt.req)
			if tt.fail != "" {
				require.ErrorContains(t, err, tt.fail)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.sni, b.up.last(t).sni)
		})
	}
}

// The query is sent to the GraphQL implementation that this project has at hand,
// and the answer must give costing what it needs.
func TestTheQueryIsAnsweredByARealServer(t *testing.T) {
	require.Equal(t, 7, strings.Count(introspectionQuery, "ofType"))
	product := graphql.NewObject(graphql.ObjectConfig{Name: "Product", Fields: graphql.Fields{"id": {Type: graphql.ID}}})
	deep := graphql.NewNonNull(graphql.NewList(graphql.NewNonNull(graphql.NewList(graphql.NewNonNull(graphql.NewList(graphql.NewNonNull(product)))))))
	fields := graphql.Fields{
		"products":    {Type: deep, Args: graphql.FieldConfigArgument{"first": {Type: graphql.Int, DefaultValue: 25}}},
		"oldProducts": {Type: graphql.NewList(product), DeprecationReason: "use products"},
	}
	schema, err := graphql.NewSchema(graphql.SchemaConfig{
		Query:        graphql.NewObject(graphql.ObjectConfig{Name: "Root", Fields: fields}),
		Subscription: graphql.NewObject(graphql.ObjectConfig{Name: "Live", Fields: graphql.Fields{"product": {Type: product}}}),
	})
	require.NoError(t, err)
	b := newBench(t, Config{})
	b.up.set(func(w http.ResponseWriter, r *http.Request) {
		result := graphql.Do(graphql.Params{Schema: schema, RequestString: introspectionQuery})
		_ = json.NewEncoder(w).Encode(result)
	})
	got, err := b.Schema(t.Context(), explicit("s"))
	require.NoError(t, err)
	requireField(t, got, "Root", "products", "Product")
	requireField(t, got, "Root", "oldProducts", "Product")
	requireField(t, got, "Live", "product", "Product")
}

func requireField(tb testing.TB, schema *cost.Schema, typeName, field, want string) {
	tb.Helper()
	got, ok := schema.FieldType(typeName, field)
	require.True(tb, ok, "%s.%s", typeName, field)
	require.Equal(tb, want, got)
}
