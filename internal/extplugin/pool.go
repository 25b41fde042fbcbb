package extplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultMaxIdle and idleKeep are how many idle connections an APISIX worker
	// keeps, and for how long.
	DefaultMaxIdle = 32
	idleKeep       = 180 * time.Second
)

// errPoolClosed is what a closed pool answers.
var errPoolClosed = errors.New("pool is closed")

// Pool keeps idle connections to a runner, as an APISIX worker does: the last one
// used is the first to be used again. It may be used by many goroutines.
type Pool struct {
	path    string
	maxIdle int

	mu     sync.Mutex
	idle   []idleClient // oldest first
	closed bool
}

type idleClient struct {
	client *Client
	since  time.Time
}

// NewPool returns a pool of connections to the runner at the unix socket path,
// that keeps up to maxIdle idle ones (0: DefaultMaxIdle). It opens none yet.
func NewPool(path string, maxIdle int) *Pool {
	if maxIdle <= 0 {
		maxIdle = DefaultMaxIdle
	}
	return &Pool{path: path, maxIdle: maxIdle}
}

// Get returns an idle connection that the runner has not closed, else a new one.
// The caller gives it back with Put.
func (p *Pool) Get(ctx context.Context) (*Client, error) {
	for {
		client, err := p.take()
		if err != nil {
			return nil, fmt.Errorf("taking a connection to the runner: %w", err)
		}
		if client == nil {
			return Dial(ctx, p.path)
		}
		if client.alive() {
			return client, nil
		}
		_ = client.Close() // the runner has closed it; nothing is lost
	}
}

// take removes the last idle connection, nil when there is none.
func (p *Pool) take() (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	p.expire()
	n := len(p.idle)
	if n == 0 {
		return nil, nil
	}
	client := p.idle[n-1].client
	p.idle[n-1] = idleClient{}
	p.idle = p.idle[:n-1]
	return client, nil
}

// expire closes the connections that have been idle too long. The caller has the
// lock.
func (p *Pool) expire() {
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) > idleKeep {
		_ = p.idle[n].client.Close() // nothing is lost
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
}

// Put gives a connection back. It is closed when it is broken, when as many are
// idle already as the pool keeps, or when the pool is closed.
func (p *Pool) Put(client *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if client.Broken() || p.closed || len(p.idle) >= p.maxIdle {
		_ = client.Close() // nothing is lost
		return
	}
	p.idle = append(p.idle, idleClient{client, time.Now()})
}

// Idle returns the number of idle connections.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Close closes the idle connections; those in use are closed when they are put
// back.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, idle := range p.idle {
		errs = append(errs, idle.client.Close())
	}
	p.idle = nil
	return errors.Join(errs...)
}

// alive reports whether the connection is open and silent, as one must be between
// two calls.
func (c *Client) alive() bool {
	if c.broken || c.f.br.Buffered() > 0 {
		return false
	}
	_, err := peek(c.f.nc)
	return errors.Is(err, syscall.EAGAIN)
}

// peek looks without waiting whether bytes lie ready to be read on nc: their
// number (at most one), EAGAIN when there is none, io.EOF when none will come.
func peek(nc any) (int, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, syscall.EAGAIN
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("looking at a connection: %w", err)
	}
	var n int
	var peekErr error
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, peekErr = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("looking at a connection: %w", err)
	case peekErr != nil:
		return 0, peekErr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
