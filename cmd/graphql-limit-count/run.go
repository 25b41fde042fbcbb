package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"graphql-limit-count/admin"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// The values of --server.
const (
	serverOwn   = "extplugin"
	serverStock = "go-runner"
)

// adminOff is the value of --admin-listen that turns the endpoint off.
const adminOff = "off"

// runFlags are the settings of run.
type runFlags struct {
	listen                         string
	confExpire                     int
	server                         string
	socketMode                     string
	maxConns                       int
	dataDir                        string
	adminListen                    string
	adminKey, adminViewerKey       string
	apisixAdminURL, apisixAdminKey string
	introspectionTLSVerify         bool
	graphqlMaxSize                 int64
	planCacheBytes                 int64
	localKeysMax                   int
	logLevel                       string
}

func newRun() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the plugin to APISIX, and the admin endpoint",
		Long: "run is the plugin runner: APISIX starts it (ext-plugin.cmd in config.yaml), or connects\n" +
			"to one started by hand (ext-plugin.path_for_test). It also serves the admin endpoint of\n" +
			"the cost decorations. SIGTERM ends it, after the requests in flight.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run() },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "unix socket to listen on, unix:/path; required, APISIX sets it")
	flags.IntVar(&f.confExpire, "conf-expire", int(extplugin.DefaultConfTTL/time.Second), "seconds for which APISIX keeps a configuration's token; APISIX sets it")
	flags.StringVar(&f.server, "server", serverOwn, "protocol server: "+serverOwn+", or "+serverStock+" for the stock one of apisix-go-plugin-runner, with its faults")
	flags.StringVar(&f.socketMode, "socket-mode", "0766", "mode of the socket, octal: APISIX's workers must be able to write")
	flags.IntVar(&f.maxConns, "max-conns", extplugin.DefaultMaxConns, "connections from APISIX at most")
	flags.StringVar(&f.dataDir, "data-dir", "/var/lib/graphql-limit-count", "folder for the decorations, the counters and a generated admin key")
	flags.StringVar(&f.adminListen, "admin-listen", admin.DefaultAddress, "address of the admin endpoint, "+adminOff+" for none")
	flags.StringVar(&f.adminKey, "admin-key", "", "key of the admin endpoint; empty generates one into DATA-DIR/admin.key")
	flags.StringVar(&f.adminViewerKey, "admin-viewer-key", "", "key of the admin endpoint that may only read; empty for none")
	flags.StringVar(&f.apisixAdminURL, "apisix-admin-url", "", "URL of APISIX's Admin API, such as http://127.0.0.1:9180; empty if it cannot be asked")
	flags.StringVar(&f.apisixAdminKey, "apisix-admin-key", "", "key of APISIX's Admin API; a viewer key is enough")
	flags.BoolVar(&f.introspectionTLSVerify, "introspection-tls-verify", false, "verify certificates of https upstreams when introspecting")
	flags.Int64Var(&f.graphqlMaxSize, "graphql-max-size", plugins.DefaultMaxBodySize, "limit of a request's body in bytes where a configuration sets none")
	flags.Int64Var(&f.planCacheBytes, "plan-cache-bytes", plugins.DefaultPlanCacheBytes, "memory of the compiled plans of queries at most")
	flags.IntVar(&f.localKeysMax, "local-keys-max", limiter.DefaultMaxKeys, "counters of policy local at most")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	withEnvironment(flags)
	return cmd
}

// run serves until SIGTERM or SIGINT.
func (f *runFlags) run() error {
	log, level, err := newLogger(f.logLevel)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // standard output cannot always be synced
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	socket, err := f.socket()
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	n, err := f.newNode(ctx, log)
	if err != nil {
		return err
	}
	defer n.close()
	if f.server == serverStock {
		return f.serveStock(n, level)
	}
	return f.serve(ctx, n, socket, log)
}

// socket is the path of the socket.
func (f *runFlags) socket() (string, error) {
	path, ok := strings.CutPrefix(f.listen, "unix:")
	switch {
	case f.listen == "":
		return "", errors.New("no socket to listen on: APISIX sets APISIX_LISTEN_ADDRESS, by hand give --listen unix:/path")
	case !ok || path == "":
		return "", fmt.Errorf("--listen %q is not unix:/path", f.listen)
	}
	return path, nil
}

// check refuses values that mean nothing, before anything is opened: a runner that
// starts with another setting than the one that was meant is worse than one that
// says why it does not.
func (f *runFlags) check() error {
	if f.server != serverOwn && f.server != serverStock {
		return fmt.Errorf("--server %q is neither %s nor %s", f.server, serverOwn, serverStock)
	}
	for _, positive := range []struct {
		flag  string
		value int64
	}{
		{"conf-expire", int64(f.confExpire)}, {"max-conns", int64(f.maxConns)},
		{"graphql-max-size", f.graphqlMaxSize}, {"local-keys-max", int64(f.localKeysMax)},
		{"plan-cache-bytes", f.planCacheBytes},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("--%s %d is not above 0", positive.flag, positive.value)
		}
	}
	if _, err := f.mode(); err != nil {
		return err
	}
	if f.adminListen == adminOff {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.adminListen); err != nil {
		return fmt.Errorf("--admin-listen %q is neither host:port nor %s", f.adminListen, adminOff)
	}
	return nil
}

// checkDataDir makes the data folder if it is not there, and checks that it can be
// written to: a database says of a folder that cannot only that it cannot be opened.
func (f *runFlags) checkDataDir() error {
	const mode = 0o755
	err := os.MkdirAll(f.dataDir, mode)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(f.dataDir, ".write-probe-"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("--data-dir %s must be writable for user id %d: %w", f.dataDir, os.Geteuid(), err)
	}
	return nil
}

// mode is the mode of the socket.
func (f *runFlags) mode() (os.FileMode, error) {
	mode, err := strconv.ParseUint(f.socketMode, 8, 32)
	if err != nil || mode == 0 || mode > uint64(os.ModePerm) {
		return 0, fmt.Errorf("--socket-mode %q is not an octal file mode", f.socketMode)
	}
	return os.FileMode(mode), nil
}

// serve serves with the server of this project.
func (f *runFlags) serve(ctx context.Context, n *node, socket string, log *zap.Logger) error {
	mode, err := f.mode()
	if err != nil {
		return err
	}
	server := n.newServer(extplugin.Config{
		Logger: log, MaxConns: f.maxConns, SocketMode: mode,
		ConfTTL: time.Duration(f.confExpire) * time.Second,
	})
	listener, err := server.Listen(socket)
	if err != nil {
		return fmt.Errorf("listen for APISIX: %w", err)
	}
	log.Info("serving APISIX", zap.String("socket", socket), zap.String("version", version))
	return server.Serve(ctx, listener)
}

// newLogger returns a logger on standard output, which APISIX copies to its error log.
func newLogger(text string) (*zap.Logger, zapcore.Level, error) {
	level, err := zapcore.ParseLevel(text)
	if err != nil {
		return nil, level, fmt.Errorf("--log-level %q: %w", text, err)
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(level)
	config.Encoding = "console"
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.DisableCaller, config.DisableStacktrace = true, true
	config.OutputPaths, config.ErrorOutputPaths = []string{"stdout"}, []string{"stderr"}
	log, err := config.Build()
	if err != nil {
		return nil, level, fmt.Errorf("make a logger: %w", err)
	}
	return log, level, nil
}

// storePath is the file of the decorations.
func (f *runFlags) storePath() string { return filepath.Join(f.dataDir, "decorations.db") }
