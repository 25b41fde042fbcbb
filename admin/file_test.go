package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const fileDocument = `services:
  shop:
    decorations:
      - field_path: Query.products
        mul_arguments: [first]
      - id: reviews
        field_path: Product.reviews
        add_value: 2
    schema_file: shop.graphql
  blog:
    decorations: [{field_path: Post}]
`

const fileSchema = "type Query { products(first: Int): [Product] } type Product { reviews: [String] }"

// fileFixture is a folder with a document and a schema.
type fileFixture struct {
	t      *testing.T
	folder string
	logs   *observer.ObservedLogs
	logger *zap.Logger
}

func newFileFixture(t *testing.T) *fileFixture {
	core, logs := observer.New(zap.DebugLevel)
	f := &fileFixture{t: t, folder: t.TempDir(), logs: logs, logger: zap.New(core)}
	f.write("decorations.yaml", fileDocument)
	f.write("shop.graphql", fileSchema)
	return f
}

func (f *fileFixture) path(name string) string { return filepath.Join(f.folder, name) }

// write replaces a file in one step, as tools that deploy files do.
func (f *fileFixture) write(name, text string) {
	f.t.Helper()
	temporary := f.path(name + ".new")
	require.NoError(f.t, os.WriteFile(temporary, []byte(text), 0o600))
	require.NoError(f.t, os.Rename(temporary, f.path(name)))
}

// append writes in place, as editors and shells do.
func (f *fileFixture) append(name, text string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(f.t, err)
	_, err = file.WriteString(text)
	require.NoError(f.t, errors.Join(err, file.Close()))
}

func (f *fileFixture) open() *File {
	f.t.Helper()
	store, err := OpenFile(f.t.Context(), f.path("decorations.yaml"), FileConfig{PollInterval: testPoll, Logger: f.logger})
	require.NoError(f.t, err)
	return store
}

// watched collects what Watch tells.
type watched struct {
	mu    sync.Mutex
	calls [][]string
	fail  bool
}

func (w *watched) changed(services []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail {
		return errors.New("not now")
	}
	w.calls = append(w.calls, services)
	return nil
}

func (w *watched) told() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (f *fileFixture) watch(store *File) *watched {
	w := &watched{}
	background(f.t, func(ctx context.Context) error { return store.Watch(ctx, w.changed) })
	f.eventually(func() bool { return len(w.told()) == 1 }, "the first call")
	return w
}

func (f *fileFixture) eventually(condition func() bool, what string) {
	f.t.Helper()
	require.Eventually(f.t, condition, patience, testPoll, what)
}

func paths(t *testing.T, store Store, service string) []string {
	t.Helper()
	records, err := store.List(t.Context(), service)
	require.NoError(t, err)
	found := []string{}
	for _, r := range records {
		found = append(found, r.FieldPath)
	}
	return found
}

