package limiter

import (
	"context"
	"net"
)

// ClientsHeld is how many clients c holds.
func ClientsHeld(c *Clients) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shared)
}

// FixedScriptHash names the script of a fixed window to EVALSHA.
func FixedScriptHash() string { return fixedScript.Hash() }

// NewClusterThrough is NewCluster with a hand on every connection.
func NewClusterThrough(cfg ClusterConfig, wrap func(net.Conn) net.Conn) *Redis {
	cfg = cfg.withDefaults()
	options := clusterOptions(cfg)
	options.Dialer = dialThrough(options.Dialer, wrap)
	return newCluster(cfg, options)
}

// NewSentinelThrough is NewSentinel with a hand on every connection.
func NewSentinelThrough(cfg SentinelConfig, wrap func(net.Conn) net.Conn) *Redis {
	cfg = cfg.withDefaults()
	options := failoverOptions(cfg)
	options.Dialer = dialThrough(options.Dialer, wrap)
	return newSentinel(cfg, options)
}

func dialThrough(dial dialFunc, wrap func(net.Conn) net.Conn) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
}
