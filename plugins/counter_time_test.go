package plugins_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// moveTo lets time pass until the request's, and none in a store meanwhile.
func (r *counterRun) moveTo(t *testing.T, at float64) {
	t.Helper()
	before, to := r.elapsed, time.Duration(at*1000+0.5)*time.Millisecond
	if to > before {
		r.elapsed = to
		r.site.clock.advance(to - before)
	}
	if r.Conf["sync_interval"] != nil {
		return // the runner has the time of such windows as well
	}
	if r.ends == nil {
		r.ends = map[string]time.Duration{}
	}
	for _, store := range r.store {
		r.moveStoreTo(t, store, r.elapsed, before)
	}
}

// shortestLife is what is left of a window in Redis at least, on its own clock: so
// that it does not end while the test runs.
const shortestLife = 500 * time.Millisecond

// moveStoreTo lets time pass for every window of a database of Redis, which has no
// clock that a test could move.
func (r *counterRun) moveStoreTo(t *testing.T, store *redis.Client, to, from time.Duration) {
	t.Helper()
	ctx := context.Background()
	keys, err := store.Keys(ctx, "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		if r.ends[key] == 0 { // opened by the request at the time from
			left, err := store.PTTL(ctx, key).Result()
			require.NoError(t, err)
			require.Positive(t, left, "a window without an end")
			r.ends[key] = from + (left + time.Second - time.Millisecond).Truncate(time.Second)
		}
		if r.ends[key] <= to {
			delete(r.ends, key)
			require.NoError(t, store.Del(ctx, key).Err())
			continue
		}
		require.NoError(t, store.PExpire(ctx, key, max(r.ends[key]-to, shortestLife)).Err())
	}
}

// connections is how many connections the case's servers have ever accepted.
func (r *counterRun) connections(t *testing.T) []string {
	t.Helper()
	counts := make([]string, 0, len(r.store))
	for _, store := range r.store {
		info, err := store.Info(context.Background(), "stats").Result()
		require.NoError(t, err)
		counts = append(counts, regexp.MustCompile(`total_connections_received:\d+`).FindString(info))
	}
	return counts
}