func TestFileStoreReadsWhatTheFileSays(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	records, err := store.All(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Record{
		{Draft: Draft{ServiceID: "blog", ID: "Post", FieldPath: "Post", Value: json.RawMessage(`{"field_path":"Post"}`)},
			CreatedIndex: 1, ModifiedIndex: 1},
		{Draft: Draft{ServiceID: "shop", ID: "Query.products", FieldPath: "Query.products",
			Value: json.RawMessage(`{"field_path":"Query.products","mul_arguments":["first"]}`)}, CreatedIndex: 1, ModifiedIndex: 1},
		{Draft: Draft{ServiceID: "shop", ID: "reviews", FieldPath: "Product.reviews",
			Value: json.RawMessage(`{"field_path":"Product.reviews","add_value":2}`)}, CreatedIndex: 1, ModifiedIndex: 1},
	}, records)
	got, err := store.Get(t.Context(), "shop", "reviews")
	require.NoError(t, err)
	require.Equal(t, records[2], got)
	for _, id := range []string{"", "review", "reviewsx"} {
		_, err = store.Get(t.Context(), "shop", id)
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.Empty(t, paths(t, store, "nothing"))
	schema, err := store.GetSchema(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, Schema{ServiceID: "shop", Text: []byte(fileSchema), CreatedIndex: 1, ModifiedIndex: 1}, schema)
	_, err = store.GetSchema(t.Context(), "blog")
	require.ErrorIs(t, err, ErrNoSchema)
	schemas, err := store.Schemas(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Schema{{ServiceID: "shop", CreatedIndex: 1, ModifiedIndex: 1}}, schemas)
}

func TestFileStoreReadsWhatPullPrints(t *testing.T) {
	f := newFileFixture(t)
	f.write("decorations.yaml", "service_id: shop\ndecorations:\n  - field_path: Query.products\n    id: \"00000000000000000042\"\n")
	require.Equal(t, []string{"Query.products"}, paths(t, f.open(), "shop"))
}

func TestFileStoreMakesIDsOfPaths(t *testing.T) {
	f := newFileFixture(t)
	long := "Query." + strings.Repeat("a", 64)
	f.write("decorations.yaml", "service_id: shop\ndecorations: [{field_path: "+long+"}, {field_path: A, id: B}, {field_path: B}]")
	records, err := f.open().List(t.Context(), "shop")
	require.NoError(t, err)
	ids := map[string]string{}
	for _, r := range records {
		ids[r.FieldPath] = r.ID
	}
	require.Equal(t, map[string]string{long: "p9bef1ddf8889d2ef98e8", "A": "B", "B": "pdf7e70e5021544f4834b"}, ids)
}

func TestFileStoreDoesNotStartWithoutAGoodFile(t *testing.T) {
	for _, c := range []struct{ rule, document, want string }{
		{"no file", "", "no such file or directory"},
		{"a folder", "folder", "it is no regular file"},
		{"a typing error", strings.Replace(fileDocument, "mul_arguments", "mul_argument", 1),
			`read decorations: service shop: line 5: decoration of "Query.products": additional properties forbidden, found mul_argument`},
		{"nobody's decorations", "decorations: []\n", "read decorations: line 1: neither services nor service_id says whose the decorations are"},
		{"a missing schema", strings.Replace(fileDocument, "shop.graphql", "shp.graphql", 1), "line 2: schema_file of service shop: read FOLDER/shp.graphql: no such file or directory"},
		{"a schema that is none", strings.Replace(fileDocument, "shop.graphql", "decorations.yaml", 1),
			`line 2: schema_file decorations.yaml of service shop: parse schema: line 1: expected a type definition, found "services"`},
		{"a schema without a query root", strings.Replace(fileDocument, "shop.graphql", "rootless.graphql", 1),
			"line 2: schema_file rootless.graphql of service shop: the query root type Query is not declared"},
		{"more than is read", fileDocument + strings.Repeat("#", 2<<20), "it has more than 2097152 bytes"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			f := newFileFixture(t)
			f.write("rootless.graphql", "type X { a: Int }")
			switch c.document {
			case "":
				require.NoError(t, os.Remove(f.path("decorations.yaml")))
			case "folder":
				require.NoError(t, os.Remove(f.path("decorations.yaml")))
				require.NoError(t, os.Mkdir(f.path("decorations.yaml"), 0o700))
			default:
				f.write("decorations.yaml", c.document)
			}
			_, err := OpenFile(t.Context(), f.path("decorations.yaml"), FileConfig{Logger: zap.NewNop()})
			require.ErrorContains(t, err, strings.ReplaceAll(c.want, "FOLDER", f.folder))
			require.ErrorContains(t, err, "open the decorations in "+f.path("decorations.yaml"))
		})
	}
}

