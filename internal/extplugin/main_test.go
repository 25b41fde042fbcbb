package extplugin

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/apache/apisix-go-plugin-runner/pkg/runner"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The test binary started again with runAsEnv serves instead of testing: with the
// stock runner, or with this package's server.
const (
	runAsEnv    = "EXTPLUGIN_TEST_RUN_AS"
	runAsStock  = "stock"
	runAsServer = "server"

	listenEnv = "APISIX_LISTEN_ADDRESS"

	// patience is how long a test waits for what must happen at last.
	patience = 20 * time.Second
)

func TestMain(m *testing.M) {
	switch os.Getenv(runAsEnv) {
	case runAsStock:
		runStock()
	case runAsServer:
		runServer()
	default:
		goleak.VerifyTestMain(m)
	}
}

func scriptPlugins() []plugin.Plugin {
	return []plugin.Plugin{&scriptPlugin{name: "script"}, &scriptPlugin{name: "second"}}
}

func runStock() {
	for _, p := range scriptPlugins() {
		if err := plugin.RegisterPlugin(p); err != nil {
			panic(err)
		}
	}
	runner.Run(runner.RunnerConfig{LogLevel: zapcore.FatalLevel, LogOutput: os.Stderr})
}

func runServer() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s := NewServer(Config{Plugins: scriptPlugins(), Logger: zap.NewNop()})
	l, err := s.Listen(strings.TrimPrefix(os.Getenv(listenEnv), "unix:"))
	if err == nil {
		err = s.Serve(ctx, l)
	}
	if err != nil {
		panic(err)
	}
}

// socketPath returns a path for a socket that is short whatever the test is called.
func socketPath(tb testing.TB) string {
	dir, err := os.MkdirTemp("", "extplugin")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	return filepath.Join(dir, "runner.sock")
}

// startProcess starts the test binary as the runner named and returns its socket.
func startProcess(tb testing.TB, runAs string) (path string) {
	path = socketPath(tb)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runAsEnv+"="+runAs, listenEnv+"=unix:"+path)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		require.NoError(tb, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // a race detector's exit code would have been printed
	})
	require.Eventually(tb, func() bool {
		nc, err := net.Dial("unix", path)
		if err == nil {
			_ = nc.Close()
		}
		return err == nil
	}, patience, 5*time.Millisecond)
	return path
}

// served is a server that runs in the test's own process.
type served struct {
	*Server
	path string
	stop context.CancelFunc
	done chan error // Serve's result
}

// serve starts a server with the script plugins, or those that configure sets.
func serve(tb testing.TB, configure ...func(*Config)) *served {
	return serveAt(tb, socketPath(tb), configure...)
}

func serveAt(tb testing.TB, path string, configure ...func(*Config)) *served {
	cfg := Config{Plugins: scriptPlugins(), Logger: zap.NewNop()}
	for _, f := range configure {
		f(&cfg)
	}
	s := &served{Server: NewServer(cfg), path: path, done: make(chan error, 1)}
	l, err := s.Listen(path)
	require.NoError(tb, err)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.done <- s.Serve(ctx, l)
	}()
	tb.Cleanup(func() {
		s.stop()
		<-ended
	})
	return s
}

// dial returns a client of the runner at path.
func dial(tb testing.TB, path string) *Client {
	c, err := Dial(tb.Context(), path)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// prepare returns the token of one script.
func prepare(tb testing.TB, c *Client, key, script string) uint32 {
	token, err := c.PrepareConf(tb.Context(), key, []NamedConf{{Name: "script", Value: script}})
	require.NoError(tb, err)
	return token
}

// rawConn is a connection on which a test writes frames by itself.
type rawConn struct {
	tb testing.TB
	f  framed
}

func dialRaw(tb testing.TB, path string) *rawConn {
	nc, err := net.Dial("unix", path)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = nc.Close() })
	require.NoError(tb, nc.SetDeadline(time.Now().Add(patience)))
	return &rawConn{tb: tb, f: newFramed(nc, MaxPayload)}
}

func (c *rawConn) write(p []byte) {
	require.NoError(c.tb, c.f.send(p))
}

func (c *rawConn) read() (ty byte, payload []byte) {
	ty, payload, err := c.f.read(nil)
	require.NoError(c.tb, err)
	return ty, payload
}

// frameOf returns a frame of any type and payload.
func frameOf(ty byte, payload []byte) []byte {
	frame := make([]byte, headerLen, headerLen+len(payload))
	putHeader(frame, ty, len(payload))
	return append(frame, payload...)
}
