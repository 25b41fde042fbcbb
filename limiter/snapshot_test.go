package limiter

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	slidingQuota = Quota{Limit: 10, Window: time.Minute, Type: Sliding}
	leakyQuota   = Quota{Limit: 10, Window: time.Minute, Type: LeakyBucket}
)

// snapshotKeys are of every kind of key, all with their own consumption.
var snapshotKeys = []string{"", "a", "\x00", "ключ", string(bytes.Repeat([]byte("k"), 96)), string(bytes.Repeat([]byte("k"), 500))}

func chargeAs(t *testing.T, l *Local, key string, cost int64, q Quota) Result {
	t.Helper()
	r, err := l.Charge(context.Background(), key, cost, q)
	require.NoError(t, err)
	return r
}

// filled is a limiter with counters of every window type, 31 s after they were charged.
func filled(t *testing.T) (*Local, *testTime) {
	l, clock := newTestLocal(t, 1000)
	for i, key := range snapshotKeys {
		chargeAs(t, l, "fixed"+key, int64(i+1), minuteQuota)
		chargeAs(t, l, "sliding"+key, int64(i+1), slidingQuota)
		chargeAs(t, l, "leaky"+key, int64(i+1), leakyQuota)
	}
	clock.advance(31 * time.Second)
	return l, clock
}

// peeks is what every counter of filled reports.
func peeks(t *testing.T, l *Local) (all []Result) {
	for _, key := range snapshotKeys {
		all = append(all, chargeAs(t, l, "fixed"+key, 0, minuteQuota),
			chargeAs(t, l, "sliding"+key, 0, slidingQuota), chargeAs(t, l, "leaky"+key, 0, leakyQuota))
	}
	return all
}

func TestARestoredLimiterReportsWhatTheSavedOneDid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l, clock := filled(t)
	saved, err := l.Save(path)
	require.NoError(t, err)
	// 31 s on, buckets that held up to 5 of 10 are empty.
	require.Equal(t, 3*len(snapshotKeys)-5, saved)
	want := peeks(t, l)

	again := NewLocal(LocalConfig{Now: clock.Now})
	defer again.Close()
	restored, err := again.Restore(path)
	require.NoError(t, err)
	require.Equal(t, saved, restored)
	require.Equal(t, want, peeks(t, again))
	require.EqualValues(t, saved, again.Stats().Keys)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode(), "keys identify people")
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestWhatExpiredSinceTheSaveIsNotRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l, clock := newTestLocal(t, 1000)
	chargeAs(t, l, "short", 1, Quota{Limit: 10, Window: time.Minute})
	chargeAs(t, l, "long", 1, Quota{Limit: 10, Window: time.Hour})
	_, err := l.Save(path)
	require.NoError(t, err)
	clock.advance(time.Minute)
	again := NewLocal(LocalConfig{Now: clock.Now})
	defer again.Close()
	restored, err := again.Restore(path)
	require.NoError(t, err)
	require.Equal(t, 1, restored)
	r := chargeAs(t, again, "long", 1, Quota{Limit: 10, Window: time.Hour})
	require.Equal(t, Result{Allowed: true, Limit: 10, Remaining: 8, Reset: 59 * time.Minute}, r)
}

func TestACounterChargedBeforeTheRestoreIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l, clock := newTestLocal(t, 1000)
	chargeAs(t, l, "a", 1, minuteQuota)
	chargeAs(t, l, "b", 2, minuteQuota)
	_, err := l.Save(path)
	require.NoError(t, err)
	again := NewLocal(LocalConfig{Now: clock.Now})
	defer again.Close()
	chargeAs(t, again, "b", 5, minuteQuota)
	restored, err := again.Restore(path)
	require.NoError(t, err)
	require.Equal(t, 1, restored)
	require.EqualValues(t, 9, chargeAs(t, again, "a", 0, minuteQuota).Remaining)
	require.EqualValues(t, 5, chargeAs(t, again, "b", 0, minuteQuota).Remaining)
}

