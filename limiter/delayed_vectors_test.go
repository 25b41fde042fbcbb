package limiter_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/limiter"
)

// delayedCase is a case of counter.json that settles in the background. Its requests are
// HTTP, of which the counter sees a key and a cost of 1.
type delayedCase struct {
	ID     string `json:"id"`
	Policy string `json:"policy"`
	Conf   struct {
		Count        int64   `json:"count"`
		TimeWindow   int64   `json:"time_window"`
		WindowType   string  `json:"window_type"`
		SyncInterval float64 `json:"sync_interval"`
	} `json:"conf"`
	Requests []struct {
		Expect struct {
			Status  int                    `json:"status"`
			Headers map[string]json.Number `json:"headers"`
		} `json:"expect"`
	} `json:"requests"`
}

func TestDelayedSyncVectors(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/counter.json")
	require.NoError(t, err)
	var file struct {
		Cases []json.RawMessage `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	ran := 0
	for _, raw := range file.Cases {
		var head struct{ ID, Level string }
		require.NoError(t, json.Unmarshal(raw, &head))
		if !strings.HasPrefix(head.ID, "delayed-sync-") || head.Level != "" {
			continue
		}
		var c delayedCase
		require.NoError(t, json.Unmarshal(raw, &c))
		ran++
		t.Run(c.ID, c.run)
	}
	require.Equal(t, 5, ran)
}

func (c *delayedCase) run(t *testing.T) {
	store, _ := storeNamed(t, c.Policy).open(t)
	interval := time.Duration(c.Conf.SyncInterval * float64(time.Second))
	delayed := newDelayed(t, limiter.DelayedConfig{Store: store.(*limiter.Redis), Interval: interval})
	q := limiter.Quota{
		Limit: c.Conf.Count, Window: limiter.WindowSeconds(c.Conf.TimeWindow),
		Type: limiter.WindowType(c.Conf.WindowType),
	}
	var last limiter.Result
	for i, request := range c.Requests {
		got, err := delayed.Charge(t.Context(), "client", 1, q)
		require.NoError(t, err)
		require.Equal(t, request.Expect.Status == 200, got.Allowed, "request %d", i+1)
		if want, ok := request.Expect.Headers["X-RateLimit-Remaining"]; ok {
			remaining, err := want.Int64()
			require.NoError(t, err)
			require.Equal(t, remaining, got.Remaining, "request %d", i+1)
		}
		last = got
	}
	require.False(t, last.Allowed, "all of it is spent")
	require.NoError(t, delayed.Settle(t.Context()))
	settled, err := store.Charge(t.Context(), "client", 0, q)
	require.NoError(t, err)
	require.Zero(t, settled.Remaining)
	require.True(t, settled.Allowed, "and no more than that")
}
