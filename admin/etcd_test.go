package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/decorations"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// etcdStore is a store in an etcd of the test's own, and what other programs do to it.
type etcdStore struct {
	*Etcd
	t *testing.T
}

func newEtcdStore(t *testing.T, directives ...string) etcdStore {
	t.Helper()
	return etcdStore{openEtcd(t, servers.RunEtcd(t, directives...), etcd.DefaultPrefix), t}
}

// set writes a key as another program would.
func (s etcdStore) set(key, value string) {
	s.t.Helper()
	_, err := s.client.Put(s.t.Context(), s.client.Prefix()+key, value)
	require.NoError(s.t, err)
}

func (s etcdStore) unset(key string) {
	s.t.Helper()
	_, err := s.client.Delete(s.t.Context(), s.client.Prefix()+key)
	require.NoError(s.t, err)
}

const decorationKey = "/services/shop/graphql_cost_decorations/"

func TestADecorationIsStoredAsAPISIXStoresIt(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	put(t, s, Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a", Value: []byte(`{"field_path":"Query.a","mul_arguments":["first"]}`)})
	response, err := s.client.Get(t.Context(), "/apisix"+decorationKey+"d1")
	require.NoError(t, err)
	require.Len(t, response.Kvs, 1)
	require.Equal(t, `{"create_time":1700000000,"field_path":"Query.a","id":"d1","mul_arguments":["first"],"service_id":"shop","update_time":1700000000}`,
		string(response.Kvs[0].Value))
}

func TestADecorationOfAPISIXsAdminAPIIsReadPatchedAndInTheWay(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set(decorationKey+"d1", `{"field_path":"Query.a","add_value":1,"mul_value":1,"id":"d1","service_id":"shop","create_time":1600000000,"update_time":1600000001}`)
	record, err := s.Get(t.Context(), "shop", "d1")
	require.NoError(t, err)
	require.JSONEq(t, `{"field_path":"Query.a","add_value":1,"mul_value":1}`, string(record.Value))
	require.Equal(t, []int64{1600000000, 1600000001}, []int64{record.CreateTime, record.UpdateTime})
	patched, err := s.Patch(t.Context(), "shop", "d1", increment)
	require.NoError(t, err)
	require.EqualValues(t, 1600000000, patched.CreateTime)
	require.Greater(t, patched.UpdateTime, int64(1600000001))
	_, _, err = s.Put(t.Context(), testDraft("shop", "d2", "Query.a"))
	var taken *TakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, "d1", taken.Holder)
}

func TestAKeyWhoseIDCannotBeIsNoDecoration(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	s := newEtcdStore(t)
	s.Etcd = NewEtcd(EtcdConfig{Client: s.client, Logger: zap.New(core)})
	put(t, s, testDraft("shop", "d1", "Query.a"))
	for _, id := range []string{"~", "d 1", "d1/x", "\xff", strings.Repeat("z", 65)} {
		s.set(decorationKey+id, `{"field_path":"Query.a","add_value":0}`)
	}
	s.set(decorationKey, "init_dir")
	s.set("/services/sh op/"+decorationsSegment+"/d1", `{"field_path":"Query.a","add_value":0}`)
	for range 2 {
		records, err := s.List(t.Context(), "shop")
		require.NoError(t, err)
		require.Len(t, records, 1)
		all, err := s.All(t.Context())
		require.NoError(t, err)
		require.Equal(t, records, all)
		s.forget()
	}
	require.Equal(t, 6, logs.Len(), "one line for each")
	require.Equal(t, "/apisix"+decorationKey+"d 1", logs.All()[0].ContextMap()["key"])
	_, err := s.Get(t.Context(), "shop", "~")
	require.ErrorIs(t, err, ErrNotFound)
	_, _, err = s.Put(t.Context(), testDraft("shop", "d 1", "Query.b"))
	require.ErrorContains(t, err, `decoration id "d 1" is not 1 to 64 letters, digits, points, dashes or underscores`)
}

func TestAWriteThatComesBetweenIsSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		between func(s etcdStore)
		check   func(t *testing.T, calls int, seen Record, err error)
	}{
		{"another program takes the path", func(s etcdStore) { s.set(decorationKey+"d9", `{"field_path":"Query.new"}`) },
			func(t *testing.T, calls int, _ Record, err error) {
				require.Equal(t, 2, calls)
				require.ErrorContains(t, err, "field_path Query.new is already decorated on this service by [d9]")
			}},
		{"the decoration is written", func(s etcdStore) { s.set(decorationKey+"d1", `{"field_path":"Query.a","add_value":5}`) },
			func(t *testing.T, calls int, seen Record, err error) {
				require.NoError(t, err)
				require.Equal(t, 2, calls)
				require.JSONEq(t, `{"field_path":"Query.a","add_value":5}`, string(seen.Value))
			}},
		{"the decoration is deleted", func(s etcdStore) { s.unset(decorationKey + "d1") },
			func(t *testing.T, calls int, _ Record, err error) {
				require.Equal(t, 1, calls)
				require.ErrorIs(t, err, ErrNotFound)
			}},
		{"the service is created again", func(s etcdStore) { s.unset("/services/shop"); s.set("/services/shop", `{}`) },
			func(t *testing.T, calls int, seen Record, err error) {
				require.NoError(t, err)
				require.Equal(t, 2, calls)
				require.Equal(t, noService, seen.Incarnation)
			}},
		{"the service is only updated", func(s etcdStore) { s.set("/services/shop", `{"name":"x"}`) },
			func(t *testing.T, calls int, _ Record, err error) {
				require.NoError(t, err)
				require.Equal(t, 1, calls)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newEtcdStore(t)
			s.set("/services/shop", `{}`)
			put(t, s, testDraft("shop", "d1", "Query.a"))
			calls, seen := 0, Record{}
			_, err := s.Patch(t.Context(), "shop", "d1", func(old Record) (Draft, error) {
				if calls++; calls == 1 {
					c.between(s)
				}
				seen = old
				return testDraft("shop", "d1", "Query.new"), nil
			})
			c.check(t, calls, seen, err)
		})
	}
}

func TestWritersThatNeverGetThroughAreTold(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	calls := 0
	_, err := s.Replace(t.Context(), "shop", func([]Record) ([]Draft, error) {
		calls++
		s.set(decorationKey+"other", fmt.Sprintf(`{"field_path":"Query.f%d"}`, calls))
		return []Draft{testDraft("shop", "d2", "Query.b")}, nil
	})
	require.ErrorIs(t, err, errContended)
	require.Equal(t, writeAttempts, calls)
}

func TestWhatOtherProgramsWroteWronglyHidesNothing(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/shop", `{}`)
	for id, value := range map[string]string{
		"text": "init_dir", "null": "null", "list": "[]", "number": `{"field_path":7}`, "weight": `{"field_path":"Query.w","add_value":-1}`,
		"times": `{"field_path":"Query.t","create_time":"now","update_time":1e400}`, "unknown": `{"field_path":"Query.u","what":1}`,
		"": "init_dir", "a/b": `{"field_path":"Query.deep"}`,
	} {
		s.set(decorationKey+id, value)
	}
	s.set("/services/shop/other/x", "{}")
	put(t, s, testDraft("shop", "good", "Query.good"))
	records, err := s.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, []string{"good Query.good", "list ", "null ", "number ", "text ", "times Query.t", "unknown Query.u", "weight Query.w"}, idsAndPaths(records))
	for _, r := range records {
		_, err := r.Object()
		require.NoError(t, err)
	}
	models := NewModels(s, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	var used []string
	for _, d := range models.sources["shop"] {
		used = append(used, d.FieldPath)
	}
	require.Equal(t, []string{"Query.good", "Query.t"}, used)
	s.set(decorationKey+"a-second", `{"field_path":"Query.good"}`)
	records, err = s.List(t.Context(), "shop")
	require.NoError(t, err)
	set := writableSet("shop", records)
	text, err := set.JSON()
	require.NoError(t, err)
	back, err := decorations.Parse(text)
	require.NoError(t, err, "what is shown can be sent back")
	require.Len(t, back.Decorations, 2)
	require.Len(t, set.LeftOut, 7)
	require.Equal(t, "decoration \"a-second\" of Query.good is left out, it is without effect and a push removes it: "+
		"decoration \"good\" of the same field_path counts", set.LeftOut[0].String())
	text, err = set.YAML()
	require.NoError(t, err)
	require.Contains(t, string(text), "# decoration \"weight\" of Query.w is left out, it is without effect and a push removes it: invalid configuration: ")
	_, err = decorations.Parse(text)
	require.NoError(t, err)
	put(t, s, testDraft("shop", "text", "Query.text")) // it can be put right
	require.NoError(t, s.Delete(t.Context(), "shop", "null"))
}

