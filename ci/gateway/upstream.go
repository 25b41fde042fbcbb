package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	defaultScheme   = "http"
	defaultPassHost = "pass"
	httpPort        = 80
	httpsPort       = 443
	maxPort         = 65535
)

// balancers are APISIX's balancing types. This gateway balances them all by weighted
// round robin.
var balancers = []string{"roundrobin", "chash", "ewma", "least_conn"}

// upstream is where a request goes. It is parsed once and counts its own turns.
type upstream struct {
	Type         string `json:"type"`
	Scheme       string `json:"scheme"`
	Nodes        nodes  `json:"nodes"`
	PassHost     string `json:"pass_host"`
	UpstreamHost string `json:"upstream_host"`

	turn atomic.Uint64
}

// node is one server of an upstream.
type node struct {
	Host   string `json:"host"`
	Port   int    `json:"port"` // 0: the scheme's
	Weight int    `json:"weight"`
}

// nodes are an upstream's servers, sorted by host and port, whichever of APISIX's two
// forms they were written in.
type nodes []node

// UnmarshalJSON takes {"host:port": weight} and [{"host","port","weight"}].
func (ns *nodes) UnmarshalJSON(text []byte) error {
	var list []node
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte{'['}) {
		if err := json.Unmarshal(text, &list); err != nil {
			return invalid("nodes", err.Error())
		}
	} else {
		weights := map[string]int{}
		if err := json.Unmarshal(text, &weights); err != nil {
			return invalid("nodes", err.Error())
		}
		for address, weight := range weights {
			n, err := parseNode(address, weight)
			if err != nil {
				return err
			}
			list = append(list, n)
		}
	}
	for _, n := range list {
		if n.Host == "" || n.Port < 0 || n.Port > maxPort || n.Weight < 0 {
			return invalid("nodes", fmt.Sprintf("host %q, port %d, weight %d", n.Host, n.Port, n.Weight))
		}
	}
	slices.SortFunc(list, func(a, b node) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	*ns = list
	return nil
}

// parseNode reads a key of the map form: host, host:port or [ipv6]:port.
func parseNode(address string, weight int) (node, error) {
	if !strings.Contains(address, ":") || strings.HasSuffix(address, "]") {
		return node{Host: strings.Trim(address, "[]"), Weight: weight}, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return node{}, invalid("nodes", err.Error())
	}
	number, err := strconv.Atoi(port)
	if err != nil || number == 0 {
		return node{}, invalid("nodes", fmt.Sprintf("port %q of %q is no port", port, address))
	}
	return node{Host: host, Port: number, Weight: weight}, nil
}

// upstreamMembers are those of an upstream object of its own.
var upstreamMembers = members("type scheme nodes pass_host upstream_host timeout retries retry_timeout keepalive_pool checks hash_on key",
	"service_name discovery_type discovery_args tls")

// parseUpstream checks an upstream object.
func parseUpstream(_ tables, _ string, value map[string]any) (any, error) {
	u := &upstream{}
	if err := decode(value, upstreamMembers, u); err != nil {
		return nil, err
	}
	return u, u.check()
}

// inlineUpstream checks the upstream inside a route or a service; nil when there is
// none.
func inlineUpstream(value map[string]any) (*upstream, error) {
	inner, ok := value["upstream"]
	if !ok {
		return nil, nil
	}
	members, ok := inner.(map[string]any)
	if !ok {
		return nil, invalid("upstream", "wrong type: expected object")
	}
	parsed, err := parseUpstream(nil, "", members)
	var refusal *apiError
	if errors.As(err, &refusal) {
		return nil, invalid("upstream", strings.TrimPrefix(refusal.text, invalidPrefix))
	}
	if err != nil {
		return nil, err
	}
	return parsed.(*upstream), nil
}

// check refuses what cannot be proxied to and fills in defaults.
func (u *upstream) check() error {
	refuse := invalid
	u.Type = cmp.Or(u.Type, balancers[0])
	u.Scheme = cmp.Or(u.Scheme, defaultScheme)
	u.PassHost = cmp.Or(u.PassHost, defaultPassHost)
	switch {
	case !slices.Contains(balancers, u.Type):
		return refuse("type", "matches none of the enum values")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("scheme", "the development gateway proxies to http and https only")
	case !slices.Contains([]string{"pass", "node", "rewrite"}, u.PassHost):
		return refuse("pass_host", "matches none of the enum values")
	case u.PassHost == "rewrite" && u.UpstreamHost == "":
		return refuse("upstream_host", `is required when "pass_host" is "rewrite"`)
	case u.Nodes == nil:
		return refuse("nodes", "is required")
	}
	return nil
}

// next is the node whose turn it is; ok is false when no node has any weight.
func (u *upstream) next() (n node, ok bool) {
	total := 0
	for _, n := range u.Nodes {
		total += n.Weight
	}
	if total == 0 {
		return node{}, false
	}
	turn := int((u.turn.Add(1) - 1) % uint64(total))
	for _, n := range u.Nodes {
		if turn < n.Weight {
			return n, true
		}
		turn -= n.Weight
	}
	return node{}, false
}

// address is host:port to connect to.
func (u *upstream) address(n node) string {
	port := n.Port
	if port == 0 {
		port = u.defaultPort()
	}
	return net.JoinHostPort(n.Host, strconv.Itoa(port))
}

// defaultPort is the scheme's.
func (u *upstream) defaultPort() int {
	if u.Scheme == "https" {
		return httpsPort
	}
	return httpPort
}

// host is the Host header to send when the client's was clientHost.
func (u *upstream) host(n node, clientHost string) string {
	switch u.PassHost {
	case "rewrite":
		return u.UpstreamHost
	case "node":
		if n.Port == 0 || n.Port == u.defaultPort() {
			return n.Host
		}
		return net.JoinHostPort(n.Host, strconv.Itoa(n.Port))
	}
	return clientHost
}
