package extplugin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/api7/ext-plugin-proto/go/A6/Err"
	"github.com/stretchr/testify/require"
)

func requireErrorFrame(t *testing.T, c *rawConn, code Err.Code) {
	t.Helper()
	ty, payload := c.read()
	require.Equal(t, frameError, ty)
	require.Equal(t, byte(code), decodeErrorCode(payload))
}

// requireServes shows that the runner at path still answers.
func requireServes(t *testing.T, path string) {
	t.Helper()
	c := dial(t, path)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "good", `{"status":418}`)), &fixedAnswers{})
	require.NoError(t, err)
	require.Equal(t, 418, got.Status)
}

func TestAFrameMayArriveByteByByte(t *testing.T) {
	path := serve(t).path
	token := prepare(t, dial(t, path), "slow", `{"tell":["body"]}`)
	frame, err := (&Client{}).encodeCall(suiteRequest(token))
	require.NoError(t, err)
	c := dialRaw(t, path)
	for i := range frame {
		c.write(frame[i : i+1])
	}
	ty, _ := c.read()
	require.Equal(t, frameExtraInfo, ty)
	for _, b := range answerFrame(t, "{ slow }") {
		c.write([]byte{b})
	}
	ty, payload := c.read()
	require.Equal(t, frameHTTPReqCall, ty)
	action, err := decodeAction(payload)
	require.NoError(t, err)
	require.Equal(t, `{"body":"{ slow }"}`, string(action.Body))
}

func TestSeveralFramesMayArriveAtOnce(t *testing.T) {
	path := serve(t).path
	token := prepare(t, dial(t, path), "many", `{"status":418}`)
	var all []byte
	const n = 200 // more than the read buffer holds
	for i := range n {
		req := suiteRequest(token)
		req.ID = uint32(i)
		frame, err := (&Client{}).encodeCall(req)
		require.NoError(t, err)
		all = append(all, frame...)
	}
	c := dialRaw(t, path)
	c.write(all)
	for i := range n {
		ty, payload := c.read()
		require.Equal(t, frameHTTPReqCall, ty)
		action, err := decodeAction(payload)
		require.NoError(t, err)
		require.Equal(t, uint32(i), action.ID)
	}
}

func TestBadFramesAreRefusedAndTheConnectionKept(t *testing.T) {
	path := serve(t, func(cfg *Config) { cfg.MaxFrame = 1 << 20 }).path
	for _, tc := range []struct {
		name  string
		frame []byte
	}{
		{"an empty PrepareConf", frameOf(framePrepareConf, nil)},
		{"an empty HTTPReqCall", frameOf(frameHTTPReqCall, nil)},
		{"an empty HTTPRespCall", frameOf(frameHTTPRespCall, nil)},
		{"an empty frame of type error", frameOf(frameError, nil)},
		{"an answer that nobody asked for", frameOf(frameExtraInfo, []byte{4, 0, 0, 0, 0, 0, 0, 0})},
		{"an unknown type", frameOf(200, []byte("x"))},
		{"offsets that lead out of the frame", frameOf(frameHTTPReqCall, bytes.Repeat([]byte{255}, 40))},
		{"a frame longer than allowed", frameOf(frameHTTPReqCall, make([]byte, 1<<20+1))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dialRaw(t, path)
			for range 3 {
				c.write(tc.frame)
				requireErrorFrame(t, c, Err.CodeBAD_REQUEST)
			}
		})
	}
	requireServes(t, path)
}

