package limiter

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// DefaultSentinelConnectTimeout is SentinelConfig.ConnectTimeout when it is not set.
	DefaultSentinelConnectTimeout = 1000 * time.Millisecond
	// DefaultSentinelReadTimeout is SentinelConfig.ReadTimeout when it is not set.
	DefaultSentinelReadTimeout = 1000 * time.Millisecond

	// sentinelShare is the part of the time for connecting that a sentinel gets to answer.
	// go-redis asks one that hangs twice, then all at once: three parts of four.
	sentinelShare = 4
)

// SentinelConfig says which sentinels know the Redis server that counts. Equal values,
// whatever the order of the sentinels, mean the same server.
type SentinelConfig struct {
	// Sentinels are some sentinels' host:port; the others are learnt from them. Required.
	Sentinels []string
	// MasterName is what the sentinels call the server. Required.
	MasterName string
	// Replica asks for a replica's address instead of the master's (redis_role: slave), and
	// for the master's where there is no replica. Every charge is a write, which replicas
	// refuse (READONLY) unless they are configured to take writes, and then what they
	// counted is lost with the next synchronisation. Default: false.
	Replica bool
	// Username and Password authenticate to the server. Default (empty): the server's
	// default user; no authentication.
	Username, Password string
	// SentinelUsername and SentinelPassword authenticate to the sentinels. Default (empty):
	// their default user; no authentication.
	SentinelUsername, SentinelPassword string
	// Database is selected after connecting. Default: 0.
	Database int
	// Timeout bounds one decision, everything included: see RedisConfig. Default (0 or
	// less): DefaultRedisTimeout.
	Timeout time.Duration
	// ConnectTimeout bounds asking the sentinels and opening a connection. Default (0 or
	// less): DefaultSentinelConnectTimeout.
	ConnectTimeout time.Duration
	// ReadTimeout bounds the wait for one answer. Default (0 or less):
	// DefaultSentinelReadTimeout.
	ReadTimeout time.Duration
	// KeepAliveTimeout is how long an unused connection is kept. Default (0 or less):
	// DefaultRedisKeepAliveTimeout.
	KeepAliveTimeout time.Duration
	// PoolSize is how many unused connections are kept. Default (0 or less):
	// DefaultRedisPoolSize.
	PoolSize int
	// TLS encrypts the connections to the server and to the sentinels. Default: false.
	TLS bool
	// TLSVerify checks certificates against the host of the address and the system's
	// authorities. Default: false, any certificate is accepted.
	TLSVerify bool
}

// sentinelSettings is a SentinelConfig that can be compared: its list is text.
type sentinelSettings struct {
	sentinels, masterName              string
	replica                            bool
	username, password                 string
	sentinelUsername, sentinelPassword string
	database                           int
	timeout, connect, read, keepAlive  time.Duration
	poolSize                           int
	encrypt, verifyCertificates        bool
}

func (c SentinelConfig) withDefaults() SentinelConfig {
	c.Sentinels = normalAddresses(c.Sentinels)
	r := RedisConfig{
		Timeout: c.Timeout, KeepAliveTimeout: c.KeepAliveTimeout, PoolSize: c.PoolSize,
		TLS: c.TLS, TLSVerify: c.TLSVerify,
	}.withDefaults()
	c.Timeout, c.KeepAliveTimeout, c.PoolSize, c.TLSVerify = r.Timeout, r.KeepAliveTimeout, r.PoolSize, r.TLSVerify
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = DefaultSentinelConnectTimeout
	}
	if c.ReadTimeout <= 0 {
		c.ReadTimeout = DefaultSentinelReadTimeout
	}
	return c
}

