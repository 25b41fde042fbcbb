package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// handles opens another handle on the same content each time, as another process has it.
type handles func(t *testing.T) Store

// onEachStore runs a test on every store that can be written, with content of its own.
func onEachStore(t *testing.T, test func(t *testing.T, open handles)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "decorations.db")
		test(t, func(t *testing.T) Store { return openStore(t, path) })
	})
	t.Run("etcd", func(t *testing.T) {
		server := servers.RunEtcd(t)
		test(t, func(t *testing.T) Store { return openEtcd(t, server, etcd.DefaultPrefix) })
	})
}

func etcdClient(t *testing.T, server *servers.Etcd, prefix string) *etcd.Client {
	t.Helper()
	client, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint()}, Prefix: prefix, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func openEtcd(t *testing.T, server *servers.Etcd, prefix string) *Etcd {
	t.Helper()
	return NewEtcd(EtcdConfig{Client: etcdClient(t, server, prefix), Logger: zap.NewNop()})
}

func TestARecordIsStoredWhole(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		d := testDraft("shop", "d1", "Query.products")
		created, isNew, err := store.Put(t.Context(), d)
		require.NoError(t, err)
		require.True(t, isNew)
		require.JSONEq(t, string(d.Value), string(created.Value))
		require.Equal(t, []string{"shop", "d1", "Query.products"}, []string{created.ServiceID, created.ID, created.FieldPath})
		require.Equal(t, created.CreatedIndex, created.ModifiedIndex)
		require.InDelta(t, time.Now().Unix(), created.CreateTime, patience.Seconds())
		d.FieldPath, d.Value = "Query.users", []byte(`{"field_path":"Query.users","add_value":1.50,"labels":{"a":"<b>"}}`)
		replaced, isNew, err := store.Put(t.Context(), d)
		require.NoError(t, err)
		require.False(t, isNew)
		require.Equal(t, created.CreatedIndex, replaced.CreatedIndex)
		require.Equal(t, created.CreateTime, replaced.CreateTime)
		require.Greater(t, replaced.ModifiedIndex, created.ModifiedIndex)
		for _, reader := range []Store{store, open(t)} {
			got, err := reader.Get(t.Context(), "shop", "d1")
			require.NoError(t, err)
			require.Contains(t, string(got.Value), "1.50", "numbers are kept as they were sent")
			require.JSONEq(t, string(d.Value), string(got.Value))
			got.Value = replaced.Value
			require.Equal(t, replaced, got)
		}
	})
}

func TestWhatIsNotStoredIsNotFound(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		for _, id := range []string{"d1", "a/b"} {
			_, err := store.Get(t.Context(), "shop", id)
			require.ErrorIs(t, err, ErrNotFound)
			require.ErrorIs(t, store.Delete(t.Context(), "shop", id), ErrNotFound)
			_, err = store.Patch(t.Context(), "shop", id, func(Record) (Draft, error) { panic("no record to change") })
			require.ErrorIs(t, err, ErrNotFound)
		}
		for _, service := range []string{"shop", "a/b", ""} {
			records, err := store.List(t.Context(), service)
			require.NoError(t, err)
			require.Empty(t, records)
			_, err = store.GetSchema(t.Context(), service)
			require.ErrorIs(t, err, ErrNoSchema)
			require.ErrorIs(t, store.DeleteSchema(t.Context(), service), ErrNoSchema)
		}
	})
}

func TestAFieldPathIsDecoratedOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store, other := open(t), open(t)
		put(t, store, testDraft("shop", "d1", "Query.a"))
		put(t, store, testDraft("other", "d1", "Query.a"))
		_, _, err := other.Put(t.Context(), testDraft("shop", "d2", "Query.a"))
		var taken *TakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, &TakenError{FieldPath: "Query.a", Holder: "d1"}, taken)
		put(t, other, testDraft("shop", "d2", "Query.b"))
		_, err = store.Patch(t.Context(), "shop", "d2", func(Record) (Draft, error) { return testDraft("shop", "d2", "Query.a"), nil })
		require.ErrorAs(t, err, &taken)
		require.NoError(t, other.Delete(t.Context(), "shop", "d1"))
		put(t, store, testDraft("shop", "d2", "Query.a"))
	})
}