// A process's monotonic clock does not follow a step of the wall clock; the next process
// only knows the latter.
func TestTimesMoveFromOneProcesssClockToTheNexts(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 90 * time.Second, 1000 * time.Hour} {
		path := filepath.Join(t.TempDir(), "counters")
		l, clock := filled(t)
		want := peeks(t, l)
		l.startNano += int64(step) // its clock is ahead of the wall by step
		for i := range l.shards {
			for j := range l.shards[i].entries {
				if e := &l.shards[i].entries[j]; e.kind != freeEntry {
					e.shift(int64(step))
				}
			}
		}
		_, err := l.Save(path)
		require.NoError(t, err)
		again := NewLocal(LocalConfig{Now: clock.Now})
		defer again.Close()
		_, err = again.Restore(path)
		require.NoError(t, err)
		require.Equal(t, want, peeks(t, again), step)
	}
}

func TestMaxKeysHoldsForARestore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l, _ := newTestLocal(t, 10_000)
	for i := range 10_000 {
		l.mustCharge(t, fmt.Sprint(i), 1)
	}
	_, err := l.Save(path)
	require.NoError(t, err)
	again, _ := newTestLocal(t, 100)
	_, err = again.Restore(path)
	require.NoError(t, err)
	require.LessOrEqual(t, again.Stats().Keys, int64(100+len(again.shards)))
}

func TestAnySingleChangeOfASnapshotIsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l, clock := filled(t)
	_, err := l.Save(path)
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	again := NewLocal(LocalConfig{Now: clock.Now})
	defer again.Close()
	damaged := func(data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, data, 0o600))
		_, err := again.Restore(path)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "restoring counters from "+path)
		require.Zero(t, again.Stats().Keys)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		damaged(changed)
		damaged(whole[:i])
	}
	damaged(append(bytes.Clone(whole), 0))
}

// sealed is a snapshot of these records, with a checksum that fits.
func sealed(records []byte) []byte {
	now := (&testTime{}).Now()
	data := append([]byte(nil), snapshotMagic...)
	data = binary.LittleEndian.AppendUint64(data, uint64(now.UnixNano()))
	data = binary.LittleEndian.AppendUint64(data, uint64(now.UnixNano()))
	data = append(data, records...)
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

func TestARecordThatCannotHaveBeenWrittenIsDamage(t *testing.T) {
	end := (&testTime{}).Now().Add(time.Minute).UnixNano()
	cases := map[string]entry{
		"no kind":                  {kind: freeEntry, end: end},
		"a new entry":              {kind: newEntry, end: end},
		"an unknown kind":          {kind: 9, end: end},
		"a negative consumption":   {kind: fixedEntry, consumed: -1, end: end},
		"too large a consumption":  {kind: fixedEntry, consumed: MaxCount + 1, end: end},
		"a negative end":           {kind: fixedEntry, end: -1},
		"a window without length":  {kind: slidingEntry, end: end},
		"a negative previous":      {kind: slidingEntry, end: end, length: 1, previous: -1},
		"a length beyond the end":  {kind: slidingEntry, end: 1, length: 1},
		"a bucket that is no time": {kind: leakyEntry, end: end, consumed: int64(math.Float64bits(math.NaN()))},
		"a bucket without end":     {kind: leakyEntry, end: end, consumed: int64(math.Float64bits(math.Inf(1)))},
	}
	for name, e := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := openSnapshot(sealed(e.appendRecord(nil)))
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
	valid := entry{kind: fixedEntry, key: "client", consumed: 3, end: end}
	record := valid.appendRecord(nil)
	_, _, _, err := openSnapshot(sealed(record))
	require.NoError(t, err)
	for i := 1; i < len(record); i++ {
		_, _, _, err := openSnapshot(sealed(record[:i]))
		require.ErrorIs(t, err, ErrDamaged, "%d of %d bytes", i, len(record))
	}
}

func TestFilesThatCannotBeReadOrWritten(t *testing.T) {
	dir := t.TempDir()
	l, _ := filled(t)
	_, err := l.Restore(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = l.Restore(filepath.Join(dir, "none", "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = l.Save(filepath.Join(dir, "none", "counters"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "saving counters")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "counters", "x"), 0o700))
	_, err = l.Save(filepath.Join(dir, "counters"))
	require.ErrorContains(t, err, "saving counters")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file is left")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestAPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	l := NewLocal(LocalConfig{})
	defer l.Close()
	_, err := l.Restore(path)
	require.ErrorContains(t, err, "it is no regular file")
}

func TestAFailedWriteIsReported(t *testing.T) {
	l, _ := filled(t)
	_, err := l.writeSnapshot(failingWriter{})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestLeftoversOfKilledSavesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "counters")
	for _, name := range []string{"counters.1.tmp", "counters.2.tmp", "counters.txt", "other.1.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		if name != "counters.2.tmp" {
			old := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
		}
	}
	l, _ := filled(t)
	_, err := l.Restore(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{"counters.2.tmp", "counters.txt", "other.1.tmp"}, names)
}

func TestChargesGoOnDuringASave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	l := NewLocal(LocalConfig{SweepInterval: time.Millisecond})
	defer l.Close()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				l.mustCharge(t, fmt.Sprint(g, i%5000), 1)
			}
		})
	}
	for range 20 {
		_, err := l.Save(path)
		require.NoError(t, err)
	}
	stop.Store(true)
	wg.Wait()
	again := NewLocal(LocalConfig{})
	defer again.Close()
	restored, err := again.Restore(path)
	require.NoError(t, err)
	require.Positive(t, restored)
}

