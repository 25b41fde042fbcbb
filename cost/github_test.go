package cost_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const (
	// githubPackage is the npm package that has GitHub's public schema, one of the largest
	// there are. A version never changes; what a later one holds is not what was measured.
	githubPackage = "@octokit/graphql-schema@15.26.1"
	downloadLimit = 20 * time.Second
	// endLimit is how long what npm itself started may go on writing after that.
	endLimit = time.Second
	// maxIndexBytes and maxIndexTime are what reading it may take.
	maxIndexBytes = 50 << 20
	maxIndexTime  = 300 * time.Millisecond
)

// githubSchema returns GitHub's schema as SDL and as introspection JSON, by file name. It is
// in nobody's repository: npm fetches it, and without that the test is skipped.
func githubSchema(tb testing.TB) map[string][]byte {
	tb.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		tb.Skipf("npm, which downloads %s, is not installed", githubPackage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), downloadLimit)
	defer cancel()
	folder := tb.TempDir()
	command := exec.CommandContext(ctx, npm, "pack", "--silent", "--fetch-retries=0", githubPackage)
	command.Dir, command.WaitDelay = folder, endLimit
	if output, err := command.CombinedOutput(); err != nil {
		tb.Skipf("npm cannot download %s: %v: %.200s", githubPackage, err, output)
	}
	packed, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	require.NoError(tb, err)
	require.Len(tb, packed, 1)
	return unpack(tb, packed[0], "schema.graphql", "schema.json")
}

func unpack(tb testing.TB, path string, names ...string) map[string][]byte {
	tb.Helper()
	file, err := os.Open(path)
	require.NoError(tb, err)
	defer file.Close()
	zr, err := gzip.NewReader(file)
	require.NoError(tb, err)
	texts := map[string][]byte{}
	for archive := tar.NewReader(zr); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(tb, err)
		for _, name := range names {
			if filepath.Base(head.Name) == name {
				texts[name], err = io.ReadAll(archive)
				require.NoError(tb, err)
			}
		}
	}
	require.Len(tb, texts, len(names))
	return texts
}

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
	for name, text := range githubSchema(t) {
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
	for name, text := range githubSchema(b) {
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
