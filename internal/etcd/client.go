package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
)

const (
	// RequestTimeout bounds one exchange with etcd: [Client.WithTimeout] applies it.
	RequestTimeout = 3 * time.Second

	// keepAliveTime is the silence after which a connection is probed; gRPC allows no less.
	keepAliveTime = 10 * time.Second
	// keepAliveTimeout is how long the probe's answer may take.
	keepAliveTimeout = 3 * time.Second

	// The pauses between two attempts to connect. gRPC's own grow to two minutes, which
	// would be how long a returned server goes unnoticed.
	reconnectFirst  = 50 * time.Millisecond
	reconnectMax    = 500 * time.Millisecond
	reconnectFactor = 1.6
	reconnectJitter = 0.2
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 3 * time.Second

	// maxRequest is the largest request in bytes: above what any server takes
	// (--max-request-bytes, 1.5 MiB by default), so that the server's own bound decides.
	maxRequest = 64 << 20
)

// Client is a connection to etcd. Its methods are safe for concurrent use.
type Client struct {
	*clientv3.Client
	prefix string
	outage *outage
}

// Open returns a client without waiting for the servers: an error says what is wrong with
// the settings or a file that they name. Close releases it.
func Open(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  tlsConfig,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallSendMsgSize:   maxRequest,
		// etcd's client warns of every failed attempt. Who calls it learns of the failure
		// and knows whether it is worth a line.
		Logger:      zap.NewNop(),
		DialOptions: cfg.dialOptions(tlsConfig),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	prefix := cfg.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return &Client{Client: client, prefix: prefix, outage: newOutage(cfg.Logger)}, nil
}

func (c Config) dialOptions(tlsConfig *tls.Config) []grpc.DialOption {
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{
			BaseDelay: reconnectFirst, Multiplier: reconnectFactor,
			Jitter: reconnectJitter, MaxDelay: reconnectMax,
		},
		MinConnectTimeout: connectTimeout,
	})}
	if c.Username != "" {
		options = append(options, newSignIn(c.Username, c.Password).options()...)
	}
	if c.ServerName != "" {
		// Added after etcd's own, it takes their place.
		options = append(options, grpc.WithTransportCredentials(
			namedServer{credentials.NewTLS(tlsConfig), c.ServerName}))
	}
	return options
}

// Prefix is what stands before every key, such as /apisix.
func (c *Client) Prefix() string { return c.prefix }

// WithTimeout derives the context of one exchange with etcd, which ends after RequestTimeout.
func (c *Client) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, RequestTimeout)
}

// Explain says what it means that a call was not answered in time; other errors are returned
// as they are. The connection itself is waited for as long as for an answer.
func (c *Client) Explain(err error) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case c.ActiveConnection().GetState() != connectivity.Ready:
		return fmt.Errorf("no server can be reached: %w", err)
	}
	return fmt.Errorf("the server does not answer: %w", err)
}

// Close ends the connections. Calls and Follows that still run fail.
func (c *Client) Close() error {
	if err := c.Client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// tls returns what TLS connections use, nil for servers that do not speak it.
func (c Config) tls() (*tls.Config, error) {
	if secure, err := parseEndpoint(c.Endpoints[0]); err != nil || !secure {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The operator asks for it, for servers that nobody can vouch for.
		InsecureSkipVerify: c.InsecureSkipVerify, //nolint:gosec
	}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the certificate authorities: %s holds no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// namedServer checks that a server's certificate is for a given name. gRPC checks it for the
// host that is connected to, whatever the TLS configuration says.
type namedServer struct {
	credentials.TransportCredentials
	name string
}

func (n namedServer) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return n.TransportCredentials.ClientHandshake(ctx, n.name, conn)
}

func (n namedServer) Clone() credentials.TransportCredentials {
	return namedServer{n.TransportCredentials.Clone(), n.name}
}
