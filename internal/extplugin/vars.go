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
	value, present, err := r.Lookup(name)
	if err != nil || !present {
		return nil, err
	}
	return append([]byte{}, value...), nil
}

// Lookup is Var as a string, which is not copied again, and whether there is one.
func (r *request) Lookup(name string) (value string, present bool, err error) {
	if v, ok := r.recall(name); ok {
		return v.value, v.present, nil
	}
	if v, ok := r.local(name); ok {
		r.remember(v)
		return v.value, v.present, nil
	}
	if err := r.question(false, name); err != nil {
		return "", false, err
	}
	v, _ := r.recall(name)
	return v.value, v.present, nil
}

// Body returns the request's body, nil when it has none. Errors are those of Var.
func (r *request) Body() ([]byte, error) {
	body, err := r.PeekBody()
	r.bodyRoom = nil // the plugin's to keep
	return body, err
}

// PeekBody is Body in memory that the next request uses again: it must be neither kept
// nor changed.
func (r *request) PeekBody() ([]byte, error) {
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
		if v, ok := r.local(name); ok {
			r.remember(v)
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

func (r *request) recall(name string) (variable, bool) {
	for i := range r.vars {
		if r.vars[i].name == name {
			return r.vars[i], true
		}
	}
	return variable{}, false
}

func (r *request) remember(v variable) { r.vars = append(r.vars, v) }

// local answers a variable from what the call and its configuration's key say,
// where that is certainly what APISIX would answer.
func (r *request) local(name string) (v variable, ok bool) {
	v.name = name
	switch name {
	case "route_id":
		return v.id(r.who.route)
	case "service_id":
		if r.who.noService {
			return v, true
		}
		return v.id(r.who.service)
	case "consumer_name":
		return v.id(r.who.consumer)
	case "consumer_group_id":
		return v.id(r.who.consumerGroup)
	case "remote_addr":
		v.value, v.present = r.remoteAddr()
		return v, v.present
	case "request_method":
		v.value, v.present = r.method.String(), true
		return v, true
	case "uri":
		// Later the call's path is the upstream's, uri still the client's.
		if r.who.preReq {
			v.value, v.present = string(r.path), true
		}
		return v, r.who.preReq
	}
	if key, is := strings.CutPrefix(name, "http_"); is {
		return r.headerVar(v, key)
	}
	if key, is := strings.CutPrefix(name, "arg_"); is {
		v.value, v.present = r.argVar(key)
		return v, true
	}
	return v, false
}

// id gives a variable the value of an id, if that is known.
func (v variable) id(id string) (variable, bool) {
	v.value, v.present = id, id != ""
	return v, v.present
}

// remoteAddr writes the client's address as nginx does; an IPv4 address mapped
// into IPv6 stays one. A client on a unix socket has none, then APISIX is asked.
func (r *request) remoteAddr() (string, bool) {
	addr, ok := netip.AddrFromSlice(r.srcIP)
	if !ok {
		return "", false
	}
	return addr.String(), true
}

// headerVar answers http_<key> from the headers. A header that is repeated is
// left to APISIX, which joins or picks depending on nginx's version; so is host
// once it may have been rewritten, as the call then names the upstream's.
func (r *request) headerVar(v variable, key string) (variable, bool) {
	if equalVar([]byte("host"), key) && !r.who.preReq {
		return v, false
	}
	var value []byte
	for _, e := range r.headers {
		if !equalVar(e.name, key) {
			continue
		}
		if v.present {
			return v, false
		}
		value, v.present = e.value, true
	}
	if len(r.headers) >= maxListedHeaders {
		return v, false
	}
	v.value = string(value)
	return v, true
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
func (r *request) argVar(key string) (string, bool) {
	for _, e := range r.args {
		if string(e.name) != key {
			continue
		}
		if e.value == nil {
			return valueOfBareArg, true
		}
		return string(e.value), true
	}
	return "", false
}