func TestRecordsAreOrderedByServiceAndID(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		for _, name := range []string{"b", "a.b", "a-b", "a"} { // "/" sorts between "." and "0"
			put(t, store, testDraft(name, "2", "Query.a"))
			put(t, store, testDraft(name, "10", "Query.b"))
		}
		for range 2 { // the second time from memory, where there is one
			records, err := store.All(t.Context())
			require.NoError(t, err)
			var got []string
			for _, r := range records {
				got = append(got, r.ServiceID+" "+r.ID)
			}
			require.Equal(t, []string{"a 10", "a 2", "a-b 10", "a-b 2", "a.b 10", "a.b 2", "b 10", "b 2"}, got)
		}
		records, err := store.List(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, []string{"10", "2"}, []string{records[0].ID, records[1].ID})
		require.Len(t, records, 2)
	})
}

func TestGeneratedIDsHaveTwentyDigitsAndSortByCreation(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		first := put(t, store, testDraft("shop", "", "Query.b"))
		second := put(t, store, testDraft("shop", "", "Query.c"))
		require.Regexp(t, `^[0-9]{20}$`, first.ID)
		require.Regexp(t, `^[0-9]{20}$`, second.ID)
		require.Less(t, first.ID, second.ID)
	})
}

func TestPatchesOfTwoHandlesLoseNothing(t *testing.T) {
	const writers, each = 4, 10
	onEachStore(t, func(t *testing.T, open handles) {
		stores := []Store{open(t), open(t)}
		put(t, stores[0], Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a", Value: []byte(`{"field_path":"Query.a","add_value":0}`)})
		var group sync.WaitGroup
		failures := make(chan error, writers*each)
		for w := range writers {
			group.Go(func() {
				for range each {
					_, err := stores[w%2].Patch(context.Background(), "shop", "d1", increment)
					failures <- err
				}
			})
		}
		group.Wait()
		close(failures)
		for err := range failures {
			require.NoError(t, err)
		}
		record, err := stores[0].Get(t.Context(), "shop", "d1")
		require.NoError(t, err)
		require.JSONEq(t, `{"field_path":"Query.a","add_value":40}`, string(record.Value))
	})
}

// increment adds one to a record's add_value.
func increment(old Record) (Draft, error) {
	decoration, err := costDecoration(old)
	if err != nil {
		return Draft{}, err
	}
	old.Value = fmt.Appendf(nil, `{"field_path":%q,"add_value":%v}`, old.FieldPath, *decoration.AddValue+1)
	return old.Draft, nil
}

func TestARefusedChangeIsReturnedAsItIsAndWritesNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		before := put(t, store, testDraft("shop", "d1", "Query.a"))
		refusal := errors.New("no")
		_, err := store.Patch(t.Context(), "shop", "d1", func(Record) (Draft, error) { return Draft{}, refusal })
		require.Same(t, refusal, err)
		_, err = store.Replace(t.Context(), "shop", func([]Record) ([]Draft, error) { return nil, refusal })
		require.Same(t, refusal, err)
		after, err := store.Get(t.Context(), "shop", "d1")
		require.NoError(t, err)
		require.Equal(t, before.ModifiedIndex, after.ModifiedIndex)
	})
}

func TestReplaceLeavesWhatIsUnchangedAloneAndExchangesPaths(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		kept := put(t, store, testDraft("shop", "a", "Query.a"))
		exchanged := put(t, store, testDraft("shop", "b", "Query.b"))
		put(t, store, testDraft("shop", "c", "Query.c"))
		put(t, store, testDraft("shop", "gone", "Query.gone"))
		put(t, store, testDraft("other", "gone", "Query.gone"))
		wanted := []Draft{testDraft("shop", "new", "Query.new"), testDraft("shop", "b", "Query.c"),
			testDraft("shop", "c", "Query.b"), testDraft("shop", "a", "Query.a")}
		after, err := store.Replace(t.Context(), "shop", func(current []Record) ([]Draft, error) {
			require.Len(t, current, 4)
			return wanted, nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"a Query.a", "b Query.c", "c Query.b", "new Query.new"}, idsAndPaths(after))
		require.Equal(t, kept.ModifiedIndex, after[0].ModifiedIndex)
		require.Equal(t, exchanged.CreatedIndex, after[1].CreatedIndex)
		stored, err := store.List(t.Context(), "shop")
		require.NoError(t, err)
		require.Equal(t, idsAndPaths(after), idsAndPaths(stored))
		for i := range stored {
			require.Equal(t, stored[i].ModifiedIndex, after[i].ModifiedIndex)
			require.Equal(t, stored[i].CreatedIndex, after[i].CreatedIndex)
		}
		records, err := store.All(t.Context())
		require.NoError(t, err)
		require.Len(t, records, 5)
		after, err = store.Replace(t.Context(), "shop", func([]Record) ([]Draft, error) { return nil, nil })
		require.NoError(t, err)
		require.Empty(t, after)
		stored, err = store.List(t.Context(), "shop")
		require.NoError(t, err)
		require.Empty(t, stored)
	})
}

