// Package gateway is a DEVELOPMENT gateway: it plays Apache APISIX's part for the
// demo and the tests of this repository, so that both run where no APISIX is
// installed. It is not a product and must not carry production traffic.
//
// It has two listeners. The Admin API takes routes, services, upstreams and
// consumers with APISIX 3's paths, bodies, status codes and X-API-KEY, and keeps
// them in memory. The front matches requests to routes, runs the plugins it knows
// (ext-plugin-pre-req, key-auth, proxy-rewrite, ext-plugin-post-req) in APISIX's
// order, speaks APISIX's side of the runner protocol over a unix socket, and
// proxies to the upstream. What changes where a request goes and is not supported
// is refused by the Admin API; plugins it does not know are ignored with a warning.
//
// Every response of either listener says `Server: graphql-limit-count-dev-gateway`.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// ServerName is the Server header of every response, so that nobody takes this
	// gateway for APISIX.
	ServerName = "graphql-limit-count-dev-gateway"

	// DefaultFrontAddr is where APISIX listens for clients, on loopback only.
	DefaultFrontAddr = "127.0.0.1:9080"
	// DefaultAdminAddr is where APISIX's Admin API listens.
	DefaultAdminAddr = "127.0.0.1:9180"
	// DefaultAdminKey is the key that APISIX's documentation uses throughout; it is
	// public, which is one more reason for the loopback address.
	DefaultAdminKey = "edd1c9f034335f136f87ad84b625c8f1"
	// DefaultConfExpire is APISIX's own lifetime of a configuration token.
	DefaultConfExpire = time.Hour

	readHeaderTimeout = 10 * time.Second
	shutdownTimeout   = 5 * time.Second
)

// Config says where the gateway listens and which runner it calls. The zero value
// of every field but RunnerSocket and Logger is a usable default.
type Config struct {
	// FrontAddr is the clients' address; port 0 takes a free port.
	// Default DefaultFrontAddr.
	FrontAddr string
	// AdminAddr is the Admin API's address; port 0 takes a free port.
	// Default DefaultAdminAddr.
	AdminAddr string
	// AdminKey is what X-API-KEY must carry. Default DefaultAdminKey.
	AdminKey string
	// RunnerSocket is the path of the runner's unix socket. It is connected to on
	// the first request that needs it, so the runner may start later. Empty: a
	// route with an ext-plugin answers as if the runner were down.
	RunnerSocket string
	// ConfExpire is how long a configuration token is used before the
	// configuration is prepared again. Default DefaultConfExpire.
	ConfExpire time.Duration
	// Logger takes warnings about ignored plugins and failed calls. Required.
	Logger *zap.Logger
}

// Gateway is a running development gateway. Its methods are safe for concurrent
// use.
type Gateway struct {
	front, admin listener
	closing      sync.Once
	stop         context.CancelFunc
	done         chan struct{}
}

// listener is one HTTP server and the socket it serves.
type listener struct {
	server *http.Server
	socket net.Listener
}

// Start listens on both addresses and serves until ctx ends or Close is called. It
// fails when an address cannot be listened on or the configuration lacks a logger.
func Start(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.Logger == nil {
		return nil, errors.New("start the development gateway: no logger")
	}
	cfg = cfg.withDefaults()
	store := newStore(time.Now)
	ctx, cancel := context.WithCancel(ctx)
	g := &Gateway{stop: cancel, done: make(chan struct{})}
	admin, err := listen(ctx, cfg.AdminAddr, newAdmin(store, cfg.AdminKey, cfg.Logger), cfg.Logger)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the development gateway's admin api: %w", err)
	}
	handler := newFront(store, newRunner(cfg), cfg.Logger)
	front, err := listen(ctx, cfg.FrontAddr, handler, cfg.Logger)
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start the development gateway's front: %w", err), admin.socket.Close())
	}
	g.admin, g.front = admin, front
	cfg.Logger.Info("development gateway, not for production",
		zap.String("front", g.FrontURL()), zap.String("admin", g.AdminURL()), zap.String("runner", cfg.RunnerSocket))
	go g.serve(ctx, handler)
	return g, nil
}

// withDefaults fills what was left out.
func (c Config) withDefaults() Config {
	if c.FrontAddr == "" {
		c.FrontAddr = DefaultFrontAddr
	}
	if c.AdminAddr == "" {
		c.AdminAddr = DefaultAdminAddr
	}
	if c.AdminKey == "" {
		c.AdminKey = DefaultAdminKey
	}
	if c.ConfExpire <= 0 {
		c.ConfExpire = DefaultConfExpire
	}
	return c
}

// listen opens addr for handler; requests end with ctx.
func listen(ctx context.Context, addr string, handler http.Handler, log *zap.Logger) (listener, error) {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return listener{}, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return listener{socket: socket, server: &http.Server{
		Handler:           named(handler),
		ReadHeaderTimeout: readHeaderTimeout,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          zap.NewStdLog(log),
	}}, nil
}

// named marks every response with ServerName before next can answer.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", ServerName)
		next.ServeHTTP(w, r)
	})
}

// serve runs both servers until ctx ends, then lets running requests finish.
func (g *Gateway) serve(ctx context.Context, front *front) {
	defer close(g.done)
	var servers sync.WaitGroup
	for _, l := range []listener{g.admin, g.front} {
		servers.Go(func() { _ = l.server.Serve(l.socket) }) // always http.ErrServerClosed: Shutdown below
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	var closers sync.WaitGroup
	for _, l := range []listener{g.admin, g.front} {
		closers.Go(func() {
			if l.server.Shutdown(grace) != nil {
				_ = l.server.Close() // the grace period is over: nothing is left to report to
			}
		})
	}
	closers.Wait()
	servers.Wait()
	front.close()
}

// FrontURL is the base URL for clients, without a trailing slash.
func (g *Gateway) FrontURL() string { return "http://" + g.front.socket.Addr().String() }

// AdminURL is the base URL of the Admin API, without a trailing slash and without
// the /apisix/admin that every path begins with.
func (g *Gateway) AdminURL() string { return "http://" + g.admin.socket.Addr().String() }

// Close stops both listeners, waits up to five seconds for running requests, and
// returns when every goroutine has ended. It may be called more than once.
func (g *Gateway) Close() {
	g.closing.Do(g.stop)
	<-g.done
}
