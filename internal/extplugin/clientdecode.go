package extplugin

import (
	"bytes"

	"github.com/api7/ext-plugin-proto/go/A6"
	"github.com/api7/ext-plugin-proto/go/A6/ExtraInfo"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPReqCall"
	"github.com/api7/ext-plugin-proto/go/A6/PrepareConf"
	flatbuffers "github.com/google/flatbuffers/go"
)

// guard makes errMalformed of the panics with which the generated accessors meet
// offsets that lead out of the message. Deferred by everything that uses them.
func guard(err *error) {
	if recover() != nil {
		*err = errMalformed
	}
}

func decodeToken(payload []byte) (token uint32, err error) {
	defer guard(&err)
	var resp PrepareConf.Resp
	resp.Init(payload, flatbuffers.GetUOffsetT(payload))
	return resp.ConfToken(), nil
}

func decodeQuestion(payload []byte) (kind ExtraInfo.Info, name string, err error) {
	defer guard(&err)
	var req ExtraInfo.Req
	req.Init(payload, flatbuffers.GetUOffsetT(payload))
	kind = req.InfoType()
	var table flatbuffers.Table
	if kind == ExtraInfo.InfoVar && req.Info(&table) {
		var variable ExtraInfo.Var
		variable.Init(table.Bytes, table.Pos)
		name = string(variable.Name())
	}
	return kind, name, nil
}

func decodeAction(payload []byte) (action Action, err error) {
	defer guard(&err)
	var resp HTTPReqCall.Resp
	resp.Init(payload, flatbuffers.GetUOffsetT(payload))
	action.ID = resp.Id()
	var table flatbuffers.Table
	has := resp.Action(&table)
	switch kind := resp.ActionType(); {
	case kind == HTTPReqCall.ActionNONE:
		return action, nil
	case kind == HTTPReqCall.ActionStop && has:
		err = action.decodeStop(table)
		return action, err
	case kind == HTTPReqCall.ActionRewrite && has:
		err = action.decodeRewrite(table)
		return action, err
	}
	return Action{}, errMalformed
}

func (a *Action) decodeStop(table flatbuffers.Table) (err error) {
	var stop HTTPReqCall.Stop
	stop.Init(table.Bytes, table.Pos)
	a.Kind = Stop
	a.Status = int(stop.Status())
	a.Body = bytes.Clone(stop.BodyBytes())
	a.Headers, err = decodeKVs(stop.HeadersLength(), stop.Headers)
	return err
}

func (a *Action) decodeRewrite(table flatbuffers.Table) (err error) {
	var rewrite HTTPReqCall.Rewrite
	rewrite.Init(table.Bytes, table.Pos)
	a.Kind = Rewrite
	a.Path = string(rewrite.Path())
	a.Body = bytes.Clone(rewrite.BodyBytes())
	if a.RewriteHeaders, err = decodeKVs(rewrite.HeadersLength(), rewrite.Headers); err != nil {
		return err
	}
	if a.Args, err = decodeKVs(rewrite.ArgsLength(), rewrite.Args); err != nil {
		return err
	}
	a.RespHeaders, err = decodeKVs(rewrite.RespHeadersLength(), rewrite.RespHeaders)
	return err
}

func decodeKVs(n int, at func(*A6.TextEntry, int) bool) ([]KV, error) {
	var room [16]entry
	entries, err := decodeEntries(room[:0], new(A6.TextEntry), n, at)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	kvs := make([]KV, len(entries))
	for i, e := range entries {
		kvs[i] = KV{Name: string(e.name), Value: string(e.value), NoValue: e.value == nil}
	}
	return kvs, nil
}
