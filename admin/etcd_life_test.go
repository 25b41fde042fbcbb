package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func (s etcdStore) incarnations(service string) map[string]string {
	s.t.Helper()
	records, err := s.List(s.t.Context(), service)
	require.NoError(s.t, err)
	all, err := s.All(s.t.Context())
	require.NoError(s.t, err)
	incarnations := map[string]string{}
	for _, r := range records {
		incarnations[r.ID] = r.Incarnation
	}
	for _, r := range all {
		if r.ServiceID == service {
			require.Equal(s.t, incarnations[r.ID], r.Incarnation, "List and All agree")
		}
	}
	return incarnations
}

func TestADecorationBelongsToTheLifeOfTheServiceInWhichItWasWritten(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/shop", `{"create_time":1}`)
	first := serviceRevision(t, s)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	s.set("/services/shop", `{"create_time":1,"name":"updated"}`)
	require.Equal(t, map[string]string{"d1": first}, s.incarnations("shop"))

	s.unset("/services/shop")
	require.Equal(t, map[string]string{"d1": endedService}, s.incarnations("shop"))

	s.set("/services/shop", fmt.Sprintf(`{"create_time":%d}`, time.Now().Unix()))
	second := serviceRevision(t, s)
	require.NotEqual(t, first, second)
	put(t, s, testDraft("shop", "d2", "Query.b"))
	require.Equal(t, map[string]string{"d1": noService, "d2": second}, s.incarnations("shop"))
	record, created, err := s.Put(t.Context(), testDraft("shop", "d1", "Query.a"))
	require.NoError(t, err)
	require.True(t, created, "nothing of the earlier life is taken over")
	require.Equal(t, second, record.Incarnation)
	require.Equal(t, map[string]string{"d1": second, "d2": second}, s.incarnations("shop"))
}

// serviceRevision is what the Admin API calls the service's createdIndex.
func serviceRevision(t *testing.T, s etcdStore) string {
	t.Helper()
	response, err := s.client.Get(t.Context(), "/apisix/services/shop")
	require.NoError(t, err)
	return fmt.Sprint(response.Kvs[0].CreateRevision)
}

func TestThatAServiceIsMissingSaysNothingWithoutAPast(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	require.Equal(t, map[string]string{"d1": ""}, s.incarnations("shop"))
	count, err := s.Reclaim(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, count)
}

func TestADeletionIsKnownFromHistoryAndFromMemory(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/shop", `{}`)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	another := NewEtcd(EtcdConfig{Client: s.client, Logger: zap.NewNop()})
	s.incarnations("shop") // it sees the service alive
	s.unset("/services/shop")
	records, err := another.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, endedService, records[0].Incarnation, "from history")

	response, err := s.client.Get(t.Context(), "x")
	require.NoError(t, err)
	_, err = s.client.Compact(t.Context(), response.Header.Revision)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"d1": endedService}, s.incarnations("shop"), "from memory")
	records, err = another.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Empty(t, records[0].Incarnation, "nothing is known any more")
}

func TestContentCopiedInAnyOrderKeepsItsOwner(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set(decorationKey+"d1", `{"field_path":"Query.a","create_time":200,"update_time":300}`)
	s.set(decorationKey+"d2", `{"field_path":"Query.b","create_time":50,"update_time":60}`)
	s.set(decorationKey+"d3", `{"field_path":"Query.c"}`)
	require.Equal(t, map[string]string{"d1": "", "d2": "", "d3": ""}, s.incarnations("shop"), "while it is being copied")
	s.set("/services/shop", `{"create_time":100}`)
	require.Equal(t, map[string]string{"d1": serviceRevision(t, s), "d2": noService, "d3": noService}, s.incarnations("shop"))
}

func TestReclaimSparesWhatEtcdKnowsToBeTheServices(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/shop", `{}`)
	put(t, s, testDraft("shop", "d1", "Query.a"))
	put(t, s, testDraft("shop", "d2", "Query.b"))
	records, err := s.List(t.Context(), "shop")
	require.NoError(t, err)
	count, err := s.Reclaim(t.Context(), records)
	require.NoError(t, err)
	require.Zero(t, count, "the service lives")
	s.unset("/services/shop")
	s.set("/services/shop", `{}`)
	stale, err := s.List(t.Context(), "shop")
	require.NoError(t, err)
	put(t, s, testDraft("shop", "d2", "Query.b"))
	count, err = s.Reclaim(t.Context(), stale)
	require.NoError(t, err)
	require.Equal(t, 1, count, "d2 was written since")
	require.Equal(t, map[string]string{"d2": serviceRevision(t, s)}, s.incarnations("shop"))
}

func TestAnUploadBelongsToALifeOfItsServiceToo(t *testing.T) {
	t.Parallel()
	s := newEtcdStore(t)
	s.set("/services/shop", `{}`)
	stored, _, err := s.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("type Query { a: Int }")})
	require.NoError(t, err)
	require.Equal(t, serviceRevision(t, s), stored.Incarnation)
	require.Equal(t, stored.Incarnation, uploads(t, s)[0].Incarnation)
	s.unset("/services/shop")
	require.Equal(t, endedService, uploads(t, s)[0].Incarnation)
	s.set("/services/shop", `{}`)
	stale := uploads(t, s)[0]
	require.Equal(t, noService, stale.Incarnation)
	again, created, err := s.PutSchema(t.Context(), Schema{ServiceID: "shop", Text: []byte("type Query { b: Int }")})
	require.NoError(t, err)
	require.True(t, created)
	removed, err := s.ReclaimSchema(t.Context(), stale)
	require.NoError(t, err)
	require.False(t, removed, "it was written since")
	removed, err = s.ReclaimSchema(t.Context(), again)
	require.NoError(t, err)
	require.False(t, removed, "the service lives")
}

func uploads(t *testing.T, s Store) []Schema {
	t.Helper()
	list, err := s.Schemas(t.Context())
	require.NoError(t, err)
	return list
}
