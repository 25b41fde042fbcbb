// Package demo is a DEVELOPMENT tool: it starts the demo shop, the development
// gateway and a runner, limits some routes through the two admin endpoints, sends
// sample requests and says whether each answer is the documented one.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/ci/runner"
	"graphql-limit-count/ci/shop"
)

// DefaultRunnerAdminAddr is where the demo's runner has its admin endpoint.
const DefaultRunnerAdminAddr = "127.0.0.1:9181"

// RunnerAdminKey is the key of that endpoint. It is public: the demo listens on
// loopback only.
const RunnerAdminKey = "graphql-limit-count-demo"

// Options say where the demo listens and what it does.
type Options struct {
	// Binary is the graphql-limit-count executable that is run. Required.
	Binary string
	// Server is the runner's --server; empty leaves it at its default.
	Server string
	// OneShot returns after the samples instead of waiting for ctx.
	OneShot bool
	// FrontAddr and GatewayAdminAddr are the gateway's, ShopAddr is the upstream's
	// and RunnerAdminAddr the runner's admin endpoint. Empty: 127.0.0.1 at 9080,
	// 9180, 1980 and 9181.
	FrontAddr, GatewayAdminAddr, ShopAddr, RunnerAdminAddr string
	// Out takes the report. Required.
	Out io.Writer
	// Log takes the runner's and the gateway's log. Required.
	Log io.Writer
}

// ErrUnexpected is returned when an answer was not the documented one.
var ErrUnexpected = errors.New("not every answer was the documented one")

// Run runs the demo until ctx ends, or until the samples are through with
// Options.OneShot. It returns ErrUnexpected when an answer was not the documented
// one, and stops all that it started before it returns.
func Run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	folder, err := os.MkdirTemp("", "graphql-limit-count-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer os.RemoveAll(folder)

	o.RunnerAdminAddr = cmp.Or(o.RunnerAdminAddr, DefaultRunnerAdminAddr)
	if err := free(ctx, o.RunnerAdminAddr); err != nil {
		return fmt.Errorf("start the runner (its admin endpoint is at --admin-listen): %w", err)
	}
	upstream, err := shop.Start(ctx, o.ShopAddr)
	if err != nil {
		return fmt.Errorf("start the demo shop (at --upstream): %w", err)
	}
	defer upstream.Close()
	socket := filepath.Join(folder, "runner.sock")
	front, err := gateway.Start(ctx, gateway.Config{
		FrontAddr: o.FrontAddr, AdminAddr: o.GatewayAdminAddr,
		RunnerSocket: socket, Logger: zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("start the development gateway (at --front and --gateway-admin): %w", err)
	}
	defer front.Close()
	run, err := runner.Start(ctx, runner.Config{
		Binary: o.Binary, Server: o.Server, Socket: socket, DataDir: folder,
		AdminAddr: o.RunnerAdminAddr, AdminKey: RunnerAdminKey,
		APISIXAdminURL: front.AdminURL(), APISIXAdminKey: gateway.DefaultAdminKey, Log: o.Log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = run.Stop() }() // the demo is over, however the runner ends

	s := session{
		out: o.Out, front: front.FrontURL(), gatewayAdmin: front.AdminURL(),
		runnerAdmin: run.AdminURL(), upstream: upstream.Addr(),
	}
	if err := s.play(ctx); err != nil || o.OneShot {
		return err
	}
	s.playground()
	select {
	case <-ctx.Done():
		return nil
	case <-run.Ended():
		return fmt.Errorf("the runner ended: %w", run.Err())
	}
}

// free tells whether an address can be listened on. A runner waits for its admin address,
// and until it has it, whoever answers there would be told the demo's decorations.
func free(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}
