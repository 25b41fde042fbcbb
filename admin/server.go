package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// DefaultAddress is where the endpoint listens: loopback, as its key crosses the wire in
// plain text.
const DefaultAddress = "127.0.0.1:9181"

const (
	// listenRetry is the pause between two attempts to listen.
	listenRetry = 100 * time.Millisecond

	readHeaderTimeout = 5 * time.Second
	bodyTimeout       = 15 * time.Second // a request, 1 MiB at most
	answerTimeout     = 30 * time.Second // includes asking APISIX and waiting for the store
	idleTimeout       = time.Minute
	maxHeaderBytes    = 16 << 10
	// shutdownTimeout must leave the rest of the process some of the second that APISIX
	// grants between SIGTERM and SIGKILL.
	shutdownTimeout = 500 * time.Millisecond
)

// Listen listens on a TCP address such as DefaultAddress. While another process has the
// address (an old runner that drains when APISIX reloads) it tries again until ctx is done,
// and says so in the log once. Any other failure is returned at once.
func Listen(ctx context.Context, address string, logger *zap.Logger) (net.Listener, error) {
	waiting := false
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen for the admin endpoint on %s: %w", address, err)
		}
		if !waiting {
			waiting = true
			logger.Warn("admin endpoint waits for its address, which another process has",
				zap.String("address", address))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("listen for the admin endpoint on %s: %w", address, errors.Join(ctx.Err(), err))
		case <-time.After(listenRetry):
		}
	}
}

// Server serves a Handler over HTTP with bounds on time, headers and connections.
type Server struct {
	http *http.Server
	open *connections
}

// NewServer returns a server of handler.
func NewServer(handler http.Handler, logger *zap.Logger) *Server {
	open := newConnections()
	return &Server{open: open, http: &http.Server{
		Handler:           open.handler(handler),
		ConnContext:       open.accepted,
		ConnState:         open.changed,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(logger),
	}}
}

// Serve serves on listener, which it closes, until ctx is done. Then it lets running requests
// finish for half a second and returns nil; those that need longer are cut off. It may be
// called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done())
	}
	stopped := make(chan struct{})
	defer close(stopped)
	done := make(chan error, 1)
	go func() {
		select {
		case <-stopped:
			done <- nil
		case <-ctx.Done():
			done <- s.shutdown(context.WithoutCancel(ctx))
		}
	}()
	if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the admin endpoint: %w", err)
	}
	return <-done
}

func (s *Server) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err == nil {
		return nil
	}
	if err := s.http.Close(); err != nil {
		return fmt.Errorf("close the admin endpoint: %w", err)
	}
	return nil
}
