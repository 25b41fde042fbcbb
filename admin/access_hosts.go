package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxShownHost is how many bytes of a Host or Origin an answer repeats.
const maxShownHost = 128

// hostNames are the names by which the endpoint may be called, besides IP addresses and
// localhost. A page whose own name an attacker lets lead to this host (DNS rebinding) calls
// it by that name; the browser takes it for the page's own site, and would let the page read
// what needs no key and try keys.
type hostNames map[string]struct{}

// newHostNames reads names, each possibly with a port, which is ignored. Addresses and what
// is empty are left out.
func newHostNames(hosts []string) (hostNames, error) {
	names := hostNames{}
	for _, host := range hosts {
		name := hostOf(host)
		if _, err := netip.ParseAddr(name); err == nil || name == "" {
			continue
		}
		if strings.ContainsAny(host, "/*@?# \t") || strings.Contains(name, ":") {
			return nil, fmt.Errorf("%q is not the name of a host", host)
		}
		names[name] = struct{}{}
	}
	return names, nil
}

// hostOf is the host in a host with or without a port, in lower case, an IPv6 address
// without brackets.
func hostOf(hostPort string) string {
	host := hostPort
	if name, _, err := net.SplitHostPort(hostPort); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// check refuses requests that a web page may have made in its reader's browser: under a name
// that is not the endpoint's, or from another site. Other clients send neither Origin nor
// Sec-Fetch-Site.
func (n hostNames) check(r *http.Request) error {
	if !n.allow(r.Host) {
		return forbidden(fmt.Sprintf("the host %q is not one of this endpoint's: call it by its IP address, or name the host in --admin-hosts", shown(r.Host)))
	}
	for _, origin := range r.Header.Values("Origin") {
		if !sameHost(origin, r.Host) {
			return forbidden(fmt.Sprintf("requests from pages of %q are not allowed", shown(origin)))
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" && !isVisit(r) {
			return forbidden("requests from pages of other sites are not allowed")
		}
	}
	return nil
}

func (n hostNames) allow(hostPort string) bool {
	host := hostOf(hostPort)
	if host == "localhost" {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	_, known := n[host]
	return known
}

// isVisit reports whether somebody follows a link to the metrics, from a monitoring system
// perhaps: the page with the link cannot read what is shown then.
func isVisit(r *http.Request) bool {
	return r.URL.Path == metricsPath && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// sameHost reports whether an Origin has the host and port of a Host. A port that is left out
// is that of the origin's scheme: a proxy that ends TLS passes Host as it is.
func sameHost(origin, hostPort string) bool {
	site, err := url.Parse(origin)
	if err != nil || site.Host == "" || site.Path != "" || site.User != nil {
		return false
	}
	implied := map[string]string{"http": "80", "https": "443"}[site.Scheme]
	if implied == "" {
		return false
	}
	return hostOf(site.Host) == hostOf(hostPort) && portOf(site.Host, implied) == portOf(hostPort, implied)
}

func portOf(hostPort, implied string) string {
	if _, port, err := net.SplitHostPort(hostPort); err == nil && port != "" {
		return port
	}
	return implied
}

// forbidden is a refusal in APISIX's shape.
func forbidden(message string) error {
	return refuse(http.StatusForbidden, message)
}

func shown(text string) string {
	if len(text) > maxShownHost {
		return strings.ToValidUTF8(text[:maxShownHost], "") + "..."
	}
	return text
}
