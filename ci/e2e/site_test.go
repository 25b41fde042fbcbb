package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/zap"

	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/ci/runner"
)

// The environment of a run against a real APISIX.
const (
	gatewayURLs   = "APISIX_GATEWAY_URL"
	adminURLs     = "APISIX_ADMIN_URL"
	adminKey      = "APISIX_ADMIN_KEY"
	runnerSockets = "APISIX_RUNNER_SOCKET"
	upstreamHost  = "E2E_UPSTREAM_HOST"
)

// runnerAdminKey is the key of the runner's admin endpoint, which is on loopback.
const runnerAdminKey = "e2e-runner-key"

// realGateway tells whether the suite runs against a real APISIX.
func realGateway() bool { return os.Getenv(gatewayURLs) != "" }

// site is a gateway with its runner.
type site struct {
	front, admin, adminKey string // of the gateway
	runner                 *runner.Process
	log                    *transcript // of the runner
	close                  func()      // ends the gateway; the runner is stopped apart
}

// startSite starts the site of this number, with a runner that has a folder of its own.
func startSite(ctx context.Context, number int, server string) (*site, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(scratch, "site-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a runner: %w", err)
	}
	s := &site{log: &transcript{}, close: func() {}}
	socket := filepath.Join(folder, "runner.sock")
	if realGateway() {
		socket, err = s.useAPISIX(number)
	} else {
		err = s.startGateway(ctx, socket)
	}
	if err != nil {
		return nil, err
	}
	s.runner, err = runner.Start(ctx, runner.Config{
		Binary: path, Server: server, Socket: socket, DataDir: folder,
		AdminAddr: "127.0.0.1:0", AdminKey: runnerAdminKey,
		APISIXAdminURL: s.admin, APISIXAdminKey: s.adminKey, Log: s.log,
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%w; it said: %s", err, s.log)
	}
	return s, nil
}

// startGateway starts a development gateway.
func (s *site) startGateway(ctx context.Context, socket string) error {
	g, err := gateway.Start(ctx, gateway.Config{
		FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", RunnerSocket: socket, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	s.front, s.admin, s.adminKey, s.close = g.FrontURL(), g.AdminURL(), gateway.DefaultAdminKey, g.Close
	return nil
}

// useAPISIX takes the real gateway of this number and returns the socket that it
// connects to.
func (s *site) useAPISIX(number int) (socket string, err error) {
	fronts, admins := listed(gatewayURLs), listed(adminURLs)
	sockets, key := listed(runnerSockets), os.Getenv(adminKey)
	if number >= len(fronts) || number >= len(sockets) || len(admins) == 0 || key == "" {
		return "", fmt.Errorf("gateway %d: %s, %s, %s and %s must all name one", number+1,
			gatewayURLs, adminURLs, adminKey, runnerSockets)
	}
	// Gateways of one cluster may share an Admin API.
	s.front, s.admin, s.adminKey = fronts[number], admins[min(number, len(admins)-1)], key
	return sockets[number], nil
}

// listed is a list with commas from the environment, of URLs without a trailing slash.
func listed(name string) (all []string) {
	for one := range strings.SplitSeq(os.Getenv(name), ",") {
		if one = strings.TrimRight(strings.TrimSpace(one), "/"); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// stop ends the site, the runner first. It is an error when the runner had ended
// before, does not end within APISIX's second, or ends with another status than 0, as
// it does when the race detector has found something.
func (s *site) stop() error {
	defer s.close()
	select {
	case <-s.runner.Ended():
		return fmt.Errorf("the runner ended by itself: %w", s.runner.Err())
	default:
		return s.runner.Stop()
	}
}

// upstreamAddress is the address that the upstream's host and port are for the gateway,
// and the one to listen on.
func upstreamAddress() (host, listen string) {
	host = cmp.Or(os.Getenv(upstreamHost), "127.0.0.1")
	if host == "127.0.0.1" {
		return host, "127.0.0.1:0"
	}
	return host, "0.0.0.0:0"
}

// transcript keeps the end of what a process prints.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// transcriptSize is how much is kept, in bytes.
const transcriptSize = 64 << 10

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	if over := t.text.Len() - transcriptSize; over > 0 {
		t.text.Next(over)
	}
	return len(p), nil
}

// String is what was kept.
func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
