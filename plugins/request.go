package plugins

import (
	"bytes"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
)

// The variables that name whose request it is.
const (
	varRouteID   = "route_id"
	varServiceID = "service_id"
	varHTTPHost  = "http_host"
)

// request is the client's request as the decision needs it.
type request struct {
	pkghttp.Request
	// failed is the first error of asking APISIX for a variable.
	failed error
	args   url.Values
	sent   headers // nil until asked for
}

// Runners tell more, or the same with less work, by what else the request they give
// implements.
type (
	// prefetcher can ask APISIX several questions at once.
	prefetcher interface {
		Prefetch(body bool, vars ...string) error
	}
	// lookuper tells variables as strings.
	lookuper interface {
		Lookup(name string) (value string, present bool, err error)
	}
	// bodyPeeker gives the body in memory that must be neither kept nor changed.
	bodyPeeker interface{ PeekBody() ([]byte, error) }
	// argsTeller tells whether the URL has arguments, without making a map of them.
	argsTeller interface{ HasArgs() bool }
	// headers tells how often each header came; that is for the Header of a request.
	headers interface {
		// Times is how many headers of that name there are.
		Times(name string) int
		// Len is how many headers there are.
		Len() int
		// Peek is the first value of that name, which must be neither kept nor changed.
		Peek(name string) []byte
	}
)

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
	value, present, err := r.lookup(name)
	if err != nil && r.failed == nil {
		r.failed = err
	}
	return value, present && err == nil
}

func (r *request) lookup(name string) (value string, present bool, err error) {
	if l, ok := r.Request.(lookuper); ok {
		return l.Lookup(name)
	}
	if name == fallbackVariable {
		// As nginx writes it: an IPv4 address mapped into IPv6 stays one.
		if ip, ok := netip.AddrFromSlice(r.SrcIP()); ok {
			return ip.String(), true, nil
		}
	}
	text, err := r.Var(name)
	return string(text), text != nil, err
}

// peekBody is the body, which must be neither kept nor changed.
func (r *request) peekBody() ([]byte, error) {
	if p, ok := r.Request.(bodyPeeker); ok {
		return p.PeekBody()
	}
	return r.Body()
}

// noArguments are those of most requests; nobody writes to them.
var noArguments = url.Values{}

// arguments are the URL's, for reading.
func (r *request) arguments() url.Values {
	if r.args == nil {
		if t, ok := r.Request.(argsTeller); ok && !t.HasArgs() {
			r.args = noArguments
		} else {
			r.args = r.Args()
		}
	}
	return r.args
}

// headers are the request's.
func (r *request) headers() headers {
	if r.sent == nil {
		if h, ok := r.Header().(headers); ok {
			r.sent = h
		} else {
			r.sent = mapHeaders(r.Header().View())
		}
	}
	return r.sent
}

// mapHeaders are the headers of a runner that shows them as a map only.
type mapHeaders http.Header

func (h mapHeaders) Times(name string) int { return len(h[http.CanonicalHeaderKey(name)]) }

func (h mapHeaders) Len() int {
	total := 0
	for _, values := range h {
		total += len(values)
	}
	return total
}

func (h mapHeaders) Peek(name string) []byte { return []byte(http.Header(h).Get(name)) }

// maxListedHeaders is how many headers APISIX lists at most (ngx.req.get_headers): of
// a request with so many, more may be hidden.
const maxListedHeaders = 100

// ambiguous tells why the headers cannot be trusted to say what the body is, "" if
// they can: an upstream that reads the last of two where this reads the first would
// run another document. CGI and WSGI tell no underscore from a dash.
func (r *request) ambiguous() string {
	h := r.headers()
	switch {
	case h.Times("Content-Type")+h.Times("Content_Type") > 1:
		return "more than one content-type"
	case h.Times("Content-Encoding")+h.Times("Content_Encoding") > 1:
		return "more than one content-encoding"
	case h.Len() >= maxListedHeaders:
		return "too many headers"
	case r.Method() == http.MethodGet && opensWebSocket(h):
		return "what a websocket carries cannot be costed"
	default:
		return ""
	}
}

// opensWebSocket reports whether a GET asks for a websocket (RFC 6455, section 4.1), or for
// one of several protocols.
func opensWebSocket(h headers) bool {
	return h.Times("Upgrade") > 1 || bytes.Contains(bytes.ToLower(h.Peek("Upgrade")), []byte("websocket"))
}

// hasBody reports whether the headers announce a body.
func (r *request) hasBody() bool {
	return r.contentLength() > 0 || len(r.headers().Peek("Transfer-Encoding")) > 0
}

// contentLength is the length that the request announces, -1 if none or nonsense.
func (r *request) contentLength() int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(r.headers().Peek("Content-Length"))), 10, 64)
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
	return strayArgument(r.arguments(), "") != ""
}
