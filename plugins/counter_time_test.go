package plugins_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/plugins"
)

// redisServers are the servers that cases need.
type redisServers struct{ plain, secret, tls *servers.Redis }

func (s *redisServers) of(c *counterCase) *servers.Redis {
	switch {
	case c.Conf["redis_ssl"] == true:
		return s.tls
	case strings.Contains(c.Context, "requirepass"):
		return s.secret
	}
	return s.plain
}

// client returns a client for looking into a server that needs no certificate.
func redisClient(t *testing.T, server *servers.Redis, password string, database int) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, DB: database, MaintNotificationsConfig: nil})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// openStore empties the case's Redis.
func (r *counterRun) openStore(t *testing.T) {
	t.Helper()
	if r.Policy != plugins.PolicyRedis || r.redis.of(&r.counterCase) == r.redis.tls {
		return
	}
	password := ""
	if r.redis.of(&r.counterCase) == r.redis.secret {
		password = "foobared"
	}
	database := 0
	if n, ok := r.Conf["redis_database"].(float64); ok && n < 16 {
		database = int(n)
	}
	r.store = redisClient(t, r.redis.of(&r.counterCase), password, database)
	require.NoError(t, r.store.FlushAll(context.Background()).Err())
}

// moveTo lets time pass until the request's.
func (r *counterRun) moveTo(t *testing.T, at float64) {
	t.Helper()
	to := time.Duration(at*1000+0.5) * time.Millisecond
	step := to - r.elapsed
	if step <= 0 {
		return
	}
	r.elapsed = to
	r.site.clock.advance(step)
	if r.store != nil {
		r.moveStoreTo(t, to, to-step)
	}
}

// shortestLife is what is left of a window in Redis at least, on its own clock: so
// that it does not end while the test runs.
const shortestLife = 500 * time.Millisecond

// moveStoreTo lets time pass for every window of a database of Redis, which has no
// clock that a test could move.
func (r *counterRun) moveStoreTo(t *testing.T, to, from time.Duration) {
	t.Helper()
	ctx := context.Background()
	keys, err := r.store.Keys(ctx, "*").Result()
	require.NoError(t, err)
	if r.ends == nil {
		r.ends = map[string]time.Duration{}
	}
	for _, key := range keys {
		if r.ends[key] == 0 { // opened by the request at the time from
			left, err := r.store.PTTL(ctx, key).Result()
			require.NoError(t, err)
			require.Positive(t, left, "a window without an end")
			r.ends[key] = from + (left + time.Second - time.Millisecond).Truncate(time.Second)
		}
		if r.ends[key] <= to {
			delete(r.ends, key)
			require.NoError(t, r.store.Del(ctx, key).Err())
			continue
		}
		require.NoError(t, r.store.PExpire(ctx, key, max(r.ends[key]-to, shortestLife)).Err())
	}
}

// connections is how many connections the case's Redis has ever accepted.
func (r *counterRun) connections(t *testing.T) string {
	t.Helper()
	if r.store == nil {
		return ""
	}
	info, err := r.store.Info(context.Background(), "stats").Result()
	require.NoError(t, err)
	return regexp.MustCompile(`total_connections_received:\d+`).FindString(info)
}

// inspect looks at what is stored, where the case says what that is.
func (r *counterRun) inspect(t *testing.T) {
	t.Helper()
	if r.Expect == nil {
		return
	}
	require.Equal(t, "2", r.Expect["stored_value_per_database"])
	for _, database := range []int{1, 2} {
		store := redisClient(t, r.redis.of(&r.counterCase), "", database)
		keys, err := store.Keys(context.Background(), "graphql-limit-count:*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, "2", store.Get(context.Background(), keys[0]).Val())
	}
}
