package extplugin

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// benchConnections is how many connections an APISIX worker keeps.
const benchConnections = 32

// benchBody is a usual GraphQL request's size, in bytes.
const benchBody = 500

// load has connections make n calls in all and returns how long they took. Every
// script has a key of its own: the stock runner finds configurations by key alone,
// and would go on with the script that came first. So the answers are checked.
func load(tb testing.TB, path, script, want string, n int) time.Duration {
	clients := make([]*Client, benchConnections)
	tokens := make([]uint32, benchConnections)
	for i := range clients {
		clients[i] = dial(tb, path)
		tokens[i] = prepare(tb, clients[i], script, script)
	}
	body := bytes.Repeat([]byte("x"), benchBody)
	start := time.Now()
	var all sync.WaitGroup
	for i, c := range clients {
		calls := n / benchConnections
		if i < n%benchConnections {
			calls++
		}
		all.Go(func() {
			req, answers := suiteRequest(tokens[i]), benchAnswers(body)
			for range calls {
				got, err := c.HTTPReqCall(context.Background(), req, answers)
				if err != nil || string(got.Body) != want {
					tb.Errorf("got %q, %v; want %q", got.Body, err, want)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

type benchAnswers []byte

func (a benchAnswers) Var(string) ([]byte, bool) { return []byte("value"), true }
func (a benchAnswers) Body() ([]byte, error)     { return a, nil }

// The scripts that the benchmarks compare.
var benchScripts = []struct{ name, script, want string }{
	{"nothing", `{}`, ``},
	{"body", `{"tell":["body_sum"]}`, `{"body_sum":"500:0ab2ce51"}`},
	{"body and 2 variables", `{"tell":["body_sum"],"vars":["cookie_a","cookie_b"],"prefetch":true}`,
		`{"body_sum":"500:0ab2ce51","cookie_a":"value","cookie_b":"value"}`},
}

// BenchmarkAgainstTheStockRunner compares this package's server with the stock
// runner v0.5.0 at log level fatal, both in processes of their own, over 32
// connections and with the client in this process. Both numbers are calls a second.
func BenchmarkAgainstTheStockRunner(b *testing.B) {
	ours, stock := startProcess(b, runAsServer), startProcess(b, runAsStock)
	for _, bs := range benchScripts {
		b.Run(bs.name, func(b *testing.B) {
			const rounds = 4 // by turns, as other load on the machine comes and goes
			var tookOurs, tookStock time.Duration
			n := max(b.N/rounds, 1)
			for range rounds {
				tookOurs += load(b, ours, bs.script, bs.want, n)
				tookStock += load(b, stock, bs.script, bs.want, n)
			}
			calls := float64(n * rounds)
			b.ReportMetric(calls/tookOurs.Seconds(), "calls/s")
			b.ReportMetric(calls/tookStock.Seconds(), "stock-calls/s")
			b.ReportMetric(tookStock.Seconds()/tookOurs.Seconds(), "times-stock")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPingPong is the floor: as many bytes as a call without questions, sent
// to and fro over a unix socket by a client and a server that do nothing else.
func BenchmarkPingPong(b *testing.B) {
	near, far := socketPair(b)
	const request, answer = 200, 40 // bytes
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, request)
		for {
			if _, err := io.ReadFull(far, buf); err != nil {
				return
			}
			if _, err := far.Write(buf[:answer]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, request)
	for b.Loop() {
		if _, err := near.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, buf[:answer]); err != nil {
			b.Fatal(err)
		}
	}
	_ = near.Close()
	<-done
}

// BenchmarkCall is one connection's calls one after another, client included.
func BenchmarkCall(b *testing.B) {
	path := serve(b).path
	for _, bs := range benchScripts {
		b.Run(bs.name, func(b *testing.B) {
			c := dial(b, path)
			req := suiteRequest(prepare(b, c, "route#bench#ext-plugin-pre-req#1", bs.script))
			answers := benchAnswers(bytes.Repeat([]byte("x"), benchBody))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.HTTPReqCall(context.Background(), req, answers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLookup is what a token costs a request, with 100 000 of them.
func BenchmarkLookup(b *testing.B) {
	cache := newConfCache(map[string]plugin.Plugin{"p": &funcPlugin{name: "p"}}, time.Hour, time.Minute, time.Now, zap.NewNop())
	var token uint32
	for i := range 100_000 {
		token = cache.prepare([]byte{byte(i), byte(i >> 8), byte(i >> 16)}, list("p", "{}"))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := cache.lookup(token); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// socketPair returns the two ends of a connection over a unix socket.
func socketPair(tb testing.TB) (near, far net.Conn) {
	l, err := net.Listen("unix", socketPath(tb))
	require.NoError(tb, err)
	defer func() { require.NoError(tb, l.Close()) }()
	near, err = net.Dial("unix", l.Addr().String())
	require.NoError(tb, err)
	far, err = l.Accept()
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// TestAllocationsOfACall holds the server to what a call may allocate, the client
// and the plugin left out.
func TestAllocationsOfACall(t *testing.T) {
	near, far := socketPair(t)
	s := NewServer(Config{Plugins: []plugin.Plugin{&funcPlugin{name: "script"}}, Logger: zap.NewNop()})
	token := s.confs.prepare([]byte("route#r#ext-plugin-pre-req#1"), list("script", "{}"))
	frame, err := (&Client{}).encodeCall(suiteRequest(token))
	require.NoError(t, err)
	c := newConn(s, far, t.Context())
	require.True(t, s.remember(c))
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serve()
	}()
	answer := make([]byte, 256)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if _, err := near.Write(frame); err != nil {
			t.Error(err)
		}
		if _, err := near.Read(answer); err != nil {
			t.Error(err)
		}
	}))
	require.NoError(t, near.Close())
	<-done
}
