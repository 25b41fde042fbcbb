package limiter_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

const (
	faultTimeout = 200 * time.Millisecond
	// faultSlack is what a busy machine may add to a timeout. The product's bound is
	// 50 ms; measured times are logged.
	faultSlack = 2 * time.Second
)

func faultConfig(server *servers.Redis) limiter.RedisConfig {
	return limiter.RedisConfig{Host: server.Host, Port: server.Port, Timeout: faultTimeout}
}

// refusedWithin charges while the server is at fault, and checks that it takes no longer
// than it may.
func refusedWithin(t *testing.T, lim limiter.Limiter, bound time.Duration) error {
	t.Helper()
	start := time.Now()
	_, err := lim.Charge(t.Context(), "client", 1, quota(1_000_000, time.Hour))
	took := time.Since(start)
	t.Logf("%v: %v", took, err)
	require.Error(t, err)
	require.Less(t, took, bound+faultSlack)
	return err
}

// recovers charges until it succeeds.
func recovers(t *testing.T, lim limiter.Limiter) {
	t.Helper()
	start := time.Now()
	for {
		_, err := lim.Charge(t.Context(), "client", 1, quota(1_000_000, time.Hour))
		if err == nil {
			break
		}
		require.Less(t, time.Since(start), time.Second+faultSlack, "%v", err)
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("recovered after %v", time.Since(start))
}

func TestAStoppedServerFailsAtOnceAndIsFoundAgain(t *testing.T) {
	server, _ := ownRedis(t)
	cfg := faultConfig(server)
	cfg.PoolSize = 1
	lim := newRedis(t, cfg)
	recovers(t, lim)
	require.NoError(t, server.Stop())
	for range 300 { // more failures than any pool has places
		_, err := lim.Charge(t.Context(), "client", 1, quota(10, time.Hour))
		require.Error(t, err)
	}
	err := refusedWithin(t, lim, 0)
	require.ErrorContains(t, err, "connection refused")
	require.NoError(t, server.Start(context.Background()))
	recovers(t, lim)
}

func TestAServerThatIsDownFromTheStartIsFoundLater(t *testing.T) {
	server, _ := ownRedis(t)
	require.NoError(t, server.Stop())
	lim := newRedis(t, faultConfig(server))
	require.ErrorContains(t, refusedWithin(t, lim, 0), "connection refused")
	require.NoError(t, server.Start(context.Background()))
	recovers(t, lim)
}

func TestAHungServerFailsWithinTheTimeout(t *testing.T) {
	server, _ := ownRedis(t)
	lim := newRedis(t, faultConfig(server))
	fresh := newRedis(t, faultConfig(server)) // has no connection yet
	recovers(t, lim)
	require.NoError(t, server.Pause())
	refusedWithin(t, lim, faultTimeout)
	refusedWithin(t, fresh, faultTimeout)

	const together = 300 // more than there are connections
	var wg sync.WaitGroup
	start := time.Now()
	for range together {
		wg.Go(func() {
			if _, err := lim.Charge(t.Context(), "client", 1, quota(10, time.Hour)); err == nil {
				t.Error("a hung server decided")
			}
		})
	}
	wg.Wait()
	t.Logf("%d decisions failed after %v", together, time.Since(start))
	require.Less(t, time.Since(start), faultTimeout+faultSlack)

	require.NoError(t, server.Resume())
	recovers(t, lim)
	recovers(t, fresh)
}

func TestACallersDeadlineEndsADecisionEarly(t *testing.T) {
	server, _ := ownRedis(t)
	cfg := faultConfig(server)
	cfg.Timeout = time.Minute
	lim := newRedis(t, cfg)
	require.NoError(t, server.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), faultTimeout)
	defer cancel()
	start := time.Now()
	_, err := lim.Charge(ctx, "client", 1, quota(10, time.Hour))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
	require.Less(t, time.Since(start), faultTimeout+faultSlack)
	require.NoError(t, server.Resume())

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lim.Charge(cancelled, "client", 1, quota(10, time.Hour))
	require.ErrorIs(t, err, context.Canceled)
}

func TestAServerThatAnswersErrorsFailsTheDecision(t *testing.T) {
	cases := []struct {
		name        string
		breakServer func(t *testing.T, admin *redis.Client)
		mend        func(t *testing.T, admin *redis.Client)
		want        string
	}{
		{
			"out of memory",
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
			},
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
			},
			"OOM",
		},
		{
			"a replica that takes no writes",
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			},
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.ReplicaOf(t.Context(), "NO", "ONE").Err())
			},
			"READONLY",
		},
		{
			"a command that the user may not run",
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "-get").Err())
			},
			func(t *testing.T, admin *redis.Client) {
				require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "+get").Err())
			},
			"can't run this command",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, admin := ownRedis(t)
			lim := newRedis(t, faultConfig(server))
			recovers(t, lim)
			c.breakServer(t, admin)
			require.ErrorContains(t, refusedWithin(t, lim, 0), c.want)
			c.mend(t, admin)
			recovers(t, lim)
			value, err := admin.Get(t.Context(), "graphql-limit-count:fixed:client").Result()
			require.NoError(t, err)
			require.Equal(t, "2", value, "a refused command charged nothing")
		})
	}
}

