package plugins

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
)

// The variables that name whose request it is.
const (
	varRouteID   = "route_id"
	varServiceID = "service_id"
	varHTTPHost  = "http_host"
)

// prefetcher is a request that can ask APISIX several questions at once.
type prefetcher interface {
	Prefetch(body bool, vars ...string) error
}

// request is the client's request as the decision needs it.
type request struct {
	pkghttp.Request
	// failed is the first error of asking APISIX for a variable.
	failed error
	args   url.Values
}

// prefetch asks for the body and variables in one exchange where the runner can;
// otherwise each is asked for when it is needed.
func (r *request) prefetch(body bool, variables []string) error {
	if p, ok := r.Request.(prefetcher); ok {
		return p.Prefetch(body, variables...)
	}
	return nil
}

// variable is a Lookup: the value of a request variable.
func (r *request) variable(name string) (string, bool) {
	if name == fallbackVariable {
		// As nginx writes it: an IPv4 address mapped into IPv6 stays one.
		if ip, ok := netip.AddrFromSlice(r.SrcIP()); ok {
			return ip.String(), true
		}
	}
	value, err := r.Var(name)
	if err != nil && r.failed == nil {
		r.failed = err
	}
	return string(value), value != nil && err == nil
}

// arguments are the URL's.
func (r *request) arguments() url.Values {
	if r.args == nil {
		r.args = r.Args()
	}
	return r.args
}

// maxListedHeaders is how many headers APISIX lists at most (ngx.req.get_headers): of
// a request with so many, more may be hidden.
const maxListedHeaders = 100

// headerTeller is a request's headers where the runner can tell how often each came.
type headerTeller interface {
	// Times is how many headers of that name there are.
	Times(name string) int
	// Len is how many headers there are.
	Len() int
}

// ambiguous tells why the headers cannot be trusted to say what the body is, "" if
// they can: an upstream that reads the last of two where this reads the first would
// run another document.
func (r *request) ambiguous() string {
	total, times := 0, func(name string) int { return len(r.Header().View()[name]) }
	if h, ok := r.Header().(headerTeller); ok {
		total, times = h.Len(), h.Times
	} else {
		for _, values := range r.Header().View() {
			total += len(values)
		}
	}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if times(name) > 1 {
			return "more than one " + strings.ToLower(name)
		}
	}
	if total >= maxListedHeaders {
		return "too many headers"
	}
	return ""
}

// hasBody reports whether the headers announce a body.
func (r *request) hasBody() bool {
	return r.contentLength() > 0 || r.Header().Get("Transfer-Encoding") != ""
}

// contentLength is the length that the request announces, -1 if none or nonsense.
func (r *request) contentLength() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(r.Header().Get("Content-Length")), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// preflight reports whether this is a CORS preflight (Fetch standard, section 3.2.2)
// and nothing else: one that carries a query is run by upstreams that look for one
// before they look at the method.
func (r *request) preflight() bool {
	return r.Method() == "OPTIONS" && r.Header().Get("Origin") != "" &&
		r.Header().Get("Access-Control-Request-Method") != "" &&
		!r.hasBody() && r.Header().Get("Content-Type") == "" && !r.carriesOperation()
}

// carriesOperation reports whether the URL has an argument that some upstream takes
// for a part of a GraphQL request.
func (r *request) carriesOperation() bool {
	for name := range r.arguments() {
		if resembles(name) != "" {
			return true
		}
	}
	return false
}
