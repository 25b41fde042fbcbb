package extplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/api7/ext-plugin-proto/go/A6"
	"github.com/api7/ext-plugin-proto/go/A6/Err"
	"github.com/api7/ext-plugin-proto/go/A6/ExtraInfo"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPReqCall"
	"github.com/api7/ext-plugin-proto/go/A6/PrepareConf"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Timeouts of APISIX's side, used where a context has no earlier deadline.
const (
	connectTimeout  = time.Second
	exchangeTimeout = 60 * time.Second
)

// ErrConfTokenNotFound is a runner's answer to a token that it does not know:
// the configuration has to be prepared again.
var ErrConfTokenNotFound = errors.New("conf token not found")

// ErrorFrame is a runner's refusal of a call, other than ErrConfTokenNotFound. The
// connection can be used further.
type ErrorFrame struct {
	Code byte // the A6.Err.Code: 0 BAD_REQUEST, 1 SERVICE_UNAVAILABLE
}

// Error names the code as the protocol does.
func (e *ErrorFrame) Error() string { return "runner answered with error " + Err.Code(e.Code).String() }

// NamedConf is a plugin's name and its configuration, a text that is usually JSON.
type NamedConf struct{ Name, Value string }

// KV is a header or an argument. NoValue says that there is a name only: an
// argument without "=" in a [Request], a deletion in an [Action].
type KV struct {
	Name, Value string
	NoValue     bool
}

// Request is an HTTPReqCall: a request as APISIX shows it to a runner.
type Request struct {
	ID      uint32
	Token   uint32 // from PrepareConf
	SrcIP   net.IP // 4 or 16 bytes, sent as they are
	Method  string // one of the protocol's 15
	Path    string // without the query
	Args    []KV   // decoded; a repeated one is repeated here
	Headers []KV   // likewise
}

// Answers answers the questions that a runner asks while it has a call.
type Answers interface {
	// Var returns the value of an APISIX or nginx variable, false when it has none.
	Var(name string) (value []byte, ok bool)

	// Body returns the request's body, empty when it has none. An error ends the
	// call and the connection.
	Body() ([]byte, error)
}

// Kind is what a runner wants done with a request.
type Kind int

// The kinds of an Action.
const (
	Continue Kind = iota // go on with the request as it is
	Stop                 // answer the client
	Rewrite              // go on with the changed request
)

// Action is a runner's answer to a Request.
type Action struct {
	Kind Kind
	ID   uint32 // the Request's

	// Of a Stop: what the client gets. Status is as sent; APISIX makes 200 of 0.
	Status  int
	Headers []KV

	// Of a Rewrite: what is to change. Path is empty when it stays. An argument
	// replaces all of its name that were sent; when it comes several times it has
	// all these values.
	Path           string
	RewriteHeaders []KV
	Args           []KV
	RespHeaders    []KV // to set on the client's response

	// Body is the client's answer of a Stop, the request's new body of a Rewrite
	// (nil when it stays).
	Body []byte
}

// Client is APISIX's end of one connection to a runner. It does one call at a
// time and is used by one goroutine.
type Client struct {
	f       framed
	enc     encoder
	in      []byte
	broken  bool
	timeout time.Duration // of a whole call, when its context has no earlier deadline
}

// Dial connects to the runner that listens at the unix socket path, within APISIX's
// 1 s or as long as ctx allows.
func Dial(ctx context.Context, path string) (*Client, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	nc, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connecting to the runner: %w", err)
	}
	return NewClient(nc), nil
}

// NewClient returns a client that speaks on nc, which it then owns.
func NewClient(nc net.Conn) *Client {
	return &Client{f: newFramed(nc, MaxPayload), in: make([]byte, 0, readBuffer), timeout: exchangeTimeout}
}

// Close closes the connection.
func (c *Client) Close() error {
	c.broken = true
	return c.f.nc.Close()
}

// Broken reports whether the connection cannot be used any more, because a call
// ended within a frame or against the protocol.
func (c *Client) Broken() bool { return c.broken }

// PrepareConf gives the runner a configuration and returns the token by which
// calls name it. Errors: *ErrorFrame, or those of the connection, which is then
// Broken.
func (c *Client) PrepareConf(ctx context.Context, key string, conf []NamedConf) (uint32, error) {
	done, err := c.start(ctx)
	if err != nil {
		return 0, fmt.Errorf("preparing configuration %q: %w", key, err)
	}
	defer done()
	frame, err := c.encodePrepare(key, conf)
	if err != nil {
		return 0, fmt.Errorf("preparing configuration %q: %w", key, err)
	}
	payload, err := c.exchange(frame, framePrepareConf, nil)
	if err == nil {
		var token uint32
		if token, err = decodeToken(payload); err == nil {
			return token, nil
		}
		c.broken = true
	}
	return 0, fmt.Errorf("preparing configuration %q: %w", key, ctxError(ctx, err))
}

// HTTPReqCall shows the runner a request and returns what it wants done, having
// answered its questions. Errors: ErrConfTokenNotFound, *ErrorFrame, or those of
// the connection and of answers, after which it is Broken.
func (c *Client) HTTPReqCall(ctx context.Context, req Request, answers Answers) (Action, error) {
	done, err := c.start(ctx)
	if err != nil {
		return Action{}, fmt.Errorf("calling the runner: %w", err)
	}
	defer done()
	frame, err := c.encodeCall(req)
	if err != nil {
		return Action{}, fmt.Errorf("calling the runner: %w", err)
	}
	payload, err := c.exchange(frame, frameHTTPReqCall, answers)
	if err == nil {
		var action Action
		if action, err = decodeAction(payload); err == nil {
			return action, nil
		}
		c.broken = true
	}
	return Action{}, fmt.Errorf("calling the runner: %w", ctxError(ctx, err))
}

