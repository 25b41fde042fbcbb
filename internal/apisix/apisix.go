// Package apisix reads what Apache APISIX knows about its routes, services and
// upstreams through APISIX's Admin API.
//
// It only ever reads. [Client] asks the Admin API each time it is called and
// belongs where an answer must be current (does this service exist now?);
// [Cache] remembers answers for about a second and belongs on the way of a
// request, where a burst of them must not become a burst of Admin API calls.
package apisix

import (
	"errors"
	"net"
	"strconv"
)

// ErrNotFound is wrapped by the errors of Service, Route and Upstream when the
// Admin API itself says that the object does not exist. Anything less certain
// (another server answering at that address, a refused key, a timeout) is a
// different error, because what is "not found" may be cleaned up after.
var ErrNotFound = errors.New("not found in APISIX")

// Service is an APISIX service.
type Service struct {
	// ID is the service's id.
	ID string
	// Incarnation tells one life of this id from the next: the createdIndex of
	// the stored record, or "t" and its create_time where the answer has no
	// index. A service deleted and created again under its id has another one;
	// an update keeps it. Empty when APISIX said neither.
	Incarnation string
	// Upstream is the upstream written into the service, nil when there is none.
	Upstream *Upstream
	// UpstreamID names an upstream object, empty when there is none.
	UpstreamID string
}

// Route is an APISIX route.
type Route struct {
	// ID is the route's id.
	ID string
	// Incarnation tells one life of this id from the next, see [Service].
	Incarnation string
	// ServiceID names the service that the route is bound to, empty when none.
	ServiceID string
	// Upstream is the upstream written into the route, nil when there is none.
	Upstream *Upstream
	// UpstreamID names an upstream object, empty when there is none.
	UpstreamID string
}

// Values of an upstream's scheme and pass_host that this project tells apart,
// as APISIX spells them.
const (
	SchemeHTTP  = "http"
	SchemeHTTPS = "https"

	PassHostPass    = "pass"    // the client's Host goes on to the upstream
	PassHostNode    = "node"    // the node's own address is the Host
	PassHostRewrite = "rewrite" // upstream_host is the Host
)

// Upstream is an APISIX upstream, inline or an object of its own.
type Upstream struct {
	// ID is the upstream object's id; empty for an inline upstream.
	ID string
	// Incarnation is filled for an upstream object only, see [Service].
	Incarnation string
	// Scheme is how APISIX talks to the nodes. Default http.
	Scheme string
	// Nodes are the configured nodes: in APISIX's order when they are written as
	// an array, by address when they are written as a map. Empty when they come
	// from service discovery.
	Nodes []Node
	// PassHost is pass, node or rewrite. Default pass.
	PassHost string
	// UpstreamHost is the Host to send when PassHost is rewrite.
	UpstreamHost string
}

// Node is one server of an upstream.
type Node struct {
	// Host is a name or an address; an IPv6 address stands without brackets.
	Host string
	// Port is 1..65535, or 0 where the configuration leaves it to the scheme.
	Port int
	// Weight and Priority are the balancer's, as configured.
	Weight, Priority int
}

// Address returns "host:port", an IPv6 host in brackets, with defaultPort where
// the node names none.
func (n Node) Address(defaultPort int) string {
	port := n.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(n.Host, strconv.Itoa(port))
}
