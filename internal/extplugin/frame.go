package extplugin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/api7/ext-plugin-proto/go/A6/Err"
	flatbuffers "github.com/google/flatbuffers/go"
)

// The types of a frame.
const (
	frameError        byte = 0
	framePrepareConf  byte = 1
	frameHTTPReqCall  byte = 2
	frameExtraInfo    byte = 3
	frameHTTPRespCall byte = 4
)

const (
	// headerLen is a frame's type byte and its three big-endian length bytes.
	headerLen = 4

	// readBuffer holds a usual request whole, so that one system call reads it.
	readBuffer = 4 << 10

	// firstChunk bounds what is allocated for a payload before any of it has
	// arrived; growthFactor bounds what is allocated for every byte that has.
	firstChunk   = 256 << 10
	growthFactor = 4

	// keepBuffer is the most memory that a connection keeps between two frames,
	// for each of its buffers.
	keepBuffer = 64 << 10

	// deadlineSlack is the part of a timeout by which a deadline may come early.
	deadlineSlack = 8
)

// errFrameTooLong reports a frame that was skipped because of its length. The
// connection is still in step.
var errFrameTooLong = errors.New("frame longer than allowed")

// errMessageTooLong reports a message that cannot be sent in a frame.
var errMessageTooLong = errors.New("longer than the protocol allows")

// framed reads and writes frames on a connection. It is used by one goroutine.
type framed struct {
	nc  net.Conn
	br  *bufio.Reader
	max int // longest payload accepted, in bytes

	hdr [headerLen]byte

	now             time.Time // when the clock was read last, by tick
	readBy, writeBy time.Time // the deadlines in force
}

func newFramed(nc net.Conn, maxFrame int) framed {
	return framed{nc: nc, br: bufio.NewReaderSize(nc, readBuffer), max: maxFrame}
}

// read returns the next frame. The payload is in buf's memory when it fits there,
// else in memory that grows as bytes arrive: a length that is only claimed costs
// nothing. After errFrameTooLong, ty is the skipped frame's type and the next
// frame can be read.
func (f *framed) read(buf []byte) (ty byte, payload []byte, err error) {
	if _, err := io.ReadFull(f.br, f.hdr[:]); err != nil {
		return 0, nil, err
	}
	ty, n := f.hdr[0], payloadLen(f.hdr[:])
	if n > f.max {
		if _, err := f.br.Discard(n); err != nil {
			return ty, nil, noEOF(err)
		}
		return ty, nil, errFrameTooLong
	}
	payload, err = f.readPayload(buf, n)
	return ty, payload, err
}

func (f *framed) readPayload(buf []byte, n int) ([]byte, error) {
	if cap(buf) < n {
		buf = make([]byte, 0, min(n, max(firstChunk, cap(buf))))
	}
	buf = buf[:0]
	for {
		start := len(buf)
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(f.br, buf[start:]); err != nil {
			return nil, noEOF(err)
		}
		if len(buf) == n {
			return buf, nil
		}
		grown := make([]byte, len(buf), min(n, growthFactor*len(buf)))
		copy(grown, buf)
		buf = grown
	}
}

// buffered reports whether the next frame lies in the read buffer whole.
func (f *framed) buffered() bool {
	have := f.br.Buffered()
	if have < headerLen {
		return false
	}
	hdr, _ := f.br.Peek(headerLen)
	return have-headerLen >= payloadLen(hdr)
}

// tick reads the clock for the deadlines that are set next.
func (f *framed) tick() { f.now = time.Now() }

// write sends p, which holds whole frames, with one system call where the socket
// takes it. The clock must have been read just before.
func (f *framed) write(p []byte, timeout time.Duration) error {
	if stale(f.writeBy, f.now, timeout) {
		f.writeBy = f.now.Add(timeout)
		if err := f.nc.SetWriteDeadline(f.writeBy); err != nil {
			return err
		}
	}
	return f.send(p)
}

// send is write under the deadline in force.
func (f *framed) send(p []byte) error {
	_, err := f.nc.Write(p)
	return err
}

// readUntil makes reads fail from the given time on.
func (f *framed) readUntil(deadline time.Time) error {
	f.readBy = deadline
	return f.nc.SetReadDeadline(deadline)
}

// readWithin makes reads fail once timeout has passed.
func (f *framed) readWithin(timeout time.Duration) error {
	return f.readUntil(time.Now().Add(timeout))
}

// readWithinAbout makes reads fail once timeout, or a little less, has passed. The
// clock must have been read just before.
func (f *framed) readWithinAbout(timeout time.Duration) error {
	if stale(f.readBy, f.now, timeout) {
		return f.readUntil(f.now.Add(timeout))
	}
	return nil
}

// stale reports whether a deadline has to be moved to be about timeout from now:
// moving a timer for every frame costs more than the accuracy is worth.
func stale(deadline, now time.Time, timeout time.Duration) bool {
	left := deadline.Sub(now)
	return left > timeout || left < timeout-timeout/deadlineSlack
}

func payloadLen(hdr []byte) int {
	return int(hdr[1])<<16 | int(hdr[2])<<8 | int(hdr[3])
}

func putHeader(hdr []byte, ty byte, n int) {
	hdr[0], hdr[1], hdr[2], hdr[3] = ty, byte(n>>16), byte(n>>8), byte(n)
}

// finishFrame ends the message whose root is given and returns it with its frame
// header before it, all in the builder's memory. It is an error when the message
// does not fit a frame.
func finishFrame(b *flatbuffers.Builder, ty byte, root flatbuffers.UOffsetT) ([]byte, error) {
	b.Finish(root)
	n := len(b.FinishedBytes())
	if n > MaxPayload {
		return nil, fmt.Errorf("message of %d bytes: %w", n, errMessageTooLong)
	}
	b.Prep(1, headerLen)
	frame := b.Bytes[b.Head()-headerLen:]
	putHeader(frame, ty, n)
	return frame, nil
}

// The error frames, encoded once.
var (
	frameBadRequest    = encodeError(Err.CodeBAD_REQUEST)
	frameUnavailable   = encodeError(Err.CodeSERVICE_UNAVAILABLE)
	frameTokenNotFound = encodeError(Err.CodeCONF_TOKEN_NOT_FOUND)
)

func encodeError(code Err.Code) []byte {
	b := flatbuffers.NewBuilder(64)
	Err.RespStart(b)
	Err.RespAddCode(b, code)
	frame, err := finishFrame(b, frameError, Err.RespEnd(b))
	if err != nil {
		return nil // a few bytes always fit
	}
	return frame
}

// noEOF makes the end of the stream inside a frame an error of its own.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// trim returns buf emptied, or nil when it is too large to be kept.
func trim(buf []byte) []byte {
	if cap(buf) > keepBuffer {
		return nil
	}
	return buf[:0]
}