func TestFileStoreFollowsChanges(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	w := f.watch(store)
	require.Equal(t, [][]string{{"blog", "shop"}}, w.told())

	f.write("decorations.yaml", strings.Replace(fileDocument, "add_value: 2", "add_value: 3", 1))
	f.eventually(func() bool { return len(w.told()) == 2 }, "a changed decoration")
	require.Equal(t, []string{"shop"}, w.told()[1])
	records, err := store.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, [][2]int64{{1, 1}, {1, 2}}, [][2]int64{
		{records[0].CreatedIndex, records[0].ModifiedIndex}, {records[1].CreatedIndex, records[1].ModifiedIndex}})

	f.write("shop.graphql", fileSchema+" # changed")
	f.eventually(func() bool { return len(w.told()) == 3 }, "a changed schema")
	require.Equal(t, []string{"shop"}, w.told()[2])
	schema, err := store.GetSchema(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 3}, [2]int64{schema.CreatedIndex, schema.ModifiedIndex})

	f.write("decorations.yaml", "services: {shop: {decorations: []}}")
	f.eventually(func() bool { return len(w.told()) == 4 }, "a service that is gone")
	require.Equal(t, []string{"blog", "shop"}, w.told()[3])
	require.Empty(t, paths(t, store, "blog"))
	_, err = store.GetSchema(t.Context(), "shop")
	require.ErrorIs(t, err, ErrNoSchema)
	require.Equal(t, 1, f.logs.Len(), "all is well but for decorations that are gone")
	entry := f.logs.All()[0]
	require.Equal(t, zap.WarnLevel, entry.Level)
	require.Equal(t, map[string]any{"file": f.path("decorations.yaml"), "services": int64(2),
		"service_ids": []any{"blog", "shop"}}, entry.ContextMap())
}

// A half of a document may read well, and cost less than the whole.
func TestFileStoreWaitsForAFileThatIsBeingWritten(t *testing.T) {
	const half, rest = "service_id: shop\ndecorations:\n  - field_path: A\n", "  - field_path: B\n"
	now := time.Now()
	for _, c := range []struct {
		rule  string
		write func(f *fileFixture) // between two looks
		want  []string
	}{
		{"left alone", func(*fileFixture) {}, []string{"A"}},
		{"written to", func(f *fileFixture) { f.append("decorations.yaml", rest) }, []string{"Query.products", "Product.reviews"}},
		{"written again as it was", func(f *fileFixture) {
			require.NoError(f.t, os.Chtimes(f.path("decorations.yaml"), now, now.Add(time.Second)))
		}, []string{"Query.products", "Product.reviews"}},
		{"replaced by a copy", func(f *fileFixture) { f.write("decorations.yaml", half) }, []string{"Query.products", "Product.reviews"}},
		{"gone", func(f *fileFixture) { require.NoError(f.t, os.Remove(f.path("decorations.yaml"))) }, []string{"Query.products", "Product.reviews"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			f := newFileFixture(t)
			store := f.open()
			require.NoError(t, os.WriteFile(f.path("decorations.yaml"), []byte(half), 0o600))
			store.wait = func(_ context.Context, length time.Duration) bool {
				c.write(f)
				require.LessOrEqual(t, length, settleAge)
				return true
			}
			store.reload(t.Context())
			require.Equal(t, c.want, paths(t, store, "shop"))
			c.write = func(*fileFixture) {} // it rests from here on
			store.reload(t.Context())
			if c.rule == "written to" {
				require.Equal(t, []string{"A", "B"}, paths(t, store, "shop"))
			}
		})
	}
}

func TestAFileIsUnsettledUntilItIsOldEnough(t *testing.T) {
	f := newFileFixture(t)
	f.write("decorations.yaml", "service_id: shop\ndecorations: [{field_path: A}]")
	written := time.Unix(1_700_000_000, 0)
	require.NoError(t, os.Chtimes(f.path("decorations.yaml"), written, written))
	reading := readFiles(f.path("decorations.yaml"), nil)
	for age, want := range map[time.Duration]time.Duration{
		0: 300 * time.Millisecond, 100 * time.Millisecond: 200 * time.Millisecond, 300 * time.Millisecond: 0, time.Hour: 0,
		-time.Hour: 300 * time.Millisecond,
	} {
		reading.at = written.Add(age)
		require.Equal(t, want, reading.unsettled(), age.String())
	}
}

