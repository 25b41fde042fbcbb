package extplugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/common"
	"github.com/api7/ext-plugin-proto/go/A6/Err"
	"github.com/api7/ext-plugin-proto/go/A6/ExtraInfo"
	flatbuffers "github.com/google/flatbuffers/go"
)

const (
	// maxQuestions bounds the questions in one write, and maxVarName the length of
	// a variable's name. The write must fit into the socket's buffer (208 KiB by
	// default on Linux) even if APISIX answers the first question before it reads
	// the others: else both sides would wait for each other to read.
	maxQuestions = 32
	maxVarName   = 1 << 10

	// answerBuffer holds a usual variable's answer.
	answerBuffer = 256
)

// asker puts questions to APISIX on the connection of a request.
type asker struct {
	f       *framed
	builder *flatbuffers.Builder
	out     []byte // questions
	in      []byte // answers that are copied
	timeout time.Duration
	asked   func(int) // counts questions
}

// question asks for vars and the body, in as few exchanges as their number takes,
// and keeps the answers.
func (r *request) question(body bool, vars ...string) error {
	if r.failed != nil {
		return r.failed
	}
	for _, name := range vars {
		if len(name) > maxVarName {
			return fmt.Errorf("asking APISIX for a variable: a name of %d bytes is longer than %d", len(name), maxVarName)
		}
	}
	for len(vars) >= maxQuestions {
		if err := r.exchange(false, vars[:maxQuestions]); err != nil {
			return err
		}
		vars = vars[maxQuestions:]
	}
	if !body && len(vars) == 0 {
		return nil
	}
	return r.exchange(body, vars)
}

// exchange writes the questions at once and reads the answers, which come in the
// same order. The body comes last: then the small answers arrive together.
func (r *request) exchange(body bool, vars []string) error {
	a := &r.ask
	if a.in == nil {
		a.in = make([]byte, 0, answerBuffer)
	}
	a.out = a.out[:0]
	for _, name := range vars {
		a.out = appendVarQuestion(a.out, a.builder, name)
	}
	if body {
		a.out = append(a.out, bodyQuestion...)
	}
	if a.asked != nil {
		a.asked(len(vars) + countIf(body))
	}
	a.f.tick()
	if err := a.f.write(a.out, a.timeout); err != nil {
		return r.fail("asking APISIX", err)
	}
	if err := a.f.readWithinAbout(a.timeout); err != nil {
		return r.fail("asking APISIX", err)
	}
	for _, name := range vars {
		payload, value, err := r.answer(a.in, name)
		if err != nil {
			return err
		}
		a.in = trim(payload)
		r.remember(variable{name, string(value), value != nil})
	}
	if body {
		return r.readBody()
	}
	return nil
}

// readBody reads the answer to the question for the body.
func (r *request) readBody() error {
	payload, value, err := r.answer(r.bodyRoom, "")
	if err != nil {
		return err
	}
	r.body, r.haveBody, r.bodyRoom = value, true, payload
	return nil
}

func countIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// answer reads the next answer, into buf if it fits there: a variable's or, without a
// name, the body's.
func (r *request) answer(buf []byte, name string) (payload, value []byte, err error) {
	ty, payload, err := r.ask.f.read(buf)
	if err == nil && ty != frameExtraInfo {
		err = unexpectedFrame(ty, payload)
	}
	if err == nil {
		value, err = decodeAnswer(payload)
	}
	if err != nil {
		what := "the request body"
		if name != "" {
			what = fmt.Sprintf("the variable %q", name)
		}
		return nil, nil, r.fail("reading APISIX's answer for "+what, err)
	}
	return payload, value, nil
}

// fail makes err the answer to this and every later question: what would be read
// next belongs to nobody knows what.
func (r *request) fail(what string, err error) error {
	r.failed = fmt.Errorf("%s: %w: %w", what, common.ErrConnClosed, err)
	return r.failed
}

func unexpectedFrame(ty byte, payload []byte) error {
	if ty == frameError {
		return &ErrorFrame{Code: decodeErrorCode(payload)}
	}
	return fmt.Errorf("frame of unexpected type %d", ty)
}

// errMalformed reports a payload that is not the message its frame announces.
var errMalformed = errors.New("malformed message")

// decodeAnswer returns the result in an ExtraInfo answer, nil when there is none.
func decodeAnswer(payload []byte) (value []byte, err error) {
	defer func() {
		if recover() != nil { // the generated accessors trust every offset
			value, err = nil, errMalformed
		}
	}()
	var resp ExtraInfo.Resp
	resp.Init(payload, flatbuffers.GetUOffsetT(payload))
	value = resp.ResultBytes()
	return value[:len(value):len(value)], nil
}

// decodeErrorCode returns the code of an error frame, BAD_REQUEST when it cannot
// be read.
func decodeErrorCode(payload []byte) (code byte) {
	defer func() {
		if recover() != nil { // the generated accessors trust every offset
			code = byte(Err.CodeBAD_REQUEST)
		}
	}()
	var resp Err.Resp
	resp.Init(payload, flatbuffers.GetUOffsetT(payload))
	return byte(resp.Code())
}

// bodyQuestion is the frame that asks for the body.
var bodyQuestion = func() []byte {
	b := flatbuffers.NewBuilder(64)
	ExtraInfo.ReqBodyStart(b)
	return appendQuestion(nil, b, ExtraInfo.InfoReqBody, ExtraInfo.ReqBodyEnd(b))
}()

func appendVarQuestion(dst []byte, b *flatbuffers.Builder, name string) []byte {
	b.Reset()
	text := b.CreateString(name)
	ExtraInfo.VarStart(b)
	ExtraInfo.VarAddName(b, text)
	return appendQuestion(dst, b, ExtraInfo.InfoVar, ExtraInfo.VarEnd(b))
}

func appendQuestion(dst []byte, b *flatbuffers.Builder, kind ExtraInfo.Info, info flatbuffers.UOffsetT) []byte {
	ExtraInfo.ReqStart(b)
	ExtraInfo.ReqAddInfoType(b, kind)
	ExtraInfo.ReqAddInfo(b, info)
	b.Finish(ExtraInfo.ReqEnd(b))
	payload := b.FinishedBytes()
	var hdr [headerLen]byte
	putHeader(hdr[:], frameExtraInfo, len(payload))
	return append(append(dst, hdr[:]...), payload...)
}
