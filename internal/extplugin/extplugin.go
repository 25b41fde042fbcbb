// Package extplugin speaks APISIX's external plugin protocol over unix sockets:
// a [Server] that runs plugins written for apisix-go-plugin-runner, and a
// [Client] that plays APISIX's side for gateways, demos, load and tests.
//
// # Server
//
// Each connection is served by one goroutine, straight through: a frame is read
// whole whatever its size or however it arrives, the plugins run, one write
// answers. Configurations are named by tokens derived from their content, so a
// token that outlives a restart cannot name another route's configuration, and
// equal plugin values share one parsed configuration. A request that cannot be
// limited as configured (its configuration does not parse, no listed plugin is
// known, a filter panics) is refused, never let through by accident.
//
// The server adds no plugin API of its own. A plugin that wants several
// variables and the body in one exchange with APISIX may look for
//
//	interface{ Prefetch(body bool, vars ...string) error }
//
// on the request it is given and do without where it is missing, a parsed
// configuration may implement
//
//	interface{ AllowDegradation() bool }
//
// to let requests pass when the filter panics, and one that implements
// [io.Closer] is closed when its last token has expired.
package extplugin

import (
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"go.uber.org/zap"
)

const (
	// MaxPayload is the longest payload that a frame's three length bytes can
	// announce, in bytes.
	MaxPayload = 1<<24 - 1

	// DefaultConfTTL is APISIX's own default for how long it keeps a token
	// (APISIX_CONF_EXPIRE_TIME).
	DefaultConfTTL = time.Hour

	// DefaultMaxConns is enough for 128 workers that each keep APISIX's 32 idle
	// connections.
	DefaultMaxConns = 4096

	// DefaultIdleTimeout is longer than the 180 s for which APISIX keeps an idle
	// connection, so that APISIX is the one to close it.
	DefaultIdleTimeout = 200 * time.Second

	// DefaultFrameTimeout is APISIX's own send and read timeout.
	DefaultFrameTimeout = 60 * time.Second

	// DefaultRequestTimeout is a little less than the 60 s for which APISIX waits
	// for an answer, so that a filter can still answer by itself.
	DefaultRequestTimeout = 56 * time.Second

	// DefaultDrainTimeout leaves a margin below the 1 s between APISIX's SIGTERM
	// and SIGKILL.
	DefaultDrainTimeout = 800 * time.Millisecond

	// DefaultSocketMode lets a worker that runs as another user write to the
	// socket, as the stock runner does.
	DefaultSocketMode fs.FileMode = 0o766
)

// Config says what a [Server] serves and within which bounds. Only Plugins and
// Logger are required; every other zero value means the default named with it.
type Config struct {
	// Plugins are the plugins that a configuration may name. When two have the
	// same name the first is used.
	Plugins []plugin.Plugin

	// Logger receives what an operator must know; nothing is logged per request.
	// Required.
	Logger *zap.Logger

	// ConfTTL is how long APISIX keeps a token (the value of
	// APISIX_CONF_EXPIRE_TIME). The server keeps it 1.2 times as long after it was
	// last prepared or used. Default DefaultConfTTL.
	ConfTTL time.Duration

	// MaxConns bounds the connections open at once; a further one is accepted and
	// closed. Default DefaultMaxConns.
	MaxConns int

	// IdleTimeout bounds the time between two requests on a connection. Default
	// DefaultIdleTimeout.
	IdleTimeout time.Duration

	// FrameTimeout bounds the time from a frame's first byte to its last, the wait
	// for APISIX's answers to questions, and every write. Default
	// DefaultFrameTimeout.
	FrameTimeout time.Duration

	// RequestTimeout is the deadline of the context that a request gives to its
	// filters. Default DefaultRequestTimeout.
	RequestTimeout time.Duration

	// DrainTimeout bounds how long requests in flight may still take once Serve's
	// context is done. Default DefaultDrainTimeout; more is cut to it.
	DrainTimeout time.Duration

	// MaxFrame bounds the payload of a frame that is read, in bytes; a longer one
	// is skipped and refused. Default and maximum MaxPayload.
	MaxFrame int

	// SocketMode is the mode of the socket that Listen makes. Default
	// DefaultSocketMode.
	SocketMode fs.FileMode

	// Now is the clock by which tokens expire. Default time.Now.
	Now func() time.Time
}

// Server serves plugins to APISIX. Make one with [NewServer]; it may serve once.
type Server struct {
	cfg     Config
	log     *zap.Logger
	confs   *confCache
	metrics counters

	refusedLog *gate
	panicLog   *gate
	badLog     *gate

	newcomerGrace time.Duration

	started  atomic.Bool
	draining atomic.Bool

	mu      sync.Mutex
	conns   map[*conn]struct{}
	last    bool // drained is to be closed when the last connection has gone
	drained chan struct{}
}

// NewServer returns a server for cfg. It opens nothing and starts nothing.
func NewServer(cfg Config) *Server {
	cfg = cfg.withDefaults()
	plugins := make(map[string]plugin.Plugin, len(cfg.Plugins))
	for _, p := range cfg.Plugins {
		if _, taken := plugins[p.Name()]; taken {
			cfg.Logger.Error("a second plugin of the same name is ignored", zap.String("plugin", p.Name()))
			continue
		}
		plugins[p.Name()] = p
	}
	return &Server{
		cfg:           cfg,
		log:           cfg.Logger,
		confs:         newConfCache(plugins, tokenLifetime(cfg.ConfTTL), cfg.RequestTimeout, cfg.Now, cfg.Logger),
		refusedLog:    newGate(),
		panicLog:      newGate(),
		badLog:        newGate(),
		newcomerGrace: newcomerGrace,
		conns:         make(map[*conn]struct{}),
		drained:       make(chan struct{}),
	}
}

func (c Config) withDefaults() Config {
	setDefault(&c.ConfTTL, DefaultConfTTL)
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.FrameTimeout, DefaultFrameTimeout)
	setDefault(&c.RequestTimeout, DefaultRequestTimeout)
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	setDefault(&c.MaxFrame, MaxPayload)
	c.DrainTimeout = min(c.DrainTimeout, DefaultDrainTimeout)
	c.MaxFrame = min(c.MaxFrame, MaxPayload)
	if c.SocketMode == 0 {
		c.SocketMode = DefaultSocketMode
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