func TestFileStoreDoesNotWaitForAPipe(t *testing.T) {
	f := newFileFixture(t)
	require.NoError(t, os.Remove(f.path("decorations.yaml")))
	require.NoError(t, syscall.Mkfifo(f.path("decorations.yaml"), 0o600))
	_, err := OpenFile(t.Context(), f.path("decorations.yaml"), FileConfig{Logger: zap.NewNop()})
	require.ErrorContains(t, err, "it is no regular file")
}

func TestFileStoreFollowsLinksAndWritesInPlace(t *testing.T) {
	f := newFileFixture(t)
	// A ConfigMap: decorations.yaml -> ..data/decorations.yaml, ..data -> a folder that is replaced.
	for folder, document := range map[string]string{"one": "service_id: shop\ndecorations: [{field_path: A}]", "two": "service_id: shop\ndecorations: [{field_path: B}]"} {
		require.NoError(t, os.Mkdir(f.path(folder), 0o700))
		f.write(folder+"/decorations.yaml", document)
	}
	require.NoError(t, os.Symlink("one", f.path("..data")))
	require.NoError(t, os.Remove(f.path("decorations.yaml")))
	require.NoError(t, os.Symlink("..data/decorations.yaml", f.path("decorations.yaml")))
	store := f.open()
	f.watch(store)
	require.Equal(t, []string{"A"}, paths(t, store, "shop"))
	require.NoError(t, os.Symlink("two", f.path("..data.new")))
	require.NoError(t, os.Rename(f.path("..data.new"), f.path("..data")))
	f.eventually(func() bool { return slices.Equal(paths(t, store, "shop"), []string{"B"}) }, "the other folder")
	// Of the same size, in the same file.
	require.NoError(t, os.WriteFile(f.path("two/decorations.yaml"), []byte("service_id: shop\ndecorations: [{field_path: C}]"), 0o600))
	f.eventually(func() bool { return slices.Equal(paths(t, store, "shop"), []string{"C"}) }, "another content in place")
}

func TestFileStoreKeepsTheLastGoodContent(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	w := f.watch(store)
	complaints := func(n int) {
		t.Helper()
		f.eventually(func() bool { return f.logs.Len() >= n }, "a complaint")
		for range 5 { // further looks do not repeat it
			store.reload(t.Context())
		}
		require.Equal(t, n, f.logs.Len())
		require.Equal(t, []string{"Query.products", "Product.reviews"}, paths(t, store, "shop"))
	}
	f.write("decorations.yaml", "services: {shop: {decorations: [{}]}}")
	complaints(1)
	f.write("decorations.yaml", "services: {shop: {decorations: [{field_path: 1}]}}")
	complaints(2)
	require.NoError(t, os.Remove(f.path("decorations.yaml")))
	complaints(3)
	f.write("decorations.yaml", "")
	complaints(4)
	f.write("decorations.yaml", fileDocument)
	require.NoError(t, os.Remove(f.path("shop.graphql")))
	complaints(5)
	f.write("shop.graphql", "type {")
	complaints(6)
	entry := f.logs.All()[5]
	require.Equal(t, zap.ErrorLevel, entry.Level)
	require.Equal(t, map[string]any{"file": f.path("decorations.yaml"),
		"error": `line 2: schema_file shop.graphql of service shop: parse schema: line 1: expected a name, found "{"`}, entry.ContextMap())
	require.Len(t, w.told(), 1, "nothing changed in force")

	f.write("shop.graphql", fileSchema)
	f.write("decorations.yaml", strings.Replace(fileDocument, "Post", "Article", 1))
	f.eventually(func() bool { return len(w.told()) == 2 }, "a good content again")
	require.Equal(t, []string{"blog"}, w.told()[1])
}

