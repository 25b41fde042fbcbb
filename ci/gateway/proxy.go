package gateway

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"

	"go.uber.org/zap"
)

// proxy sends the request to the node whose turn it is and its response to the
// client.
func (f *front) proxy(w http.ResponseWriter, x *exchange) {
	up := x.binding.upstream
	if up == nil {
		f.log.Warn("missing upstream configuration in route or service", zap.String("route", x.binding.routeID))
		x.send(w, &answer{status: http.StatusServiceUnavailable})
		return
	}
	n, ok := up.next()
	if !ok {
		f.log.Warn("no valid upstream node", zap.String("route", x.binding.routeID))
		x.send(w, &answer{status: http.StatusServiceUnavailable})
		return
	}
	w.Header().Del("Server") // ModifyResponse sets it, also over the upstream's
	proxy := httputil.ReverseProxy{
		Transport:      f.transport,
		Rewrite:        func(p *httputil.ProxyRequest) { x.outgoing(p, up, n) },
		ModifyResponse: x.incoming,
		ErrorLog:       f.stdLog,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			f.log.Warn("the upstream failed", zap.String("node", up.address(n)), zap.Error(err))
			w.Header().Set("Server", ServerName)
			x.send(w, &answer{status: http.StatusBadGateway})
		},
	}
	proxy.ServeHTTP(&spelling{ResponseWriter: w, names: x.respHeader}, x.request)
}

// spelling sends the headers that plugins set as they spelled them: the proxy copies
// them in Go's spelling.
type spelling struct {
	http.ResponseWriter
	names http.Header
}

// WriteHeader sends the headers.
func (s *spelling) WriteHeader(status int) {
	h := s.Header()
	for name := range s.names {
		canonical := http.CanonicalHeaderKey(name)
		if values := h[canonical]; canonical != name && values != nil {
			delete(h, canonical)
			h[name] = values
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the writer that can flush.
func (s *spelling) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// outgoing makes the upstream's request: the path as the client wrote it unless it was
// rewritten, and the headers that APISIX adds.
func (x *exchange) outgoing(p *httputil.ProxyRequest, up *upstream, n node) {
	out := p.Out
	target := url.URL{Scheme: up.Scheme, Host: up.address(n), Path: p.In.URL.Path, RawPath: p.In.URL.RawPath, RawQuery: x.rawArgs}
	if x.upstreamPath != "" {
		target.Path, target.RawPath = unescapedPath(x.upstreamPath), x.upstreamPath
	}
	out.URL = &target
	out.Host = up.host(n, x.host)
	out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	if ip, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		out.Header.Set("X-Real-Ip", ip)
	}
}

// unescapedPath is the decoded form of a path that escapePath or a plugin escaped.
func unescapedPath(escaped string) string {
	if decoded, err := url.PathUnescape(escaped); err == nil {
		return decoded
	}
	return escaped
}

// incoming adds what the plugins set to the upstream's response, before a header of
// the same name that the upstream sent, as nginx orders them.
func (x *exchange) incoming(resp *http.Response) error {
	for name, values := range x.respHeader {
		resp.Header[name] = slices.Concat(values, resp.Header[name])
	}
	resp.Header.Set("Server", ServerName)
	return nil
}
