// Package runner starts `graphql-limit-count run` as a process of its own, as APISIX
// does, for the demo and the end-to-end suite. It is a DEVELOPMENT tool and no part
// of the product.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"graphql-limit-count/ci/ports"
	"graphql-limit-count/ci/subprocess"
)

const (
	// StopTimeout is how long APISIX waits after SIGTERM before it kills a runner.
	StopTimeout = time.Second
	// ConfExpire is how long APISIX says that it keeps a configuration's token.
	ConfExpire = time.Hour

	// startTimeout bounds the start; a binary with the race detector on a busy
	// machine needs a few seconds.
	startTimeout = 15 * time.Second
	// pollInterval is how often the runner is looked at while it starts.
	pollInterval = 10 * time.Millisecond
)

// ErrKilled is returned by Stop when the runner did not end by itself.
var ErrKilled = errors.New("the runner did not end in time after SIGTERM and was killed")

// Config says how the runner is started.
type Config struct {
	// Binary is the graphql-limit-count executable. Required.
	Binary string
	// Server is --server; empty leaves the default.
	Server string
	// Socket is the path of the unix socket to listen on. Required.
	Socket string
	// DataDir is the folder for the decorations. Required.
	DataDir string
	// AdminAddr is the address of the admin endpoint; port 0 takes a free port.
	// Required.
	AdminAddr string
	// AdminKey is the key of that endpoint. Required.
	AdminKey string
	// APISIXAdminURL and APISIXAdminKey are those of APISIX's Admin API. Empty: it
	// cannot be asked.
	APISIXAdminURL, APISIXAdminKey string
	// Flags are further flags of run, last.
	Flags []string
	// StopTimeout is how long Stop waits before it kills the runner. Default StopTimeout,
	// as APISIX does; a test that is about something else gives a busy machine longer.
	StopTimeout time.Duration
	// Log takes what the runner prints. Required.
	Log io.Writer
}

// Process is a started runner. Its methods are safe for concurrent use.
type Process struct {
	command *exec.Cmd
	config  Config // with the address of the admin endpoint that was chosen
	ended   chan struct{}
	err     error // how it ended; read after ended is closed
}

// Start starts a runner and waits until it takes connections and answers its admin
// endpoint. An error says why it ended, or that ctx or 15 seconds did; then nothing
// is left running. The caller stops it.
func Start(ctx context.Context, config Config) (*Process, error) {
	var err error
	if config.AdminAddr, err = choosePort(config.AdminAddr); err != nil {
		return nil, fmt.Errorf("start the runner: find an address for its admin endpoint: %w", err)
	}
	p := &Process{config: config, command: config.command(), ended: make(chan struct{})}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.command.Wait()
	}()
	if err := p.awaitReady(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	return p, nil
}

// command is the command line and the environment that APISIX starts a runner with.
func (c Config) command() *exec.Cmd {
	arguments := []string{
		"run", "--data-dir", c.DataDir,
		"--admin-listen", c.AdminAddr, "--admin-key", c.AdminKey,
		"--apisix-admin-url", c.APISIXAdminURL, "--apisix-admin-key", c.APISIXAdminKey,
	}
	if c.Server != "" {
		arguments = append(arguments, "--server", c.Server)
	}
	command := exec.Command(c.Binary, append(arguments, c.Flags...)...)
	command.Env = append(os.Environ(),
		"APISIX_LISTEN_ADDRESS=unix:"+c.Socket,
		"APISIX_CONF_EXPIRE_TIME="+strconv.Itoa(int(ConfExpire/time.Second)))
	command.Stdout, command.Stderr = c.Log, c.Log
	subprocess.EndWithParent(command)
	subprocess.OwnGroup(command)
	return command
}

// choosePort replaces port 0 of an address by a free one.
func choosePort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port != "0" {
		return address, err
	}
	free, err := ports.Free()
	return net.JoinHostPort(host, strconv.Itoa(free)), err
}

// awaitReady waits until the runner serves.
func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for !p.serves(ctx, client) {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended at once: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("it does not serve yet: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	return nil
}

func (p *Process) serves(ctx context.Context, client *http.Client) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.config.Socket)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.AdminURL()+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // the status is all that counts
	return response.StatusCode == http.StatusOK
}

// AdminURL is the base URL of the admin endpoint, without a trailing slash.
func (p *Process) AdminURL() string { return "http://" + p.config.AdminAddr }

// Socket is the path of the socket that the runner listens on.
func (p *Process) Socket() string { return p.config.Socket }

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is how the process ended; it waits until it has. It is never nil: a runner that
// nobody stopped should not end.
func (p *Process) Err() error {
	<-p.ended
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Stop ends the runner as APISIX does: SIGTERM, and SIGKILL after Config.StopTimeout. It
// returns ErrKilled when that was needed, and the process's own failure when it
// ended with a status other than 0. A runner that has ended already is fine.
func (p *Process) Stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	// It fails only when the process has ended meanwhile.
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(cmp.Or(p.config.StopTimeout, StopTimeout)):
		p.Kill()
		return ErrKilled
	}
}

// Kill ends the runner with SIGKILL and waits for it.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it fails only when the process has ended
	<-p.ended
}

// Again starts a runner in the place of one that has ended: with the same socket,
// folder and admin address.
func (p *Process) Again(ctx context.Context) (*Process, error) { return Start(ctx, p.config) }
