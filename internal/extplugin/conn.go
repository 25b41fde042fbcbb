package extplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/api7/ext-plugin-proto/go/A6/HTTPRespCall"
	"github.com/api7/ext-plugin-proto/go/A6/PrepareConf"
	flatbuffers "github.com/google/flatbuffers/go"
	"go.uber.org/zap"
)

// newcomerGrace is how long after it was accepted a connection may take to send its
// first request while the server drains. APISIX connects, prepares a configuration
// on another connection if it has to, and sends; but on a busy host either side may
// stand still for 100 ms in between. One that is older is idle as any other.
const newcomerGrace = 250 * time.Millisecond

// requestBuffer holds a usual request.
const requestBuffer = 1 << 10

// conn serves one connection, in one goroutine.
type conn struct {
	s    *Server
	nc   net.Conn
	f    framed
	ctx  context.Context // of the requests' contexts; done when the drain is over
	in   []byte
	enc  encoder
	req  request
	resp response

	served   bool      // at least one frame
	newUntil time.Time // while not served, it may still be about to send
	entries  []entry   // of a PrepareConf

	mu   sync.Mutex
	idle bool // waits for a frame, and may be woken to end
}

// newConn returns the connection to be served on nc; its buffers are made by its
// own goroutine, so that connections are accepted as fast as they come.
func newConn(s *Server, nc net.Conn, ctx context.Context) *conn {
	return &conn{s: s, nc: nc, ctx: ctx, newUntil: time.Now().Add(s.newcomerGrace)}
}

func (c *conn) makeBuffers() {
	c.f = newFramed(c.nc, c.s.cfg.MaxFrame)
	c.f.tick()
	c.in = make([]byte, 0, requestBuffer)
	c.req.ask = asker{
		f:       &c.f,
		builder: newBuilder(),
		timeout: c.s.cfg.FrameTimeout,
		asked:   func(n int) { c.s.metrics.questions.Add(int64(n)) },
	}
}

// serve answers frames until the connection ends, its peer breaks the protocol,
// or the server drains.
func (c *conn) serve() {
	defer c.close()
	c.makeBuffers()
	for {
		ty, payload, err := c.next()
		if err != nil && !errors.Is(err, errFrameTooLong) {
			return // the peer has gone, was idle too long, or stopped within a frame
		}
		var answer []byte
		if err != nil {
			answer = c.refuse(frameBadRequest, ty, err)
		} else {
			answer = c.dispatch(ty, payload)
			c.in = trim(payload)
		}
		c.f.tick()
		err = c.f.write(answer, c.s.cfg.FrameTimeout)
		broken := c.req.failed != nil
		c.req.end()
		c.resp.reset()
		if err != nil || broken {
			return
		}
	}
}

func (c *conn) close() {
	_ = c.nc.Close() // nothing is left to be written
	c.s.forget(c)
}

// next waits for a frame and reads it.
func (c *conn) next() (ty byte, payload []byte, err error) {
	if !c.f.buffered() {
		if err := c.await(); err != nil {
			return 0, nil, err
		}
		if !c.f.buffered() {
			if err := c.f.readWithin(c.s.cfg.FrameTimeout); err != nil {
				return 0, nil, err
			}
		}
	}
	c.served = true
	c.f.tick()
	return c.f.read(c.in)
}

// await returns when a frame's first byte is there to be read.
func (c *conn) await() error {
	if c.f.br.Buffered() > 0 {
		return nil
	}
	until := c.f.now.Add(c.s.cfg.IdleTimeout)
	for {
		if err := c.enterIdle(until); err != nil {
			return err
		}
		_, err := c.f.br.Peek(1)
		woken, expired := c.leaveIdle(), errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case woken && (err == nil || expired):
			// The server drains. A request that is there already is still answered.
			return c.lastFrame()
		case woken || !expired:
			return err
		}
		if c.f.tick(); !c.f.now.Before(until) {
			return err
		}
	}
}

// enterIdle lets wake end the wait that follows, and time that passes until then. A
// deadline that comes earlier, that of the last question, stays: moving it for every
// request costs more than to find once that there is time left.
func (c *conn) enterIdle(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = true
	if c.s.draining.Load() {
		return c.f.readWithin(0)
	}
	if c.f.readBy.After(c.f.now) && !c.f.readBy.After(until) {
		return nil
	}
	return c.f.readUntil(until)
}

// leaveIdle reports whether the wait was ended by a drain, or may have been.
func (c *conn) leaveIdle() (woken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = false
	return c.s.draining.Load()
}

// wake ends the connection's wait for a frame, if it is waiting.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		_ = c.f.readWithin(0) // fails only when closed already
	}
}

