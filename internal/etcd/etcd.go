// Package etcd connects to the etcd that APISIX keeps its configuration in, and follows what
// is stored there.
//
// A [Client] is etcd's own client with the settings of this project: it never waits for the
// servers when it is made, notices a server that hangs, reconnects within about a second of a
// server's return and logs nothing by itself. [Client.Follow] tells what is stored under a
// path and how it changes, for as long as its context lives, whatever happens to the servers
// meanwhile; [Client.Snapshot] reads it once.
package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// DefaultPrefix is where APISIX keeps its configuration unless its etcd.prefix says otherwise.
const DefaultPrefix = "/apisix"

// Config says how etcd is reached.
type Config struct {
	// Endpoints are the cluster's client addresses: host:port, http://host:port or
	// https://host:port. They are all https or all not, because one set of credentials
	// serves them. Required.
	Endpoints []string
	// Prefix stands before every key, without a slash at its end. Default /apisix.
	Prefix string
	// Username and Password sign in, when etcd's authentication is on. Default none.
	Username, Password string
	// CAFile is a PEM file with the authorities that a server's certificate may come from.
	// Default the system's.
	CAFile string
	// CertFile and KeyFile are PEM files with the certificate shown to the servers and its
	// key. Default none is shown.
	CertFile, KeyFile string
	// InsecureSkipVerify takes any certificate of a server.
	InsecureSkipVerify bool
	// ServerName is the name that a server's certificate must carry. Default the endpoint's
	// host.
	ServerName string
	// Logger is told when etcd cannot be followed, at most once a minute, and when it can be
	// again. Required.
	Logger *zap.Logger
}

// Validate tells what is wrong with the settings; files are only read by [Open].
func (c Config) Validate() error {
	if c.Logger == nil {
		return errors.New("etcd: no logger is given")
	}
	if len(c.Endpoints) == 0 {
		return errors.New("etcd: no endpoint is given")
	}
	for i, endpoint := range c.Endpoints {
		secure, err := parseEndpoint(endpoint)
		if errors.Is(err, errUser) { // what stands there may be a password
			return fmt.Errorf("etcd: endpoint %d: %w", i+1, err)
		}
		if err != nil {
			return fmt.Errorf("etcd: endpoint %q: %w", endpoint, err)
		}
		if first, _ := parseEndpoint(c.Endpoints[0]); first != secure {
			return fmt.Errorf("etcd: endpoint %q: some endpoints are https and some are not", endpoint)
		}
		if !secure && c.wantsTLS() {
			return fmt.Errorf("etcd: endpoint %q: TLS is configured, but the endpoint is not https", endpoint)
		}
	}
	if p := c.Prefix; p != "" && (!strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/")) {
		return fmt.Errorf("etcd: prefix %q: it must begin with a slash and not end in one", p)
	}
	if (c.Username == "") != (c.Password == "") {
		return errors.New("etcd: user name and password must be given together")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("etcd: certificate file and key file must be given together")
	}
	return nil
}

func (c Config) wantsTLS() bool {
	return c.CAFile != "" || c.CertFile != "" || c.InsecureSkipVerify || c.ServerName != ""
}

// errUser is wrong with an endpoint that names a user, perhaps with a password.
var errUser = errors.New("a user belongs into the settings, not into the address")

// parseEndpoint checks an endpoint and tells whether it is reached by TLS.
func parseEndpoint(endpoint string) (secure bool, err error) {
	text := endpoint
	if !strings.Contains(text, "://") {
		text = schemeHTTP + "://" + text
	}
	if strings.Contains(text, "@") { // also where it cannot be parsed
		return false, errUser
	}
	u, err := url.Parse(text)
	if err != nil {
		return false, errors.New("it is not an address")
	}
	switch {
	case u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS:
		return false, errors.New("its scheme must be http or https")
	case u.Hostname() == "":
		return false, errors.New("it names no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return false, errors.New("nothing may follow the port")
	}
	const portBits = 16
	if port, err := strconv.ParseUint(u.Port(), 10, portBits); err != nil || port == 0 {
		return false, errors.New("its port must be 1 to 65535")
	}
	return u.Scheme == schemeHTTPS, nil
}

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)
