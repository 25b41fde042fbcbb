// Package servers starts the real servers that tests run against, on free loopback ports,
// each with a directory of its own, and stops them. The programs come from Debian's
// packages; a missing one is installed when the process may do that.
//
// It is for tests and development tools, not for the product.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"graphql-limit-count/ci/subprocess"
)

// loopback is the address that every server listens on.
const loopback = "127.0.0.1"

const (
	// readyTimeout is how long a server may take until it answers.
	readyTimeout = 15 * time.Second
	// readyInterval is the time between two looks at its output.
	readyInterval = 10 * time.Millisecond
	// stopTimeout is how long a server may take to end after SIGTERM before it is killed.
	stopTimeout = 5 * time.Second
	// logTail is how much of a failed server's output an error shows, in bytes.
	logTail = 2048
)

// process is a server program that can be started, stopped and started again with the
// same arguments.
type process struct {
	program string
	args    []string
	dir     string // its working directory; its output goes to dir/log
	ready   string // what its output holds once it answers

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// start runs the program and waits until it answers.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("starting %s: it is running", p.program)
	}
	log, err := os.Create(p.log())
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.program, err)
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	subprocess.EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.program, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended shows in its log
	}()
	p.cmd, p.exited = cmd, exited
	if err := p.awaitReady(ctx); err != nil {
		_ = p.end(syscall.SIGKILL)
		return fmt.Errorf("starting %s: %w; its output ends: %s", p.program, err, p.tail())
	}
	return nil
}

// awaitReady watches the output rather than the port: on the port another server might
// answer that was quicker to take it.
func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		output, err := os.ReadFile(p.log())
		if err != nil {
			return err
		}
		if bytes.Contains(output, []byte(p.ready)) {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", ctx.Err())
		case <-time.After(readyInterval):
		}
	}
}

func (p *process) log() string { return filepath.Join(p.dir, "log") }

// stop ends the program with SIGTERM, or SIGKILL when it does not obey, and waits for it.
// Stopping what does not run is fine.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(syscall.SIGTERM)
}

// kill ends the program with SIGKILL and waits for it.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(syscall.SIGKILL)
}

func (p *process) end(sig syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	// A stopped process only ends once it continues.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.program, err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	p.cmd = nil
	return nil
}

// signal sends sig to the running program.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("signalling %s: it is not running", p.program)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signalling %s: %w", p.program, err)
	}
	return nil
}

// tail is the end of the program's output.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}
