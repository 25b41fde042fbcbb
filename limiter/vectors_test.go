package limiter_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/limiter"
)

// vectorCase is a case of counter.json that drives a counter directly.
type vectorCase struct {
	ID     string `json:"id"`
	Level  string `json:"level"`
	Policy string `json:"policy"`
	Plugin string `json:"plugin"`
	Conf   struct {
		Count        json.Number `json:"count"`
		TimeWindow   json.Number `json:"time_window"`
		WindowType   string      `json:"window_type"`
		SyncInterval float64     `json:"sync_interval"`
	} `json:"conf"`
	Requests []struct {
		Cost   int64 `json:"cost"`
		Expect struct {
			Remaining *int64 `json:"remaining"`
			Rejected  bool   `json:"rejected"`
		} `json:"expect"`
	} `json:"requests"`
}

// waitsFor names the capability that a case needs and this package does not have yet.
func (c *vectorCase) waitsFor() string {
	switch {
	case c.Conf.SyncInterval != 0:
		return "sync_interval"
	case c.Policy == "redis-cluster" || c.Policy == "redis-sentinel":
		return c.Policy
	case c.Conf.WindowType != "" && c.Conf.WindowType != string(limiter.Fixed):
		return "window_type " + c.Conf.WindowType
	}
	return ""
}

func TestCounterVectors(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/counter.json")
	require.NoError(t, err)
	var file struct {
		Cases []json.RawMessage `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	ran := 0
	for _, raw := range file.Cases {
		var head struct {
			Level string `json:"level"`
		}
		require.NoError(t, json.Unmarshal(raw, &head))
		if head.Level != "limiter" && head.Level != "store" {
			continue // a whole HTTP request: the plugin's tests run it
		}
		var c vectorCase
		require.NoError(t, json.Unmarshal(raw, &c))
		ran++
		t.Run(c.ID, c.run)
	}
	require.Positive(t, ran)
}

func (c *vectorCase) run(t *testing.T) {
	if capability := c.waitsFor(); capability != "" {
		t.Skipf("waits for %s", capability)
	}
	lim, _ := storeNamed(t, c.Policy).open(t)
	limit, err := c.Conf.Count.Int64()
	require.NoError(t, err)
	seconds, err := c.Conf.TimeWindow.Int64()
	require.NoError(t, err)
	for i, request := range c.Requests {
		got, err := lim.Charge(t.Context(), "client", request.Cost, quota(limit, time.Duration(seconds)*time.Second))
		require.NoError(t, err)
		require.Equal(t, !request.Expect.Rejected, got.Allowed, "request %d", i+1)
		if want := request.Expect.Remaining; want != nil {
			require.Equal(t, *want, got.Remaining, "request %d", i+1)
		}
	}
}

func storeNamed(t *testing.T, name string) store {
	t.Helper()
	for _, s := range stores() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no store is called %q", name)
	return store{}
}