func TestOfTwoDecorationsOfAPathTheLastCounts(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set(decorationKey+"a", `{"field_path":"Query.a","add_value":1}`)
	s.set(decorationKey+"b", `{"field_path":"Query.a","add_value":2}`)
	models := NewModels(s, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	require.Len(t, models.sources["shop"], 1)
	require.InDelta(t, 2, *models.sources["shop"][0].AddValue, 0)
}

func TestGeneratedIDsAreNobodyElses(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	put(t, s, testDraft("shop", "00000000000000000003", "Query.a")) // revision 2; 3 is the next
	record := put(t, s, testDraft("shop", "", "Query.b"))
	require.Equal(t, "00000000000000000004", record.ID)
	response, err := s.client.Get(t.Context(), "/apisix/gen_id")
	require.NoError(t, err)
	require.EqualValues(t, 4, response.Kvs[0].ModRevision, "as APISIX gets a revision of its own")
}

func TestWhatCannotBePartOfAKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	_, _, err := s.Put(t.Context(), testDraft("a/b", "d1", "Query.a"))
	require.EqualError(t, err, `put decoration d1 of service a/b: service id "a/b" is not 1 to 64 letters, digits, points, dashes or underscores`)
	_, _, err = s.Put(t.Context(), testDraft("shop", "a/b", "Query.a"))
	require.EqualError(t, err, `put decoration a/b of service shop: decoration id "a/b" is not 1 to 64 letters, digits, points, dashes or underscores`)
	_, _, err = s.PutSchema(t.Context(), Schema{ServiceID: "a/b"})
	require.EqualError(t, err, `put the schema of service a/b: service id "a/b" is not 1 to 64 letters, digits, points, dashes or underscores`)
}

func TestWhatIsMoreThanEtcdTakesIsRefusedWhole(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	_, err := s.Replace(t.Context(), "shop", many(maxOperations+1))
	require.ErrorIs(t, err, ErrTooLarge)
	require.EqualError(t, err, "replace the decorations of service shop: more than the store can write at once: 4033 decorations change, etcd takes 4032 in one transaction")
	_, err = s.Replace(t.Context(), "shop", func([]Record) ([]Draft, error) {
		drafts, err := many(1000)(nil)
		for i := range drafts {
			drafts[i].Value = fmt.Appendf(nil, `{"field_path":%q,"desc":%q}`, drafts[i].FieldPath, strings.Repeat("x", 2000))
		}
		return drafts, err
	})
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "1000 decorations change, together they have more bytes than etcd takes in one request (--max-request-bytes, 1.5 MiB by default)")
	noise := make([]byte, 4<<20)
	_, err = rand.Read(noise)
	require.NoError(t, err)
	_, _, err = s.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: noise})
	require.ErrorIs(t, err, ErrTooLarge)
	records, err := s.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Empty(t, records)
}

func TestADryRunIsToldWhatIsMoreThanEtcdTakes(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	dry := func(drafts int, desc string) error {
		_, err := s.Replace(t.Context(), "shop", func([]Record) ([]Draft, error) {
			planned, err := many(drafts)(nil)
			require.NoError(t, err)
			for i := range planned {
				planned[i].Value = fmt.Appendf(nil, `{"field_path":%q,"desc":%q}`, planned[i].FieldPath, desc)
			}
			return planned, errDryRun
		})
		return err
	}
	require.ErrorContains(t, dry(maxOperations+1, ""), "more than the store can write at once: 4033 decorations change, etcd takes 4032 in one transaction")
	require.ErrorContains(t, dry(1000, strings.Repeat("x", 2000)), "1000 decorations change, together they have more bytes than etcd takes in one request")
	require.Equal(t, errDryRun, dry(maxOperations, ""))
	require.Equal(t, errDryRun, dry(0, ""))
	records, err := s.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Empty(t, records, "nothing was written")
}

