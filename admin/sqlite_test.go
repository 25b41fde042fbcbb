package admin

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func put(t *testing.T, store Store, d Draft) Record {
	t.Helper()
	record, _, err := store.Put(t.Context(), d)
	require.NoError(t, err)
	return record
}

func TestAFileThatIsNoStoreIsRefused(t *testing.T) {
	sqliteFile := func(statements string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", dataSource(path, "WAL", busyTimeout))
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), statements)
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}
	}
	for _, c := range []struct {
		name string
		make func(*testing.T, string)
		want string
	}{
		{"text", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600))
		}, "the file is not an SQLite database or is damaged"},
		{"another program's database", sqliteFile("CREATE TABLE t (x)"), "the file is another program's SQLite database"},
		{"a newer version's", func(t *testing.T, path string) {
			openAndClose(t, path)
			sqliteFile("PRAGMA user_version = 3")(t, path)
		}, "the file has schema version 3, written by a newer version of this program: this one reads up to 2"},
		{"an unknown version's", func(t *testing.T, path string) {
			openAndClose(t, path)
			sqliteFile("PRAGMA user_version = 0")(t, path)
		}, "the file has the unknown schema version 0"},
		{"a truncated one", func(t *testing.T, path string) {
			openAndClose(t, path)
			require.NoError(t, os.Truncate(path, 6000))
		}, "damaged"},
		{"an overwritten page", func(t *testing.T, path string) {
			openAndClose(t, path)
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.WriteAt(make([]byte, 4096), 4096)
			require.NoError(t, err)
			require.NoError(t, file.Close())
		}, "the file is damaged"},
		{"an empty one", func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
			"the file holds no tables, which a store always has"},
		{"one without tables", sqliteFile("VACUUM"), "the file holds no tables, which a store always has"},
		{"one that is gone, without its log", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+"-wal", []byte("log"), 0o600))
		}, "the file is gone, but the log of its last writes is still there"},
		{"a folder", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "the file cannot be opened or created"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "decorations.db")
			c.make(t, path)
			_, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
			require.ErrorContains(t, err, fmt.Sprintf("open decoration store %q: ", path))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
	require.ErrorContains(t, err, "it is no regular file")
}

// A shorter file must be noticed wherever it ends, unless it only lacks what is unused.
func TestATruncatedFileIsRefusedUnlessNothingIsLost(t *testing.T) {
	const step, decorations = 512, 20
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	store, err := OpenSQLite(t.Context(), whole, SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(t, err)
	for i := range decorations {
		put(t, store, testDraft("shop", fmt.Sprintf("d%d", i), fmt.Sprintf("Query.f%d", i)))
	}
	_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("type Query { a: Int }")})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	text, err := os.ReadFile(whole)
	require.NoError(t, err)
	for length := 0; length < len(text); length += step {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", length))
		require.NoError(t, os.WriteFile(path, text[:length], 0o600))
		store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
		if err != nil {
			require.ErrorContains(t, err, fmt.Sprintf("open decoration store %q: ", path))
			continue
		}
		records, err := store.List(t.Context(), "shop")
		require.NoError(t, err)
		require.Len(t, records, decorations, "%d of %d bytes", length, len(text))
		_, err = store.GetSchema(t.Context(), "shop")
		require.NoError(t, err, "%d of %d bytes", length, len(text))
		require.NoError(t, store.Close())
	}
}

// What is left of an emptied file's last writes is in its log, which must not be thrown away.
func TestTheLogOfAnEmptiedFileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.WriteFile(path+"-wal", []byte("log"), 0o600))
	_, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
	require.ErrorContains(t, err, "the file holds no tables")
	text, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	require.Equal(t, "log", string(text))
}

func TestCreatingAStoreLeavesNothingElseBehind(t *testing.T) {
	dir := t.TempDir()
	openAndClose(t, filepath.Join(dir, "decorations.db"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "decorations.db", entries[0].Name())
}

func openAndClose(t *testing.T, path string) {
	t.Helper()
	store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

func TestAnyPathNamesAFile(t *testing.T) {
	for _, name := range []string{"a b.db", "a?b=c&d.db", "a#b.db", "a%20b.db", "ä.db", filepath.Join("new", "folder", "x.db")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			openAndClose(t, path)
			require.FileExists(t, path)
		})
	}
}

func TestProcessesThatStartTogetherShareANewFile(t *testing.T) {
	const processes = 8
	path := filepath.Join(t.TempDir(), "decorations.db")
	var group sync.WaitGroup
	failures := make(chan error, processes)
	for range processes {
		group.Go(func() {
			store, err := OpenSQLite(context.Background(), path, SQLiteConfig{Logger: zap.NewNop()})
			if err == nil {
				err = store.Close()
			}
			failures <- err
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}

func TestEveryConnectionSyncsEachCommit(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "decorations.db"))
	for _, pool := range []struct {
		db         *sql.DB
		n, timeout int
	}{{store.db, maxReaders, 5000}, {store.writer, 1, 0}} {
		for range pool.n {
			conn, err := pool.db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			var mode string
			var level, wait int
			require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
			require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level))
			require.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&wait))
			require.Equal(t, "wal", mode)
			require.Equal(t, 2, level, "FULL")
			require.Equal(t, pool.timeout, wait)
		}
	}
}