func FuzzRestore(f *testing.F) {
	end := (&testTime{}).Now().Add(time.Minute).UnixNano()
	for _, e := range []entry{
		{kind: fixedEntry, key: "a", consumed: 3, end: end, use: 200},
		{kind: slidingEntry, key: "b", consumed: 3, previous: 4, length: 60_000_000, end: end},
		{kind: leakyEntry, key: "c", consumed: int64(math.Float64bits(316515630)), end: end},
	} {
		f.Add(e.appendRecord(nil))
	}
	f.Add([]byte("\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, records []byte) {
		path := filepath.Join(t.TempDir(), "counters")
		require.NoError(t, os.WriteFile(path, sealed(records), 0o600))
		l, _ := newTestLocal(t, 100)
		if _, err := l.Restore(path); err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		for _, key := range []string{"a", "b", "c", ""} {
			for _, q := range []Quota{minuteQuota, slidingQuota, leakyQuota} {
				r, err := l.Charge(context.Background(), key, 1, q)
				require.NoError(t, err)
				require.GreaterOrEqual(t, r.Remaining, int64(0))
				require.LessOrEqual(t, r.Remaining, q.Limit)
				require.GreaterOrEqual(t, r.RetryAfter, time.Duration(0))
			}
		}
		_, err := l.Save(path)
		require.NoError(t, err)
	})
}

// BenchmarkSnapshot saves and restores a million counters. The target of a save is under
// 500 ms.
func BenchmarkSnapshot(b *testing.B) {
	const keys = DefaultMaxKeys
	l := NewLocal(LocalConfig{})
	defer l.Close()
	for i := range keys {
		l.mustCharge(b, fmt.Sprintf("/apisix/routes/orders:%08x:10.20.30.%d", i, i), 1)
	}
	path := filepath.Join(b.TempDir(), "counters")
	_, err := l.Save(path)
	require.NoError(b, err)
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			saved, err := l.Save(path)
			require.NoError(b, err)
			require.Equal(b, keys, saved)
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			again := NewLocal(LocalConfig{})
			restored, err := again.Restore(path)
			require.NoError(b, err)
			require.Equal(b, keys, restored)
			again.Close()
		}
	})
}