func TestAServerBusyWithAScriptFailsTheDecision(t *testing.T) {
	server, admin := ownRedis(t, "--busy-reply-threshold", "50")
	cfg := faultConfig(server)
	cfg.Timeout = 10 * time.Second
	lim := newRedis(t, cfg)
	recovers(t, lim)
	done := make(chan struct{})
	go func() {
		defer close(done)
		endless := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, MaxRetries: -1})
		defer endless.Close()
		_ = endless.Eval(context.Background(), "while true do end", nil).Err() // until it is killed
	}()
	require.Eventually(t, func() bool {
		_, err := lim.Charge(t.Context(), "client", 1, quota(10, time.Hour))
		return redis.HasErrorPrefix(err, "BUSY")
	}, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		return admin.ScriptKill(t.Context()).Err() == nil
	}, 10*time.Second, 10*time.Millisecond)
	<-done
	recovers(t, lim)
}

func TestAServerThatLoadsItsDataFailsTheDecision(t *testing.T) {
	server, admin := ownRedis(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	cfg := faultConfig(server)
	cfg.Timeout = 10 * time.Second
	lim := newRedis(t, cfg)
	recovers(t, lim)
	require.NoError(t, admin.Do(t.Context(), "DEBUG", "POPULATE", "2000").Err())
	require.NoError(t, admin.ConfigSet(t.Context(), "key-load-delay", "250").Err()) // microseconds
	done := make(chan struct{})
	go func() {
		defer close(done)
		loading := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, MaxRetries: -1})
		defer loading.Close()
		_ = loading.Do(context.Background(), "DEBUG", "RELOAD").Err()
	}()
	require.Eventually(t, func() bool {
		_, err := lim.Charge(t.Context(), "client", 0, quota(10, time.Hour))
		return redis.HasErrorPrefix(err, "LOADING")
	}, 10*time.Second, time.Millisecond)
	require.ErrorContains(t, refusedWithin(t, lim, 0), "LOADING")
	<-done
	recovers(t, lim)
	require.Equal(t, "2", counterValue(t, admin, "client"), "a refused command charged nothing")
}

// cuttingProxy forwards connections to a server, and on demand swallows its answers.
type cuttingProxy struct {
	listener net.Listener
	server   string
	cut      atomic.Bool
	wg       sync.WaitGroup
}

func portOf(addr net.Addr) int { return addr.(*net.TCPAddr).Port }

func newCuttingProxy(t *testing.T, server string) *cuttingProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &cuttingProxy{listener: l, server: server}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		p.wg.Wait()
	})
	return p
}

func (p *cuttingProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			return
		}
		p.wg.Go(func() {
			defer server.Close()
			_, _ = io.Copy(server, client)
		})
		p.wg.Go(func() {
			defer client.Close()
			p.answer(client, server)
		})
	}
}

// answer copies what the server says, until it is to be swallowed: then the connection
// ends once the server has spoken.
func (p *cuttingProxy) answer(client, server net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil || p.cut.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestAChargeWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	server, admin := ownRedis(t)
	proxy := newCuttingProxy(t, server.Addr())
	cfg := faultConfig(server)
	cfg.Port = portOf(proxy.listener.Addr())
	cfg.Timeout = 10 * time.Second
	lim := limiter.NewRedis(cfg)
	defer lim.Close() // before the proxy waits for its connections
	charge(t, lim, 1, quota(100, time.Hour))
	proxy.cut.Store(true)
	_, err := lim.Charge(t.Context(), "client", 10, quota(100, time.Hour))
	require.ErrorIs(t, err, io.EOF)
	value, err := admin.Get(t.Context(), "graphql-limit-count:fixed:client").Result()
	require.NoError(t, err)
	require.Equal(t, "11", value)
	proxy.cut.Store(false)
	require.EqualValues(t, 88, charge(t, lim, 1, quota(100, time.Hour)).Remaining)
}

func TestAServerThatAnswersNonsenseFailsTheDecision(t *testing.T) {
	replies := map[string]string{
		"no list":           ":1\r\n",
		"too short a list":  "*1\r\n:1\r\n",
		"too long a list":   "*7\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
		"text in the list":  "*2\r\n$1\r\nx\r\n:1\r\n",
		"negative count":    "*2\r\n:-1\r\n:1\r\n",
		"too large a count": "*2\r\n:9007199254740992\r\n:1\r\n",
		"no window":         "*6\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"not the protocol":  "HTTP/1.1 400 Bad Request\r\n\r\n",
	}
	for name, reply := range replies {
		for _, kind := range []limiter.WindowType{limiter.Fixed, limiter.Sliding, limiter.LeakyBucket} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				var wg sync.WaitGroup
				wg.Go(func() { answerAlways(l, reply) })
				cfg := limiter.RedisConfig{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Timeout: 10 * time.Second}
				lim := limiter.NewRedis(cfg)
				_, err = lim.Charge(t.Context(), "client", 1, limiter.Quota{Limit: 10, Window: time.Hour, Type: kind})
				require.ErrorContains(t, err, "charging a counter on redis 127.0.0.1:")
				t.Log(err)
				lim.Close()
				require.NoError(t, l.Close())
				wg.Wait()
			})
		}
	}
}

// answerAlways refuses the first command of a connection, the greeting, which a client
// takes for an old server, and answers every other with reply.
func answerAlways(l net.Listener, reply string) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	buf := make([]byte, 4096)
	answer := "-ERR unknown command\r\n"
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
		answer = reply
	}
}
