package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"graphql-limit-count/ci/ports"
)

const (
	// startAttempts is how often a server is started when its port was taken meanwhile.
	startAttempts = 5
	// redisReady is what redis-server writes once it answers.
	redisReady = "Ready to accept connections"
)

// Redis is a redis-server that keeps nothing on disk.
type Redis struct {
	// Host and Port are where it listens, also after a restart.
	Host string
	Port int

	process process
}

// StartRedis starts a redis-server. Directives are added to its command line, such as
// "--requirepass", "secret". Close it when done.
func StartRedis(ctx context.Context, directives ...string) (*Redis, error) {
	return startRedis(ctx, func(port string) []string {
		return append([]string{"--port", port}, directives...)
	})
}

// StartRedisTLS is StartRedis for a server that only takes TLS connections, with the
// certificate given; it asks clients for none.
func StartRedisTLS(ctx context.Context, cert Certificate, directives ...string) (*Redis, error) {
	return startRedis(ctx, func(port string) []string {
		return append([]string{"--port", "0", "--tls-port", port,
			"--tls-cert-file", cert.CertFile, "--tls-key-file", cert.KeyFile,
			"--tls-ca-cert-file", cert.CertFile, "--tls-auth-clients", "no"}, directives...)
	})
}

func startRedis(ctx context.Context, directives func(port string) []string) (*Redis, error) {
	if err := Require(ctx, "redis-server", "redis-server"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	var r *Redis
	for range startAttempts {
		var port int
		if port, err = ports.Free(); err != nil {
			break
		}
		r = &Redis{Host: loopback, Port: port}
		r.process = process{
			program: "redis-server",
			args: append([]string{"--bind", r.Host, "--save", "", "--appendonly", "no", "--dir", dir},
				directives(strconv.Itoa(port))...),
			dir:   dir,
			ready: redisReady,
		}
		if err = r.process.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

// RunRedis is StartRedis for a test or benchmark: it fails tb when the server cannot be
// started, and stops it when tb ends.
func RunRedis(tb testing.TB, directives ...string) *Redis {
	tb.Helper()
	r, err := StartRedis(context.Background(), directives...)
	return r.untilEnd(tb, err)
}

// RunRedisTLS is StartRedisTLS for a test, as RunRedis is StartRedis.
func RunRedisTLS(tb testing.TB, cert Certificate, directives ...string) *Redis {
	tb.Helper()
	r, err := StartRedisTLS(context.Background(), cert, directives...)
	return r.untilEnd(tb, err)
}

func (r *Redis) untilEnd(tb testing.TB, err error) *Redis {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// Addr is host:port.
func (r *Redis) Addr() string { return net.JoinHostPort(r.Host, strconv.Itoa(r.Port)) }

// Stop ends the server; connections to it are refused until Start.
func (r *Redis) Stop() error { return r.process.stop() }

// Start starts a stopped server again, at the same address and empty.
func (r *Redis) Start(ctx context.Context) error { return r.process.start(ctx) }

// Pause makes the server hang (SIGSTOP): the kernel still accepts connections, nobody
// answers.
func (r *Redis) Pause() error { return r.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *Redis) Resume() error { return r.process.signal(syscall.SIGCONT) }

// Close ends the server and removes its directory.
func (r *Redis) Close() error {
	return errors.Join(r.process.kill(), os.RemoveAll(r.process.dir))
}
