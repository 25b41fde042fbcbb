package admin

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// forgotten notes which services were flushed and refreshed.
type forgotten struct {
	mu        sync.Mutex
	flushed   []string
	refreshed []string
}

func (f *forgotten) Flush(serviceID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushed = append(f.flushed, serviceID)
}

func (f *forgotten) Refresh(_ context.Context, services ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refreshed = append(f.refreshed, services...)
	return nil
}

func TestReconcileUploads(t *testing.T) {
	for _, c := range []struct {
		name     string
		uploaded string            // incarnation
		services map[string]string // what APISIX has
		want     *string           // incarnation afterwards; nil: it is gone
		flushed  bool
	}{
		{"the service's own stays", "1", map[string]string{"shop": "1"}, ptr("1"), false},
		{"one of a deleted service goes", "1", nil, nil, true},
		{"one of an earlier service goes", "1", map[string]string{"shop": "2"}, nil, true},
		{"one of nobody's becomes the service's", "", map[string]string{"shop": "2"}, ptr("2"), false},
		{"one of nobody's waits for its service", "", nil, ptr(noService), false},
		{"one that waited in vain goes", noService, map[string]string{"shop": "2"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, _ := stepping(t)
			f := &forgotten{}
			r := NewReclaimer(ReclaimerConfig{Store: store, Models: NewModels(store, zap.NewNop()), Uploads: f, Schemas: f,
				Directory: &directory{services: c.services}, Logger: zap.NewNop()})
			_, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte(shopSDL), Incarnation: c.uploaded})
			require.NoError(t, err)
			require.NoError(t, r.Reconcile(t.Context()))
			upload, err := store.GetSchema(t.Context(), "shop")
			if c.want == nil {
				require.ErrorIs(t, err, ErrNoSchema)
				require.Equal(t, []string{"shop"}, f.refreshed)
			} else {
				require.NoError(t, err)
				require.Equal(t, *c.want, upload.Incarnation)
			}
			require.Equal(t, c.flushed, len(f.flushed) > 0)
		})
	}
}

func ptr(text string) *string { return &text }

// Whether this process or another one reclaimed what an earlier service left does not matter
// for what this process has introspected.
func TestSchemasOfAnEarlierServiceAreForgotten(t *testing.T) {
	store, _ := stepping(t)
	f := &forgotten{}
	d := &directory{services: map[string]string{"shop": "1", "blog": "2"}}
	r := NewReclaimer(ReclaimerConfig{Store: store, Models: NewModels(store, zap.NewNop()), Schemas: f, Directory: d, Logger: zap.NewNop()})
	mine := testDraft("blog", "d1", "Query.a")
	mine.Incarnation = "2"
	put(t, store, mine)
	require.NoError(t, r.Reconcile(t.Context()))
	require.Empty(t, f.flushed)

	d.set(func(d *directory) { d.hidden = "shop" }) // missing from a listing, which is no clear answer
	require.NoError(t, r.Reconcile(t.Context()))
	require.Empty(t, f.flushed)
	d.set(func(d *directory) { d.hidden = ""; d.services["shop"] = "3" })
	require.NoError(t, r.Reconcile(t.Context()))
	require.Equal(t, []string{"shop"}, f.flushed)
	require.NoError(t, r.Reconcile(t.Context()))
	require.Equal(t, []string{"shop"}, f.flushed, "once")
}
