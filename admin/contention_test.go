package admin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"graphql-limit-count/cost"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const (
	contenders     = 2
	contenderCalls = 500
	sharedPaths    = 50
)

// acknowledged is a write that its writer was told had been done.
type acknowledged struct {
	id       string
	revision int64 // 0: a deletion
	previous int64 // the revision of the record that a patch was made of; 0: not a patch
}

// contender makes the calls of one writer: puts, patches and deletions of decorations that it
// has for itself and of such that it shares, all over the same paths.
type contender struct {
	store  Store
	name   string
	random *rand.Rand
	done   []acknowledged
	errors []error // that no store gives while it is there
}

func (c *contender) call(ctx context.Context, n int) {
	path := c.random.IntN(sharedPaths)
	id := fmt.Sprintf("%s-%d", c.name, path)
	if c.random.IntN(2) == 0 {
		id = fmt.Sprintf("both-%d", path)
	}
	draft := Draft{ServiceID: "shop", ID: id, FieldPath: fmt.Sprintf("Query.f%d", path),
		Value: fmt.Appendf(nil, `{"field_path":"Query.f%d","add_value":%d,"desc":%q}`, path, n, c.name)}
	ack := acknowledged{id: id}
	var record Record
	var err error
	switch c.random.IntN(5) {
	case 0:
		err = c.store.Delete(ctx, "shop", id)
	case 1, 2:
		record, _, err = c.store.Put(ctx, draft)
	default:
		record, err = c.store.Patch(ctx, "shop", id, func(old Record) (Draft, error) {
			ack.previous = old.ModifiedIndex
			return draft, nil
		})
	}
	var taken *TakenError
	switch {
	case err == nil:
		ack.revision = record.ModifiedIndex
		c.done = append(c.done, ack)
	case errors.As(err, &taken), errors.Is(err, ErrNotFound), errors.Is(err, errBusy), errors.Is(err, errContended):
		// Nothing was written, and its writer was told so.
	default:
		c.errors = append(c.errors, err)
	}
}

func TestTwoWritersLoseNoUpdateAndDecorateNoPathTwice(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		observer := open(t)
		models := NewModels(observer, zap.NewNop())
		background(t, func(ctx context.Context) error { return Follow(ctx, observer, models) })
		var group sync.WaitGroup
		var writers []*contender
		for i := range contenders {
			w := &contender{store: open(t), name: fmt.Sprintf("w%d", i), random: rand.New(rand.NewPCG(1, uint64(i)))}
			writers = append(writers, w)
			group.Go(func() {
				for n := range contenderCalls {
					w.call(context.Background(), n)
				}
			})
		}
		finished := make(chan struct{})
		go func() { group.Wait(); close(finished) }()
		watchPaths(t, observer, finished)
		var done []acknowledged
		for _, w := range writers {
			require.Empty(t, w.errors)
			done = append(done, w.done...)
		}
		requireNothingLost(t, observer, done)
		require.Eventually(t, func() bool { return sameAsStored(t, models, observer) }, patience, testPoll)
	})
}

// watchPaths reads the decorations until the writers have finished.
func watchPaths(t *testing.T, store Store, finished <-chan struct{}) {
	t.Helper()
	for {
		records, err := store.List(t.Context(), "shop")
		require.NoError(t, err)
		holders := map[string]string{}
		for _, r := range records {
			require.Empty(t, holders[r.FieldPath], "%s is decorated by %s as well", r.FieldPath, r.ID)
			holders[r.FieldPath] = r.ID
		}
		select {
		case <-finished:
			return
		case <-time.After(testPoll):
		}
	}
}

// requireNothingLost checks that what was acknowledged last is what is stored, and that no
// patch was made of a record that another write had replaced.
func requireNothingLost(t *testing.T, store Store, done []acknowledged) {
	t.Helper()
	last, deleted, patches := map[string]int64{}, map[string]bool{}, 0
	for _, a := range done {
		last[a.id] = max(last[a.id], a.revision)
		deleted[a.id] = deleted[a.id] || a.revision == 0
		if a.previous == 0 {
			continue
		}
		patches++
		require.False(t, slices.ContainsFunc(done, func(other acknowledged) bool {
			return other.id == a.id && other.revision > a.previous && other.revision < a.revision
		}), "a write of %s was undone by the patch of revision %d", a.id, a.revision)
	}
	require.Greater(t, patches, contenderCalls/10, "there was something to lose")
	records, err := store.List(t.Context(), "shop")
	require.NoError(t, err)
	for _, r := range records {
		require.Equal(t, last[r.ID], r.ModifiedIndex, r.ID)
		delete(last, r.ID)
	}
	for id := range last {
		require.True(t, deleted[id], "%s was written and never deleted", id)
	}
}

// sameAsStored tells whether a service's model was made of what is stored.
func sameAsStored(t *testing.T, models *Models, store Store) bool {
	t.Helper()
	records, err := store.List(t.Context(), "shop")
	require.NoError(t, err)
	var want []cost.Decoration
	for _, r := range records {
		decoration, err := costDecoration(r)
		require.NoError(t, err)
		want = append(want, decoration)
	}
	models.mu.Lock()
	defer models.mu.Unlock()
	return reflect.DeepEqual(want, models.sources["shop"])
}
