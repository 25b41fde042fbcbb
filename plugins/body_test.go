package plugins_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// zipped compresses a text.
func zipped(tb testing.TB, text string) string {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return out.String()
}

// TestMethods: section 1, step 1.
func TestMethods(t *testing.T) {
	s := startStack(t, stackConfig{})
	post := s.route(t, `{`+plenty+`}`)
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"} {
		t.Run(method+" is not allowed", func(t *testing.T) {
			q := graphQL("{a}")
			q.method = method
			a := post.send(q).refusedWith(405, "METHOD_NOT_ALLOWED", "method not allowed")
			require.Equal(t, map[string]string{"Allow": "POST", "Content-Type": "application/json"}, a.header)
			require.Empty(t, a.asked)
		})
	}
	t.Run("Allow lists GET where it is costed", func(t *testing.T) {
		both := s.route(t, `{`+plenty+`,"allowed_methods":["POST","GET"]}`)
		a := both.send(query{method: "PUT"}).refusedWith(405, "METHOD_NOT_ALLOWED", "method not allowed")
		require.Equal(t, "GET, POST", a.header["Allow"])
	})
	t.Run("a CORS preflight passes uncharged", func(t *testing.T) {
		a := post.send(query{method: "OPTIONS", headers: map[string]string{"origin": "https://a.test", "access-control-request-method": "POST"}}).passes()
		require.Empty(t, a.header)
		require.Empty(t, a.asked)
	})
	for _, missing := range []string{"origin", "access-control-request-method"} {
		t.Run("OPTIONS without "+missing+" is no preflight", func(t *testing.T) {
			headers := map[string]string{"origin": "https://a.test", "access-control-request-method": "POST"}
			delete(headers, missing)
			post.send(query{method: "OPTIONS", headers: headers}).refusedWith(405, "METHOD_NOT_ALLOWED", "method not allowed")
		})
	}
	require.Equal(t, "1000000", post.send(graphQL("{a}")).costs("1").header["X-RateLimit-Limit"])
}

// TestBodies: section 1, step 2.
func TestBodies(t *testing.T) {
	s := startStack(t, stackConfig{maxBodySize: 200})
	route, small := s.route(t, `{`+plenty+`}`), s.route(t, `{`+plenty+`,"max_body_size":10}`)
	t.Run("a Content-Length above the limit asks APISIX for nothing", func(t *testing.T) {
		require.Empty(t, route.send(graphQL("{a}", "content-length", "201")).badRequest(noBody).asked)
		require.Empty(t, small.send(graphQL("{a}", "content-length", "11")).badRequest(noBody).asked)
	})
	t.Run("a Content-Length at the limit is asked for", func(t *testing.T) {
		require.Equal(t, []string{"the body"}, route.send(graphQL("{a}", "content-length", "200")).costs("1").asked)
	})
	for _, nonsense := range []string{"-1", "x", "", "1e9", "99999999999999999999999999"} {
		t.Run("a Content-Length of "+nonsense+" says nothing", func(t *testing.T) {
			route.send(graphQL("{a}", "content-length", nonsense)).costs("1")
		})
	}
	for _, c := range []struct {
		name, body string
		route      *caller
		size       int
	}{
		{"an empty body", "", route, 0},
		{"a body over the process's limit", "{a}", route, 201},
		{"a body over the configuration's limit", "{a}", small, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.route.send(graphQL(pad(c.body, c.size))).badRequest(noBody)
		})
	}
	route.send(graphQL(pad("{a}", 200))).costs("1")
	small.send(graphQL(pad("{a}", 10))).costs("1")
	t.Run("a configuration may allow more than the process", func(t *testing.T) {
		s.route(t, `{`+plenty+`,"max_body_size":201}`).send(graphQL(pad("{a}", 201))).costs("1")
	})
	t.Run("all questions are asked at once", func(t *testing.T) {
		keyed := s.bound(t, "r", "s", `{`+plenty+`,"key_type":"var_combination","key":"$remote_port $host $http_a $remote_addr"}`)
		require.Equal(t, []string{"host", "remote_port", "the body"}, keyed.send(graphQL("{a}")).costs("1").asked)
	})
}

