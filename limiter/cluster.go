package limiter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// maxRedirects is how many redirections one decision follows: one for a slot that has
	// moved, another when it moves on meanwhile, and one to spare.
	maxRedirects = 3
	// topologyShare is the part of a decision's time that one node gets to say who serves
	// which slots. A node that hangs must leave the others time to be asked.
	topologyShare = 4
)

// ClusterConfig says which Redis cluster counts. Equal values, whatever the order of the
// nodes, mean the same cluster.
type ClusterConfig struct {
	// Nodes are some nodes' host:port; the others are learnt from them. Required.
	Nodes []string
	// Name tells clusters apart in errors; two names never share connections. Required.
	Name string
	// Username is the ACL user. Default (empty): the servers' default user.
	Username string
	// Password authenticates. Default (empty): no authentication.
	Password string
	// Timeout bounds one decision, redirections included: see RedisConfig. Default (0 or
	// less): DefaultRedisTimeout.
	Timeout time.Duration
	// KeepAliveTimeout is how long an unused connection is kept. Default (0 or less):
	// DefaultRedisKeepAliveTimeout.
	KeepAliveTimeout time.Duration
	// PoolSize is how many unused connections to each node are kept. Default (0 or less):
	// DefaultRedisPoolSize.
	PoolSize int
	// TLS encrypts the connections. Default: false.
	TLS bool
	// TLSVerify checks each server's certificate against the host of its address and the
	// system's authorities. Default: false, any certificate is accepted.
	TLSVerify bool
}

// clusterSettings is a ClusterConfig that can be compared.
type clusterSettings struct {
	nodes                       string
	name, username, password    string
	timeout, keepAlive          time.Duration
	poolSize                    int
	encrypt, verifyCertificates bool
}

func (c ClusterConfig) withDefaults() ClusterConfig {
	c.Nodes = normalAddresses(c.Nodes)
	r := RedisConfig{
		Timeout: c.Timeout, KeepAliveTimeout: c.KeepAliveTimeout, PoolSize: c.PoolSize,
		TLS: c.TLS, TLSVerify: c.TLSVerify,
	}.withDefaults()
	c.Timeout, c.KeepAliveTimeout, c.PoolSize, c.TLSVerify = r.Timeout, r.KeepAliveTimeout, r.PoolSize, r.TLSVerify
	return c
}

// normalAddresses is a list of addresses in order, each once.
func normalAddresses(addresses []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(addresses)))
}

// joinAddresses makes a list of addresses comparable.
func joinAddresses(addresses []string) string { return strings.Join(addresses, "\x00") }

// settings implements [StoreConfig].
func (c ClusterConfig) settings() any {
	c = c.withDefaults()
	return clusterSettings{
		nodes: joinAddresses(c.Nodes), name: c.Name, username: c.Username, password: c.Password,
		timeout: c.Timeout, keepAlive: c.KeepAliveTimeout, poolSize: c.PoolSize,
		encrypt: c.TLS, verifyCertificates: c.TLSVerify,
	}
}

// open implements [StoreConfig].
func (c ClusterConfig) open() *Redis { return NewCluster(c) }

// NewCluster returns a limiter for the cluster of cfg. It connects when first used. Close
// it when done.
//
// Within the timeout a decision follows redirections (MOVED, ASK) and is sent again to a
// server that answered that it did not run it (LOADING, CLUSTERDOWN, TRYAGAIN, MASTERDOWN,
// READONLY or its maximum of clients), each at most three times. After any failure the
// servers are asked again, in the background, who serves which slots; so decisions succeed
// again a fraction of a second after a replica was promoted.
func NewCluster(cfg ClusterConfig) *Redis {
	cfg = cfg.withDefaults()
	return newCluster(cfg, clusterOptions(cfg))
}

func newCluster(cfg ClusterConfig, options *redis.ClusterOptions) *Redis {
	client := redis.NewClusterClient(options)
	patience := cfg.Timeout / topologyShare
	client.OnNewNode(func(node *redis.Client) { node.AddHook(clusterNodeHook{patience}) })
	r := newRedis("redis cluster "+cfg.Name, cfg.Timeout, client)
	r.failed = func() { client.ReloadState(context.Background()) }
	return r
}

func clusterOptions(cfg ClusterConfig) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:    cfg.Nodes,
		Dialer:   newDialer(cfg.TLS, cfg.TLSVerify),
		Username: cfg.Username,
		Password: cfg.Password,

		MaxRedirects:  maxRedirects,
		MaxRetries:    -1, // of one node's client: one attempt
		DialerRetries: 1,
		// Where a key is follows from the command alone: no server need be asked.
		DisableRoutingPolicies: true,

		DialTimeout:           cfg.Timeout,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         max(cfg.PoolSize, minRedisConnections),
		MaxIdleConns:     cfg.PoolSize,
		ConnMaxIdleTime:  cfg.KeepAliveTimeout,
		PipelinePoolSize: -1,
		ReadBufferSize:   redisBufferSize,
		WriteBufferSize:  redisBufferSize,

		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// clusterNodeHook stands between a cluster client and the client of one of its nodes.
//
// go-redis sends a command again, to the same node and then to another, when a connection
// broke or a time ran out; nobody knows then whether the first node ran it. So such an
// error is sealed: nothing that the cluster client looks for can be found in it.
type clusterNodeHook struct {
	// patience is how long a node may take to describe the cluster.
	patience time.Duration
}

var _ redis.Hook = clusterNodeHook{}

func (clusterNodeHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h clusterNodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "cluster" {
			ctx, cancel := context.WithTimeout(ctx, h.patience)
			defer cancel()
			return next(ctx, cmd)
		}
		return seal(next(ctx, cmd))
	}
}

// ProcessPipelineHook sees ASKING with the command that it is for.
func (clusterNodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			cmd.SetErr(seal(cmd.Err()))
		}
		return seal(err)
	}
}

// sealedError hides an error's kind. It has no Unwrap on purpose.
type sealedError struct{ err error }

func (e sealedError) Error() string { return "failed: " + e.err.Error() }

// seal hides what a server did not answer. Its answers stay: what they mean is known.
func seal(err error) error {
	var answer redis.Error
	switch {
	case err == nil, errors.As(err, &answer), errors.Is(err, redis.ErrClosed):
		return err
	case isSealed(err):
		return err
	}
	return sealedError{err}
}

func isSealed(err error) bool {
	var sealed sealedError
	return errors.As(err, &sealed)
}

// unsealed is the error that was sealed, or err itself.
func unsealed(err error) error {
	var sealed sealedError
	if errors.As(err, &sealed) {
		return sealed.err
	}
	return err
}
