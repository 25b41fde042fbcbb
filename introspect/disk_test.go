package introspect

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// files are the names in a folder, in order.
func files(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(tb, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// kept waits until a schema of req is in a folder, and no half one, and returns the path.
func kept(tb testing.TB, dir string, req Request) string {
	tb.Helper()
	name := fileName(mustKey(tb, req))
	require.Eventually(tb, func() bool {
		list := files(tb, dir)
		found := false
		for _, f := range list {
			found = found || f == name
			if strings.HasPrefix(f, tempPrefix) {
				return false
			}
		}
		return found
	}, landed, time.Millisecond)
	return filepath.Join(dir, name)
}

// filled is a folder in which a schema with one field is kept for each request.
func filled(tb testing.TB, field string, requests ...Request) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "schemas")
	b := newBench(tb, Config{Dir: dir})
	b.up.set(answer200(schemaWith(field)))
	for _, req := range requests {
		b.fetched(tb, req)
		kept(tb, dir, req)
	}
	b.Close()
	return dir
}

func TestARestartDoesNotNeedTheUpstream(t *testing.T) {
	dir := filled(t, "old", explicit("s"))
	b := newBench(t, Config{Dir: dir})
	b.up.refuse = errors.New("no route to host")
	b.clock.add(time.Hour)

	old := b.fetched(t, explicit("s"))
	require.True(t, hasField(old, "old"))
	require.Contains(t, b.logged(), "read the upstream graphql schema from disk map[age:1h0m0s")
	b.settle(t)
	require.Equal(t, 1, b.up.requests(), "it is compared with the upstream's at once")
	b.awaitLog(t, "failed to refresh the upstream graphql schema, the old one stays in use")
	require.Same(t, old, b.Cached(explicit("s")))
	require.Zero(t, b.underWay())

	b.up.mu.Lock()
	b.up.refuse = nil
	b.up.mu.Unlock()
	b.up.set(answer200(schemaWith("new")))
	b.clock.add(10 * time.Second)
	require.Same(t, old, b.Cached(explicit("s")), "and again after ten seconds, in the background")
	b.settle(t)
	require.True(t, hasField(b.Cached(explicit("s")), "new"))
	b.clock.add(1000 * time.Hour)
	b.Cached(explicit("s"))
	require.Zero(t, b.underWay(), "until it was compared once")
	require.Equal(t, 2, b.up.requests())
}

func TestASchemaFromDiskIsComparedOnce(t *testing.T) {
	dir := filled(t, "a", explicit("s"))
	b := newBench(t, Config{Dir: dir})
	b.up.set(answer200(schemaWith("a")))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := b.Schema(t.Context(), explicit("s"))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	old := b.Cached(explicit("s"))
	b.settle(t)
	require.Same(t, old, b.Cached(explicit("s")))
	require.Equal(t, 1, b.up.requests())
}

// TestAnUnchangedSchemaIsOnlyDated: with a short TTL nothing is written again and again.
func TestAnUnchangedSchemaIsOnlyDated(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Config{Dir: dir})
	b.fetched(t, explicit("s"))
	path := kept(t, dir, explicit("s"))
	dated := func() (info os.FileInfo) {
		require.Eventually(t, func() bool {
			var err error
			info, err = os.Stat(path)
			return err == nil && info.ModTime().Equal(b.clock.Now())
		}, landed, time.Millisecond)
		return info
	}
	before := dated()
	b.clock.add(time.Hour)
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.True(t, os.SameFile(before, dated()))

	require.NoError(t, os.Remove(path))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	kept(t, dir, explicit("s"))
}

// TestRequestsDoNotWaitForTheDisk: the writer is stopped, and requests are answered.
func TestRequestsDoNotWaitForTheDisk(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Config{Dir: dir})
	b.disk.mu.Lock()
	b.fetched(t, explicit("s"))
	b.fetched(t, explicit("t"))
	require.NotNil(t, b.Cached(explicit("s")))
	require.NoError(t, b.Refresh(t.Context(), "s"))
	require.Empty(t, files(t, dir))
	b.disk.mu.Unlock()
	kept(t, dir, explicit("s"))
	kept(t, dir, explicit("t"))
}

func TestFlushRemovesTheFilesOfAService(t *testing.T) {
	other, route := explicit("other"), Request{RouteID: "s", Settings: NewSettings("http://e/g", nil)}
	second := Request{ServiceID: "s", Settings: NewSettings("http://f/g", nil)}
	dir := filled(t, "a", explicit("s"), second, other, route)
	b := newBench(t, Config{Dir: dir})
	b.Flush("s") // its files are in no memory
	require.ElementsMatch(t, []string{fileName(mustKey(t, other)), fileName(mustKey(t, route))}, files(t, dir))
	require.Equal(t, dir, b.disk.dir)
	newBench(t, Config{Dir: filepath.Join(dir, "none")}).Flush("s")
}

