package plugins

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
)

// readyRequest is a request that has all that it is asked for at hand, as
// internal/extplugin's has once the body is there, so that what a benchmark counts is
// the filter's.
type readyRequest struct {
	*plainRequest
	sent [][2]string
	text []byte
	head readyHeader
}

type readyHeader struct {
	plainHeader
	sent *[][2]string
}

func (r *readyRequest) Header() pkghttp.Header         { return &r.head }
func (r *readyRequest) HasArgs() bool                  { return false }
func (r *readyRequest) Args() url.Values               { panic("not asked for") }
func (r *readyRequest) Prefetch(bool, ...string) error { return nil }
func (r *readyRequest) Body() ([]byte, error)          { return r.text, nil }
func (r *readyRequest) Lookup(name string) (value string, present bool, err error) {
	value, present = r.vars[name]
	if name == fallbackVariable {
		value = string(append([]byte(nil), value...)) // made for every call
	}
	return value, present, nil
}

func (h *readyHeader) Len() int { return len(*h.sent) }

func (h *readyHeader) Times(name string) int {
	times := 0
	for _, header := range *h.sent {
		if strings.EqualFold(header[0], name) {
			times++
		}
	}
	return times
}

func (h *readyHeader) Peek(name string) []byte {
	for i, header := range *h.sent {
		if strings.EqualFold(header[0], name) {
			return readyValues[i]
		}
	}
	return nil
}

// readySent are the headers of a usual request, readyValues their values.
var (
	readySent = [][2]string{
		{"accept", "*/*"}, {"accept-encoding", "gzip, br"}, {"authorization", "Bearer x"}, {"content-length", "500"},
		{"content-type", "application/json"}, {"host", "shop.example.com"}, {"user-agent", "Mozilla/5.0"}, {"x-forwarded-for", "203.0.113.7"},
	}
	readyValues = func() (values [][]byte) {
		for _, header := range readySent {
			values = append(values, []byte(header[1]))
		}
		return values
	}()
)

func newReadyRequest(body string) *readyRequest {
	r := &readyRequest{plainRequest: newPlainRequest(""), text: []byte(body), sent: readySent}
	r.vars[varServiceID], r.vars[fallbackVariable] = "00000000000000000042", "203.0.113.7"
	r.head.sent = &r.sent
	return r
}

// cachedBodies are requests as clients send them: to a known document, of about 500 B
// and 2 KB, with and without escapes in the document, with variables.
var cachedBodies = []struct{ name, body string }{
	{"500B", `{"operationName":"Listing","query":"query Listing($first: Int!) { ` + strings.Repeat("products(first: $first) { nodes { id name price } } ", 7) + `}","variables":{"first":20,"text":"shelf"}}`},
	{"500B-escapes", `{"operationName":"Listing","query":"query Listing($first: Int!) {\n` + strings.Repeat(`  products(first: $first) {\n    nodes { id name }\n  }\n`, 6) + `}\n","variables":{"first":20,"text":"shelf"}}`},
	{"2KB-escapes", `{"operationName":"Listing","query":"query Listing($first: Int!) {\n` + strings.Repeat(`  products(first: $first) {\n    nodes { id name }\n  }\n`, 32) + `}\n","variables":{"first":20,"text":"shelf"}}`},
}

// cachedCases are the ways of costing.
var cachedCases = []struct{ name, conf string }{
	{"depth", `{"count":1000000000,"time_window":60}`},
	{"quantified", `{"count":1000000000,"time_window":60,"cost_strategy":"node_quantifier"}`},
	{"standard-headers", `{"count":1000000000,"time_window":60,"standard_headers":true}`},
}

// BenchmarkCachedRequest is a request whose plan is known, end to end in the filter:
// the body at hand, a local counter. The target is under 3 us and 15 allocations.
func BenchmarkCachedRequest(b *testing.B) {
	for _, c := range cachedCases {
		for _, body := range cachedBodies {
			b.Run(c.name+"/"+body.name, func(b *testing.B) {
				filter := cachedFilter(b, c.conf, body.body)
				b.ReportAllocs()
				for b.Loop() {
					filter()
				}
			})
		}
	}
}

// cachedFilter returns a function that filters the request, which has been filtered.
func cachedFilter(tb testing.TB, conf, body string) func() {
	p, _ := newPlainPlugin(tb)
	s := planOptions(tb, 1)
	p.options.Models, p.options.Schemas = oneModel{s.Model}, oneSchema{s.Schema}
	parsed, err := p.ParseConf([]byte(conf))
	require.NoError(tb, err)
	r := newReadyRequest(body)
	filter := func() { p.RequestFilter(parsed, discard{}, r) }
	filter()
	require.NotEmpty(tb, http.Header(r.resp)[headerCost])
	return filter
}

// TestACachedRequestAllocatesLittle: the address, the counter's name, and the headers'
// names and values of the response.
func TestACachedRequestAllocatesLittle(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes pools forget at random; the program without it is tested after the others")
	}
	const most = 5
	for _, c := range cachedCases[:2] {
		for _, body := range cachedBodies {
			filter := cachedFilter(t, c.conf, body.body)
			require.LessOrEqual(t, testing.AllocsPerRun(100, filter), float64(most), c.name+" "+body.name)
		}
	}
}

// oneModel and oneSchema are those of every service.
type (
	oneModel  struct{ model *cost.Model }
	oneSchema struct{ schema *cost.Schema }
)

func (m oneModel) Model(string) *cost.Model                { return m.model }
func (s oneSchema) Cached(introspect.Request) *cost.Schema { return s.schema }
func (s oneSchema) Schema(context.Context, introspect.Request) (*cost.Schema, error) {
	return s.schema, nil
}
