package extplugin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/api7/ext-plugin-proto/go/A6"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPReqCall"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPRespCall"
	"github.com/api7/ext-plugin-proto/go/A6/PrepareConf"
	flatbuffers "github.com/google/flatbuffers/go"
)

// encoder writes answers into memory that it uses again.
type encoder struct {
	*flatbuffers.Builder
	offsets []flatbuffers.UOffsetT
	names   []string
}

// newBuilder returns a builder that holds a usual message without growing.
func newBuilder() *flatbuffers.Builder {
	const usualMessage = 1 << 10 // bytes
	return flatbuffers.NewBuilder(usualMessage)
}

// reset readies e for the next answer, without the memory of an unusual one.
func (e *encoder) reset() {
	if e.Builder == nil || cap(e.Bytes) > keepBuffer {
		e.Builder = newBuilder()
		return
	}
	e.Reset()
}

// token encodes the answer to a PrepareConf.
func (e *encoder) token(token uint32) ([]byte, error) {
	e.reset()
	PrepareConf.RespStart(e.Builder)
	PrepareConf.RespAddConfToken(e.Builder, token)
	return finishFrame(e.Builder, framePrepareConf, PrepareConf.RespEnd(e.Builder))
}

// unchanged encodes the answer to an HTTPRespCall that changes nothing.
func (e *encoder) unchanged(id uint32) ([]byte, error) {
	e.reset()
	HTTPRespCall.RespStart(e.Builder)
	HTTPRespCall.RespAddId(e.Builder, id)
	return finishFrame(e.Builder, frameHTTPRespCall, HTTPRespCall.RespEnd(e.Builder))
}

// action encodes the answer to an HTTPReqCall with the given action, or with none.
func (e *encoder) action(id uint32, kind HTTPReqCall.Action, action flatbuffers.UOffsetT) ([]byte, error) {
	HTTPReqCall.RespStart(e.Builder)
	HTTPReqCall.RespAddId(e.Builder, id)
	if kind != HTTPReqCall.ActionNONE {
		HTTPReqCall.RespAddActionType(e.Builder, kind)
		HTTPReqCall.RespAddAction(e.Builder, action)
	}
	return finishFrame(e.Builder, frameHTTPReqCall, HTTPReqCall.RespEnd(e.Builder))
}

// stop encodes what a plugin wrote as the answer to the client.
func (e *encoder) stop(id uint32, w *response) ([]byte, error) {
	e.reset()
	if len(w.body) > MaxPayload {
		return nil, fmt.Errorf("body of %d bytes: %w", len(w.body), errMessageTooLong)
	}
	var headers, body flatbuffers.UOffsetT
	e.offsets = e.offsets[:0]
	e.headerEntries(w.header)
	if len(e.offsets) > 0 {
		headers = e.vector()
	}
	if len(w.body) > 0 {
		body = e.CreateByteVector(w.body)
	}
	HTTPReqCall.StopStart(e.Builder)
	HTTPReqCall.StopAddStatus(e.Builder, uint16(w.status))
	HTTPReqCall.StopAddHeaders(e.Builder, headers)
	HTTPReqCall.StopAddBody(e.Builder, body)
	return e.action(id, HTTPReqCall.ActionStop, HTTPReqCall.StopEnd(e.Builder))
}

// changes encodes what plugins changed of the request and its response: only that,
// and no action when it is nothing.
func (e *encoder) changes(r *request) ([]byte, error) {
	e.reset()
	var path, headers, args, respHeaders flatbuffers.UOffsetT
	if r.newPath != nil && string(r.newPath) != string(r.path) {
		path = e.CreateByteString(r.newPath)
	}
	e.offsets = e.offsets[:0]
	for _, change := range r.hdr.changes {
		if r.hdr.changed(change) {
			e.entry(change.name, change.value, !change.deleted)
		}
	}
	if len(e.offsets) > 0 {
		headers = e.vector()
	}
	e.offsets = e.offsets[:0]
	e.changedArgs(r.argsSent, r.argsView)
	if len(e.offsets) > 0 {
		args = e.vector()
	}
	e.offsets = e.offsets[:0]
	e.headerEntries(r.respHdr)
	if len(e.offsets) > 0 {
		respHeaders = e.vector()
	}
	if path == 0 && headers == 0 && args == 0 && respHeaders == 0 {
		return e.action(r.id, HTTPReqCall.ActionNONE, 0)
	}
	HTTPReqCall.RewriteStart(e.Builder)
	HTTPReqCall.RewriteAddPath(e.Builder, path)
	HTTPReqCall.RewriteAddHeaders(e.Builder, headers)
	HTTPReqCall.RewriteAddArgs(e.Builder, args)
	HTTPReqCall.RewriteAddRespHeaders(e.Builder, respHeaders)
	return e.action(r.id, HTTPReqCall.ActionRewrite, HTTPReqCall.RewriteEnd(e.Builder))
}

// changedArgs writes the arguments whose values are others than were sent, all of
// them as APISIX replaces them together, and those that were removed without a
// value.
func (e *encoder) changedArgs(sent, now url.Values) {
	e.names = e.names[:0]
	for name, values := range now {
		if !slices.Equal(sent[name], values) {
			e.names = append(e.names, name)
		}
	}
	for name := range sent {
		if _, kept := now[name]; !kept {
			e.names = append(e.names, name)
		}
	}
	slices.Sort(e.names)
	for _, name := range e.names {
		if len(now[name]) == 0 {
			e.entry(name, "", false)
			continue
		}
		for _, value := range now[name] {
			e.entry(name, value, true)
		}
	}
}

// headerEntries writes all of h, ordered by name.
func (e *encoder) headerEntries(h http.Header) {
	e.names = e.names[:0]
	for name := range h {
		e.names = append(e.names, name)
	}
	slices.Sort(e.names)
	for _, name := range e.names {
		for _, value := range h[name] {
			e.entry(name, value, true)
		}
	}
}

// entry writes one name and, unless it marks a deletion, its value.
func (e *encoder) entry(name, value string, hasValue bool) {
	nameAt := e.CreateString(name)
	var valueAt flatbuffers.UOffsetT
	if hasValue {
		valueAt = e.CreateString(value)
	}
	A6.TextEntryStart(e.Builder)
	A6.TextEntryAddName(e.Builder, nameAt)
	A6.TextEntryAddValue(e.Builder, valueAt)
	e.offsets = append(e.offsets, A6.TextEntryEnd(e.Builder))
}

// vector writes the vector of the entries written since e.offsets was emptied.
// Every vector of tables is written alike, whatever field it is for.
func (e *encoder) vector() flatbuffers.UOffsetT {
	n := len(e.offsets)
	e.StartVector(flatbuffers.SizeUOffsetT, n, flatbuffers.SizeUOffsetT)
	for i := n - 1; i >= 0; i-- {
		e.PrependUOffsetT(e.offsets[i])
	}
	return e.EndVector(n)
}