// lastFrame waits no longer than it takes for a frame that has been sent already,
// or, on a connection never used, for one that is about to be. Whether there is one
// is seen by looking: a deadline that has passed says nothing about it.
func (c *conn) lastFrame() error {
	if wait := time.Until(c.newUntil); !c.served && wait > 0 && c.f.br.Buffered() == 0 {
		if err := c.f.readWithin(wait); err != nil {
			return err
		}
		if _, err := c.f.br.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	if c.f.br.Buffered() == 0 {
		if _, err := peek(c.nc); err != nil {
			return err
		}
	}
	if err := c.f.readWithin(c.s.cfg.FrameTimeout); err != nil {
		return err
	}
	_, err := c.f.br.Peek(1)
	return err
}

// dispatch returns the frame that answers the one given.
func (c *conn) dispatch(ty byte, payload []byte) (answer []byte) {
	defer func() {
		if cause := recover(); cause != nil { // the generated accessors trust every offset
			answer = c.refuse(frameBadRequest, ty, fmt.Errorf("%w: %v", errMalformed, cause))
		}
	}()
	switch ty {
	case framePrepareConf:
		return c.prepareConf(payload)
	case frameHTTPReqCall:
		return c.httpReqCall(payload)
	case frameHTTPRespCall:
		return c.httpRespCall(payload)
	}
	return c.refuse(frameBadRequest, ty, errors.New("frame of unknown type"))
}

// refuse returns the error frame given, having logged why.
func (c *conn) refuse(frame []byte, ty byte, why error) []byte {
	c.s.metrics.errors.Add(1)
	if suppressed, ok := c.s.badLog.pass(); ok {
		fields := []zap.Field{zap.Uint8("type", ty), zap.Error(why), suppressed}
		if errors.Is(why, errMalformed) {
			fields = append(fields, zap.ByteString("stack", debug.Stack()))
		}
		c.s.log.Warn("a frame is answered with an error", fields...)
	}
	return frame
}

// encoded returns frame, or an error frame when it could not be made.
func (c *conn) encoded(ty byte, frame []byte, err error) []byte {
	if err != nil {
		return c.refuse(frameUnavailable, ty, fmt.Errorf("encoding the answer: %w", err))
	}
	return frame
}

func (c *conn) prepareConf(payload []byte) []byte {
	var req PrepareConf.Req
	req.Init(payload, flatbuffers.GetUOffsetT(payload))
	confs, err := decodeEntries(c.entries[:0], &c.req.cursor, req.ConfLength(), req.Conf)
	defer func() { c.entries = trimEntries(confs) }()
	if err != nil {
		return c.refuse(frameBadRequest, framePrepareConf, fmt.Errorf("reading a configuration: %w", err))
	}
	token := c.s.confs.prepare(req.Key(), confs)
	c.s.metrics.prepared.Add(1)
	frame, err := c.enc.token(token)
	return c.encoded(framePrepareConf, frame, err)
}

// httpRespCall lets the response pass: limits are charged on requests.
func (c *conn) httpRespCall(payload []byte) []byte {
	var req HTTPRespCall.Req
	req.Init(payload, flatbuffers.GetUOffsetT(payload))
	frame, err := c.enc.unchanged(req.Id())
	return c.encoded(frameHTTPRespCall, frame, err)
}

func (c *conn) httpReqCall(payload []byte) []byte {
	r, w := &c.req, &c.resp
	if err := r.decode(payload); err != nil {
		return c.refuse(frameBadRequest, frameHTTPReqCall, err)
	}
	owner, err := c.s.confs.lookup(r.token)
	if err != nil {
		return frameTokenNotFound // APISIX prepares the configuration again
	}
	c.s.metrics.requests.Add(1)
	r.begin(owner, c.ctx, c.f.now, c.s.cfg.RequestTimeout)
	c.filter(owner.rules)
	var frame []byte
	if w.written {
		c.s.metrics.stopped.Add(1)
		frame, err = c.enc.stop(r.id, w)
	} else {
		frame, err = c.enc.changes(r)
	}
	return c.encoded(frameHTTPReqCall, frame, err)
}

// filter runs the plugins in order until one answers. Whatever keeps one of them
// from limiting as configured is answered with 500.
func (c *conn) filter(rules *ruleSet) {
	if rules.listed > 0 && len(rules.plugins) == 0 {
		c.resp.refuse() // logged when it was prepared
		return
	}
	for _, conf := range rules.plugins {
		if conf.err != nil {
			c.resp.refuse() // logged when it was parsed
			return
		}
		if c.runPlugin(conf); c.resp.written {
			return
		}
	}
}

// runPlugin runs one filter. If it panics the request is refused, or, where its
// configuration allows degradation, goes on as if no plugin had touched it.
func (c *conn) runPlugin(conf *parsedConf) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		c.s.metrics.panics.Add(1)
		if suppressed, ok := c.s.panicLog.pass(); ok {
			c.s.log.Error("a filter panicked", zap.String("plugin", conf.name), zap.String("key", c.req.owner.key),
				zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()), suppressed)
		}
		if conf.degrades() {
			c.req.discard()
			c.resp.reset()
			return
		}
		c.resp.refuse()
	}()
	conf.plugin.RequestFilter(conf.value, &c.resp, &c.req)
}

// degrades reports whether the configuration lets requests pass that cannot be
// limited.
func (p *parsedConf) degrades() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	policy, ok := p.value.(interface{ AllowDegradation() bool })
	return ok && policy.AllowDegradation()
}
