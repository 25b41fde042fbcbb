package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"go.uber.org/zap"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

const (
	benchRoute   = "bench"
	benchService = "shop"
	mediaJSON    = "application/json"
	mediaGraphQL = "application/graphql"
)

// shopSource is a source of one service's cost model and schema.
type shopSource struct {
	model  *cost.Model
	schema *cost.Schema
}

// Model returns the shop's decorations.
func (s shopSource) Model(serviceID string) *cost.Model {
	if serviceID != benchService {
		return nil
	}
	return s.model
}

// Cached returns the shop's schema.
func (s shopSource) Cached(introspect.Request) *cost.Schema { return s.schema }

// Schema returns the shop's schema.
func (s shopSource) Schema(context.Context, introspect.Request) (*cost.Schema, error) {
	return s.schema, nil
}

// filter is the plugin with one configuration and a local counter, and no runner around it.
type filter struct {
	plugin *plugins.Plugin
	conf   any
	local  *limiter.Local
}

// newFilter returns a filter in front of the shop, to be closed.
func newFilter(conf string) (*filter, error) {
	model, schema, err := shopModel()
	if err != nil {
		return nil, err
	}
	return newFilterOf(shopSource{model: model, schema: schema}, conf)
}

// newFilterOf returns a filter in front of a service, to be closed. The quotas of conf
// should never refuse, so that every request does the same work.
func newFilterOf(of shopSource, conf string) (*filter, error) {
	f := &filter{local: limiter.NewLocal(limiter.LocalConfig{})}
	var err error
	f.plugin = plugins.New(plugins.Options{
		Models: of, Schemas: of, Local: f.local, Redis: &limiter.Clients{}, Logger: zap.NewNop(),
	})
	if f.conf, err = f.plugin.ParseConf([]byte(conf)); err != nil {
		f.close()
		return nil, fmt.Errorf("reading the plugin's configuration: %w", err)
	}
	return f, nil
}

func (f *filter) close() { f.local.Close() }

// decide decides on a request and returns the status of a refusal, 0 for none.
func (f *filter) decide(r *request) int {
	r.status = 0
	f.plugin.RequestFilter(f.conf, (*refusal)(r), r)
	return r.status
}

// operation decides on a request again and again; a refusal is an error.
func (f *filter) operation(r *request) func() error {
	return func() error {
		if status := f.decide(r); status != 0 {
			return fmt.Errorf("a request was refused with status %d", status)
		}
		return nil
	}
}

// mustCost decides on a request and returns what it was charged.
func (f *filter) mustCost(r *request) (string, error) {
	if status := f.decide(r); status != 0 {
		return "", fmt.Errorf("a request was refused with status %d", status)
	}
	values := r.response["X-Graphql-Query-Cost"]
	if len(values) != 1 {
		return "", fmt.Errorf("a request was not costed: its headers are %v", r.response)
	}
	return values[0], nil
}

// request is a request whose body and variables are at hand, as they are after the
// exchange with APISIX. It tells all that the protocol server's requests tell, and
// allocates no more.
type request struct {
	method      string
	arguments   url.Values
	body        []byte
	contentType []byte
	length      []byte
	response    http.Header
	status      int
	refused     http.Header
}

// newRequest returns a POST of a body, without one if that is nil.
func newRequest(body []byte, contentType string) *request {
	r := &request{
		method: http.MethodPost, arguments: url.Values{},
		body: body, contentType: []byte(contentType), response: http.Header{}, refused: http.Header{},
	}
	if len(body) > 0 {
		r.length = []byte(strconv.Itoa(len(body)))
	}
	return r
}

var (
	_ pkghttp.Request = (*request)(nil)

	clientAddress = net.IPv4(192, 0, 2, 1).To4()
	requestPath   = []byte("/graphql")
	routeValue    = []byte(benchRoute)
	serviceValue  = []byte(benchService)
)

func (r *request) ID() uint32               { return 1 }
func (r *request) SrcIP() net.IP            { return clientAddress }
func (r *request) Method() string           { return r.method }
func (r *request) Path() []byte             { return requestPath }
func (r *request) SetPath([]byte)           {}
func (r *request) Header() pkghttp.Header   { return (*requestHeader)(r) }
func (r *request) Args() url.Values         { return r.arguments }
func (r *request) Body() ([]byte, error)    { return r.body, nil }
func (r *request) Context() context.Context { return context.Background() }
func (r *request) RespHeader() http.Header  { return r.response }

// Var answers what the runner knows without asking.
func (r *request) Var(name string) ([]byte, error) {
	switch name {
	case "route_id":
		return routeValue, nil
	case "service_id":
		return serviceValue, nil
	default:
		return nil, nil
	}
}

// Lookup is Var in strings, and knows the client's address.
func (r *request) Lookup(name string) (value string, present bool, err error) {
	switch name {
	case "route_id":
		return benchRoute, true, nil
	case "service_id":
		return benchService, true, nil
	case "remote_addr":
		return netip.AddrFrom4([4]byte(clientAddress)).String(), true, nil
	default:
		return "", false, nil
	}
}

// HasArgs tells whether the URL has arguments.
func (r *request) HasArgs() bool { return len(r.arguments) > 0 }

// Prefetch finds everything there.
func (r *request) Prefetch(bool, ...string) error { return nil }

// requestHeader is the headers of a request: Content-Type and Content-Length.
type requestHeader request

func (h *requestHeader) Set(string, string) {}
func (h *requestHeader) Del(string)         {}

// Get returns a header's value.
func (h *requestHeader) Get(key string) string { return string(h.Peek(key)) }

// Peek returns a header's value, which must not be changed.
func (h *requestHeader) Peek(key string) []byte {
	switch {
	case strings.EqualFold(key, "Content-Type"):
		return h.contentType
	case strings.EqualFold(key, "Content-Length"):
		return h.length
	default:
		return nil
	}
}

// View returns the headers as a map.
func (h *requestHeader) View() http.Header {
	return http.Header{"Content-Type": {string(h.contentType)}, "Content-Length": {string(h.length)}}
}

// Times is how many headers of that name there are.
func (h *requestHeader) Times(key string) int {
	if len(h.Peek(key)) == 0 {
		return 0
	}
	return 1
}

// Len is how many headers there are.
func (h *requestHeader) Len() int { return 2 }

// refusal takes the answer in the upstream's place.
type refusal request

func (w *refusal) Header() http.Header            { return w.refused }
func (w *refusal) Write(text []byte) (int, error) { return len(text), nil }
func (w *refusal) WriteHeader(status int)         { w.status = status }