func pad(text string, size int) string { return text + strings.Repeat(" ", max(0, size-len(text))) }

// TestContentTypes: section 1, step 3.
func TestContentTypes(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	const inBody = `{"query":"{a{b}}"}`
	for _, accepted := range []string{
		"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"",
		" application/json ;x=y", "application/json; charset=utf8", "application/json;", "application/json; profile=x; charset=Utf-8",
	} {
		t.Run(accepted, func(t *testing.T) { route.send(inJSON(inBody).with("content-type", accepted)).costs("2") })
	}
	for _, accepted := range []string{"application/graphql", "APPLICATION/GraphQL", "application/graphql; charset=utf-8"} {
		t.Run(accepted, func(t *testing.T) { route.send(graphQL("{a{b}}").with("content-type", accepted)).costs("2") })
	}
	for _, refused := range []string{
		"", "text/plain", "application/jsonx", "application/json+x", "xapplication/json", "application/graphql-response+json",
		"application/x-www-form-urlencoded", "application/json, application/graphql", "multipart/form-data; boundary=x",
		"application/json; charset=utf-7", "application/json; charset=utf-8; charset=utf-16", "application/graphql; CHARSET=iso-8859-1",
		"application/json; charset*=utf-7''", "application/json; charset*=utf-8''utf-7", "application/json; charset*0=utf-; charset*1=7",
		"application/json; charset=utf-8; Charset*=utf-7''", "application/json; charset *=utf-7", "application/json; (x) charset=utf-7",
		"application/json; x=\"charset=utf-7\"", "application/json; x=1, application/x-www-form-urlencoded", "application/json; charset",
	} {
		t.Run("not "+refused, func(t *testing.T) {
			route.send(inJSON(inBody).with("content-type", refused)).badRequest(typeError + refused)
		})
	}
	t.Run("without the header", func(t *testing.T) { route.send(query{body: inBody}).badRequest(typeError) })
	t.Run("a long one is cut", func(t *testing.T) {
		long := strings.Repeat("x", 1000)
		route.send(inJSON(inBody).with("content-type", long)).badRequest(typeError + long[:256])
	})
}

// TestContentEncodings: section 1, compressed bodies.
func TestContentEncodings(t *testing.T) {
	s := startStack(t, stackConfig{maxBodySize: 1000})
	route := s.route(t, `{`+plenty+`}`)
	const plain = `{"query":"{a{b}}"}`
	whole := zipped(t, plain)
	for _, c := range []struct{ name, encoding, body string }{
		{"gzip", "gzip", whole},
		{"whatever its case", "GZIP", whole},
		{"identity", "identity", plain},
		{"none", "", plain},
		{"several members make one body", "gzip", zipped(t, plain[:5]) + zipped(t, plain[5:])},
		{"exactly the limit", "gzip", zipped(t, pad(plain, 1000))},
		{"a byte order mark inside", "gzip", zipped(t, "\uFEFF"+plain)},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(inJSON(c.body, "content-encoding", c.encoding)).costs("2") })
	}
	for _, c := range []struct{ name, body string }{
		{"not compressed", plain},
		{"a bomb", zipped(t, pad(plain, 1_000_000))},
		{"one byte over the limit", zipped(t, pad(plain, 1001))},
		{"several members over the limit together", zipped(t, pad(plain, 600)) + zipped(t, pad("", 600))},
		{"cut off in the data", whole[:len(whole)-12]},
		{"cut off in the checksum", whole[:len(whole)-1]},
		{"a wrong checksum", whole[:len(whole)-8] + "12345678"},
		{"a header only", whole[:10]},
		{"nothing compressed", zipped(t, "")},
		{"a text after it", whole + "text"},
	} {
		t.Run(c.name, func(t *testing.T) { route.send(inJSON(c.body, "content-encoding", "gzip")).badRequest(noBody) })
	}
	for _, encoding := range []string{"br", "deflate", "zstd", "x-gzip", "gzip, gzip", "identity, gzip", "identity;q=1"} {
		t.Run(encoding+" is refused", func(t *testing.T) {
			route.send(inJSON(whole, "content-encoding", encoding)).badRequest("invalid graphql request, error content-encoding: " + encoding)
		})
	}
}
