// Package shop is a demo GraphQL upstream: a small shop that graphql-go executes over
// generated data. It is a development tool for the demo and the tests, not a product:
// its data is invented, the same in every process, and bounded, so that no query makes
// it build more than MaxNodes objects. It answers introspection.
//
// It takes POST with application/json or application/graphql at one path and answers
// every well-formed GraphQL request with 200, errors included, as GraphQL servers do
// for application/json.
package shop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultAddr is where the demo's gateway expects the shop.
	DefaultAddr = "127.0.0.1:1980"
	// DefaultPath is the only path that is answered.
	DefaultPath = "/graphql"

	readHeaderTimeout = 10 * time.Second
	shutdownTimeout   = 5 * time.Second
)

// Guard says which requests need the Authorization that WithAuthorization sets.
type Guard int

const (
	// GuardAll refuses every request without it.
	GuardAll Guard = iota + 1
	// GuardIntrospection refuses only documents that ask for __schema or __type.
	GuardIntrospection
)

// Option changes what a Server does.
type Option func(*Server)

// WithPath answers at path instead of DefaultPath. It begins with a slash.
func WithPath(path string) Option { return func(s *Server) { s.path = path } }

// WithAuthorization answers 401 to the requests that guard names unless their
// Authorization header is exactly value.
func WithAuthorization(value string, guard Guard) Option {
	return func(s *Server) { s.authorization, s.guard = value, guard }
}

// WithDelay waits that long before each answer; the client's going or Close end it.
func WithDelay(delay time.Duration) Option { return func(s *Server) { s.delay = delay } }

// Server is a running shop. Its methods are safe for concurrent use.
type Server struct {
	path          string
	authorization string
	guard         Guard
	delay         time.Duration
	execute       *executor

	requests, introspections atomic.Int64

	socket  net.Listener
	stop    context.CancelFunc
	stopped sync.Once
	done    chan struct{}
}

// Start listens on addr (empty: DefaultAddr; port 0: a free port) and serves until ctx
// ends or Close is called.
func Start(ctx context.Context, addr string, options ...Option) (*Server, error) {
	s := &Server{path: DefaultPath, done: make(chan struct{})}
	for _, option := range options {
		option(s)
	}
	var err error
	if s.execute, err = newExecutor(); err != nil {
		return nil, fmt.Errorf("start the shop: build its schema: %w", err)
	}
	if addr == "" {
		addr = DefaultAddr
	}
	if s.socket, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); err != nil {
		return nil, fmt.Errorf("start the shop: listen on %s: %w", addr, err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	go s.serve(ctx)
	return s, nil
}

// serve runs the HTTP server until ctx ends, then lets running requests finish.
func (s *Server) serve(ctx context.Context) {
	defer close(s.done)
	server := &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		ReadHeaderTimeout: readHeaderTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // a delay ends with the shop
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(s.socket); !errors.Is(err, http.ErrServerClosed) {
			s.stop() // the socket failed: there is nothing left to serve
		}
	})
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // the grace period is over: nothing is left to report to
	}
	serving.Wait()
}

// Addr is host:port.
func (s *Server) Addr() string { return s.socket.Addr().String() }

// URL is the address that GraphQL is POSTed to.
func (s *Server) URL() string { return "http://" + s.Addr() + s.path }

// Requests is how many requests have arrived, whatever the answer.
func (s *Server) Requests() int64 { return s.requests.Load() }

// Introspections is how many of them asked for __schema or __type, refused ones
// included.
func (s *Server) Introspections() int64 { return s.introspections.Load() }

// Close stops listening, waits up to five seconds for running requests, and returns
// when every goroutine has ended. It may be called more than once.
func (s *Server) Close() {
	s.stopped.Do(s.stop)
	<-s.done
}
