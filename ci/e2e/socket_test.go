package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	// The types of frames.
	frameError       = 0
	framePrepareConf = 1
	frameHTTPReqCall = 2
	frameExtraInfo   = 3
	frameRespCall    = 4
	frameUnknown     = 9

	// socketTimeout bounds what is tried on one connection.
	socketTimeout = 10 * time.Second
	// dropped is how many connections are opened and dropped.
	dropped = 10_000
)

// frame is a frame of the runner protocol: its type, three bytes of length, the payload.
func frame(kind byte, payload []byte) []byte {
	n := len(payload)
	return append([]byte{kind, byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
}

// connect connects to the runner as a gateway does.
func (s *endToEnd) connect() (*net.UnixConn, error) {
	address := &net.UnixAddr{Name: s.runner.Socket(), Net: "unix"}
	for deadline := time.Now().Add(socketTimeout); ; time.Sleep(time.Millisecond) {
		conn, err := net.DialUnix("unix", nil, address)
		if errors.Is(err, syscall.EAGAIN) && time.Now().Before(deadline) {
			continue // the backlog is full
		}
		return conn, err
	}
}

// stillServes checks that the process that served before serves now.
func (s *endToEnd) stillServes(to target, pid int) {
	s.T().Helper()
	select {
	case <-s.runner.Ended():
		s.Require().NoError(s.runner.Err(), "the runner ended: %s", s.log)
	default:
	}
	s.Equal(pid, s.runner.PID())
	s.expect(s.ask(to, `{ __typename }`), http.StatusOK, costHeader, "1", limitHeader, "1000")
}

func (s *endToEnd) TestFramesThatAreNoneAreRefused() {
	s.onlyOwnServer("it indexes into what it did not check")
	to, pid := s.route(object{"count": 1000, "time_window": 60}, routing{}), s.runner.PID()
	garbage := make([]byte, 4096)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	payloads := []struct {
		name    string
		payload []byte
	}{
		{"no payload", nil},
		{"one byte", []byte{1}},
		{"zeros", make([]byte, 64)},
		{"offsets beyond the end", bytes.Repeat([]byte{0xff}, 64)},
		{"a root that is itself", []byte{4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0}},
		{"random bytes", garbage},
		{"text", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
	}
	for _, kind := range []byte{frameError, frameHTTPReqCall, frameExtraInfo, frameUnknown} {
		for _, p := range payloads {
			answer := s.answerTo(frame(kind, p.payload))
			// Nothing, when the connection was closed, or an error frame.
			s.True(len(answer) == 0 || answer[0] == frameError, "type %d, %s: answered with %x", kind, p.name, answer)
			s.stillServes(to, pid)
		}
	}
	// A configuration of no plugins and a response that nothing is to be done about may
	// be answered.
	for _, kind := range []byte{framePrepareConf, frameRespCall} {
		for _, p := range payloads {
			s.answerTo(frame(kind, p.payload))
			s.stillServes(to, pid)
		}
	}
	s.Empty(s.answerTo(frame(frameHTTPReqCall, garbage)[:100]), "a truncated frame")
	s.Empty(s.answerTo([]byte{frameHTTPReqCall, 0}), "a truncated header")
	s.Empty(s.answerTo([]byte{frameHTTPReqCall, 0xff, 0xff, 0xff}), "the longest frame, without its payload")
	s.stillServes(to, pid)
}

// answerTo sends bytes and the end of the connection, and returns all that comes back.
func (s *endToEnd) answerTo(sent []byte) []byte {
	s.T().Helper()
	conn, err := s.connect()
	s.Require().NoError(err)
	defer conn.Close()
	s.Require().NoError(conn.SetDeadline(time.Now().Add(socketTimeout)))
	_, err = conn.Write(sent)
	s.Require().NoError(err)
	if err := conn.CloseWrite(); err != nil {
		s.Require().ErrorIs(err, syscall.ENOTCONN) // closed by the runner already
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		s.Require().ErrorIs(err, syscall.ECONNRESET) // closed with bytes that were not read
	}
	return answer
}

func (s *endToEnd) TestConnectionsThatAreDroppedHarmNothing() {
	to, pid := s.route(object{"count": 1000, "time_window": 60}, routing{}), s.runner.PID()
	const clients = 8
	var wg sync.WaitGroup
	failures := make(chan error, clients)
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for i := range dropped / clients {
				conn, err := s.connect()
				if err != nil {
					failures <- err
					return
				}
				if i%2 == 0 { // every other one in the middle of a header
					_, _ = conn.Write([]byte{frameHTTPReqCall, 0})
				}
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		s.NoError(err)
	}
	s.T().Logf("%d connections were opened and dropped in %s", dropped, time.Since(start).Round(time.Millisecond))
	s.stillServes(to, pid)
}
