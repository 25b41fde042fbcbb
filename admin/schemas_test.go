package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
)

var _ SchemaSink = (*introspect.Source)(nil)

// uploadSink is one that remembers what it was given, and how often.
type uploadSink struct {
	mu      sync.Mutex
	schemas map[string]*cost.Schema
	times   int
}

func (g *uploadSink) Give(serviceID string, schema *cost.Schema) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schemas == nil {
		g.schemas = map[string]*cost.Schema{}
	}
	g.schemas[serviceID] = schema
	g.times++
}

func (g *uploadSink) of(serviceID string) *cost.Schema {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.schemas[serviceID]
}

func (g *uploadSink) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.times
}

func putUpload(t *testing.T, store Store, serviceID, text string) {
	t.Helper()
	_, _, err := store.PutSchema(t.Context(), Schema{ServiceID: serviceID, Text: []byte(text)})
	require.NoError(t, err)
}

func TestUploadedSchemasAreHandedOn(t *testing.T) {
	store := openStore(t, t.TempDir()+"/decorations.db")
	putUpload(t, store, "shop", "type Query { a: Int }")
	putUpload(t, store, "blog", `{"data":{"__schema":{"types":[{"name":"Post"}]}}}`)
	to := &uploadSink{}
	schemas := NewSchemas(store, to, zap.NewNop())
	require.NoError(t, schemas.Load(t.Context()))
	first := to.of("shop")
	require.True(t, first.HasType("Query"))
	require.True(t, to.of("blog").HasType("Post"), "introspection JSON as well")

	require.NoError(t, schemas.Refresh(t.Context()))
	require.NoError(t, schemas.Refresh(t.Context(), "shop", "blog", "other"))
	put(t, store, testDraft("shop", "d1", "Query.a"))
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	putUpload(t, store, "shop", `"a query" type Query { a: Int! }`)
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	require.Equal(t, 2, to.count(), "what bears on no cost replaces nothing")
	require.Same(t, first, to.of("shop"))

	putUpload(t, store, "shop", "type Query { b: Int }")
	require.NoError(t, schemas.Refresh(t.Context(), "blog"))
	require.Same(t, first, to.of("shop"), "another service was refreshed")
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	_, ok := to.of("shop").FieldType("Query", "b")
	require.True(t, ok)

	require.NoError(t, store.DeleteSchema(t.Context(), "shop"))
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	require.Nil(t, to.of("shop"))
	require.NotNil(t, to.of("blog"))
	putUpload(t, store, "shop", "type Query { b: Int }")
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	require.NotNil(t, to.of("shop"), "uploaded again")
}

func TestAnUnusableUploadLeavesTheLastGoodOneInForce(t *testing.T) {
	store := openStore(t, t.TempDir()+"/decorations.db")
	core, logs := observer.New(zap.ErrorLevel)
	to := &uploadSink{}
	schemas := NewSchemas(store, to, zap.New(core))
	putUpload(t, store, "shop", "type Query { a: Int }")
	putUpload(t, store, "blog", "type {")
	require.NoError(t, schemas.Load(t.Context()))
	good := to.of("shop")
	require.Nil(t, to.of("blog"))
	require.Equal(t, 1, logs.Len())

	putUpload(t, store, "shop", "type {")
	for range 3 {
		require.NoError(t, schemas.Refresh(t.Context(), "shop", "blog"))
	}
	require.Same(t, good, to.of("shop"))
	require.Equal(t, 2, logs.Len(), "each is logged once")
	require.Equal(t, map[string]any{"service_id": "shop", "error": `parse schema: line 1: expected a name, found "{"`},
		logs.All()[1].ContextMap())

	require.NoError(t, store.DeleteSchema(t.Context(), "blog"))
	require.NoError(t, schemas.Refresh(t.Context(), "blog"))
	require.Equal(t, 1, to.count(), "nothing was given, so that nothing is taken away")
}

// failingUploads fails where it is told to.
type failingUploads struct {
	Store
	list, get error
}

func (f *failingUploads) Schemas(ctx context.Context) ([]Schema, error) {
	if f.list != nil {
		return nil, f.list
	}
	return f.Store.Schemas(ctx)
}

func (f *failingUploads) GetSchema(ctx context.Context, serviceID string) (Schema, error) {
	if f.get != nil {
		return Schema{}, f.get
	}
	return f.Store.GetSchema(ctx, serviceID)
}

func TestSchemasStayWhileTheStoreFails(t *testing.T) {
	store := &failingUploads{Store: openStore(t, t.TempDir()+"/decorations.db")}
	to := &uploadSink{}
	schemas := NewSchemas(store, to, zap.NewNop())
	putUpload(t, store, "shop", "type Query { a: Int }")
	require.NoError(t, schemas.Load(t.Context()))
	good := to.of("shop")
	putUpload(t, store, "shop", "type Query { b: Int }")

	store.list = errors.New("disk on fire")
	require.EqualError(t, schemas.Refresh(t.Context(), "shop"), "refresh uploaded schemas: disk on fire")
	require.EqualError(t, schemas.Load(t.Context()), "load uploaded schemas: disk on fire")
	store.list, store.get = nil, errors.New("disk on fire")
	require.EqualError(t, schemas.Refresh(t.Context(), "shop"), "refresh uploaded schemas: disk on fire")
	require.Same(t, good, to.of("shop"))

	store.get = fmt.Errorf("get it: %w", ErrNoSchema)
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	require.Nil(t, to.of("shop"), "deleted between the listing and the reading")
	store.get = nil
	require.NoError(t, schemas.Refresh(t.Context(), "shop"))
	_, ok := to.of("shop").FieldType("Query", "b")
	require.True(t, ok)
}

// TestAnUploadIsInForceSoon: of another process, which shares the store.
func TestAnUploadIsInForceSoon(t *testing.T) {
	path := t.TempDir() + "/decorations.db"
	store, other := openStore(t, path), openStore(t, path)
	source := introspect.New(introspect.Config{Logger: zap.NewNop()})
	t.Cleanup(source.Close)
	schemas := NewSchemas(store, source, zap.NewNop())
	require.NoError(t, schemas.Load(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, store, schemas) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	putUpload(t, other, "shop", "type Query { a: Int }")
	known := func() bool { return source.Known("shop") != nil }
	require.Eventually(t, known, patience, time.Millisecond)
	require.NoError(t, other.DeleteSchema(t.Context(), "shop"))
	require.Eventually(t, func() bool { return !known() }, patience, time.Millisecond)
}
