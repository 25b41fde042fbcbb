package extplugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// takeoverCaller calls the server at a socket, on a new connection each time, and
// counts what fails.
type takeoverCaller struct {
	path   string
	status int // of its own configuration's answer
	token  uint32
	began  time.Time

	calls  *atomic.Int64
	lost   *atomic.Int64 // first frames on a new connection without an answer, the caller having stood still
	closed *atomic.Int64 // connections closed between two frames
}

// call makes one call; an error is one that must never be.
func (c *takeoverCaller) call() error {
	ctx := context.Background()
	c.began = time.Now()
	client, err := Dial(ctx, c.path)
	if err != nil {
		return fmt.Errorf("no server at the socket: %w", err)
	}
	defer func() { _ = client.Close() }()
	defer c.calls.Add(1)
	fresh := true
	if c.token != 0 { // a token of the server before, perhaps
		action, err := client.HTTPReqCall(ctx, suiteRequest(c.token), &fixedAnswers{})
		if !errors.Is(err, ErrConfTokenNotFound) {
			return c.judge(action, err, fresh)
		}
		fresh = false
	}
	conf := []NamedConf{{Name: "script", Value: fmt.Sprintf(`{"status":%d}`, c.status)}}
	token, err := client.PrepareConf(ctx, "route", conf)
	if err != nil {
		return c.judge(Action{}, err, fresh)
	}
	c.token = token
	action, err := client.HTTPReqCall(ctx, suiteRequest(token), &fixedAnswers{})
	return c.judge(action, err, false)
}

func (c *takeoverCaller) judge(action Action, err error, fresh bool) error {
	switch {
	case err != nil && fresh && time.Since(c.began) >= newcomerGrace:
		c.lost.Add(1) // the host has held the caller up for longer than it is waited for
	case err != nil && fresh:
		return fmt.Errorf("a request on a new connection was lost: %w", err)
	case err != nil:
		c.closed.Add(1) // idle at the stop; the next call is on another
	case action.Status != c.status:
		return fmt.Errorf("the answer is %d, another configuration's, not %d", action.Status, c.status)
	}
	return nil
}

// TestTakeoverUnderLoad has one server after another take a socket over while
// connections are made, used and closed. There is a server at every moment, none
// answers with another's configuration, and what is sent on a new connection is
// answered if that is within newcomerGrace. Only a connection that is idle when its
// server stops may be closed.
func TestTakeoverUnderLoad(t *testing.T) {
	path := socketPath(t)
	current := serveAt(t, path)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var calls, lost, closed atomic.Int64
	for i := range 4 {
		caller := &takeoverCaller{path: path, status: 400 + i, calls: &calls, lost: &lost, closed: &closed}
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := caller.call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	const takeovers, callsBetween = 10, 50
	for range takeovers {
		before := calls.Load()
		next := serveAt(t, path)
		for deadline := time.Now().Add(patience); calls.Load() < before+callsBetween && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		current.stop()
		if err := <-current.done; err != nil {
			t.Error(err)
		}
		current = next
	}
	close(stop)
	callers.Wait()
	t.Logf("%d calls, %d lost, %d found their idle connection closed", calls.Load(), lost.Load(), closed.Load())
}
