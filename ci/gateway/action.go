package gateway

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"graphql-limit-count/internal/extplugin"
)

// maxListedHeaders is how many headers APISIX lists in a call at most.
const maxListedHeaders = 100

// ignoredRespHeaders are those of a Rewrite's resp_headers that APISIX does not set:
// they belong to the upstream's response.
var ignoredRespHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Location": true, "Server": true,
	"Www-Authenticate": true, "Content-Encoding": true, "Content-Type": true, "Content-Location": true, "Content-Language": true,
}

// call shows the request to the runner as it stands now.
func (x *exchange) call() extplugin.Request {
	path := x.path
	if x.upstreamPath != "" {
		path = x.upstreamPath
	}
	return extplugin.Request{
		SrcIP:   sourceIP(x.request.RemoteAddr),
		Method:  x.request.Method,
		Path:    path,
		Args:    slices.Clone(x.args),
		Headers: x.headers(),
	}
}

// sourceIP is the peer's address: 4 bytes, or 16 for IPv6.
func sourceIP(remote string) net.IP {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if four := ip.To4(); four != nil {
		return four
	}
	return ip
}

// headers are the request's, in lower case and by name, with the Host that the
// upstream is to see.
func (x *exchange) headers() []extplugin.KV {
	list := []extplugin.KV{{Name: "host", Value: x.host}}
	for name, values := range x.request.Header {
		for _, v := range values {
			list = append(list, extplugin.KV{Name: strings.ToLower(name), Value: v})
		}
	}
	slices.SortStableFunc(list, func(a, b extplugin.KV) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxListedHeaders)]
}

// apply does what the runner wants; an answer ends the request.
func (x *exchange) apply(action extplugin.Action) *answer {
	switch action.Kind {
	case extplugin.Stop:
		a := &answer{status: action.Status, header: http.Header{}, body: action.Body}
		if a.status == 0 {
			a.status = http.StatusOK
		}
		for _, h := range action.Headers {
			setSpelled(a.header, h.Name, h.Value)
		}
		return a
	case extplugin.Rewrite:
		x.rewrite(action)
	}
	return nil
}

// rewrite changes the request, and the response that will be sent.
func (x *exchange) rewrite(action extplugin.Action) {
	if action.Path != "" {
		x.upstreamPath = escapePath(action.Path)
	}
	for _, h := range action.RewriteHeaders {
		if h.NoValue {
			x.request.Header.Del(h.Name)
			continue
		}
		x.request.Header.Set(h.Name, h.Value)
		if strings.EqualFold(h.Name, "host") {
			x.request.Header.Del(h.Name)
			x.host = h.Value
		}
	}
	x.rewriteArgs(action.Args)
	if action.Body != nil {
		x.setBody(action.Body)
		x.request.Header.Set("Content-Length", strconv.Itoa(len(action.Body)))
	}
	for _, h := range action.RespHeaders {
		if !ignoredRespHeaders[http.CanonicalHeaderKey(h.Name)] {
			setSpelled(x.respHeader, h.Name, h.Value)
		}
	}
}

// setSpelled sets a header under exactly this name, as nginx sends it, in place of one
// that is spelled otherwise; those that Go's server looks at keep Go's spelling.
func setSpelled(to http.Header, name, value string) {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Length", "Connection", "Date", "Server", "Transfer-Encoding":
		to.Set(name, value)
		return
	}
	for other := range to {
		if strings.EqualFold(other, name) {
			delete(to, other)
		}
	}
	to[name] = []string{value}
}

// rewriteArgs replaces, for every name in changes, all arguments of the name by the
// values that came; one without a value removes them.
func (x *exchange) rewriteArgs(changes []extplugin.KV) {
	if len(changes) == 0 {
		return
	}
	for _, change := range changes {
		x.args = slices.DeleteFunc(x.args, func(a extplugin.KV) bool { return a.Name == change.Name })
	}
	for _, change := range changes {
		if !change.NoValue {
			x.args = append(x.args, change)
		}
	}
	x.rawArgs = encodeArgs(x.args)
}
