package limiter

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testTime is a clock that only the test moves.
type testTime struct{ nanos atomic.Int64 }

func (c *testTime) Now() time.Time          { return time.Unix(1_800_000_000, c.nanos.Load()) }
func (c *testTime) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func newTestLocal(tb testing.TB, maxKeys int) (*Local, *testTime) {
	c := &testTime{}
	// The sweeper's own timer never fires in a test: sweeps are called.
	l := NewLocal(LocalConfig{MaxKeys: maxKeys, Now: c.Now, SweepInterval: 1000 * time.Hour})
	l.hash = fnvHash // the same keys meet in the same shards in every run
	tb.Cleanup(l.Close)
	return l, c
}

var minuteQuota = Quota{Limit: 10, Window: time.Minute}

func (l *Local) mustCharge(tb testing.TB, key string, cost int64) Result {
	tb.Helper()
	r, err := l.Charge(context.Background(), key, cost, minuteQuota)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (l *Local) sweepAll() {
	for range sweepFraction {
		l.sweep()
	}
}

// places is how many places and index entries the shards hold.
func (l *Local) places() (places, indexed int) {
	for i := range l.shards {
		places += len(l.shards[i].entries)
		indexed += len(l.shards[i].index)
	}
	return places, indexed
}

// fnvHash spreads keys as well as the seeded hash does, but alike in every process.
func fnvHash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func TestASweepFreesWhatHasExpiredAndNothingElse(t *testing.T) {
	l, clock := newTestLocal(t, 100_000)
	const old, young = 20_000, 1_000
	for i := range old {
		l.mustCharge(t, fmt.Sprint("old", i), 1)
	}
	clock.advance(30 * time.Second)
	for i := range young {
		l.mustCharge(t, fmt.Sprint("young", i), 3)
	}
	l.sweepAll()
	require.Equal(t, LocalStats{Keys: old + young}, l.Stats())

	clock.advance(30 * time.Second)
	l.sweepAll()
	require.Equal(t, LocalStats{Keys: young, Expired: old}, l.Stats())
	for i := range young {
		require.EqualValues(t, 7, l.mustCharge(t, fmt.Sprint("young", i), 0).Remaining)
	}
	places, indexed := l.places()
	require.Equal(t, young, indexed)
	require.Less(t, places, 4*young, "the memory of a flood is given back")

	clock.advance(time.Hour)
	l.sweepAll()
	require.Equal(t, LocalStats{Expired: old + young}, l.Stats())
	require.EqualValues(t, 9, l.mustCharge(t, "young1", 1).Remaining)
}

func TestTheSweeperRunsByItself(t *testing.T) {
	clock := &testTime{}
	l := NewLocal(LocalConfig{Now: clock.Now, SweepInterval: time.Millisecond})
	defer l.Close()
	l.mustCharge(t, "client", 1)
	clock.advance(time.Hour)
	require.Eventually(t, func() bool { return l.Stats() == LocalStats{Expired: 1} }, 10*time.Second, time.Millisecond)
	l.Close()
	require.EqualValues(t, 9, l.mustCharge(t, "client", 1).Remaining, "charges go on after Close")
}

func TestAnExpiredCounterStartsAfreshBeforeAnySweep(t *testing.T) {
	l, clock := newTestLocal(t, 100)
	l.mustCharge(t, "client", 10)
	clock.advance(time.Minute)
	require.EqualValues(t, 9, l.mustCharge(t, "client", 1).Remaining)
	require.EqualValues(t, 1, l.Stats().Keys)
}

func TestMaxKeysBoundsTheCounters(t *testing.T) {
	for _, maxKeys := range []int{1, 2, 63, 64, 1000, 10_000, 70_000} {
		t.Run(fmt.Sprint(maxKeys), func(t *testing.T) {
			l, _ := newTestLocal(t, maxKeys)
			for i := range 2*maxKeys + 10 {
				l.mustCharge(t, fmt.Sprint("key", i), 1)
			}
			stats := l.Stats()
			require.GreaterOrEqual(t, stats.Keys, int64(maxKeys))
			require.LessOrEqual(t, stats.Keys, int64(maxKeys+len(l.shards)))
			require.EqualValues(t, 2*maxKeys+10, stats.Keys+int64(stats.Evicted))
			places, indexed := l.places()
			require.EqualValues(t, stats.Keys, indexed)
			require.LessOrEqual(t, places, maxKeys+len(l.shards))
		})
	}
}

func TestAllOfMaxKeysCanBeUsed(t *testing.T) {
	const maxKeys = 50_000
	l, _ := newTestLocal(t, maxKeys)
	for i := range maxKeys {
		l.mustCharge(t, fmt.Sprint("key", i), 1)
	}
	require.Equal(t, LocalStats{Keys: maxKeys}, l.Stats())
}

func TestAFloodOfNewKeysEvictsNeitherTheBusyNorTheRefused(t *testing.T) {
	const maxKeys, busy = 10_000, 500
	l, _ := newTestLocal(t, maxKeys)
	for round := range 300 {
		for i := range busy {
			l.mustCharge(t, fmt.Sprint("busy", i), 1)
			if round == 0 {
				l.mustCharge(t, fmt.Sprint("refused", i), 10)
				l.mustCharge(t, fmt.Sprint("refused", i), 1)
			}
		}
		for i := range maxKeys / 10 {
			l.mustCharge(t, fmt.Sprint("flood", round, "/", i), 1)
		}
	}
	require.Positive(t, l.Stats().Evicted)
	for i := range busy {
		require.False(t, l.mustCharge(t, fmt.Sprint("busy", i), 0).Allowed, "busy client %d got a fresh quota", i)
		require.False(t, l.mustCharge(t, fmt.Sprint("refused", i), 0).Allowed, "refused client %d got a fresh quota", i)
	}
}

func TestEvictionTakesTheExpiredFirst(t *testing.T) {
	const maxKeys = 1000
	l, clock := newTestLocal(t, maxKeys)
	for i := range maxKeys {
		l.mustCharge(t, fmt.Sprint("old", i), 1)
	}
	clock.advance(time.Minute)
	for i := range maxKeys / 2 {
		l.mustCharge(t, fmt.Sprint("new", i), 1)
	}
	require.Equal(t, LocalStats{Keys: maxKeys, Expired: maxKeys / 2}, l.Stats())
}

func TestKeysOfEqualHashAreApart(t *testing.T) {
	l, clock := newTestLocal(t, 100_000)
	l.hash = func(s string) uint64 { return uint64(len(s)) << 63 } // two values
	keys := []string{"a", "b", "c", "dd", "ee", "f", "gg"}
	for i, key := range keys {
		l.mustCharge(t, key, int64(i+1))
	}
	clock.advance(30 * time.Second)
	for _, key := range []string{"x", "yy", "z"} {
		l.mustCharge(t, key, 10)
	}
	for i, key := range keys {
		require.EqualValues(t, 10-(i+1), l.mustCharge(t, key, 0).Remaining, key)
	}
	clock.advance(30 * time.Second)
	l.sweepAll()
	require.EqualValues(t, 3, l.Stats().Keys)
	for _, key := range []string{"x", "yy", "z"} {
		require.EqualValues(t, 0, l.mustCharge(t, key, 0).Remaining, key)
	}
	for i, key := range keys {
		require.EqualValues(t, 10-i, l.mustCharge(t, key, int64(i)).Remaining, key)
	}
}

func TestRemovingFromAChainKeepsTheOthers(t *testing.T) {
	for removed := range 4 {
		l, _ := newTestLocal(t, 10)
		l.hash = func(string) uint64 { return 7 }
		for i := range 4 {
			l.mustCharge(t, fmt.Sprint(i), int64(i+1))
		}
		s := &l.shards[0]
		s.remove(l.hash, int32(removed))
		for i := range 4 {
			want := int64(10 - (i + 1))
			if i == removed {
				want = 10
			}
			require.Equal(t, want, l.mustCharge(t, fmt.Sprint(i), 0).Remaining)
		}
	}
}

func TestAShardThatShrinksKeepsChains(t *testing.T) {
	l, clock := newTestLocal(t, 100)
	l.hash = func(s string) uint64 { return uint64(len(s)) }
	for i := range 90 {
		l.mustCharge(t, strings.Repeat("o", 1+i%9)+fmt.Sprint(i), 1)
	}
	clock.advance(30 * time.Second)
	for i := range 9 {
		l.mustCharge(t, strings.Repeat("y", 2)+fmt.Sprint(i), 2)
	}
	clock.advance(30 * time.Second)
	l.sweepAll()
	places, _ := l.places()
	require.Equal(t, 9, places)
	for i := range 9 {
		require.EqualValues(t, 8, l.mustCharge(t, strings.Repeat("y", 2)+fmt.Sprint(i), 0).Remaining)
	}
}

func TestShardsGrowWithTheKeysAllowed(t *testing.T) {
	cases := map[int]int{1: 1, 64: 1, 128: 2, 1000: 16, 4096: 64, 100_000: 64, 1_000_000: 256, 10_000_000: 4096}
	for maxKeys, want := range cases {
		require.Equal(t, want, shardCount(maxKeys), "%d keys", maxKeys)
	}
}

func TestSweepsAreJitteredByAQuarter(t *testing.T) {
	for range 1000 {
		d := jitter(time.Second)
		require.GreaterOrEqual(t, d, 875*time.Millisecond)
		require.Less(t, d, 1125*time.Millisecond)
	}
	require.Equal(t, time.Duration(1), jitter(1))
}

func TestChargingAnExistingKeyAllocatesNothing(t *testing.T) {
	l, _ := newTestLocal(t, 1000)
	key := strings.Repeat("k", maxLocalKey)
	l.mustCharge(t, key, 1)
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := l.Charge(ctx, key, 1, minuteQuota); err != nil {
			t.Error(err)
		}
	}))
}

func TestACounterTakesLessThan200Bytes(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a large limiter")
	}
	const keys = 250_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("/apisix/routes/%021d:%08x:10.20.30.%09d", i%100, i, i) // 64 bytes
	}
	require.Len(t, names[0], 64)
	before := heapInUse()
	l, _ := newTestLocal(t, keys)
	for _, name := range names {
		l.mustCharge(t, name, 1)
	}
	perKey := float64(heapInUse()-before) / keys
	t.Logf("%.1f bytes a key", perKey)
	require.Less(t, perKey, 200.0)
	require.Equal(t, LocalStats{Keys: keys}, l.Stats())
	runtime.KeepAlive(names)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