func TestFileStoreTellsAgainWhatWasNotTaken(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	w := f.watch(store)
	w.mu.Lock()
	w.fail = true
	w.mu.Unlock()
	f.write("decorations.yaml", strings.Replace(fileDocument, "Post", "Article", 1))
	f.eventually(func() bool { return slices.Equal(paths(t, store, "blog"), []string{"Article"}) }, "the change")
	f.write("decorations.yaml", strings.Replace(fileDocument, "Query.products", "Query.goods", 1))
	f.eventually(func() bool { return slices.Contains(paths(t, store, "shop"), "Query.goods") }, "the next change")
	w.mu.Lock()
	w.fail = false
	w.mu.Unlock()
	f.eventually(func() bool { return len(w.told()) == 2 }, "another call")
	require.Equal(t, []string{"blog", "shop"}, w.told()[1])
}

func TestFileStoreTakesNoWrites(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	ctx := t.Context()
	records, err := store.All(ctx)
	require.NoError(t, err)
	_, _, put := store.Put(ctx, records[0].Draft)
	_, patch := store.Patch(ctx, "shop", "reviews", nil)
	_, replace := store.Replace(ctx, "shop", func(current []Record) ([]Draft, error) { return nil, nil })
	_, reclaim := store.Reclaim(ctx, records)
	_, _, putSchema := store.PutSchema(ctx, Schema{ServiceID: "shop"})
	_, reclaimSchema := store.ReclaimSchema(ctx, Schema{ServiceID: "shop"})
	for _, err := range []error{put, patch, replace, reclaim, putSchema, reclaimSchema, store.Delete(ctx, "shop", "reviews"),
		store.Adopt(ctx, records, "1"), store.DeleteSchema(ctx, "shop"), store.AdoptSchema(ctx, Schema{}, "1")} {
		require.ErrorIs(t, err, ErrReadOnly)
	}
	require.NoError(t, store.Adopt(ctx, nil, "1"))
	after, err := store.All(ctx)
	require.NoError(t, err)
	require.Equal(t, records, after)
	dry := errors.New("a dry run")
	_, err = store.Replace(ctx, "shop", func(current []Record) ([]Draft, error) {
		require.Equal(t, records[1:], current)
		return nil, dry
	})
	require.Equal(t, dry, err)
}

// The endpoint shows what is in the file, and says where to change it.
func TestEndpointServesAFile(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	models := NewModels(store, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	require.NotNil(t, models.Model("shop"))
	handler, err := NewHandler(Config{Store: store, Models: models, Keys: keysOf(t, testAdminKey, testViewerKey), Logger: zap.NewNop()})
	require.NoError(t, err)
	e := &endpoint{t: t, url: serve(t, handler)}
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop", "reviews"), nil).status)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, decorationsPath("shop", "reviews"), `{"field_path":"Product.reviews"}`},
		{http.MethodPost, decorationsPath("shop"), `{"field_path":"Product.name"}`},
		{http.MethodPatch, decorationsPath("shop", "reviews"), `{"add_value":9}`},
		{http.MethodDelete, decorationsPath("shop", "reviews"), ""},
	} {
		r := e.do(c.method, c.path, c.body)
		require.Equal(t, http.StatusForbidden, r.status, c.method+" "+r.text)
		require.Equal(t, "the decorations are read from a file, which is the place to change them", r.member("error_msg"))
	}
	for method, body := range map[string]string{http.MethodPut: "type Query { a: Int }", http.MethodDelete: ""} {
		r := e.do(method, schemaPath("shop"), body)
		require.Equal(t, http.StatusForbidden, r.status, method+" "+r.text)
		require.Equal(t, "schemas are read from the files that schema_file names, which are the place to change them", r.member("error_msg"))
	}
}
