package extplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// backlogGrace is how long a draining server waits for connections that were
	// being made when its socket went; those already in the backlog are accepted in
	// any case.
	backlogGrace = 10 * time.Millisecond

	// lastGrace is how long connections may take to end once they are closed, and
	// then configurations to be closed.
	lastGrace = 25 * time.Millisecond

	// A failing accept, for want of file descriptors for example, is tried again
	// after minBackoff, then ever later up to maxBackoff.
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

var errServedBefore = errors.New("a server serves once")

// Serve accepts connections on l and serves them until ctx is done. Then it stops
// accepting, removes l's socket, closes idle connections and lets requests in
// flight finish, and returns nil once they have, or 850 ms after ctx was done
// whatever they do. It closes l in any case. An error means that l failed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if !s.started.CompareAndSwap(false, true) {
		return errServedBefore
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ctx, stop := context.WithCancel(ctx)

	var background sync.WaitGroup
	background.Go(func() { s.confs.run(ctx) })
	var deadline time.Time // of the drain; written before draining is closed
	draining := make(chan struct{})
	background.Go(func() {
		<-ctx.Done()
		deadline = time.Now().Add(s.cfg.DrainTimeout)
		s.draining.Store(true)
		stopListening(l)
		s.wakeAll()
		close(draining)
	})

	err := s.acceptAll(ctx, base, l)
	stop()
	<-draining
	_ = l.Close() // for the second time where acceptAll ended by the first
	all := s.drain(deadline, cancel)
	s.cleanUp(all, &background)
	return err
}

// cleanUp closes the configurations, unless a request that was given up might
// still use one, and waits for the background to end; not for long, as either may
// wait for what a plugin closes.
func (s *Server) cleanUp(all bool, background *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if all {
			s.confs.close()
		}
		background.Wait()
	}()
	select {
	case <-done:
	case <-time.After(lastGrace):
		s.log.Warn("a plugin takes long to close a configuration; not waiting for it")
	}
}

// stopListening ends the accepting of connections, after those in the backlog.
func stopListening(l net.Listener) {
	if own, ok := l.(*socketListener); ok {
		own.retire()
	}
	if l, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		if l.SetDeadline(time.Now().Add(backlogGrace)) == nil {
			return
		}
	}
	_ = l.Close() // Accept reports it
}

// acceptAll starts a goroutine for every connection until ctx is done.
func (s *Server) acceptAll(ctx, base context.Context, l net.Listener) error {
	backoff := minBackoff
	for {
		nc, err := l.Accept()
		if err == nil {
			backoff = minBackoff
			s.start(base, nc)
			continue
		}
		if ctx.Err() != nil {
			s.acceptBacklog(base, l)
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting connections: %w", err)
		}
		if suppressed, ok := s.refusedLog.pass(); ok {
			s.log.Error("accepting a connection failed; trying again", zap.Error(err), suppressed)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// acceptBacklog accepts the connections that still wait once nobody can make new
// ones. An Accept whose deadline has passed does not look whether one waits, and
// closing the listener resets them, with the requests they have sent already. So
// this looks itself, and accepts without a deadline only what is there.
func (s *Server) acceptBacklog(base context.Context, l net.Listener) {
	own, ok := l.(*socketListener)
	if !ok || own.SetDeadline(time.Time{}) != nil {
		return
	}
	for own.waiting() {
		nc, err := own.Accept()
		if err != nil {
			return
		}
		s.start(base, nc)
	}
}

// start serves nc, or closes it when there are too many.
func (s *Server) start(base context.Context, nc net.Conn) {
	s.metrics.accepted.Add(1)
	c := newConn(s, nc, base)
	if !s.remember(c) {
		s.metrics.refused.Add(1)
		_ = nc.Close() // nothing was sent
		if suppressed, ok := s.refusedLog.pass(); ok {
			s.log.Warn("a connection is closed because too many are open", zap.Int("max", s.cfg.MaxConns), suppressed)
		}
		return
	}
	go c.serve()
}

func (s *Server) remember(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.cfg.MaxConns {
		return false
	}
	s.conns[c] = struct{}{}
	s.metrics.open.Add(1)
	return true
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.metrics.open.Add(-1)
	if s.last && len(s.conns) == 0 {
		s.last = false
		close(s.drained)
	}
}

// wakeAll ends the waits of idle connections.
func (s *Server) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.wake()
	}
}

// drain waits for the connections to end, until deadline, then closes those that
// have not and cancels their requests. It reports whether all have ended.
func (s *Server) drain(deadline time.Time, cancel func()) bool {
	s.mu.Lock()
	left := len(s.conns)
	s.last = left > 0
	s.mu.Unlock()
	if left == 0 || s.waitDrained(time.Until(deadline)) {
		return true
	}
	cancel()
	s.mu.Lock()
	left = len(s.conns)
	for c := range s.conns {
		_ = c.nc.Close() // its request is given up
	}
	s.mu.Unlock()
	s.log.Warn("requests were given up because they outlasted the drain", zap.Int("connections", left))
	return s.waitDrained(lastGrace)
}

func (s *Server) waitDrained(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.drained:
		return true
	case <-timer.C:
		return false
	}
}
