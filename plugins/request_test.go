package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/cost"
	"graphql-limit-count/limiter"
)

// plainRequest is a request of a runner that asks APISIX one question at a time, as
// the stock one does.
type plainRequest struct {
	method, path, body string
	header             http.Header
	args               url.Values
	vars               map[string]string
	failing            string // the variable, or "the body", that cannot be asked for
	asked              []string
	resp               http.Header
}

var errGone = errors.New("the connection is gone")

func (r *plainRequest) ID() uint32               { return 1 }
func (r *plainRequest) SrcIP() net.IP            { return nil }
func (r *plainRequest) Method() string           { return r.method }
func (r *plainRequest) Path() []byte             { return []byte(r.path) }
func (r *plainRequest) SetPath([]byte)           {}
func (r *plainRequest) Header() pkghttp.Header   { return plainHeader{r.header} }
func (r *plainRequest) Args() url.Values         { return r.args }
func (r *plainRequest) Context() context.Context { return context.Background() }
func (r *plainRequest) RespHeader() http.Header  { return r.resp }

func (r *plainRequest) Var(name string) ([]byte, error) {
	r.asked = append(r.asked, name)
	if name == r.failing {
		return nil, errGone
	}
	value, ok := r.vars[name]
	if !ok {
		return nil, nil
	}
	return []byte(value), nil
}

func (r *plainRequest) Body() ([]byte, error) {
	r.asked = append(r.asked, "the body")
	if r.failing == "the body" {
		return nil, errGone
	}
	return []byte(r.body), nil
}

type plainHeader struct{ http.Header }

func (h plainHeader) View() http.Header { return h.Header }

// noModels knows no decorations.
type noModels struct{}

func (noModels) Model(string) *cost.Model { return nil }

func newPlainPlugin(tb testing.TB) (*Plugin, *observer.ObservedLogs) {
	tb.Helper()
	core, logs := observer.New(zapcore.ErrorLevel)
	local := limiter.NewLocal(limiter.LocalConfig{})
	tb.Cleanup(local.Close)
	return New(Options{Models: noModels{}, Local: local, Redis: &limiter.Clients{}, Logger: zap.New(core)}), logs
}

func newPlainRequest(document string) *plainRequest {
	return &plainRequest{
		method: "POST", path: "/graphql", body: document, resp: http.Header{}, args: url.Values{},
		header: http.Header{"Content-Type": {"application/graphql"}},
		vars:   map[string]string{varRouteID: "r", fallbackVariable: "127.0.0.1"},
	}
}

func decideOn(tb testing.TB, p *Plugin, conf string, r *plainRequest) *http.Response {
	tb.Helper()
	parsed, err := p.ParseConf([]byte(conf))
	require.NoError(tb, err)
	defer func() { require.NoError(tb, parsed.(io.Closer).Close()) }()
	w := httptest.NewRecorder()
	w.Code = 0
	p.RequestFilter(parsed, w, r)
	return w.Result()
}

const plainQuota = `{"count":1000000,"time_window":60}`

// TestARunnerThatAsksOneQuestionAtATime is served as well.
func TestARunnerThatAsksOneQuestionAtATime(t *testing.T) {
	p, _ := newPlainPlugin(t)
	r := newPlainRequest("{a{b}}")
	decideOn(t, p, plainQuota, r)
	require.Equal(t, []string{"2"}, r.resp[headerCost])
	require.Equal(t, []string{"the body", "service_id", "route_id", "remote_addr"}, r.asked)
}

// TestAQuestionThatFailsRefusesTheRequest, whichever it is, and nothing is charged.
func TestAQuestionThatFailsRefusesTheRequest(t *testing.T) {
	for _, c := range []struct {
		failing string
		status  int
	}{{"the body", 500}, {varServiceID, 500}, {varRouteID, 500}, {fallbackVariable, 500}} {
		t.Run(c.failing, func(t *testing.T) {
			p, logs := newPlainPlugin(t)
			r := newPlainRequest("{a}")
			r.failing = c.failing
			require.Equal(t, c.status, decideOn(t, p, plainQuota, r).StatusCode)
			require.Equal(t, 1, logs.Len())
			require.Contains(t, logs.All()[0].ContextMap()["error"], errGone.Error())
			r = newPlainRequest("{a}")
			decideOn(t, p, plainQuota, r)
			require.Equal(t, []string{"999999"}, map[string][]string(r.resp)["X-RateLimit-Remaining"])
		})
	}
}

// TestAForeignConfigurationIsRefused: a runner can only pass what ParseConf returned.
func TestAForeignConfigurationIsRefused(t *testing.T) {
	p, _ := newPlainPlugin(t)
	w := httptest.NewRecorder()
	p.RequestFilter("another plugin's", w, newPlainRequest("{a}"))
	require.Equal(t, 500, w.Code)
}

// TestConfigurationsSayWhetherTheyDegrade, also those that are invalid.
func TestConfigurationsSayWhetherTheyDegrade(t *testing.T) {
	p, _ := newPlainPlugin(t)
	for conf, want := range map[string]bool{
		plainQuota: false, `{"count":1,"time_window":1,"allow_degradation":true}`: true, `{"allow_degradation":true}`: true, `{`: false,
	} {
		parsed, err := p.ParseConf([]byte(conf))
		require.NoError(t, err)
		require.Equal(t, want, parsed.(interface{ AllowDegradation() bool }).AllowDegradation(), conf)
		require.NoError(t, parsed.(io.Closer).Close())
		require.NoError(t, parsed.(io.Closer).Close(), "closing again does nothing")
	}
}

