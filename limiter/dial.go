package limiter

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// tcpKeepAlive is how often an unused TCP connection is probed.
const tcpKeepAlive = 15 * time.Second

// newDialer returns the function that opens the connections of a go-redis pool.
//
// It never fails: what it could not open it returns as a [failedConn], which reports the
// failure when it is first used. go-redis's pool counts failed dials, and after as many
// as the pool is large it answers from memory and looks only once a second whether the
// server is back; with this it notices at the next decision.
//
// With TLS, verify checks the server's certificate against the address's host and the
// system's authorities.
func newDialer(encrypt, verify bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAlive: tcpKeepAlive}
	dial := dialer.DialContext
	if encrypt {
		dial = (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: !verify, //nolint:gosec // what the setting asks for
		}}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil
		}
		return conn, nil
	}
}

// failedConn is a connection that could not be opened; every use returns why.
type failedConn struct{ err error }

var _ net.Conn = failedConn{}

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
