package plugins_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/ports"
	"graphql-limit-count/ci/servers"
	"graphql-limit-count/plugins"
)

// patience is the time in milliseconds that cases about no time limit give a decision.
const patience = 30_000

// server is the single Redis that a case needs.
func (c *counterCase) server(t *testing.T) *servers.Redis {
	switch {
	case c.encrypted():
		return tlsRedis(t)
	case c.withPassword():
		return secretRedis(t)
	}
	return plainRedis(t)
}

func (c *counterCase) encrypted() bool    { return c.Conf["redis_ssl"] == true }
func (c *counterCase) withPassword() bool { return strings.Contains(c.Context, "requirepass") }

// cluster is the cluster that a case needs.
func (c *counterCase) cluster(t *testing.T) *servers.Cluster {
	if c.Conf["redis_cluster_ssl"] == true {
		return tlsCluster(t)
	}
	return plainCluster(t)
}

// authSentinelPort is where the cases' sentinel listens that knows its clients.
const authSentinelPort = 26380

// group is the server behind sentinels that a case needs.
func (c *counterCase) group(t *testing.T) *servers.SentinelGroup {
	sentinels, _ := c.Conf["redis_sentinels"].([]any)
	require.NotEmpty(t, sentinels)
	first, _ := sentinels[0].(map[string]any)
	switch {
	case first["port"] == float64(authSentinelPort):
		return watchAuthGroup(t)
	case c.Conf["redis_username"] != nil:
		return serverAuthGroup(t)
	}
	return openGroup(t)
}

// setStore puts the addresses of this test's servers into a configuration.
func (r *counterRun) setStore(t *testing.T, conf map[string]any) {
	t.Helper()
	switch conf["policy"] {
	case plugins.PolicyRedis:
		conf["redis_host"], conf["redis_port"] = "127.0.0.1", r.deadPort(t)
		if r.BackendDown == "" {
			server := r.server(t)
			conf["redis_port"] = server.Port
			conf["redis_host"] = inEnvironment(t, r.Conf["redis_host"], server.Host)
		}
	case plugins.PolicyRedisCluster:
		conf["redis_cluster_nodes"] = r.nodes(t, conf["redis_cluster_nodes"].([]any))
		setPatience(conf, "redis_timeout")
	case plugins.PolicyRedisSentinel:
		conf["redis_sentinels"] = r.sentinels(t, conf["redis_sentinels"].([]any))
		setPatience(conf, "redis_timeout", "redis_connect_timeout", "redis_read_timeout")
	}
}

func setPatience(conf map[string]any, fields ...string) {
	for _, field := range fields {
		if conf[field] == nil {
			conf[field] = patience
		}
	}
}

// inEnvironment is a server's address as the case writes it: where that is a reference
// to the environment, the address goes there.
func inEnvironment(t *testing.T, written any, address string) string {
	t.Helper()
	text, _ := written.(string)
	variable, reference := strings.CutPrefix(text, "$ENV://")
	if !reference {
		return address
	}
	t.Setenv(variable, address)
	return text
}

// deadPort is one that nothing listens on, the same throughout a case: a
// configuration that changes is another one.
func (r *counterRun) deadPort(t *testing.T) int {
	t.Helper()
	if r.dead == 0 {
		var err error
		r.dead, err = ports.Free()
		require.NoError(t, err)
	}
	return r.dead
}

// liveNodes are the nodes of the cases that there are; nothing listens at others.
var liveNodes = map[string]int{
	"127.0.0.1:5000": 0, "127.0.0.1:5001": 1, "127.0.0.1:7000": 0, "127.0.0.1:7001": 1,
	"$ENV://REDIS_NODE_0": 0, "$ENV://REDIS_NODE_1": 1,
}

func (r *counterRun) nodes(t *testing.T, named []any) []string {
	t.Helper()
	nodes := make([]string, 0, len(named))
	for _, name := range named {
		if i, live := liveNodes[fmt.Sprint(name)]; live && r.BackendDown == "" {
			nodes = append(nodes, inEnvironment(t, name, r.cluster(t).Nodes[i].Addr()))
			continue
		}
		nodes = append(nodes, net.JoinHostPort("127.0.0.1", strconv.Itoa(r.deadPort(t))))
	}
	return nodes
}

// deadSentinelPort is where the cases have no sentinel.
const deadSentinelPort = 503

func (r *counterRun) sentinels(t *testing.T, named []any) []any {
	t.Helper()
	sentinels := make([]any, 0, len(named))
	for _, name := range named {
		address, _ := name.(map[string]any)
		host, port := address["host"], r.deadPort(t)
		if address["port"] != float64(deadSentinelPort) && r.BackendDown == "" {
			sentinel := r.group(t).Sentinels[0]
			host, port = sentinel.Host, sentinel.Port
		}
		sentinels = append(sentinels, map[string]any{"host": host, "port": port})
	}
	return sentinels
}

// openStore empties the servers of the case, and looks into them from then on.
func (r *counterRun) openStore(t *testing.T) {
	t.Helper()
	switch {
	case r.BackendDown != "":
	case r.Policy == plugins.PolicyRedis && r.encrypted():
		r.store = []*redis.Client{lookInto(t, redis.NewClient(&redis.Options{
			Addr: r.server(t).Addr(), TLSConfig: &tls.Config{InsecureSkipVerify: true}, // a test's own server
		}))}
	case r.Policy == plugins.PolicyRedis:
		password := ""
		if r.withPassword() {
			password = "foobared"
		}
		r.store = []*redis.Client{redisClient(t, r.server(t), password, r.database())}
	case r.Policy == plugins.PolicyRedisCluster:
		r.store = clusterClients(t, r.cluster(t))
	case r.Policy == plugins.PolicyRedisSentinel:
		r.store = []*redis.Client{masterClient(t, r.group(t), r.database())}
	}
	r.flush(t)
}

// database is the case's, if servers have it.
func (r *counterRun) database() int {
	if n, ok := r.Conf["redis_database"].(float64); ok && n < 16 {
		return int(n)
	}
	return 0
}

func (r *counterRun) flush(t *testing.T) {
	t.Helper()
	for _, store := range r.store {
		require.NoError(t, store.FlushAll(context.Background()).Err())
	}
}

func (r *counterRun) flushScripts(t *testing.T) {
	t.Helper()
	for _, store := range r.store {
		require.NoError(t, store.ScriptFlush(context.Background()).Err())
	}
}

// inspect looks at what is stored, where the case says what that is.
func (r *counterRun) inspect(t *testing.T) {
	t.Helper()
	if r.Expect == nil {
		return
	}
	require.Equal(t, "2", r.Expect["stored_value_per_database"])
	for _, database := range []int{1, 2} {
		var store *redis.Client
		if r.Policy == plugins.PolicyRedisSentinel {
			store = masterClient(t, r.group(t), database)
		} else {
			store = redisClient(t, r.server(t), "", database)
		}
		keys, err := store.Keys(context.Background(), "graphql-limit-count:*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, "2", store.Get(context.Background(), keys[0]).Val())
	}
}