// settings implements [StoreConfig].
func (c SentinelConfig) settings() any {
	c = c.withDefaults()
	return sentinelSettings{
		sentinels: joinAddresses(c.Sentinels), masterName: c.MasterName, replica: c.Replica,
		username: c.Username, password: c.Password,
		sentinelUsername: c.SentinelUsername, sentinelPassword: c.SentinelPassword,
		database: c.Database,
		timeout:  c.Timeout, connect: c.ConnectTimeout, read: c.ReadTimeout, keepAlive: c.KeepAliveTimeout,
		poolSize: c.PoolSize, encrypt: c.TLS, verifyCertificates: c.TLSVerify,
	}
}

// open implements [StoreConfig].
func (c SentinelConfig) open() *Redis { return NewSentinel(c) }

// NewSentinel returns a limiter for the server that the sentinels of cfg name. It connects
// when first used. Close it when done.
//
// A sentinel announces a failover; connections to any other server than the new master are
// then closed, and decisions under way on them fail.
func NewSentinel(cfg SentinelConfig) *Redis {
	cfg = cfg.withDefaults()
	return newSentinel(cfg, failoverOptions(cfg))
}

func newSentinel(cfg SentinelConfig, options *redis.FailoverOptions) *Redis {
	client := redis.NewFailoverClient(options)
	client.AddHook(failoverDialHook{})
	r := newRedis("redis master "+cfg.MasterName, cfg.Timeout, client)
	// Closing waits while a sentinel is being asked.
	r.close = func() { go client.Close() }
	return r
}

func failoverOptions(cfg SentinelConfig) *redis.FailoverOptions {
	connect := min(cfg.ConnectTimeout, cfg.Timeout)
	read := min(cfg.ReadTimeout, cfg.Timeout)
	return &redis.FailoverOptions{
		SentinelAddrs:    cfg.Sentinels,
		MasterName:       cfg.MasterName,
		ReplicaOnly:      cfg.Replica,
		Dialer:           failoverDialer(newDialer(cfg.TLS, cfg.TLSVerify), min(connect, read)/sentinelShare),
		Username:         cfg.Username,
		Password:         cfg.Password,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		DB:               cfg.Database,

		MaxRetries:    -1, // one attempt
		DialerRetries: 1,

		DialTimeout:           connect,
		ReadTimeout:           read,
		WriteTimeout:          read,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         max(cfg.PoolSize, minRedisConnections),
		MaxIdleConns:     cfg.PoolSize,
		ConnMaxIdleTime:  cfg.KeepAliveTimeout,
		PipelinePoolSize: -1,
		ReadBufferSize:   redisBufferSize,
		WriteBufferSize:  redisBufferSize,

		Protocol:        2,
		DisableIdentity: true,
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// serverDial marks a context in which the server itself is dialled, not a sentinel.
type serverDial struct{}

// failoverDialHook stands in front of the function that asks the sentinels and then dials
// the server. Like newDialer's, it never fails, for the same reason.
type failoverDialHook struct{}

var _ redis.Hook = failoverDialHook{}

func (failoverDialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(context.WithValue(ctx, serverDial{}, true), network, addr)
		if err != nil {
			return failedConn{err}, nil
		}
		return conn, nil
	}
}

func (failoverDialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (failoverDialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// failoverDialer dials servers and sentinels. go-redis turns to another sentinel only when
// one fails before the time for connecting is over, so a sentinel gets part of that time.
func failoverDialer(dial dialFunc, patience time.Duration) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(serverDial{}) != nil {
			return dial(ctx, network, addr)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		conn, err := dial(ctx, network, addr)
		return impatientConn{conn, patience}, err
	}
}

// impatientConn is a connection on which every wait with a deadline is a short one.
type impatientConn struct {
	net.Conn
	patience time.Duration
}

func (c impatientConn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.soon(t)) }
func (c impatientConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.soon(t)) }
func (c impatientConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.soon(t)) }

func (c impatientConn) soon(t time.Time) time.Time {
	if soon := time.Now().Add(c.patience); !t.IsZero() && soon.Before(t) {
		return soon
	}
	return t
}