// A write waits for the writer of another process, but not for ever, and not longer than who
// asked for it.
func TestAWriteWaitsForItsTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	store, other := openStore(t, path), openStore(t, path)
	conn, tx, err := other.begin(t.Context())
	require.NoError(t, err)

	_, err = store.List(t.Context(), "shop")
	require.NoError(t, err, "a read does not wait")
	store.busy = 10 * testPoll
	_, _, err = store.Put(t.Context(), testDraft("shop", "d1", "Query.a"))
	require.ErrorIs(t, err, errBusy)
	store.busy = busyTimeout
	require.ErrorContains(t, err, "put decoration d1 of service shop: another process has the file locked")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = store.Put(ctx, testDraft("shop", "d1", "Query.a"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, errBusy)

	done := make(chan error, 1)
	go func() {
		_, _, err := store.Put(context.Background(), testDraft("shop", "d1", "Query.a"))
		done <- err
	}()
	require.NoError(t, tx.Rollback())
	require.NoError(t, conn.Close())
	require.NoError(t, <-done)
}

func TestStoreKeepsARecordWhole(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	path := filepath.Join(t.TempDir(), "decorations.db")
	store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop(), Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	d := testDraft("shop", "d1", "Query.products")
	d.Incarnation = "27"
	created := put(t, store, d)
	require.Equal(t, Record{Draft: d, CreateTime: 1_700_000_000, UpdateTime: 1_700_000_000, CreatedIndex: 1, ModifiedIndex: 1}, created)
	now = now.Add(time.Minute)
	d.FieldPath, d.Value = "Query.users", []byte(`{"field_path":"Query.users","add_value":1.50}`)
	replaced := put(t, store, d)
	want := Record{Draft: d, CreateTime: 1_700_000_000, UpdateTime: 1_700_000_060, CreatedIndex: 1, ModifiedIndex: 2}
	require.Equal(t, want, replaced)
	got, err := store.Get(t.Context(), "shop", "d1")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestMadeIDsSortByCreationAndAvoidGivenOnes(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "decorations.db"))
	put(t, store, testDraft("shop", "00000000000000000002", "Query.a"))
	first := put(t, store, testDraft("shop", "", "Query.b"))
	second := put(t, store, testDraft("shop", "", "Query.c"))
	require.Equal(t, "00000000000000000003", first.ID)
	require.Equal(t, "00000000000000000004", second.ID)
	require.Equal(t, int64(3), first.CreatedIndex)
}

func TestReclaimAndAdoptSpareWhatWasWrittenSince(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "decorations.db"))
	stale := []Record{put(t, store, testDraft("shop", "d1", "Query.a")), put(t, store, testDraft("shop", "d2", "Query.b"))}
	written := put(t, store, testDraft("shop", "d1", "Query.a"))
	require.NoError(t, store.Adopt(t.Context(), stale, "9"))
	records, err := store.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, []string{"", "9"}, []string{records[0].Incarnation, records[1].Incarnation})
	require.Equal(t, stale[1].ModifiedIndex, records[1].ModifiedIndex)
	count, err := store.Reclaim(t.Context(), []Record{stale[0], records[1]})
	require.NoError(t, err)
	require.Equal(t, 1, count)
	records, err = store.All(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Record{written}, records)
}

// follow runs Watch and hands out what it tells.
func follow(t *testing.T, store Store, changed func([]string) error) <-chan []string {
	told := make(chan []string, 100)
	background(t, func(ctx context.Context) error {
		return store.Watch(ctx, func(services []string) error {
			told <- services
			return changed(services)
		})
	})
	return told
}

func receive(t *testing.T, told <-chan []string) []string {
	t.Helper()
	select {
	case services := <-told:
		return services
	case <-time.After(patience):
		require.FailNow(t, "nothing was told")
		return nil
	}
}

// Triggers count what does not come through a store, such as a statement in the sqlite3 shell.
func TestWatchTellsChangesByHandAndNoAdoptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	store, other := openStore(t, path), openStore(t, path)
	put(t, store, testDraft("before", "d1", "Query.a"))
	put(t, store, testDraft("own", "d1", "Query.a"))
	told := follow(t, store, func([]string) error { return nil })
	require.Equal(t, []string{"before", "own"}, receive(t, told))
	_, err := other.db.ExecContext(t.Context(), `UPDATE decoration SET service_id = 'moved' WHERE service_id = 'own'`)
	require.NoError(t, err)
	require.Equal(t, []string{"moved", "own"}, receive(t, told))
	require.NoError(t, other.Adopt(t.Context(), []Record{{Draft: Draft{ServiceID: "before", ID: "d1"}, ModifiedIndex: 1}}, "1"))
	put(t, other, testDraft("last", "d1", "Query.a"))
	require.Equal(t, []string{"last"}, receive(t, told), "an adoption is no change")
}
