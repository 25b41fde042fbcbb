package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// failingStore is a store whose readings fail while broken is set.
type failingStore struct {
	Store
	broken atomic.Bool
}

func (f *failingStore) List(ctx context.Context, serviceID string) ([]Record, error) {
	if f.broken.Load() {
		return nil, errors.New("the disk is gone")
	}
	return f.Store.List(ctx, serviceID)
}

func newTestModels(t *testing.T) (*Models, *failingStore, *observer.ObservedLogs) {
	t.Helper()
	store := &failingStore{Store: openStore(t, filepath.Join(t.TempDir(), "decorations.db"))}
	core, logs := observer.New(zap.InfoLevel)
	return NewModels(store, zap.New(core)), store, logs
}

func TestOnlyTheServiceThatChangedGetsAnotherModel(t *testing.T) {
	models, store, _ := newTestModels(t)
	put(t, store, testDraft("shop", "d1", "Query.a"))
	put(t, store, testDraft("blog", "d1", "Query.a"))
	require.Nil(t, models.Model("shop"))
	require.NoError(t, models.Load(t.Context()))
	shop, blog := models.Model("shop"), models.Model("blog")
	require.False(t, shop.Empty())
	require.False(t, blog.Empty())
	require.NotSame(t, shop, blog)

	put(t, store, testDraft("shop", "d2", "Query.b"))
	require.NoError(t, models.Refresh(t.Context(), "shop", "blog"))
	require.NotSame(t, shop, models.Model("shop"))
	require.Same(t, blog, models.Model("blog"))

	require.NoError(t, store.Delete(t.Context(), "blog", "d1"))
	require.NoError(t, models.Refresh(t.Context(), "blog"))
	require.Nil(t, models.Model("blog"))
}

func TestAModelStaysWhenTheChangeDoesNotBearOnCost(t *testing.T) {
	models, store, _ := newTestModels(t)
	put(t, store, testDraft("shop", "d1", "Query.a"))
	require.NoError(t, models.Load(t.Context()))
	before := models.Model("shop")
	put(t, store, Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a",
		Value: []byte(`{"field_path":"Query.a","add_value":2.0,"desc":"as dear as before"}`)})
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	require.Same(t, before, models.Model("shop"))
	put(t, store, Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a",
		Value: []byte(`{"field_path":"Query.a","add_value":2,"mul_arguments":[]}`)})
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	require.NotSame(t, before, models.Model("shop"), "an empty list clears, an absent one is inherited")
}

func TestTheLastGoodModelStaysWhileTheStoreFails(t *testing.T) {
	models, store, _ := newTestModels(t)
	put(t, store, testDraft("shop", "d1", "Query.a"))
	background(t, func(ctx context.Context) error { return Follow(ctx, store, models) })
	require.Eventually(t, func() bool { return models.Model("shop") != nil }, patience, testPoll)
	before := models.Model("shop")
	store.broken.Store(true)
	put(t, store, testDraft("shop", "d1", "Query.b"))
	require.ErrorContains(t, models.Refresh(t.Context(), "shop"), "the disk is gone")
	require.Same(t, before, models.Model("shop"))
	store.broken.Store(false)
	require.Eventually(t, func() bool { return models.Model("shop") != before }, patience, testPoll, "it recovers by itself")
}

func TestARecordThatIsNotValidIsLeftOutAndNamedOnce(t *testing.T) {
	for name, value := range map[string]string{
		"no object":        `7`,
		"no JSON":          `{`,
		"a bad weight":     `{"field_path":"Query.b","add_value":-1}`,
		"an infinite one":  `{"field_path":"Query.b","add_value":1e999}`,
		"another path":     `{"field_path":"Query.c"}`,
		"an unknown field": `{"field_path":"Query.b","weight":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			models, store, logs := newTestModels(t)
			put(t, store, testDraft("shop", "d1", "Query.a"))
			require.NoError(t, models.Load(t.Context()))
			before := models.Model("shop")
			put(t, store, Draft{ServiceID: "shop", ID: "d2", FieldPath: "Query.b", Value: []byte(value)})
			require.NoError(t, models.Refresh(t.Context(), "shop"))
			require.NoError(t, models.Refresh(t.Context(), "shop"))
			require.Same(t, before, models.Model("shop"))
			require.Equal(t, 1, logs.FilterMessage("stored decoration is not valid and is left out").Len())
			require.Equal(t, "d2", logs.All()[0].ContextMap()["id"])
		})
	}
}

func TestComplaintsAreBoundedByTheRecordsThatAreThereAndByTime(t *testing.T) {
	models, store, logs := newTestModels(t)
	now := time.Unix(1_700_000_000, 0)
	models.now = func() time.Time { return now }
	version := 0
	write := func() {
		t.Helper()
		version++
		put(t, store, Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a", Value: fmt.Appendf(nil, `{"field_path":"Query.a","weight":%d}`, version)})
		require.NoError(t, models.Refresh(t.Context(), "shop"))
	}
	for range 20 {
		write()
	}
	require.Equal(t, 1, logs.Len())
	now = now.Add(logInterval)
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	require.Equal(t, 2, logs.Len(), "the version that is in force was not told")
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	now = now.Add(logInterval)
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	require.Equal(t, 2, logs.Len())
	write()
	require.Equal(t, 3, logs.Len())
	require.Len(t, models.broken, 1)
	require.NoError(t, store.Delete(t.Context(), "shop", "d1"))
	require.NoError(t, models.Refresh(t.Context(), "shop"))
	require.Empty(t, models.broken)
}
