package admin

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestASchemaIsKeptAsItWasSent(t *testing.T) {
	store, now := stepping(t)
	_, err := store.GetSchema(t.Context(), "shop")
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorIs(t, store.DeleteSchema(t.Context(), "shop"), ErrNoSchema)

	put(t, store, testDraft("shop", "d1", "Query.a"))
	text := []byte("type Query { a: Int }\x00\xff")
	first, created, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: text, Incarnation: "27"})
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, Schema{ServiceID: "shop", Text: text, Incarnation: "27",
		CreateTime: 1_700_000_000, UpdateTime: 1_700_000_000, CreatedIndex: 2, ModifiedIndex: 2}, first)
	*now = now.Add(time.Minute)
	second, created, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("type Query { b: Int }"), Incarnation: "28"})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, Schema{ServiceID: "shop", Text: []byte("type Query { b: Int }"), Incarnation: "28",
		CreateTime: 1_700_000_000, UpdateTime: 1_700_000_060, CreatedIndex: 2, ModifiedIndex: 3}, second)
	got, err := store.GetSchema(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, second, got)

	_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "blog"})
	require.NoError(t, err)
	list, err := store.Schemas(t.Context())
	require.NoError(t, err)
	second.Text = nil
	require.Equal(t, []Schema{{ServiceID: "blog", CreateTime: 1_700_000_060, UpdateTime: 1_700_000_060, CreatedIndex: 4, ModifiedIndex: 4}, second}, list)
	require.NoError(t, store.DeleteSchema(t.Context(), "shop"))
	_, err = store.GetSchema(t.Context(), "shop")
	require.ErrorIs(t, err, ErrNoSchema)
}

func TestReclaimingAndAdoptingASchemaSparesWhatWasWrittenSince(t *testing.T) {
	store, _ := stepping(t)
	stale, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("1")})
	require.NoError(t, err)
	fresh, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("2")})
	require.NoError(t, err)
	reclaimed, err := store.ReclaimSchema(t.Context(), stale)
	require.NoError(t, err)
	require.False(t, reclaimed)
	require.NoError(t, store.AdoptSchema(t.Context(), stale, "9"))
	got, err := store.GetSchema(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, fresh, got)
	require.NoError(t, store.AdoptSchema(t.Context(), fresh, "9"))
	reclaimed, err = store.ReclaimSchema(t.Context(), fresh)
	require.NoError(t, err)
	require.False(t, reclaimed, "it has been adopted since")
	fresh.Incarnation = "9"
	reclaimed, err = store.ReclaimSchema(t.Context(), fresh)
	require.NoError(t, err)
	require.True(t, reclaimed)
}

func TestWatchTellsChangesOfSchemas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	store, other := openStore(t, path), openStore(t, path)
	told := follow(t, store, func([]string) error { return nil })
	require.Empty(t, receive(t, told))
	_, _, err := other.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("1")})
	require.NoError(t, err)
	require.Equal(t, []string{"shop"}, receive(t, told))
	_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("2")})
	require.NoError(t, err)
	require.Equal(t, []string{"shop"}, receive(t, told))
	upload, err := store.GetSchema(t.Context(), "shop")
	require.NoError(t, err)
	require.NoError(t, other.AdoptSchema(t.Context(), upload, "9"))
	require.NoError(t, other.DeleteSchema(t.Context(), "shop"))
	require.Equal(t, []string{"shop"}, receive(t, told))
}

// version1 copies a file that version 1 of the store wrote.
func version1(t *testing.T, path string) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", "version1.db.gz"))
	require.NoError(t, err)
	defer packed.Close()
	reader, err := gzip.NewReader(packed)
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func TestAFileOfVersion1IsTakenOverInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	version1(t, path)
	for range 2 { // the second time there is nothing to do
		store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop(), PollInterval: testPoll})
		require.NoError(t, err)
		records, err := store.All(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Record{
			{Draft: Draft{ServiceID: "blog", ID: "posts", FieldPath: "Query.posts", Value: []byte(`{"field_path":"Query.posts","add_value":1.50}`)},
				CreateTime: 1_700_000_000, UpdateTime: 1_700_000_000, CreatedIndex: 3, ModifiedIndex: 3},
			{Draft: Draft{ServiceID: "shop", ID: "00000000000000000002", FieldPath: "Product.reviews",
				Value: []byte(`{"field_path":"Product.reviews","mul_arguments":["first"]}`)},
				CreateTime: 1_700_000_000, UpdateTime: 1_700_000_000, CreatedIndex: 2, ModifiedIndex: 2},
			{Draft: Draft{ServiceID: "shop", ID: "products", FieldPath: "Query.products", Incarnation: "27",
				Value: []byte(`{"field_path":"Query.products","mul_arguments":["first"]}`)},
				CreateTime: 1_700_000_000, UpdateTime: 1_700_000_000, CreatedIndex: 1, ModifiedIndex: 1},
		}, records)
		schemas, err := store.Schemas(t.Context())
		require.NoError(t, err)
		require.Empty(t, schemas)
		require.NoError(t, store.Close())
	}
	store := openStore(t, path)
	told := follow(t, store, func([]string) error { return nil })
	require.Equal(t, []string{"blog", "gone", "shop"}, receive(t, told))
	upload, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "new", Text: []byte("type Query { a: Int }")})
	require.NoError(t, err)
	require.Equal(t, int64(5), upload.CreatedIndex, "the revision goes on where version 1 left it")
	require.Equal(t, []string{"new"}, receive(t, told))
}
