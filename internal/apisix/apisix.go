// Package apisix reads what Apache APISIX knows about its routes, services and
// upstreams, through APISIX's Admin API or from the etcd that APISIX keeps it in.
//
// It only ever reads. [Client] and [Etcd] ask each time they are called and belong
// where an answer must be current (does this service exist now?). On the way of a
// request belong [Cache], which remembers the Admin API's answers for about a second
// so that a burst of requests does not become a burst of calls, and [Mirror], which
// follows etcd and answers from memory.
//
// [Owners] and [Mirror] say which object of APISIX a request's plugin configuration
// stands on.
package apisix

import (
	"context"
	"errors"
	"net"
	"strconv"
)

// ErrNotFound is wrapped by the errors of Service, Route and Upstream when APISIX's
// Admin API or etcd itself says that the object does not exist. Anything less certain
// (another server answering at that address, a refused key, a timeout) is a
// different error, because what is "not found" may be cleaned up after.
var ErrNotFound = errors.New("not found in APISIX")

// ErrKeyRefused is wrapped by the errors of calls whose key APISIX's Admin API refuses.
var ErrKeyRefused = errors.New("the admin key is not accepted")

// Directory answers for APISIX at the time of the call; *[Client] and *[Etcd] are
// directories. An error of Service, Route or Upstream wraps [ErrNotFound] only where
// APISIX certainly has no such object.
type Directory interface {
	Service(ctx context.Context, id string) (Service, error)
	// Services lists every service with ID and Incarnation only, in no particular order.
	// The listing is whole or it is an error, and never ErrNotFound.
	Services(ctx context.Context) ([]Service, error)
	Route(ctx context.Context, id string) (Route, error)
	Upstream(ctx context.Context, id string) (Upstream, error)
}

// Service is an APISIX service.
type Service struct {
	// ID is the service's id.
	ID string
	// Incarnation tells one life of this id from the next: the createdIndex of
	// the stored record, or "t" and its create_time where the answer has no
	// index. A service deleted and created again under its id has another one;
	// an update keeps it. Empty when APISIX said neither.
	Incarnation string
	// CreateTime is when the service was created by its own account, in seconds since
	// 1970, 0 where it does not say. It is copied with the service to another etcd, where
	// indexes begin again. Not filled in a listing.
	CreateTime int64
	// Upstream is the upstream written into the service, nil when there is none.
	Upstream *Upstream
	// UpstreamID names an upstream object, empty when there is none.
	UpstreamID string
	// Plugins tells which attachments of graphql-limit-count stand on the service.
	// Not filled in a listing.
	Plugins Attachments
}

// Route is an APISIX route.
type Route struct {
	// ID is the route's id.
	ID string
	// Incarnation tells one life of this id from the next, see [Service].
	Incarnation string
	// ServiceID names the service that the route is bound to, empty when none.
	ServiceID string
	// PluginConfigID names the plugin_config that the route merges, empty when none.
	PluginConfigID string
	// Upstream is the upstream written into the route, nil when there is none.
	Upstream *Upstream
	// UpstreamID names an upstream object, empty when there is none.
	UpstreamID string
	// Plugins tells which attachments of graphql-limit-count stand on the route itself.
	Plugins Attachments
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

var (
	_ Directory = (*Client)(nil)
	_ Directory = (*Etcd)(nil)
)