// TestWhatWasFlushedIsNotWritten: a flush between the answer and the writing wins.
func TestWhatWasFlushedIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Config{Dir: dir})
	b.disk.mu.Lock()
	b.fetched(t, explicit("s"))
	b.fetched(t, explicit("t"))
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		b.Flush("s")
	}()
	require.Eventually(t, func() bool { return b.Known("s") == nil }, landed, time.Millisecond)
	b.disk.mu.Unlock()
	<-flushed
	kept(t, dir, explicit("t"))
	b.wg.Wait()
	require.Equal(t, []string{fileName(mustKey(t, explicit("t")))}, files(t, dir))
}

func TestADamagedFileIsReportedAndIgnored(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(text []byte) []byte {
			if at < 0 {
				at += len(text)
			}
			text[at] ^= 0x10
			return text
		}
	}
	tests := []struct {
		name   string
		damage func([]byte) []byte
		report string
	}{
		{"empty", func([]byte) []byte { return nil }, "does not begin like a kept schema"},
		{"not one of these", func([]byte) []byte { return []byte("{}") }, "does not begin like a kept schema"},
		{"cut in its first line", func(text []byte) []byte { return text[:50] }, "does not begin like a kept schema"},
		{"cut in half", func(text []byte) []byte { return text[:len(text)/2] }, "the checksum does not match"},
		{"longer", func(text []byte) []byte { return append(text, 0) }, "the checksum does not match"},
		{"a bit of the schema", flip(-20), "the checksum does not match"},
		{"a bit of the checksum", flip(60), "the checksum does not match"},
		{"a bit of the first word", flip(0), "does not begin like a kept schema"},
		{"another version", func(text []byte) []byte { return bytes.Replace(text, []byte("schema 1 "), []byte("schema 2 "), 1) }, "the format of another version"},
		{"another key's", func([]byte) []byte { return encoded(t, content{Name: "x", body: []byte(introspected)}) }, "written under another name"},
		{"no schema in it", func([]byte) []byte {
			return encoded(t, content{Name: fileName(mustKey(t, explicit("s"))), body: []byte("{}")})
		}, "has no data field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t, "old", explicit("s"))
			path := kept(t, dir, explicit("s"))
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, tt.damage(text), 0o600))

			b := newBench(t, Config{Dir: dir})
			b.up.set(status(503))
			for range 2 {
				_, err = b.Schema(t.Context(), explicit("s"))
				require.ErrorContains(t, err, "unexpected status 503")
				b.clock.add(time.Minute)
			}
			require.Equal(t, 1, strings.Count(b.logged(), "it is fetched again"), "once")
			require.Contains(t, b.logged(), tt.report)
			b.up.set(answer200(schemaWith("new")))
			require.True(t, hasField(b.fetched(t, explicit("s")), "new"))
			require.Eventually(t, func() bool {
				_, _, err := readFile(path, maxResponseBytes)
				return err == nil
			}, landed, time.Millisecond, "the next fetch replaces it")
		})
	}
}

func encoded(tb testing.TB, c content) []byte {
	tb.Helper()
	text, err := encode(c)
	require.NoError(tb, err)
	return text
}

func TestASmallFileThatUnpacksToMuchIsRefused(t *testing.T) {
	text := encoded(t, content{Name: "x", body: make([]byte, 2<<20)})
	require.Less(t, len(text), 1<<16)
	_, err := decode(text, 1<<16)
	require.ErrorContains(t, err, "does not hold a schema of an allowed size")
}

func TestALargeFileIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, maxExcessBytes+101))
	_, _, err := readFile(path, 100)
	require.ErrorContains(t, err, "it has more than")
}

func TestAPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, _, err := readFile(path, 100)
	require.ErrorContains(t, err, "it is no regular file")
}

func TestAFolderIsNotAFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, fileName(mustKey(t, explicit("s")))), 0o700))
	b := newBench(t, Config{Dir: dir})
	b.fetched(t, explicit("s"))
	require.Contains(t, b.logged(), "it is no regular file")
}

// TestFilesAreTheOwnersAndHoldNoSecret: neither in a name nor unpacked.
func TestFilesAreTheOwnersAndHoldNoSecret(t *testing.T) {
	requests := []Request{
		{ServiceID: "s", Settings: NewSettings("http://user:hunter2@e/g?token=hunter2", map[string]string{"Authorization": "hunter2"})},
		{Settings: NewSettings("http://user:hunter2@e/g", nil)},
	}
	dir := filled(t, "a", requests...)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, req := range requests {
		path := kept(t, dir, req)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		c, err := decode(text, maxResponseBytes)
		require.NoError(t, err)
		unpacked := fmt.Sprintf("%s %+v %s", text, c, c.body)
		require.NotContains(t, path+unpacked, "hunter2")
		require.NotContains(t, path+unpacked, "user")
	}
}

