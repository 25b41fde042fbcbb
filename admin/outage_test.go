package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/cost"

	"github.com/stretchr/testify/require"
)

// outageAnswer is how long the endpoint may take to say that etcd is away: two exchanges that
// time out, and a busy machine.
const outageAnswer = 20 * time.Second

// runner is what a process of the product has of a store in etcd: the endpoint and the models,
// which follow it.
func runner(t *testing.T, server *servers.Etcd) *endpoint {
	t.Helper()
	e := startWithEtcd(t, server, "/apisix")
	e.createService("shop")
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a","add_value":7}`).status)
	background(t, func(ctx context.Context) error { return Follow(ctx, e.records, e.models) })
	require.Eventually(t, func() bool { return e.models.Model("shop") != nil }, patience, testPoll)
	return e
}

// refuses checks that the endpoint answers in time, without doing anything.
func (e *endpoint) refuses() {
	e.t.Helper()
	begun := time.Now()
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		r := e.do(method, decorationsPath("shop", "d1"), `{"field_path":"Query.a","add_value":8}`)
		require.Equal(e.t, http.StatusServiceUnavailable, r.status, r.text)
	}
	require.Less(e.t, time.Since(begun), 2*outageAnswer)
}

// follows checks that another runner's write arrives.
func (e *endpoint) follows(other Store, before *cost.Model) {
	e.t.Helper()
	put(e.t, other, testDraft("shop", "d2", "Query.b"))
	require.Eventually(e.t, func() bool {
		m := e.models.Model("shop")
		return m != nil && m != before
	}, patience, testPoll)
}

func TestWhileEtcdIsStoppedTheModelStaysAndTheEndpointRefuses(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	e := runner(t, server)
	other := openEtcd(t, server, "/apisix")
	model := e.models.Model("shop")
	require.NoError(t, server.Stop())
	e.refuses()
	require.Same(t, model, e.models.Model("shop"))
	require.NoError(t, server.Start(t.Context()))
	e.follows(other, model)
}

func TestAHungEtcdIsAnsweredForAndFollowedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	e := runner(t, server)
	other := openEtcd(t, server, "/apisix")
	model := e.models.Model("shop")
	require.NoError(t, server.Pause())
	e.refuses()
	begun := time.Now()
	services := slices.Repeat([]string{"shop"}, 100) // one after the other they would take minutes
	require.Error(t, e.models.Refresh(t.Context(), services...))
	require.Less(t, time.Since(begun), outageAnswer)
	require.Same(t, model, e.models.Model("shop"))
	require.NoError(t, server.Resume())
	e.follows(other, model)
}

func TestACompactedEtcdIsFollowed(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	e := runner(t, server)
	other := openEtcd(t, server, "/apisix")
	model := e.models.Model("shop")
	require.NoError(t, server.Stop()) // the runner misses what follows
	require.NoError(t, server.Start(t.Context()))
	for range 20 {
		put(t, other, testDraft("shop", "d3", "Query.c"))
	}
	record, err := other.Get(t.Context(), "shop", "d3")
	require.NoError(t, err)
	_, err = e.etcd.Compact(t.Context(), record.ModifiedIndex)
	require.NoError(t, err)
	e.follows(other, model)
	require.Eventually(t, func() bool { return sameAsStored(t, e.models, other) }, patience, testPoll)
}

func TestAfterALossOfDataTheModelStaysUntilThereIsConfigurationAgain(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	e := runner(t, server)
	model := e.models.Model("shop")
	require.NoError(t, server.Kill())
	require.NoError(t, server.LoseData())
	require.NoError(t, server.Start(t.Context()))
	e.refuses()
	// On a busy machine an exchange may time out first.
	require.Eventually(t, func() bool { return errors.Is(e.models.Refresh(t.Context(), "shop"), errLost) }, outageAnswer, testPoll)
	require.Same(t, model, e.models.Model("shop"))

	// The configuration is set up anew: the service first, as always.
	other := openEtcd(t, server, "/apisix")
	_, err := e.etcd.Put(t.Context(), "/apisix/services/shop", `{"id":"shop"}`)
	require.NoError(t, err)
	e.follows(other, model)
	require.Eventually(t, func() bool { return sameAsStored(t, e.models, other) }, patience, testPoll)
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop"), nil).status)
}

func TestAnEtcdThatIsEmptiedOnPurposeIsFollowed(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	e := runner(t, server)
	e.follows(openEtcd(t, server, "/apisix"), e.models.Model("shop")) // so each deletion is seen
	for _, key := range []string{"/global_rules/1", "/services/shop/graphql_cost_decorations/d1",
		"/services/shop/graphql_cost_decorations/d2", "/services/shop"} {
		_, err := e.etcd.Delete(t.Context(), "/apisix"+key)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return e.models.Model("shop") == nil }, patience, testPoll)
}

func TestAChangeInEtcdIsInForceWithinASecond(t *testing.T) {
	const changes = 5
	server := servers.RunEtcd(t)
	e := runner(t, server)
	other := openEtcd(t, server, "/apisix")
	var delays []time.Duration
	for i := range changes {
		before := e.models.Model("shop")
		draft := testDraft("shop", "d2", "Query.b")
		draft.Value = []byte(`{"field_path":"Query.b","add_value":` + string(rune('1'+i)) + `}`)
		put(t, other, draft)
		written := time.Now()
		require.Eventually(t, func() bool { return e.models.Model("shop") != before }, patience, testPoll)
		delays = append(delays, time.Since(written))
	}
	slices.Sort(delays)
	// The median, because a machine that is busy with other tests may hold up any single one.
	require.Less(t, delays[changes/2], time.Second)
}