func TestATruncatedFrameEndsItsConnectionOnly(t *testing.T) {
	path := serve(t).path
	for _, part := range [][]byte{{2}, {2, 0, 0}, {2, 0, 0, 9}, {2, 0, 0, 9, 1, 2, 3}, {1, 255, 255, 255, 0}} {
		c := dialRaw(t, path)
		c.write(part)
		require.NoError(t, c.f.nc.(*net.UnixConn).CloseWrite())
		_, err := c.f.br.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
	requireServes(t, path)
}

func TestAStartedFrameHasToBeFinishedInTime(t *testing.T) {
	path := serve(t, func(cfg *Config) { cfg.FrameTimeout = 20 * time.Millisecond }).path
	for _, part := range [][]byte{{2}, {2, 0, 0, 9, 1}} {
		c := dialRaw(t, path)
		c.write(part)
		_, err := c.f.br.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestAnIdleConnectionIsClosedInTime(t *testing.T) {
	path := serve(t, func(cfg *Config) { cfg.IdleTimeout = 20 * time.Millisecond }).path
	c := dialRaw(t, path)
	c.write(frameOf(9, nil))
	requireErrorFrame(t, c, Err.CodeBAD_REQUEST)
	_, err := c.f.br.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestAClaimedLengthCostsNoMemoryBeforeBytesArrive(t *testing.T) {
	const conns = 100
	path := serve(t).path
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range conns {
		c := dialRaw(t, path)
		c.write([]byte{frameHTTPReqCall, 255, 255, 255, 0})
	}
	time.Sleep(50 * time.Millisecond) // if it allocates later this test passes for nothing, never fails
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(conns*(firstChunk+64<<10)))
	requireServes(t, path)
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	path := serve(t).path
	for _, size := range []int{200 << 10, 500 << 10, 1 << 20, 1 << 20, 1 << 20, 8 << 20} {
		suiteBody(t, path, size)
	}
}

func TestAnAnswerTooLargeForAFrameIsAnError(t *testing.T) {
	for _, tc := range []struct {
		name   string
		filter func(w http.ResponseWriter, r *request)
	}{
		{"body", func(w http.ResponseWriter, _ *request) { _, _ = w.Write(make([]byte, MaxPayload+1)) }},
		{"body and what comes with it", func(w http.ResponseWriter, _ *request) { _, _ = w.Write(make([]byte, MaxPayload)) }},
		{"headers", func(_ http.ResponseWriter, r *request) { r.RespHeader().Set("X", string(make([]byte, MaxPayload))) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := serve(t, filtering(tc.filter)).path
			c := dial(t, path)
			token := prepare(t, c, "", `{}`)
			_, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
			var refused *ErrorFrame
			require.ErrorAs(t, err, &refused)
			require.Equal(t, byte(Err.CodeSERVICE_UNAVAILABLE), refused.Code)
			require.False(t, c.Broken())
			require.Equal(t, token, prepare(t, c, "", `{}`))
		})
	}
}

func TestTheServerOutlives10000ConnectionsOpenedAndDropped(t *testing.T) {
	s := serve(t)
	token := prepare(t, dial(t, s.path), "dropped", `{}`)
	frame, err := (&Client{}).encodeCall(suiteRequest(token))
	require.NoError(t, err)
	for i := range 10_000 {
		nc, err := net.Dial("unix", s.path)
		for errors.Is(err, syscall.EAGAIN) { // the kernel's backlog is full
			time.Sleep(time.Millisecond)
			nc, err = net.Dial("unix", s.path)
		}
		require.NoError(t, err)
		switch i % 4 {
		case 1:
			_, err = nc.Write(frame[:5])
		case 2:
			_, err = nc.Write(frame)
		case 3:
			_, err = nc.Write([]byte{77})
		}
		if err == nil {
			err = nc.Close()
		}
		require.NoError(t, err)
	}
	requireServes(t, s.path)
}

func TestConnectionsBeyondTheBoundAreClosedAtOnce(t *testing.T) {
	s := serve(t, func(cfg *Config) { cfg.MaxConns = 2 })
	first, second := dial(t, s.path), dial(t, s.path)
	token := prepare(t, first, "", `{}`)
	prepare(t, second, "", `{}`)
	third := dialRaw(t, s.path)
	_, err := third.f.br.ReadByte()
	require.Error(t, err)
	require.Equal(t, int64(1), s.Stats().Refused)

	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return s.Stats().Open == 1 }, patience, time.Millisecond)
	_, err = dial(t, s.path).HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.NoError(t, err)
}

func TestAMessageWithMoreEntriesThanAllowedIsRefused(t *testing.T) {
	s := serve(t, func(cfg *Config) { cfg.Plugins = []plugin.Plugin{&funcPlugin{name: "script"}} })
	c := dial(t, s.path)
	req := suiteRequest(prepare(t, c, "", `{}`))
	req.Args = make([]KV, maxEntries)
	_, err := c.HTTPReqCall(t.Context(), req, &fixedAnswers{})
	require.NoError(t, err)
	req.Args = make([]KV, maxEntries+1)
	_, err = c.HTTPReqCall(t.Context(), req, &fixedAnswers{})
	require.Equal(t, "calling the runner: runner answered with error BAD_REQUEST", err.Error())
}
