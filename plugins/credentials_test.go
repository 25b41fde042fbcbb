package plugins_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
)

// TestCredentials: each policy's own go to the servers that they are for, and a wrong
// one is an error that does not show it.
func TestCredentials(t *testing.T) {
	cluster := servers.RunCluster(t, "--requirepass", "node-secret", "--masterauth", "node-secret")
	group := servers.RunSentinels(t, servers.SentinelConfig{
		Sentinels: 1, Username: "limiter", Password: "server-secret",
		SentinelUsername: "watcher", SentinelPassword: "watch-secret",
	})
	inCluster, watched := clusterMembers(cluster), sentinelMembers(group)
	const server = `,"redis_username":"limiter","redis_password":"%s"`
	const watcher = `,"sentinel_username":"watcher","sentinel_password":"%s"`
	for _, c := range []struct{ name, members, log string }{
		{"a cluster's", inCluster + `,"redis_password":"node-secret"`, ""},
		{"none for a cluster", inCluster, "NOAUTH"},
		{"wrong ones for a cluster", inCluster + `,"redis_password":"a-wrong-secret"`, "WRONGPASS"},
		{"the sentinels' and the server's", watched + fmt.Sprintf(server+watcher, "server-secret", "watch-secret"), ""},
		{"wrong ones for the sentinels", watched + fmt.Sprintf(server+watcher, "server-secret", "a-wrong-secret"), "WRONGPASS"},
		{"wrong ones for the server", watched + fmt.Sprintf(server+watcher, "a-wrong-secret", "watch-secret"), "WRONGPASS"},
		{"the server's for the sentinels", watched + fmt.Sprintf(server, "server-secret"), "NOAUTH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startStack(t, stackConfig{})
			route := s.route(t, `{"count":9,"time_window":3600,`+c.members+`}`)
			if c.log == "" {
				route.send(graphQL("{a}")).costs("1")
				return
			}
			route.send(graphQL("{a}")).refused(500, counterFailure)
			log := s.logged(t)
			require.Contains(t, log, c.log)
			require.NotContains(t, log, "secret")
		})
	}
}

// TestALeastPrivilegedUser: Redis checks what a script runs against the user's rights
// too, so EVAL and EVALSHA alone are not enough.
func TestALeastPrivilegedUser(t *testing.T) {
	server := plainRedis(t)
	store := redisClient(t, server, "", 0)
	require.NoError(t, store.ACLSetUser(t.Context(), "least", "on", ">p", "~graphql-limit-count:*",
		"~rate:graphql-limit-count:*", "+evalsha", "+eval", "+@read", "+@write", "+time").Err())
	t.Cleanup(func() { _ = store.ACLDelUser(context.Background(), "least").Err() })
	for _, members := range []string{
		`"window_type":"fixed"`, `"window_type":"sliding"`, `"window_type":"leaky_bucket"`,
		`"window_type":"fixed","sync_interval":0.1`, `"window_type":"sliding","sync_interval":0.1`,
	} {
		t.Run(members, func(t *testing.T) {
			route := startStack(t, stackConfig{}).route(t, fmt.Sprintf(
				`{"count":9,"time_window":3600,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_username":"least","redis_password":"p",%s}`,
				server.Host, server.Port, members))
			route.send(graphQL("{a}")).costs("1")
		})
	}
}
