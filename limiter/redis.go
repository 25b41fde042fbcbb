package limiter

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Defaults of the Redis configurations, those of the plugin's configuration.
const (
	DefaultRedisPort             = 6379
	DefaultRedisTimeout          = 1000 * time.Millisecond
	DefaultRedisKeepAliveTimeout = 10 * time.Second
	DefaultRedisPoolSize         = 100
)

const (
	// minRedisConnections lets decisions run side by side although few connections are
	// kept: PoolSize bounds idle ones, as in APISIX, not concurrency.
	minRedisConnections = 64
	// redisBufferSize (bytes) of a connection, each way: a decision is some 300 bytes.
	redisBufferSize = 4 << 10
)

// RedisConfig says which Redis server counts. Equal values mean the same server.
type RedisConfig struct {
	// Host is a name or address. Required.
	Host string
	// Port, 1 to 65535. Default (0): DefaultRedisPort.
	Port int
	// Username is the ACL user. Default (empty): the server's default user.
	Username string
	// Password authenticates. Default (empty): no authentication.
	Password string
	// Database is selected after connecting. Default: 0.
	Database int
	// Timeout bounds one decision: waiting for a connection, dialling, the TLS and Redis
	// handshakes, sending and receiving, all together. Default (0 or less):
	// DefaultRedisTimeout.
	Timeout time.Duration
	// KeepAliveTimeout is how long an unused connection is kept. Default (0 or less):
	// DefaultRedisKeepAliveTimeout.
	KeepAliveTimeout time.Duration
	// PoolSize is how many unused connections are kept. Default (0 or less):
	// DefaultRedisPoolSize.
	PoolSize int
	// TLS encrypts the connection. Default: false.
	TLS bool
	// TLSVerify checks the server's certificate against Host and the system's
	// authorities. Default: false, any certificate is accepted.
	TLSVerify bool
}

// withDefaults is c with every default filled in, so that an omitted field and its
// default are the same setting.
func (c RedisConfig) withDefaults() RedisConfig {
	c.Port = cmp.Or(c.Port, DefaultRedisPort)
	if c.Timeout <= 0 {
		c.Timeout = DefaultRedisTimeout
	}
	if c.KeepAliveTimeout <= 0 {
		c.KeepAliveTimeout = DefaultRedisKeepAliveTimeout
	}
	if c.PoolSize <= 0 {
		c.PoolSize = DefaultRedisPoolSize
	}
	c.TLSVerify = c.TLSVerify && c.TLS
	return c
}

func (c *RedisConfig) address() string {
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
}

// settings implements [StoreConfig].
func (c RedisConfig) settings() any { return c.withDefaults() }

// open implements [StoreConfig].
func (c RedisConfig) open() *Redis { return NewRedis(c) }

// Redis is a [Limiter] whose counters live in Redis (5.0 or later): on one server
// ([NewRedis]), in a cluster ([NewCluster]) or on the master that sentinels name
// ([NewSentinel]), under the names that redisKey documents. A decision is one script on
// one key in one round trip (two when the server does not know the script yet).
//
// A command whose outcome is unknown is not sent again, since it could charge twice: the
// decision fails instead. Nothing else is remembered of a failure, so the first decision
// after the server's return succeeds.
type Redis struct {
	// place names the deployment in errors: "redis 127.0.0.1:6379".
	place   string
	timeout time.Duration
	client  redis.UniversalClient
	// close closes client, without blocking.
	close func()
	// failed is told of every failed decision.
	failed func()
	// holders counts who may still use client: the owner and every decision under way.
	// Who brings it to 0 closes the client.
	holders atomic.Int64
	closed  atomic.Bool
}

var _ Limiter = (*Redis)(nil)

// NewRedis returns a limiter for the server of cfg. It connects when first used. Close it
// when done.
func NewRedis(cfg RedisConfig) *Redis {
	cfg = cfg.withDefaults()
	client := redis.NewClient(redisOptions(cfg))
	return newRedis("redis "+cfg.address(), cfg.Timeout, client)
}

// newRedis returns the limiter around a client that makes a single attempt per command.
func newRedis(place string, timeout time.Duration, client redis.UniversalClient) *Redis {
	quietClient()
	r := &Redis{
		place: place, timeout: timeout, client: client,
		close:  func() { _ = client.Close() }, // fails only when it is closed already
		failed: func() {},
	}
	r.holders.Store(1)
	return r
}

// quietClient keeps go-redis from writing a line to standard error for every connection
// that it cannot open: that is reported, with each decision that fails for it, to whoever
// asked for the decision.
var quietClient = sync.OnceFunc(logging.Disable)

func redisOptions(cfg RedisConfig) *redis.Options {
	return &redis.Options{
		Addr:     cfg.address(),
		Dialer:   newDialer(cfg.TLS, cfg.TLSVerify),
		Username: cfg.Username,
		Password: cfg.Password,
		DB:       cfg.Database,

		// One attempt. -1 is go-redis's spelling of no retries.
		MaxRetries:    -1,
		DialerRetries: 1,

		DialTimeout:           cfg.Timeout,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         max(cfg.PoolSize, minRedisConnections),
		MaxIdleConns:     cfg.PoolSize,
		ConnMaxIdleTime:  cfg.KeepAliveTimeout,
		PipelinePoolSize: -1, // nothing is pipelined
		ReadBufferSize:   redisBufferSize,
		WriteBufferSize:  redisBufferSize,

		// RESP2 and no client identity: a handshake of one or two commands, which every
		// server and proxy knows.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Charge implements [Limiter]. It returns within the configured Timeout, or sooner when
// ctx ends; an error of the server or of reaching it is wrapped, and names the deployment
// but no key and no credential.
func (r *Redis) Charge(ctx context.Context, key string, cost int64, q Quota) (result Result, err error) {
	if err := q.check(cost); err != nil {
		return Result{}, err
	}
	err = r.run(ctx, func(ctx context.Context) (err error) {
		result, err = decide(ctx, r.client, key, cost, &q)
		return err
	})
	return result, err
}

// run makes one request of the server, and sees to its bounds and its error.
func (r *Redis) run(ctx context.Context, request func(ctx context.Context) error) error {
	if !r.acquire() {
		return fmt.Errorf("charging a counter on %s: %w", r.place, ErrClosed)
	}
	defer r.release()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := request(ctx); err != nil {
		r.failed()
		return fmt.Errorf("charging a counter on %s: %w", r.place, unsealed(err))
	}
	return nil
}

// Close gives up the limiter: no new decision starts, and the connections are closed as
// soon as those under way are done. It may be called again.
func (r *Redis) Close() {
	if r.closed.CompareAndSwap(false, true) {
		r.release()
	}
}

// acquire keeps the client open until release. It fails once the limiter is closed.
func (r *Redis) acquire() bool {
	if r.holders.Add(1) > 1 && !r.closed.Load() {
		return true
	}
	r.release()
	return false
}

func (r *Redis) release() {
	if r.holders.Add(-1) == 0 {
		r.close()
	}
}

// decide runs one decision, the same way for every kind of Redis deployment.
func decide(ctx context.Context, c redis.UniversalClient, key string, cost int64, q *Quota) (Result, error) {
	switch q.Type {
	case Sliding:
		return chargeSlidingRedis(ctx, c, key, cost, q)
	case LeakyBucket:
		return chargeLeakyRedis(ctx, c, key, cost, q)
	default:
		return chargeFixedRedis(ctx, c, key, cost, q)
	}
}
