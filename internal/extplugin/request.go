package extplugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/api7/ext-plugin-proto/go/A6"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPReqCall"
	flatbuffers "github.com/google/flatbuffers/go"
)

// maxEntries bounds the headers, and the arguments, of a request. nginx's largest
// default request line (32 KiB) holds fewer arguments.
const maxEntries = 1 << 15

// request is what plugins are given: apisix-go-plugin-runner's Request, Prefetch, and
// Lookup, PeekBody and HasArgs, which tell what Var, Body and Args do with less work. It
// is valid, and may be used by one goroutine, until RequestFilter returns, and so are
// the maps that it hands out and what is only to be peeked at; other strings and byte
// slices are the plugin's to keep, but not to change.
type request struct {
	ask   asker // the connection, for questions to APISIX
	owner *confEntry
	who   identity

	id      uint32
	token   uint32
	srcIP   []byte // this and the next lie in the frame
	path    []byte
	method  A6.Method
	args    []entry
	headers []entry
	cursor  A6.TextEntry // of decodeEntries

	hdr      header
	newPath  []byte
	pathCopy []byte
	argsView url.Values
	argsSent url.Values
	respHdr  http.Header // not nil once asked for
	respRoom http.Header // empty, for the next request's

	vars     []variable
	body     []byte
	haveBody bool
	bodyRoom []byte // for the answer that holds a body
	failed   error  // the connection is out of step

	base   context.Context
	start  time.Time
	limit  time.Duration
	ctx    context.Context
	cancel context.CancelFunc
}

var _ pkghttp.Request = (*request)(nil)

// variable is one that has been answered.
type variable struct {
	name    string
	value   string
	present bool // APISIX has one of this name
}

// decode reads an HTTPReqCall. All that a plugin can later ask for is looked at
// here, so that a hostile frame is met here too: the generated accessors panic on
// it, which the caller recovers.
func (r *request) decode(payload []byte) error {
	var call HTTPReqCall.Req
	call.Init(payload, flatbuffers.GetUOffsetT(payload))
	r.id, r.token = call.Id(), call.ConfToken()
	r.method = call.Method()
	r.srcIP, r.path = call.SrcIpBytes(), call.Path()
	var err error
	if r.args, err = decodeEntries(r.args[:0], &r.cursor, call.ArgsLength(), call.Args); err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	if r.headers, err = decodeEntries(r.headers[:0], &r.cursor, call.HeadersLength(), call.Headers); err != nil {
		return fmt.Errorf("reading the headers: %w", err)
	}
	r.hdr.reset(r.headers)
	return nil
}

var (
	errTooManyEntries = errors.New("more entries than allowed")
	errEntriesTooLong = errors.New("entries are longer together than a message can be")
)

// decodeEntries appends the n entries of a vector to dst. The cursor is the
// caller's, who can keep it: one made here would be allocated every time.
func decodeEntries(dst []entry, cursor *A6.TextEntry, n int, at func(*A6.TextEntry, int) bool) ([]entry, error) {
	if n > maxEntries {
		return dst, errTooManyEntries
	}
	size := 0
	for i := range n {
		if !at(cursor, i) {
			continue
		}
		e := entry{name: cursor.Name(), value: cursor.Value()}
		// Entries may share memory: a small message can hold gigabytes of them.
		if size += len(e.name) + len(e.value); size > MaxPayload {
			return dst, errEntriesTooLong
		}
		dst = append(dst, e)
	}
	return dst, nil
}

// begin makes the decoded request one of owner's.
func (r *request) begin(owner *confEntry, base context.Context, start time.Time, limit time.Duration) {
	r.owner = owner
	r.who = parseKey(owner.key)
	r.base, r.start, r.limit = base, start, limit
}

// end releases all that belongs to one request.
func (r *request) end() {
	if r.cancel != nil {
		r.cancel()
	}
	clear(r.vars)
	*r = request{
		ask:      r.ask,
		args:     trimEntries(r.args),
		headers:  trimEntries(r.headers),
		hdr:      header{changes: r.hdr.changes},
		respRoom: trimHeader(r.respHdr, r.respRoom),
		bodyRoom: trim(r.bodyRoom),
		vars:     r.vars[:0],
	}
}

// trimHeader empties the map that was in use, unless it is larger than what the next
// request needs; without one in use the spare one stays.
func trimHeader(used, spare http.Header) http.Header {
	const keep = 32
	switch {
	case used == nil:
		return spare
	case len(used) > keep:
		return nil
	}
	clear(used)
	return used
}

func trimEntries(entries []entry) []entry {
	const keep = 256
	if cap(entries) > keep {
		return nil
	}
	clear(entries)
	return entries[:0]
}

// ID returns the id that APISIX gave the request, for debugging.
func (r *request) ID() uint32 { return r.id }

// ConfToken returns the token of the configuration that applies.
func (r *request) ConfToken() uint32 { return r.token }

// SrcIP returns the client's address as APISIX sees it (remote_addr): 4 or 16
// bytes.
func (r *request) SrcIP() net.IP { return bytes.Clone(r.srcIP) }

// Method returns the HTTP method.
func (r *request) Method() string { return r.method.String() }

// Path returns the path without the query, as APISIX or a plugin before this one
// rewrote it.
func (r *request) Path() []byte {
	if r.newPath != nil {
		return r.newPath
	}
	if r.pathCopy == nil {
		r.pathCopy = bytes.Clone(r.path)
	}
	return r.pathCopy
}

// SetPath replaces the path that the upstream sees.
func (r *request) SetPath(path []byte) { r.newPath = path }

// Header returns the request's headers. What is set or deleted there is sent to
// the upstream.
func (r *request) Header() pkghttp.Header { return &r.hdr }

// HasArgs reports whether the query string has arguments, without making the map of
// Args.
func (r *request) HasArgs() bool { return len(r.args) > 0 || len(r.argsView) > 0 }

// Args returns the arguments of the query string. Changes to the map are sent to
// the upstream.
func (r *request) Args() url.Values {
	if r.argsView == nil {
		r.argsView = make(url.Values, len(r.args))
		for _, e := range r.args {
			r.argsView.Add(string(e.name), string(e.value))
		}
		r.argsSent = make(url.Values, len(r.argsView))
		for name, values := range r.argsView {
			r.argsSent[name] = slices.Clone(values)
		}
	}
	return r.argsView
}

// RespHeader returns headers to set on the client's response. APISIX ignores some
// there, content-type among them.
func (r *request) RespHeader() http.Header {
	if r.respHdr == nil {
		if r.respHdr = r.respRoom; r.respHdr == nil {
			r.respHdr = make(http.Header)
		}
		r.respRoom = nil
	}
	return r.respHdr
}

// Context returns a context that ends a little before APISIX gives the request
// up, when the server is closed, and when RequestFilter has returned.
func (r *request) Context() context.Context {
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithDeadline(r.base, r.start.Add(r.limit))
	}
	return r.ctx
}

// discard forgets every change that plugins made.
func (r *request) discard() {
	r.hdr.reset(r.headers)
	r.newPath, r.argsView, r.argsSent, r.respHdr = nil, nil, nil, nil
}