// start bounds the call that begins by ctx and the client's timeout; done ends the
// watch over ctx.
func (c *Client) start(ctx context.Context) (done func(), err error) {
	if c.broken {
		return nil, net.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.timeout)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	if err := c.f.nc.SetDeadline(deadline); err != nil {
		c.broken = true
		return nil, err
	}
	if ctx.Done() == nil {
		return func() {}, nil
	}
	stop := context.AfterFunc(ctx, func() {
		_ = c.f.nc.SetDeadline(time.Unix(1, 0)) // fails only when closed already
	})
	return func() {
		if !stop() {
			c.broken = true // the deadline may strike the next call
		}
	}, nil
}

// exchange sends a frame and returns the payload that answers it, answering the
// runner's questions on the way. The payload is valid until the next call.
func (c *Client) exchange(frame []byte, ty byte, answers Answers) ([]byte, error) {
	if err := c.f.send(frame); err != nil {
		c.broken = true
		return nil, err
	}
	for {
		got, payload, err := c.f.read(c.in)
		if err != nil {
			c.broken = true
			return nil, err
		}
		if c.in = trim(payload); c.in == nil {
			c.in = make([]byte, 0, readBuffer)
		}
		switch {
		case got == ty:
			return payload, nil
		case got == frameError:
			return nil, runnerError(payload)
		case got == frameExtraInfo && answers != nil:
			if err := c.reply(payload, answers); err != nil {
				c.broken = true
				return nil, err
			}
		default:
			c.broken = true
			return nil, fmt.Errorf("frame of unexpected type %d", got)
		}
	}
}

func runnerError(payload []byte) error {
	code := decodeErrorCode(payload)
	if Err.Code(code) == Err.CodeCONF_TOKEN_NOT_FOUND {
		return ErrConfTokenNotFound
	}
	return &ErrorFrame{Code: code}
}

// reply answers one question.
func (c *Client) reply(payload []byte, answers Answers) error {
	kind, name, err := decodeQuestion(payload)
	if err != nil {
		return fmt.Errorf("reading a question of the runner: %w", err)
	}
	var value []byte
	var has bool
	switch kind {
	case ExtraInfo.InfoVar:
		value, has = answers.Var(name)
	case ExtraInfo.InfoReqBody:
		if value, err = answers.Body(); err != nil {
			return fmt.Errorf("answering the runner's question for the body: %w", err)
		}
		has = len(value) > 0
	default:
		return fmt.Errorf("the runner asks for information of unknown kind %d", kind)
	}
	frame, err := c.encodeAnswer(value, has)
	if err != nil {
		return fmt.Errorf("answering the runner's question: %w", err)
	}
	return c.f.send(frame)
}

// ctxError prefers the reason for which ctx ended to the timeout that it caused.
func ctxError(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && err != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (c *Client) encodePrepare(key string, conf []NamedConf) ([]byte, error) {
	c.enc.reset()
	e := &c.enc
	e.offsets = e.offsets[:0]
	for _, one := range conf {
		e.entry(one.Name, one.Value, true)
	}
	entries := e.vector()
	keyAt := e.CreateString(key)
	PrepareConf.ReqStart(e.Builder)
	PrepareConf.ReqAddConf(e.Builder, entries)
	PrepareConf.ReqAddKey(e.Builder, keyAt)
	return finishFrame(e.Builder, framePrepareConf, PrepareConf.ReqEnd(e.Builder))
}

func (c *Client) encodeCall(req Request) ([]byte, error) {
	method, ok := A6.EnumValuesMethod[req.Method]
	if !ok {
		return nil, fmt.Errorf("the protocol has no method %q", req.Method)
	}
	c.enc.reset()
	e := &c.enc
	args, headers := e.kvs(req.Args), e.kvs(req.Headers)
	path := e.CreateString(req.Path)
	srcIP := e.CreateByteVector(req.SrcIP)
	HTTPReqCall.ReqStart(e.Builder)
	HTTPReqCall.ReqAddId(e.Builder, req.ID)
	HTTPReqCall.ReqAddConfToken(e.Builder, req.Token)
	HTTPReqCall.ReqAddSrcIp(e.Builder, srcIP)
	HTTPReqCall.ReqAddPath(e.Builder, path)
	HTTPReqCall.ReqAddArgs(e.Builder, args)
	HTTPReqCall.ReqAddHeaders(e.Builder, headers)
	HTTPReqCall.ReqAddMethod(e.Builder, method)
	return finishFrame(e.Builder, frameHTTPReqCall, HTTPReqCall.ReqEnd(e.Builder))
}

// kvs writes a vector of entries; like APISIX also an empty one.
func (e *encoder) kvs(kvs []KV) flatbuffers.UOffsetT {
	e.offsets = e.offsets[:0]
	for _, kv := range kvs {
		e.entry(kv.Name, kv.Value, !kv.NoValue)
	}
	return e.vector()
}

func (c *Client) encodeAnswer(value []byte, has bool) ([]byte, error) {
	c.enc.reset()
	e := &c.enc
	var result flatbuffers.UOffsetT
	if has {
		result = e.CreateByteVector(value)
	}
	ExtraInfo.RespStart(e.Builder)
	ExtraInfo.RespAddResult(e.Builder, result)
	return finishFrame(e.Builder, frameExtraInfo, ExtraInfo.RespEnd(e.Builder))
}
