package extplugin

import (
	"net/netip"
	"slices"
	"strings"
)

// maxListedHeaders is how many headers APISIX lists in a call at most (the
// default of ngx.req.get_headers). A list as long as that may have been cut.
const maxListedHeaders = 100

// valueOfBareArg is what APISIX answers for the argument of a query string that
// has no "=".
const valueOfBareArg = "true"

// Var returns the value of an APISIX or nginx variable: nil when it has none,
// empty but not nil when it is empty. What the call itself tells is answered
// without asking APISIX: remote_addr, request_method, arg_*, http_* of headers
// that are not repeated, in ext-plugin-pre-req also uri and http_host, and the
// names in the configuration's key: route_id, service_id, consumer_name,
// consumer_group_id. An error wraps common.ErrConnClosed when the connection
// cannot be used any more.
func (r *request) Var(name string) ([]byte, error) {
	if value, ok := r.recall(name); ok {
		return value, nil
	}
	if value, ok := r.local(name); ok {
		r.remember(name, value)
		return value, nil
	}
	if err := r.question(false, name); err != nil {
		return nil, err
	}
	value, _ := r.recall(name)
	return value, nil
}

// Body returns the request's body, nil when it has none. Errors are those of Var.
func (r *request) Body() ([]byte, error) {
	if !r.haveBody {
		if err := r.question(true); err != nil {
			return nil, err
		}
	}
	return r.body, nil
}

// Prefetch asks APISIX for all of vars, and for the body if it is wanted, in one
// write, and reads the answers; Var and Body then answer from memory. What is
// already known is not asked for. Errors are those of Var.
func (r *request) Prefetch(body bool, vars ...string) error {
	var room [maxQuestions]string
	unknown := room[:0]
	for _, name := range vars {
		if _, ok := r.recall(name); ok {
			continue
		}
		if value, ok := r.local(name); ok {
			r.remember(name, value)
			continue
		}
		if !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	if body = body && !r.haveBody; !body && len(unknown) == 0 {
		return nil
	}
	return r.question(body, unknown...)
}

func (r *request) recall(name string) ([]byte, bool) {
	for i := range r.vars {
		if r.vars[i].name == name {
			return r.vars[i].value, true
		}
	}
	return nil, false
}

func (r *request) remember(name string, value []byte) {
	r.vars = append(r.vars, variable{name, value})
}

// local answers a variable from what the call and its configuration's key say,
// where that is certainly what APISIX would answer.
func (r *request) local(name string) (value []byte, ok bool) {
	switch name {
	case "route_id":
		return idVar(r.who.route)
	case "service_id":
		if r.who.noService {
			return nil, true
		}
		return idVar(r.who.service)
	case "consumer_name":
		return idVar(r.who.consumer)
	case "consumer_group_id":
		return idVar(r.who.consumerGroup)
	case "remote_addr":
		return r.remoteAddr()
	case "request_method":
		return []byte(r.method.String()), true
	case "uri":
		// Later the call's path is the upstream's, uri still the client's.
		return append([]byte{}, r.path...), r.who.preReq
	}
	if key, is := strings.CutPrefix(name, "http_"); is {
		return r.headerVar(key)
	}
	if key, is := strings.CutPrefix(name, "arg_"); is {
		return r.argVar(key), true
	}
	return nil, false
}

func idVar(id string) ([]byte, bool) {
	if id == "" {
		return nil, false
	}
	return []byte(id), true
}

// remoteAddr writes the client's address as nginx does; an IPv4 address mapped
// into IPv6 stays one. A client on a unix socket has none, then APISIX is asked.
func (r *request) remoteAddr() ([]byte, bool) {
	addr, ok := netip.AddrFromSlice(r.srcIP)
	if !ok {
		return nil, false
	}
	return []byte(addr.String()), true
}

// headerVar answers http_<key> from the headers. A header that is repeated is
// left to APISIX, which joins or picks depending on nginx's version; so is host
// once it may have been rewritten, as the call then names the upstream's.
func (r *request) headerVar(key string) ([]byte, bool) {
	if equalVar([]byte("host"), key) && !r.who.preReq {
		return nil, false
	}
	var value []byte
	for _, e := range r.headers {
		if !equalVar(e.name, key) {
			continue
		}
		if value != nil {
			return nil, false
		}
		value = append([]byte{}, e.value...)
	}
	if len(r.headers) >= maxListedHeaders {
		return nil, false
	}
	return value, true
}

// equalVar reports whether a header's name is that of an nginx variable's key: in
// any case, and "-" the same as "_".
func equalVar(header []byte, key string) bool {
	if len(header) != len(key) {
		return false
	}
	fold := func(c byte) byte {
		if c == '-' {
			return '_'
		}
		return lower(c)
	}
	for i, c := range header {
		if fold(c) != fold(key[i]) {
			return false
		}
	}
	return true
}

// argVar answers arg_<key>: the first of the arguments with exactly this name.
func (r *request) argVar(key string) []byte {
	for _, e := range r.args {
		if string(e.name) != key {
			continue
		}
		if e.value == nil {
			return []byte(valueOfBareArg)
		}
		return append([]byte{}, e.value...)
	}
	return nil
}