func TestAnOperatorsSmallerLimitIsNamed(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t, "--max-txn-ops", "64")
	_, err := s.Replace(t.Context(), "shop", many(maxOperations))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "(--max-txn-ops)")
}

func TestADamagedUploadIsListedAndCanBeReplaced(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	for id, value := range map[string]string{"a": "text", "b": `{"create_time":5,"gzip":"AAAA"}`, "c": `{"gzip":7}`} {
		s.set("/graphql_limit_count/schemas/"+id, value)
		_, err := s.GetSchema(t.Context(), id)
		require.ErrorContains(t, err, "get the schema of service "+id+": dec")
		require.ErrorIs(t, err, ErrDamaged)
	}
	require.Len(t, uploads(t, s), 3)
	to := &uploadSink{}
	schemas := NewSchemas(s, to, zap.NewNop())
	require.NoError(t, schemas.Load(t.Context()), "a process that finds it starts")
	require.NoError(t, schemas.Refresh(t.Context(), "a", "b", "c"))
	require.Zero(t, to.count())
	for _, id := range []string{"a", "b", "c"} {
		_, _, err := s.PutSchema(t.Context(), Schema{ServiceID: id, Text: []byte("type Query { a: Int }")})
		require.NoError(t, err)
		upload, err := s.GetSchema(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "type Query { a: Int }", string(upload.Text))
	}
}

func TestAServicesBeginningAndEndAreToldWhereTheyMatter(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/plain", `{}`)
	s.set("/services/shop", `{}`)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	_, _, err := s.PutSchema(t.Context(), Schema{ServiceID: "uploaded", Text: []byte("type Query { a: Int }")})
	require.NoError(t, err)
	told := follow(t, s, func([]string) error { return nil })
	require.Equal(t, []string{"shop", "uploaded"}, receive(t, told), "not a service without belongings")
	s.unset("/services/plain")
	s.set("/services/shop", `{"name":"updated"}`)
	s.set("/services/uploaded", `{}`)
	require.Equal(t, []string{"uploaded"}, receive(t, told), "it began")
	s.unset("/services/shop")
	require.Equal(t, []string{"shop"}, receive(t, told))
}

func TestWhatGoesBeforeWatchBeginsIsTold(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/stays", `{}`)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	_, _, err := s.PutSchema(t.Context(), Schema{ServiceID: "uploaded", Text: []byte("type Query { a: Int }")})
	require.NoError(t, err)
	models, to := NewModels(s, zap.NewNop()), &uploadSink{}
	schemas := NewSchemas(s, to, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	require.NoError(t, schemas.Load(t.Context()))
	s.unset(decorationKey + "d1")
	s.unset("/graphql_limit_count/schemas/uploaded")
	background(t, func(ctx context.Context) error { return Follow(ctx, s, models, schemas) })
	require.Eventually(t, func() bool {
		return models.Model("shop") == nil && to.of("uploaded") == nil
	}, patience, testPoll)
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	s := openEtcd(t, server, etcd.DefaultPrefix)
	require.NoError(t, server.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), testPoll)
	defer cancel()
	_, err := s.List(ctx, "shop")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, _, err = s.Put(ctx, testDraft("shop", "d1", "Query.a"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func FuzzAStoredValueIsReadOrEmpty(f *testing.F) {
	for _, seed := range []string{"", "init_dir", "null", `{"field_path":"Query.a","create_time":1.5,"update_time":-1,"x":1e999}`, `{"id":{},"a":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r := decodeRecord("shop", "d1", etcd.KV{Value: value, CreateRevision: 2, ModRevision: 2}, life{})
		if !json.Valid(r.Value) {
			t.Fatalf("%q", r.Value)
		}
		if _, err := r.Object(); err != nil {
			t.Fatal(err)
		}
		text, err := encodeRecord(r)
		if err != nil || !json.Valid([]byte(text)) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