func TestTheFolderIsBounded(t *testing.T) {
	a, b2, c := explicit("a"), explicit("b"), explicit("c")
	t.Run("in files: those confirmed longest ago go", func(t *testing.T) {
		dir := t.TempDir()
		b := newBench(t, Config{Dir: dir, MaxSchemas: 2})
		for _, req := range []Request{a, b2, c} {
			b.clock.add(time.Second)
			b.fetched(t, req)
			kept(t, dir, req)
		}
		require.Eventually(t, func() bool { return len(files(t, dir)) == 2 }, landed, time.Millisecond)
		require.NoFileExists(t, filepath.Join(dir, fileName(mustKey(t, a))))
	})
	t.Run("in bytes: the newest stays, however large", func(t *testing.T) {
		dir := t.TempDir()
		b := newBench(t, Config{Dir: dir})
		b.disk.maxBytes = 10
		for _, req := range []Request{a, b2} {
			b.clock.add(-time.Second) // also when clocks go backwards
			b.fetched(t, req)
			path := kept(t, dir, req)
			require.Eventually(t, func() bool { return len(files(t, dir)) == 1 }, landed, time.Millisecond)
			require.FileExists(t, path)
		}
	})
	t.Run("what a killed process left is removed", func(t *testing.T) {
		dir := t.TempDir()
		old, young, foreign := filepath.Join(dir, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2"), filepath.Join(dir, "notes.txt")
		for _, path := range []string{old, young, foreign} {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		for _, path := range []string{old, foreign} {
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
		}
		d := newDisk(dir, 10, maxResponseBytes, zap.NewNop())
		d.save(mustKey(t, a), content{body: []byte(introspected)}, time.Now(), false, func() bool { return true })
		require.NoFileExists(t, old)
		require.FileExists(t, young)
		require.FileExists(t, foreign)
	})
}

func TestAFolderThatCannotBeWrittenIsReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	core, logs := observer.New(zap.WarnLevel)
	d := newDisk(filepath.Join(file, "schemas"), 10, maxResponseBytes, zap.New(core))
	always := func() bool { return true }
	save := func() { d.save(mustKey(t, explicit("s")), content{}, time.Now(), false, always) }
	save()
	save()
	require.Equal(t, 1, logs.FilterMessageSnippet("keeping schemas on disk failed").Len())
	require.NoError(t, os.Remove(file))
	save()
	require.NoError(t, os.RemoveAll(file))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	save()
	require.Equal(t, 2, logs.Len(), "again after it worked")
}

// TestTwoProcessesShareAFolder: each writes and reads while the other does.
func TestTwoProcessesShareAFolder(t *testing.T) {
	dir := t.TempDir()
	up := startUpstream(t, false)
	var turn sync.Mutex
	n := 0
	up.set(func(w http.ResponseWriter, r *http.Request) {
		turn.Lock()
		n++
		text := schemaWith(fmt.Sprintf("f%d", n))
		turn.Unlock()
		answer200(text)(w, r)
	})
	var wg sync.WaitGroup
	for range 2 {
		b := newBenchOn(t, up, Config{Dir: dir, MaxSchemas: 3})
		wg.Go(func() {
			for i := range 30 {
				if _, err := b.Schema(t.Context(), explicit(fmt.Sprint(i%5))); err != nil {
					t.Error(err)
				}
				if i%7 == 0 {
					b.Flush(fmt.Sprint(i % 5))
				}
			}
			b.wg.Wait()
			if logged := b.logged(); strings.Contains(logged, "cannot be read") || strings.Contains(logged, "failed") {
				t.Error(logged)
			}
		})
	}
	wg.Wait()
}

func FuzzDecodeFile(f *testing.F) {
	whole := func(c content) []byte {
		text, err := encode(c)
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	f.Add(whole(content{Name: "n", Incarnation: "7", body: []byte(introspected)}))
	f.Add(whole(content{}))
	f.Add([]byte(fileMagic + "2 \n"))
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1 << 20
		c, err := decode(text, limit)
		if err == nil {
			require.LessOrEqual(t, len(c.body), limit+maxExcessBytes)
			again, err := decode(whole(c), limit)
			require.NoError(t, err)
			require.Equal(t, c.Name, again.Name)
			require.True(t, bytes.Equal(c.body, again.body))
		}
	})
}
