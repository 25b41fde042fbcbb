package cost_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/github"
	"graphql-limit-count/cost"
)

const (
	// maxIndexBytes and maxIndexTime are what reading GitHub's schema may take.
	maxIndexBytes = 50 << 20
	maxIndexTime  = 300 * time.Millisecond
)

// index reads a schema and returns what stays allocated, and what was allocated in all: the
// peak is between them.
func index(tb testing.TB, text []byte) (schema *cost.Schema, retained, allocated uint64) {
	tb.Helper()
	var before, after, settled runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	schema, err := cost.ParseSchema(text)
	require.NoError(tb, err)
	runtime.ReadMemStats(&after)
	runtime.GC()
	runtime.ReadMemStats(&settled)
	runtime.KeepAlive(text)
	return schema, settled.HeapAlloc - min(before.HeapAlloc, settled.HeapAlloc), after.TotalAlloc - before.TotalAlloc
}

func TestGitHubsSchemaNeedsLittleMemory(t *testing.T) {
	for name, text := range github.Schema(t) {
		schema, retained, allocated := index(t, text)
		require.Less(t, retained, uint64(maxIndexBytes), name)
		require.Less(t, allocated, uint64(maxIndexBytes), name)
		result, ok := schema.FieldType("Repository", "issues")
		require.True(t, ok)
		require.Equal(t, "IssueConnection", result)
	}
}

// BenchmarkGitHubsSchema reads it whole; it fails when even the fastest reading took longer
// than is allowed.
func BenchmarkGitHubsSchema(b *testing.B) {
	for name, text := range github.Schema(b) {
		b.Run(name, func(b *testing.B) {
			_, retained, allocated := index(b, text)
			b.SetBytes(int64(len(text)))
			fastest := time.Hour
			for b.Loop() {
				start := time.Now()
				if _, err := cost.ParseSchema(text); err != nil {
					b.Fatal(err)
				}
				fastest = min(fastest, time.Since(start))
			}
			b.ReportMetric(float64(retained)/(1<<20), "MB-retained")
			b.ReportMetric(float64(allocated)/(1<<20), "MB-allocated")
			if fastest > maxIndexTime {
				b.Fatalf("the fastest of %d took %v, more than %v", b.N, fastest, maxIndexTime)
			}
		})
	}
}
