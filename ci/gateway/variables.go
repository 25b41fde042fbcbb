package gateway

import (
	"net"
	"net/http"
	"strings"
)

// Var is the runner's question for an APISIX or nginx variable; ok is false when it
// has no value, which the runner gets as an answer without a result.
func (x *exchange) Var(name string) (value []byte, ok bool) {
	text, ok := x.lookup(name)
	if !ok {
		return nil, false
	}
	return []byte(text), true
}

func (x *exchange) lookup(name string) (string, bool) {
	if prefix, rest, found := strings.Cut(name, "_"); found {
		switch prefix {
		case "http":
			return x.headerVar(rest)
		case "arg":
			return x.argVar(rest)
		case "cookie":
			return x.cookieVar(rest)
		}
	}
	if text, ok := x.addressVar(name); ok {
		return text, true
	}
	if text, ok := x.objectVar(name); ok {
		return text, text != ""
	}
	r := x.request
	switch name {
	case "uri", "document_uri":
		return x.path, true
	case "request_uri":
		return r.RequestURI, true
	case "upstream_uri":
		return x.upstreamURI(), true // nginx knows it as empty before a rewrite, not as absent
	case "upstream_host":
		return x.host, true
	case "args", "query_string":
		return x.rawArgs, true
	case "is_args":
		return strings.Repeat("?", min(len(x.rawArgs), 1)), true
	case "request_method", "method":
		return r.Method, true
	case "scheme":
		return "http", true
	case "host":
		return x.hostname(), true
	case "server_protocol":
		return r.Proto, true
	case "request_id", "apisix_request_id":
		return x.id, true
	case "content_type":
		return x.headerVar("content_type")
	case "content_length":
		return x.headerVar("content_length")
	}
	return "", false
}

// objectVar is what APISIX knows of the objects that the request matched; empty text
// means that there is none.
func (x *exchange) objectVar(name string) (string, bool) {
	switch name {
	case "route_id":
		return x.binding.routeID, true
	case "route_name":
		return x.binding.routeName, true
	case "service_id":
		return x.binding.serviceID, true
	case "service_name":
		return x.binding.serviceName, true
	case "consumer_name":
		return x.consumer, true
	}
	return "", false
}

// addressVar is what the two ends of the client's connection are.
func (x *exchange) addressVar(name string) (string, bool) {
	address := x.request.RemoteAddr
	if strings.HasPrefix(name, "server_") {
		local, _ := x.request.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local == nil {
			return "", false
		}
		address = local.String()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	switch name {
	case "remote_addr", "server_addr":
		return host, true
	case "remote_port", "server_port":
		return port, true
	}
	return "", false
}

// headerVar finds a header by its variable's name: lower case, `_` for `-`. Several
// values are joined, as nginx does since 1.23.
func (x *exchange) headerVar(name string) (string, bool) {
	if name == "host" {
		return x.request.Host, x.request.Host != ""
	}
	for header, values := range x.request.Header {
		if strings.ReplaceAll(strings.ToLower(header), "-", "_") != name {
			continue
		}
		separator := ", "
		if name == "cookie" {
			separator = "; "
		}
		return strings.Join(values, separator), true
	}
	return "", false
}

// argVar is the first argument of the name; one without `=` is "true", as in APISIX.
func (x *exchange) argVar(name string) (string, bool) {
	for _, a := range x.args {
		if a.Name == name {
			if a.NoValue {
				return "true", true
			}
			return a.Value, true
		}
	}
	return "", false
}

func (x *exchange) cookieVar(name string) (string, bool) {
	for _, c := range x.request.Cookies() {
		if c.Name == name {
			return c.Value, true
		}
	}
	return "", false
}
