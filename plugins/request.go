package plugins

import (
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
		if ip := r.SrcIP(); len(ip) > 0 {
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

// contentLength is the length that the request announces, -1 if none or nonsense.
func (r *request) contentLength() int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(r.Header().Get("Content-Length")), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// preflight reports whether this is a CORS preflight (Fetch standard, section 3.2.2).
func (r *request) preflight() bool {
	return r.Method() == "OPTIONS" && r.Header().Get("Origin") != "" &&
		r.Header().Get("Access-Control-Request-Method") != ""
}
