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

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"graphql-limit-count/internal/extplugin"
)

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
		{"plan-cache-bytes", f.planCacheBytes}, {"plan-cache-entries", int64(f.planCacheEntries)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("--%s %d is not above 0", positive.flag, positive.value)
		}
	}
	if _, err := f.mode(); err != nil {
		return err
	}
	if err := f.store.check(); err != nil {
		return err
	}
	if f.adminListen == adminOff {
		return nil
	}
	if err := f.access.check(); err != nil {
		return err
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