// TestFailuresAreLoggedOnceASecond: the log must not become the next outage.
func TestFailuresAreLoggedOnceASecond(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	l := newFailureLog(zap.New(core))
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	for range 5 {
		l.failure("charging a counter", errGone)
	}
	require.Equal(t, 1, logs.Len())
	now = now.Add(failureLogInterval)
	l.failure("charging a counter", errGone, zap.String("route_id", "r"))
	require.Equal(t, 2, logs.Len())
	last := logs.All()[1]
	require.Equal(t, "charging a counter failed", last.Message)
	require.Equal(t, map[string]any{"error": errGone.Error(), "failures_not_logged_before": int64(4), "route_id": "r"}, last.ContextMap())
}

// TestCeilSeconds: waiting that long is long enough.
func TestCeilSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 1<<63 - 1: 9223372037,
	} {
		require.Equal(t, want, ceilSeconds(d), d)
	}
}

// FuzzDecode reads any body: it never panics, what it reads of an object is what
// encoding/json reads of it, and a body that is refused is refused in words for the
// client.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"query":"{a}"}`, `[{"query":"{a}","variables":{"a":[1,{"b":"}"}]}},{"query":"{b}","operationName":"\ud83d"}]`,
		"\uFEFF {\"query\" : \"\\u007Ba}\" , \"x\":[{},[],\"\\\"]\",-1.5e3 , null,true] } ", `{"":"","query":1,"query":2}`, `[]`, `null`, `"`, ``,
		"{\"query\":\"\xff\\u0000\"}", "{a}", "--B\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n{\"query\":\"{a}\"}\r\n--B--",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", `{"a":{"b":{"c":[[[[]]]]}}}`, `{"a" :1,"b": 2 }`,
	} {
		for _, contentType := range []string{"application/json", "application/graphql", "multipart/form-data; boundary=B", "multipart/form-data; boundary=C; boundary*=utf-8''B",
			"application/json; charset=\"utf-7", "application/json; charset*0=utf-; charset*1=7", ""} {
			f.Add([]byte(body), contentType, "")
		}
		f.Add([]byte(body), "application/json", "gzip")
	}
	p, _ := newPlainPlugin(f)
	parsed, err := p.ParseConf([]byte(`{"count":1,"time_window":1,"max_batch":3,"allow_multipart":true,"max_body_size":65536}`))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte, contentType, encoding string) {
		r := newPlainRequest(string(body))
		r.header = http.Header{"Content-Type": {contentType}, "Content-Encoding": {encoding}}
		d := decision{plugin: p, route: parsed.(*route), request: request{Request: r}}
		operations, err := d.operations()
		if err != nil {
			var fault *requestError
			require.ErrorAs(t, err, &fault)
			require.NotEmpty(t, fault.Error())
		} else {
			require.NotEmpty(t, operations)
		}
		requireMembersAgree(t, body)
	})
}

// requireMembersAgree compares the walk over an object with encoding/json's.
func requireMembersAgree(t *testing.T, text []byte) {
	value := trimJSON(text)
	if !json.Valid(text) || value[0] != '{' {
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	_, err := decoder.Token()
	require.NoError(t, err)
	err = eachMember(value, func(key string, member []byte) error {
		name, err := decoder.Token()
		require.NoError(t, err)
		require.Equal(t, name, key)
		var want json.RawMessage
		require.NoError(t, decoder.Decode(&want))
		require.Equal(t, string(want), string(member))
		return nil
	})
	require.NoError(t, err)
	require.False(t, decoder.More())
}

// TestTheWalkEndsWithTheVisitor: the first error of the visitor is the walk's.
func TestTheWalkEndsWithTheVisitor(t *testing.T) {
	visited := 0
	require.Equal(t, errGone, eachElement([]byte(`[1, 2, 3]`), func([]byte) error { visited++; return errGone }))
	require.Equal(t, 1, visited)
	require.Equal(t, errGone, eachMember([]byte(`{"a":1,"b":2}`), func(string, []byte) error { visited++; return errGone }))
	require.Equal(t, 2, visited)
}

// BenchmarkFilter decides on a request whose body is at hand, with a local counter:
// everything but the exchange with APISIX.
func BenchmarkFilter(b *testing.B) {
	const small = `{"query":"query($n:Int){products(first:$n){nodes{id name reviews(first:20){nodes{body}}}}}","variables":{"n":50}}`
	large := `{"query":"{` + strings.Repeat("field(argument: 1) { id name } ", 60) + `}"}`
	for _, c := range []struct{ name, conf, body string }{
		{"depth", plainQuota, small},
		{"complexity", `{"count":1000000000,"time_window":60,"cost_strategy":"complexity"}`, small},
		{"depth-2KB", plainQuota, large},
		{"refused", `{"count":1,"time_window":60}`, small},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, _ := newPlainPlugin(b)
			parsed, err := p.ParseConf([]byte(c.conf))
			require.NoError(b, err)
			r := newPlainRequest(c.body)
			r.header = http.Header{"Content-Type": {"application/json"}}
			b.ReportAllocs()
			for b.Loop() {
				r.asked = r.asked[:0]
				p.RequestFilter(parsed, discard{}, r)
			}
		})
	}
}

// discard is a response that nobody reads.
type discard struct{}

func (discard) Header() http.Header            { return http.Header{} }
func (discard) Write(text []byte) (int, error) { return len(text), nil }
func (discard) WriteHeader(int)                {}
