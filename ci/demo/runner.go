package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the start of the runner.
	startTimeout = 15 * time.Second
	// stopTimeout is how long APISIX waits before it kills a runner.
	stopTimeout = time.Second
	// pollInterval is how often the runner is looked at while it starts.
	pollInterval = 20 * time.Millisecond
)

// runner is a running graphql-limit-count run.
type runner struct {
	command  *exec.Cmd
	adminURL string
	ended    chan error
}

// startRunner starts the runner as APISIX does and waits until it serves.
func startRunner(ctx context.Context, o Options, socket, folder, gatewayAdmin string) (*runner, error) {
	address := o.RunnerAdminAddr
	if address == "" {
		address = DefaultRunnerAdminAddr
	}
	address, err := freePort(address)
	if err != nil {
		return nil, fmt.Errorf("find an address for the admin endpoint: %w", err)
	}
	arguments := []string{"run",
		"--data-dir", folder,
		"--admin-listen", address, "--admin-key", RunnerAdminKey,
		"--apisix-admin-url", gatewayAdmin, "--apisix-admin-key", "edd1c9f034335f136f87ad84b625c8f1",
	}
	if o.Server != "" {
		arguments = append(arguments, "--server", o.Server)
	}
	command := exec.Command(o.Binary, arguments...)
	command.Env = append(os.Environ(), "APISIX_LISTEN_ADDRESS=unix:"+socket, "APISIX_CONF_EXPIRE_TIME=3600")
	command.Stdout, command.Stderr = o.Log, o.Log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	r := &runner{command: command, adminURL: "http://" + address, ended: make(chan error, 1)}
	go func() { r.ended <- command.Wait() }()
	if err := r.ready(ctx, socket); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// freePort replaces port 0 of an address by a free one.
func freePort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port != "0" {
		return address, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ready waits until the runner takes connections and answers its admin endpoint.
func (r *runner) ready(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if r.serves(ctx, socket) {
			return nil
		}
		select {
		case err := <-r.ended:
			r.ended <- err
			return fmt.Errorf("the runner ended while it started: %w", errOr(err, "status 0"))
		case <-ctx.Done():
			return fmt.Errorf("wait for the runner: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func errOr(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return err
}

func (r *runner) serves(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.adminURL+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// stop ends the runner as APISIX does.
func (r *runner) stop() {
	// A process that has ended already cannot be signalled, which is fine.
	_ = r.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(stopTimeout):
		_ = r.command.Process.Kill()
		<-r.ended
	}
}
