package admin

import (
	"crypto/tls"
	"net"
	"time"

	"go.uber.org/zap"

	"graphql-limit-count/internal/secret"
)

// certificateInterval is how long after its files have changed a certificate is used at
// most.
const certificateInterval = time.Second

// Certificate is a certificate and its key, read again when their files change: after a
// renewal nothing need be restarted. While the files do not fit together, the last ones that
// did stay in use.
type Certificate struct {
	file *secret.File[*tls.Certificate]
}

// OpenCertificate reads a certificate, with its chain, and its private key from two files
// in PEM. Errors name the files and show nothing of the key.
func OpenCertificate(certFile, keyFile string, logger *zap.Logger) (*Certificate, error) {
	file, err := secret.OpenFile(secret.FileConfig{
		What: "the admin endpoint's certificate", Paths: []string{certFile, keyFile},
		Interval: certificateInterval, Logger: logger,
	}, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	})
	if err != nil {
		return nil, err
	}
	return &Certificate{file: file}, nil
}

// Listener returns a listener that speaks TLS 1.2 or 1.3 on the connections of another, and
// HTTP/1.1 in it: the endpoint's bounds are those of one request at a time on a connection.
func (c *Certificate) Listener(inner net.Listener) net.Listener {
	return tls.NewListener(inner, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.file.Value(), nil },
	})
}
