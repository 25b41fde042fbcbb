package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"graphql-limit-count/ci/ports"
)

const (
	// etcdReady is in what etcd writes once it serves clients, with TLS or without.
	etcdReady = `"msg":"serving client traffic `
	// sharedMemory is a file system in memory: etcd syncs every write, and tests need none of
	// it to survive the machine.
	sharedMemory = "/dev/shm"
)

// Etcd is an etcd-server, a cluster of one member.
type Etcd struct {
	// Host and Port are where clients reach it, also after a restart.
	Host string
	Port int

	scheme  string
	process process
}

// StartEtcd starts an etcd-server with an empty store. Directives are added to its command
// line, such as "--max-txn-ops", "64". Close it when done.
func StartEtcd(ctx context.Context, directives ...string) (*Etcd, error) {
	return startEtcd(ctx, "http", directives)
}

// StartEtcdTLS is StartEtcd for a server that only takes TLS connections, with the
// certificate given; it asks clients for none unless a directive says so.
func StartEtcdTLS(ctx context.Context, cert Certificate, directives ...string) (*Etcd, error) {
	return startEtcd(ctx, "https", append([]string{"--cert-file", cert.CertFile, "--key-file", cert.KeyFile}, directives...))
}

func startEtcd(ctx context.Context, scheme string, directives []string) (*Etcd, error) {
	if err := Require(ctx, "etcd", "etcd-server"); err != nil {
		return nil, err
	}
	parent := ""
	if info, err := os.Stat(sharedMemory); err == nil && info.IsDir() {
		parent = sharedMemory
	}
	dir, err := os.MkdirTemp(parent, "etcd-")
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	var e *Etcd
	for range startAttempts {
		if e, err = newEtcd(scheme, dir, directives); err != nil {
			break
		}
		if err = e.process.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return e, nil
}

// newEtcd is a server on ports that are free now.
func newEtcd(scheme, dir string, directives []string) (*Etcd, error) {
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	peerPort, err := ports.Free()
	if err != nil {
		return nil, err
	}
	e := &Etcd{Host: loopback, Port: port, scheme: scheme}
	peer := "http://" + net.JoinHostPort(loopback, strconv.Itoa(peerPort))
	e.process = process{
		program: "etcd",
		args: append([]string{"--name", "test", "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", e.Endpoint(), "--advertise-client-urls", e.Endpoint(),
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "test=" + peer,
			"--logger", "zap", "--log-outputs", "stderr",
			// It elects itself in a tenth of a second instead of one. (Without syncing, by
			// --unsafe-no-fsync, a killed etcd would lose writes that it acknowledged.)
			"--heartbeat-interval", "10", "--election-timeout", "100"},
			directives...),
		dir:   dir,
		ready: etcdReady,
	}
	return e, nil
}

// RunEtcd is StartEtcd for a test or benchmark: it fails tb when the server cannot be
// started, and stops it when tb ends.
func RunEtcd(tb testing.TB, directives ...string) *Etcd {
	tb.Helper()
	e, err := StartEtcd(context.Background(), directives...)
	return e.untilEnd(tb, err)
}

// RunEtcdTLS is StartEtcdTLS for a test, as RunEtcd is StartEtcd.
func RunEtcdTLS(tb testing.TB, cert Certificate, directives ...string) *Etcd {
	tb.Helper()
	e, err := StartEtcdTLS(context.Background(), cert, directives...)
	return e.untilEnd(tb, err)
}

func (e *Etcd) untilEnd(tb testing.TB, err error) *Etcd {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// Endpoint is the address for clients, such as http://127.0.0.1:2379.
func (e *Etcd) Endpoint() string {
	return e.scheme + "://" + net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}

// Stop ends the server; connections to it are refused until Start.
func (e *Etcd) Stop() error { return e.process.stop() }

// Kill ends the server with SIGKILL.
func (e *Etcd) Kill() error { return e.process.kill() }

// Start starts a stopped server again, at the same address and with what it stored.
func (e *Etcd) Start(ctx context.Context) error { return e.process.start(ctx) }

// LoseData removes everything that a stopped server stored: after Start it is empty, and its
// revisions begin again. It keeps its address, and so the identity of its cluster.
func (e *Etcd) LoseData() error {
	if err := os.RemoveAll(filepath.Join(e.process.dir, "data")); err != nil {
		return fmt.Errorf("losing etcd's data: %w", err)
	}
	return nil
}

// Pause makes the server hang (SIGSTOP): the kernel still accepts connections, nobody
// answers. All its threads have stopped when it returns.
func (e *Etcd) Pause() error {
	if err := e.process.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	threads := fmt.Sprintf("/proc/%d/task/*/stat", e.process.cmd.Process.Pid)
	for begun := time.Now(); !stopped(threads); time.Sleep(readyInterval) {
		if time.Since(begun) > readyTimeout {
			return errors.New("pausing etcd: it goes on")
		}
	}
	return nil
}

// stopped tells whether the threads whose state is in these files have all been stopped.
func stopped(pattern string) bool {
	files, _ := filepath.Glob(pattern) // it only fails for a bad pattern
	for _, file := range files {
		text, err := os.ReadFile(file)
		// The state follows the name, which is in parentheses and may hold any character.
		_, state, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if err == nil && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(files) > 0
}

// Resume ends a Pause.
func (e *Etcd) Resume() error { return e.process.signal(syscall.SIGCONT) }

// Close ends the server and removes its directory.
func (e *Etcd) Close() error {
	return errors.Join(e.process.kill(), os.RemoveAll(e.process.dir))
}
