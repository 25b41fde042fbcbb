package limiter_test

import (
	"encoding/json"
	"fmt"
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
	Expect struct {
		QueueLengthAfter int `json:"queue_length_after"`
	} `json:"expect"`
	Requests []struct {
		Op             string      `json:"op"`
		Cost           int64       `json:"cost"`
		PreviousWindow int64       `json:"previous_window"`
		Expect         expectation `json:"expect"`
	} `json:"requests"`
}

type expectation struct {
	Remaining    *int64 `json:"remaining"`
	RemainingMin *int64 `json:"remaining_min"`
	RemainingMax *int64 `json:"remaining_max"`
	Rejected     bool   `json:"rejected"`
}

// contradictions are the cases where SPEC.md wants another answer than the vector: what
// SPEC expects of each request, and why.
var contradictions = map[string]struct {
	reason string
	expect []expectation
}{
	"sliding-commit-over-limit": {
		reason: "a charge that does not fit a sliding window is refused; none overshoots the limit",
		expect: []expectation{{}, {Rejected: true}, {Rejected: true}},
	},
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
	if c.Expect.QueueLengthAfter > 0 {
		c.runOnFullQueue(t)
		return
	}
	lim, _ := storeNamed(t, c.Policy).open(t)
	limit, err := c.Conf.Count.Int64()
	require.NoError(t, err)
	seconds, err := c.Conf.TimeWindow.Int64()
	require.NoError(t, err)
	q := limiter.Quota{
		Limit: limit, Window: limiter.WindowSeconds(seconds), Type: limiter.WindowType(c.Conf.WindowType),
	}
	spec, contradicted := contradictions[c.ID]
	if contradicted {
		t.Log(spec.reason)
	}
	for i, request := range c.Requests {
		if request.PreviousWindow > 0 {
			storePreviousWindow(t, request.PreviousWindow, q.Window)
		}
		expect := request.Expect
		if contradicted {
			expect = spec.expect[i]
		}
		got, err := lim.Charge(t.Context(), "client", request.Cost, q)
		require.NoError(t, err)
		expect.check(t, i+1, got)
	}
}

// runOnFullQueue charges a key that finds no place among those that wait for their
// settlement: it is answered, and does not wait.
func (c *vectorCase) runOnFullQueue(t *testing.T) {
	server, err := sharedRedis()
	require.NoError(t, err)
	limit, err := c.Conf.Count.Int64()
	require.NoError(t, err)
	seconds, err := c.Conf.TimeWindow.Int64()
	require.NoError(t, err)
	q := quota(limit, limiter.WindowSeconds(seconds))
	// The queue must stay full for as long as the test takes to fill it.
	delayed := newDelayed(t, limiter.DelayedConfig{Store: newRedis(t, redisConfig(server)), Interval: q.Window - 1})
	for i := range c.Expect.QueueLengthAfter {
		for range 2 { // the first asks Redis, the second waits
			_, err := delayed.Charge(t.Context(), fmt.Sprint("queued", i), 1, q)
			require.NoError(t, err)
		}
	}
	require.Equal(t, c.Expect.QueueLengthAfter, delayed.Stats().Pending)
	for _, request := range c.Requests {
		got, err := delayed.Charge(t.Context(), "client", request.Cost, q)
		require.NoError(t, err)
		require.True(t, got.Allowed)
	}
	require.Equal(t, c.Expect.QueueLengthAfter, delayed.Stats().Pending)
}

func (e *expectation) check(t *testing.T, number int, got limiter.Result) {
	t.Helper()
	require.Equal(t, !e.Rejected, got.Allowed, "request %d", number)
	if e.Remaining != nil {
		require.Equal(t, *e.Remaining, got.Remaining, "request %d", number)
	}
	if e.RemainingMin != nil {
		require.GreaterOrEqual(t, got.Remaining, *e.RemainingMin, "request %d", number)
	}
	if e.RemainingMax != nil {
		require.LessOrEqual(t, got.Remaining, *e.RemainingMax, "request %d", number)
	}
}

// storePreviousWindow makes the key's window one that has just begun, after one with this
// consumption.
func storePreviousWindow(t *testing.T, consumed int64, window time.Duration) {
	t.Helper()
	server, err := sharedRedis()
	require.NoError(t, err)
	admin := adminClient(t, server)
	now, err := admin.Time(t.Context()).Result()
	require.NoError(t, err)
	value := fmt.Sprintf("%d %d 0 %d", now.UnixMicro(), window.Microseconds(), consumed)
	require.NoError(t, admin.Set(t.Context(), "graphql-limit-count:sliding:client", value, window).Err())
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
