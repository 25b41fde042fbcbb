package introspect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"graphql-limit-count/internal/apisix"
)

const (
	portHTTP  = 80
	portHTTPS = 443
	// maxShownBytes bounds a URL in logs and errors; the client chooses the path.
	maxShownBytes = 1024
)

// target is where an introspection goes.
type target struct {
	url url.URL
	// shown is the URL for logs and errors: without user, password and query.
	shown string
	// host is the Host header, empty for the URL's own.
	host string
	// serverName is the TLS server name, empty for the URL's host.
	serverName string
}

// unaskedError is a failure before any upstream was asked. It is not remembered:
// it costs no exchange, and what it blames (one client's Host, the upstream's
// configuration) may be right in the next request.
type unaskedError struct{ msg string }

func (e *unaskedError) Error() string { return e.msg }

func unasked(format string, args ...any) error {
	return &unaskedError{msg: fmt.Sprintf(format, args...)}
}

// resolve says where to introspect for req.
func (s *Source) resolve(ctx context.Context, req Request) (target, error) {
	if req.Settings.endpoint != "" {
		return explicitTarget(req.Settings.endpoint)
	}
	if s.upstreams == nil {
		return target{}, unasked("cannot derive the introspection endpoint, because APISIX's Admin API is not configured: set introspection_endpoint")
	}
	up, err := s.upstream(ctx, req)
	if err != nil {
		return target{}, fmt.Errorf("derive the introspection endpoint: %w", s.explain(err))
	}
	if up == nil || len(up.Nodes) == 0 {
		return target{}, unasked("cannot derive the introspection endpoint, because there are no upstream nodes: set introspection_endpoint")
	}
	return derivedTarget(up, req)
}

// upstream is the service's, else the route's: a route may override its service's
// upstream, but the schema is kept per service and must not depend on which route
// asked first. Nil when neither has one.
func (s *Source) upstream(ctx context.Context, req Request) (*apisix.Upstream, error) {
	if req.ServiceID != "" {
		service, err := s.upstreams.Service(ctx, req.ServiceID)
		up, err := s.inlineOrByID(ctx, service.Upstream, service.UpstreamID, err)
		if up != nil || err != nil {
			return up, err
		}
	}
	if req.RouteID == "" {
		return nil, nil
	}
	route, err := s.upstreams.Route(ctx, req.RouteID)
	return s.inlineOrByID(ctx, route.Upstream, route.UpstreamID, err)
}

// inlineOrByID completes the look-up of an owner that ended in err.
func (s *Source) inlineOrByID(ctx context.Context, inline *apisix.Upstream, id string, err error) (*apisix.Upstream, error) {
	if err == nil && inline == nil && id != "" {
		var up apisix.Upstream
		if up, err = s.upstreams.Upstream(ctx, id); err == nil {
			return &up, nil
		}
	}
	if errors.Is(err, apisix.ErrNotFound) {
		return nil, nil
	}
	return inline, err
}

// explicitTarget reads introspection_endpoint.
func explicitTarget(endpoint string) (target, error) {
	u, err := url.Parse(escapeControls(endpoint))
	if err != nil || u.Host == "" || (u.Scheme != apisix.SchemeHTTP && u.Scheme != apisix.SchemeHTTPS) {
		return target{}, unasked("introspection_endpoint is not an http or https URL")
	}
	// The query is sent as it is written; a space would end the request line's URL.
	u.RawQuery = strings.ReplaceAll(u.RawQuery, " ", "%20")
	return target{url: *u, shown: shorten(u.Scheme + "://" + u.Host + u.EscapedPath())}, nil
}

// derivedTarget is the first node of an upstream, as the proxied request would
// reach it.
func derivedTarget(up *apisix.Upstream, req Request) (target, error) {
	port := portHTTP
	switch up.Scheme {
	case apisix.SchemeHTTP:
	case apisix.SchemeHTTPS:
		port = portHTTPS
	default:
		return target{}, unasked("cannot introspect an upstream with scheme %q: set introspection_endpoint", up.Scheme)
	}
	node := firstNode(up.Nodes, port)
	addr := node.Address(port)
	host := upstreamHost(up, node, port, req.Host)
	if !validHost(host) {
		return target{}, unasked("the upstream host %q is not a valid header value", shorten(host))
	}
	path, _, _ := strings.Cut(req.Path, "?")
	if !strings.HasPrefix(path, "/") { // else it would continue the address
		path = "/" + path
	}
	t := target{
		// url.URL escapes every byte of Path that a path may not hold, also the
		// percent sign: the path is decoded, so what looks like an escape in it was
		// sent escaped twice, and must not turn into "../" on the way.
		url:   url.URL{Scheme: up.Scheme, Host: addr, Path: path},
		shown: shorten(up.Scheme + "://" + addr + escapeControls(path)),
		host:  host,
	}
	t.serverName = serverName(host, node.Host)
	return t, nil
}

// firstNode picks by address, compared as text: the balancer has not run yet, and
// the same node each time makes introspection repeatable.
func firstNode(nodes []apisix.Node, port int) apisix.Node {
	least := nodes[0]
	for _, n := range nodes[1:] {
		if n.Address(port) < least.Address(port) {
			least = n
		}
	}
	return least
}

// upstreamHost is the Host header that APISIX would send to node, where standard is
// the scheme's own port. A Host that is not there (an HTTP/1.0 client, a missing
// upstream_host) leaves the node's.
func upstreamHost(up *apisix.Upstream, node apisix.Node, standard int, client string) string {
	host := ""
	switch up.PassHost {
	case apisix.PassHostRewrite:
		host = up.UpstreamHost
	case apisix.PassHostNode:
	default:
		host = client
	}
	if host != "" {
		return host
	}
	host = node.Address(standard)
	if node.Port == 0 || node.Port == standard {
		host = host[:strings.LastIndexByte(host, ':')]
	}
	return host
}

// serverName is the TLS server name: the Host's name, as a virtual-hosted upstream
// expects, or the node's where the Host is an address.
func serverName(host, node string) string {
	name := (&url.URL{Host: host}).Hostname()
	if name == "" || net.ParseIP(name) != nil {
		return node
	}
	return name
}

// validHost reports whether host may stand in a Host header: the characters of
// RFC 3986's host and port, so neither control characters, blanks nor non-ASCII.
func validHost(host string) bool {
	for i := range len(host) {
		b := host[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case strings.IndexByte("-._~!$&'()*+,;=:[]%", b) >= 0:
		default:
			return false
		}
	}
	return host != ""
}

// escapeControls percent-escapes, in upper case, the bytes that could end a request
// line or a log line, as APISIX does before it uses a URI.
func escapeControls(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&0xf])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func shorten(text string) string {
	if len(text) > maxShownBytes {
		return text[:maxShownBytes] + "..."
	}
	return text
}