func idsAndPaths(records []Record) []string {
	var list []string
	for _, r := range records {
		list = append(list, r.ID+" "+r.FieldPath)
	}
	return list
}

func TestReplaceWritesThousandsAtOnce(t *testing.T) {
	const decorations = 4000 // 4032 is what etcd takes
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		_, err := store.Replace(t.Context(), "shop", many(decorations))
		require.NoError(t, err)
		records, err := store.List(t.Context(), "shop")
		require.NoError(t, err)
		require.Len(t, records, decorations)
	})
}

// many plans a set of n decorations.
func many(n int) func([]Record) ([]Draft, error) {
	return func([]Record) ([]Draft, error) {
		drafts := make([]Draft, n)
		for i := range drafts {
			drafts[i] = testDraft("shop", fmt.Sprintf("d%d", i), fmt.Sprintf("Query.f%d", i))
		}
		return drafts, nil
	}
}

func TestAnUploadIsKeptAsItWasSent(t *testing.T) {
	text := []byte(strings.Repeat("type Query { a: Int } # ä\n", 10_000))
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		stored, created, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: text})
		require.NoError(t, err)
		require.True(t, created)
		got, err := open(t).GetSchema(t.Context(), "shop")
		require.NoError(t, err)
		require.Equal(t, text, got.Text)
		require.Equal(t, stored.ModifiedIndex, got.ModifiedIndex)
		again, created, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("type Query { b: Int }")})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, stored.CreatedIndex, again.CreatedIndex)
		require.Equal(t, stored.CreateTime, again.CreateTime)
		_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "blog", Text: text})
		require.NoError(t, err)
		for range 2 { // the second time from memory, where there is one
			uploads, err := store.Schemas(t.Context())
			require.NoError(t, err)
			require.Len(t, uploads, 2)
			require.Equal(t, []string{"blog", "shop"}, []string{uploads[0].ServiceID, uploads[1].ServiceID})
			require.Nil(t, uploads[1].Text)
			require.Equal(t, again.ModifiedIndex, uploads[1].ModifiedIndex)
		}
		_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "big", Text: make([]byte, MaxSchemaBytes+1)})
		require.ErrorContains(t, err, "put the schema of service big: its text has 8388609 bytes, more than 8388608")
		_, _, err = store.PutSchema(t.Context(), Schema{ServiceID: "big", Text: make([]byte, MaxSchemaBytes)})
		require.NoError(t, err)
		removed, err := store.ReclaimSchema(t.Context(), Schema{ServiceID: "shop", ModifiedIndex: stored.ModifiedIndex, Incarnation: again.Incarnation})
		require.NoError(t, err)
		require.False(t, removed, "it was written since")
		require.NoError(t, store.DeleteSchema(t.Context(), "shop"))
		_, err = store.GetSchema(t.Context(), "shop")
		require.ErrorIs(t, err, ErrNoSchema)
	})
}

func TestEveryChangeIsToldWhoeverMakesIt(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store, other := open(t), open(t)
		put(t, store, testDraft("before", "d1", "Query.a"))
		_, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "uploaded", Text: []byte("type Query { a: Int }")})
		require.NoError(t, err)
		told := follow(t, store, func([]string) error { return nil })
		require.Equal(t, []string{"before", "uploaded"}, receive(t, told))
		put(t, store, testDraft("own", "d1", "Query.a"))
		require.Equal(t, []string{"own"}, receive(t, told))
		put(t, other, testDraft("others", "d1", "Query.a"))
		require.Equal(t, []string{"others"}, receive(t, told))
		require.NoError(t, other.Delete(t.Context(), "others", "d1"))
		require.Equal(t, []string{"others"}, receive(t, told))
		require.NoError(t, other.DeleteSchema(t.Context(), "uploaded"))
		require.Equal(t, []string{"uploaded"}, receive(t, told))
	})
}

func TestWhatWasNotTakenIsToldAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, open handles) {
		store := open(t)
		put(t, store, testDraft("shop", "d1", "Query.a"))
		var failures atomic.Int32
		failures.Store(2)
		told := follow(t, store, func([]string) error {
			if failures.Add(-1) >= 0 {
				return errors.New("not now")
			}
			return nil
		})
		for range 3 {
			require.Equal(t, []string{"shop"}, receive(t, told))
		}
		put(t, store, testDraft("next", "d1", "Query.a"))
		require.Equal(t, []string{"next"}, receive(t, told))
	})
}
