package plugins_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/plugins"
)

const (
	// rpcConnections is how many connections an APISIX worker keeps.
	rpcConnections = 32
	// rpcBody is the size of a usual GraphQL request, in bytes.
	rpcBody = 500
	// frameHeader is the type and the length of a frame, in bytes.
	frameHeader = 4
)

// tape is a connection that keeps what went over it.
type tape struct {
	net.Conn
	sent, received [][]byte
}

func (t *tape) Write(p []byte) (int, error) {
	t.sent = append(t.sent, bytes.Clone(p))
	return t.Conn.Write(p)
}

func (t *tape) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.received = append(t.received, bytes.Clone(p[:n]))
	return n, err
}

// recordCall makes one call as a browser behind a CDN does, and returns the bytes of
// its two exchanges, in turn: the call, the question, the body, the answer.
func recordCall(tb testing.TB, socket string) [][]byte {
	tb.Helper()
	nc, err := net.Dial("unix", socket)
	require.NoError(tb, err)
	defer nc.Close()
	on := &tape{Conn: nc}
	client := extplugin.NewClient(on)
	token, err := client.PrepareConf(context.Background(), "route&service#r&s#ext-plugin-pre-req#1&1",
		[]extplugin.NamedConf{{Name: plugins.Name, Value: `{"count":9007199254740991,"time_window":86400}`}})
	require.NoError(tb, err)
	on.sent, on.received = nil, nil
	known := &answers{query: query{body: usualBody()}}
	action, err := client.HTTPReqCall(context.Background(), usualCall(token), known)
	require.NoError(tb, err)
	require.Equal(tb, extplugin.Rewrite, action.Kind)
	require.Equal(tb, []string{"the body"}, known.asked)
	require.Len(tb, on.sent, 2)
	require.Len(tb, on.received, 2)
	return [][]byte{on.sent[0], on.received[0], on.sent[1], on.received[1]}
}

func usualCall(token uint32) extplugin.Request {
	headers := make([]extplugin.KV, 0, 16)
	for _, h := range []string{
		"accept: */*", "accept-encoding: gzip, deflate, br, zstd", "accept-language: en-GB,en;q=0.9", "authorization: Bearer " + strings.Repeat("x", 40),
		"content-length: 500", "content-type: application/json", "host: shop.example.com", "origin: https://shop.example.com",
		"referer: https://shop.example.com/products", "sec-fetch-mode: cors", "sec-fetch-site: same-site",
		"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "x-forwarded-for: 203.0.113.7", "x-request-id: 3f0c8c1e8d7d4b8b",
	} {
		name, value, _ := strings.Cut(h, ": ")
		headers = append(headers, extplugin.KV{Name: name, Value: value})
	}
	return extplugin.Request{ID: 1, Token: token, SrcIP: net.IPv4(203, 0, 113, 7).To4(), Method: "POST", Path: "/graphql", Headers: headers}
}

// usualBody is a request of rpcBody bytes, with line breaks and variables.
func usualBody() string {
	const head, tail = `{"operationName":"Listing","query":"query Listing($first: Int!) {\n  products(first: $first) {\n    nodes {\n`, `    }\n  }\n}\n","variables":{"first":20}}`
	var fields strings.Builder
	for i := 0; ; i++ {
		field := `      field` + string(rune('a'+i)) + ` { id name }\n`
		if len(head)+fields.Len()+len(field)+len(tail) > rpcBody {
			return head + fields.String() + strings.Repeat(" ", rpcBody-len(head)-fields.Len()-len(tail)) + tail
		}
		fields.WriteString(field)
	}
}

// echo serves connections that exchange messages of the given lengths, and does
// nothing else: what the exchanges themselves cost.
func echo(tb testing.TB, messages [][]byte) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "glc")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	l, err := net.Listen("unix", filepath.Join(folder, "s"))
	require.NoError(tb, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				buf := make([]byte, 1<<16)
				for {
					for i := 0; i < len(messages); i += 2 {
						if _, err := io.ReadFull(nc, buf[:len(messages[i])]); err != nil {
							return
						}
						if _, err := nc.Write(messages[i+1]); err != nil {
							return
						}
					}
				}
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// replay makes n recorded calls over rpcConnections connections and returns how long
// they took, also in processor time.
func replay(tb testing.TB, socket string, messages [][]byte, n int) (took, cpu time.Duration) {
	conns := make([]net.Conn, rpcConnections)
	for i := range conns {
		nc, err := net.Dial("unix", socket)
		require.NoError(tb, err)
		defer nc.Close()
		conns[i] = nc
	}
	start, used := time.Now(), processorTime(tb)
	var all sync.WaitGroup
	for i, nc := range conns {
		calls := n / rpcConnections
		if i < n%rpcConnections {
			calls++
		}
		all.Go(func() {
			buf := make([]byte, 1<<16)
			for range calls {
				for m := 0; m < len(messages); m += 2 {
					if _, err := nc.Write(messages[m]); err != nil {
						tb.Error(err)
						return
					}
					if err := readFrame(nc, buf); err != nil {
						tb.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	return time.Since(start), processorTime(tb) - used
}

// readFrame reads one frame, which must not be an error.
func readFrame(nc net.Conn, buf []byte) error {
	have, want := 0, frameHeader
	for have < want {
		n, err := nc.Read(buf[have:])
		if err != nil {
			return err
		}
		if have += n; have >= frameHeader {
			want = frameHeader + int(buf[1])<<16 + int(buf[2])<<8 + int(buf[3])
		}
	}
	if buf[0] == 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// BenchmarkCallsAgainstPingPong compares the usual call (the body is asked for, the
// plan is cached, the counter is local) over 32 connections with a server that only
// exchanges as many bytes, in rounds by turns, as other load on the machine comes and
// goes. of-ping-pong is the median of the rounds' parts of its calls a second, and
// cpu-of-ping-pong that of the processor time; both share the process with the client.
func BenchmarkCallsAgainstPingPong(b *testing.B) {
	s := startStack(b, stackConfig{})
	messages := recordCall(b, s.socket)
	floor := echo(b, messages)
	const calls = 4000 // of a round
	var took, spent []float64
	var ours time.Duration
	b.ReportAllocs()
	for range max(b.N/calls, 3) {
		t, cpu := replay(b, s.socket, messages, calls)
		bare, bareCPU := replay(b, floor, messages, calls)
		took = append(took, bare.Seconds()/t.Seconds())
		spent = append(spent, bareCPU.Seconds()/cpu.Seconds())
		ours += cpu
	}
	slices.Sort(took)
	slices.Sort(spent)
	b.ReportMetric(took[len(took)/2], "of-ping-pong")
	b.ReportMetric(spent[len(spent)/2], "cpu-of-ping-pong")
	b.ReportMetric(float64(ours.Microseconds())/float64(calls*len(took)), "cpu-us/call")
	b.ReportMetric(0, "ns/op")
}

// processorTime is what the process has used.
func processorTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
