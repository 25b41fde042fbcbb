package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"go.uber.org/zap"

	"graphql-limit-count/internal/extplugin"
)

// quantifierConf is the strategy that the shop's decorations are made for.
const quantifierConf = `{"count":9007199254740991,"time_window":3600,"cost_strategy":"node_quantifier"}`

// request measures one request whose plan is cached, without the wire: in the filter alone,
// and in the protocol server with the frames at hand.
func (b *bench) request(ctx context.Context) error {
	b.heading("One request whose plan is cached, with a local counter", "request", "time", "quartiles", "allocations", "bytes", "target")
	f, err := newFilter(quantifierConf)
	if err != nil {
		return err
	}
	defer f.close()
	usual := newRequest(wireRequestBody(), mediaJSON)
	if got, err := f.mustCost(usual); err != nil || got != wireCost {
		return errors.Join(err, fmt.Errorf("a request is charged %q, not %q", got, wireCost))
	}
	frames, err := newKernelless(ctx, f)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name, what string
		of         side
	}{
		{"filter_hit", "the filter, body of 500 bytes", repeat(f.operation(usual))},
		{"filter_hit_2kb", "the filter, query of 2 KB", repeat(f.operation(newRequest(requestBody(listing(lists2KB), listingVariables), mediaJSON)))},
		{"server_hit", "server and filter, frames at hand", frames.run},
	} {
		if err := b.oneRequest(ctx, one.name, one.what, one.of); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", one.what, err), frames.stop())
		}
	}
	return frames.stop()
}

func (b *bench) oneRequest(ctx context.Context, name, what string, of side) error {
	took, err := alone(ctx, b.schedule, of)
	if err != nil {
		return err
	}
	allocations, bytes, err := allocated(ctx, of)
	if err != nil {
		return err
	}
	time, count := b.add(number, name+"_ns", took.median), b.add(number, name+"_allocs", allocations)
	b.row(what, perOperation(took.median), perOperation(took.low)+".."+perOperation(took.high),
		fmt.Sprintf("%.1f", allocations), fmt.Sprintf("%.0f", bytes), strings.Trim(time.verdict()+"; "+count.verdict(), "; "))
	return nil
}

// allocated counts what an operation allocates, everything in this process included.
func allocated(ctx context.Context, of side) (count, bytes float64, err error) {
	const operations = 10_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := of(ctx, operations); err != nil {
		return 0, 0, err
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / operations, float64(after.TotalAlloc-before.TotalAlloc) / operations, nil
}

// kernelless is the protocol server behind connections that no kernel carries: what it
// reads lies ready, what it writes is dropped.
type kernelless struct {
	listener *handedListener
	talk     *conversation
	cancel   context.CancelFunc
	served   chan error
}

// newKernelless serves the filter's plugin, to be stopped.
func newKernelless(ctx context.Context, f *filter) (*kernelless, error) {
	server := extplugin.NewServer(extplugin.Config{Plugins: []plugin.Plugin{f.plugin}, Logger: zap.NewNop()})
	k := &kernelless{listener: newHandedListener(), served: make(chan error, 1)}
	ctx, k.cancel = context.WithCancel(ctx)
	go func() { k.served <- server.Serve(ctx, k.listener) }()
	near, far := net.Pipe()
	k.listener.hand(far)
	var err error
	if k.talk, err = record(ctx, near, quantifierConf); err != nil {
		return nil, errors.Join(fmt.Errorf("recording a call: %w", err), k.stop())
	}
	return k, nil
}

func (k *kernelless) stop() error {
	k.cancel()
	return <-k.served
}

// run serves n calls on a connection. The server does that in a goroutine of its own, so
// the time is the processor time of the process, which does nothing else meanwhile.
func (k *kernelless) run(_ context.Context, n int) (time.Duration, error) {
	c := &readyConn{talk: k.talk, left: n, closed: make(chan struct{})}
	start, err := processTime()
	if err != nil {
		return 0, err
	}
	k.listener.hand(c)
	<-c.closed
	end, err := processTime()
	if err != nil {
		return 0, err
	}
	if c.left > 0 || c.written != n*(len(k.talk.Questions)+len(k.talk.Result)) {
		return 0, fmt.Errorf("the server left %d of %d calls, and wrote %d bytes", c.left, n, c.written)
	}
	return end - start, nil
}

// readyConn gives a server the frames of so many calls to read, then ends.
type readyConn struct {
	talk    *conversation
	left    int
	next    []byte // what is still to be read of the frames at hand
	asked   bool   // the call was read, the answers are next
	written int
	closed  chan struct{}
	once    sync.Once
}

// Read gives the next frames, never more than one side says in a row.
func (c *readyConn) Read(p []byte) (int, error) {
	if len(c.next) == 0 {
		switch {
		case c.asked:
			c.next, c.asked = c.talk.Answers, false
			c.left--
		case c.left == 0:
			return 0, io.EOF
		default:
			c.next, c.asked = c.talk.Call, true
		}
	}
	n := copy(p, c.next)
	c.next = c.next[n:]
	return n, nil
}

// Write drops what the server says.
func (c *readyConn) Write(p []byte) (int, error) {
	c.written += len(p)
	return len(p), nil
}

// Close ends the connection.
func (c *readyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *readyConn) LocalAddr() net.Addr              { return handedAddr{} }
func (c *readyConn) RemoteAddr() net.Addr             { return handedAddr{} }
func (c *readyConn) SetDeadline(time.Time) error      { return nil }
func (c *readyConn) SetReadDeadline(time.Time) error  { return nil }
func (c *readyConn) SetWriteDeadline(time.Time) error { return nil }

// handedListener accepts the connections that it is handed.
type handedListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandedListener() *handedListener {
	return &handedListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *handedListener) hand(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close() // nobody serves it
	}
}

// Accept waits for a connection that is handed.
func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the accepting.
func (l *handedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is none.
func (l *handedListener) Addr() net.Addr { return handedAddr{} }

type handedAddr struct{}

func (handedAddr) Network() string { return "none" }
func (handedAddr) String() string  { return fmt.Sprintf("process %d", os.Getpid()) }
