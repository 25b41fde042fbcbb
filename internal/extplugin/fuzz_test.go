package extplugin

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// fuzzServer serves one end of a pipe; the test has the other.
func fuzzServer(tb testing.TB) *rawConn {
	s := NewServer(Config{
		Plugins: []plugin.Plugin{&scriptPlugin{name: "script"}},
		Logger:  zap.NewNop(),
	})
	ours, theirs := net.Pipe()
	c := newConn(s, theirs, tb.Context())
	require.True(tb, s.remember(c))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.serve()
	}()
	tb.Cleanup(func() {
		_ = ours.Close()
		<-ended
	})
	require.NoError(tb, ours.SetDeadline(time.Now().Add(patience)))
	return &rawConn{tb: tb, f: newFramed(ours, MaxPayload)}
}

// FuzzFrame shows that no payload ends the process or the connection: whatever is
// sent is answered, and a good request after it too.
func FuzzFrame(f *testing.F) {
	for _, script := range []string{`{}`, `{"tell":["args","header","src_ip"],"vars":["http_a"]}`} {
		frame, err := (&Client{}).encodePrepare("route#r#ext-plugin-pre-req#1", []NamedConf{{Name: "script", Value: script}})
		require.NoError(f, err)
		f.Add(framePrepareConf, bytes.Clone(frame[headerLen:]))
		token := contentHash([]byte("route#r#ext-plugin-pre-req#1"),
			appendConf(nil, entry{[]byte("script"), []byte(script)}))
		frame, err = (&Client{}).encodeCall(suiteRequest(token))
		require.NoError(f, err)
		f.Add(frameHTTPReqCall, bytes.Clone(frame[headerLen:]))
		f.Add(frameHTTPRespCall, bytes.Clone(frame[headerLen:]))
		for cut := headerLen + 1; cut < len(frame); cut += 7 {
			f.Add(frameHTTPReqCall, bytes.Clone(frame[headerLen:cut]))
		}
		for i := headerLen; i < len(frame); i += 3 {
			bad := bytes.Clone(frame[headerLen:])
			bad[i-headerLen] ^= 0xff
			f.Add(frameHTTPReqCall, bad)
		}
	}
	f.Add(byte(9), []byte("x"))
	f.Fuzz(func(t *testing.T, ty byte, payload []byte) {
		if len(payload) > MaxPayload {
			t.Skip()
		}
		c := fuzzServer(t)
		prepared, err := (&Client{}).encodePrepare("route#r#ext-plugin-pre-req#1", []NamedConf{
			{Name: "script", Value: `{"tell":["args","header","src_ip"],"vars":["http_a"]}`}})
		require.NoError(t, err)
		c.write(prepared)
		got, _ := c.read()
		require.Equal(t, framePrepareConf, got)
		c.write(frameOf(ty, payload))
		if got, _ = c.read(); got == frameExtraInfo {
			return // a plugin asks; that was a good request
		}
		require.Contains(t, []byte{frameError, ty}, got)
		c.write(prepared)
		got, _ = c.read()
		require.Equal(t, framePrepareConf, got)
	})
}

// FuzzClientDecode shows that a client survives whatever a runner sends.
func FuzzClientDecode(f *testing.F) {
	var e encoder
	w := &response{}
	w.Header().Set("A", "b")
	w.WriteHeader(200)
	w.body = []byte("body")
	frame, err := e.stop(1, w)
	require.NoError(f, err)
	f.Add(bytes.Clone(frame[headerLen:]))
	r := &request{newPath: []byte("/p"), respHdr: w.header}
	r.hdr.Set("A", "b")
	frame, err = e.changes(r)
	require.NoError(f, err)
	f.Add(bytes.Clone(frame[headerLen:]))
	f.Add(bodyQuestion[headerLen:])
	f.Add(appendVarQuestion(nil, newBuilder(), "a")[headerLen:])
	f.Add(frameTokenNotFound[headerLen:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, err := range []error{
			func() error { _, err := decodeAction(payload); return err }(),
			func() error { _, err := decodeToken(payload); return err }(),
			func() error { _, _, err := decodeQuestion(payload); return err }(),
			func() error { _, err := decodeAnswer(payload); return err }(),
		} {
			if err != nil {
				require.Contains(t, []error{errMalformed, errTooManyEntries, errEntriesTooLong}, err)
			}
		}
		decodeErrorCode(payload)
	})
}
