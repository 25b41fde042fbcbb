package plugins

import (
	"net"
	"strconv"

	"graphql-limit-count/limiter"
)

// limiter returns the counters of a configuration's policy, and what gives them up.
func (p *Plugin) limiter(cfg *Config) (limiter.Limiter, func()) {
	source, settings := p.options.Redis, storeConfig(cfg)
	if settings == nil {
		return p.options.Local, func() {}
	}
	if cfg.SyncInterval > 0 {
		return source.Delayed(settings, cfg.SyncInterval.Duration())
	}
	switch settings := settings.(type) {
	case limiter.ClusterConfig:
		return source.Cluster(settings)
	case limiter.SentinelConfig:
		return source.Sentinel(settings)
	default:
		return source.Redis(settings.(limiter.RedisConfig))
	}
}

// storeConfig is where the counters of a configuration are kept, nil for policy local.
func storeConfig(cfg *Config) limiter.StoreConfig {
	switch cfg.Policy {
	case PolicyLocal:
		return nil
	case PolicyRedisCluster:
		return clusterConfig(cfg)
	case PolicyRedisSentinel:
		return sentinelConfig(cfg)
	default:
		return redisConfig(cfg)
	}
}

func redisConfig(cfg *Config) limiter.RedisConfig {
	return limiter.RedisConfig{
		Host:             cfg.RedisHost,
		Port:             cfg.RedisPort,
		Username:         cfg.RedisUsername,
		Password:         cfg.RedisPassword,
		Database:         int(cfg.RedisDatabase),
		Timeout:          cfg.RedisTimeout.Duration(),
		KeepAliveTimeout: cfg.RedisKeepaliveTimeout.Duration(),
		PoolSize:         int(cfg.RedisKeepalivePool),
		TLS:              cfg.RedisSSL,
		TLSVerify:        cfg.RedisSSLVerify,
	}
}

func clusterConfig(cfg *Config) limiter.ClusterConfig {
	return limiter.ClusterConfig{
		Nodes:            cfg.RedisClusterNodes,
		Name:             cfg.RedisClusterName,
		Username:         cfg.RedisUsername,
		Password:         cfg.RedisPassword,
		Timeout:          cfg.RedisTimeout.Duration(),
		KeepAliveTimeout: cfg.RedisKeepaliveTimeout.Duration(),
		PoolSize:         int(cfg.RedisKeepalivePool),
		TLS:              cfg.RedisClusterSSL,
		TLSVerify:        cfg.RedisClusterSSLVerify,
	}
}

func sentinelConfig(cfg *Config) limiter.SentinelConfig {
	sentinels := make([]string, 0, len(cfg.RedisSentinels))
	for _, s := range cfg.RedisSentinels {
		sentinels = append(sentinels, net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	}
	return limiter.SentinelConfig{
		Sentinels:        sentinels,
		MasterName:       cfg.RedisMasterName,
		Replica:          cfg.RedisRole == "slave",
		Username:         cfg.RedisUsername,
		Password:         cfg.RedisPassword,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		Database:         int(cfg.RedisDatabase),
		Timeout:          cfg.RedisTimeout.Duration(),
		ConnectTimeout:   cfg.RedisConnectTimeout.Duration(),
		ReadTimeout:      cfg.RedisReadTimeout.Duration(),
		KeepAliveTimeout: cfg.RedisKeepaliveTimeout.Duration(),
		PoolSize:         int(cfg.RedisKeepalivePool),
		TLS:              cfg.RedisSSL,
		TLSVerify:        cfg.RedisSSLVerify,
	}
}
