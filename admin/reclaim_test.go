package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"graphql-limit-count/internal/apisix"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// directory is APISIX with a will of its own: what no real Admin API does on demand.
type directory struct {
	mu       sync.Mutex
	services map[string]string // id to incarnation
	created  map[string]int64  // id to time of creation
	hidden   string            // an id that listings miss
	failure  error             // the answer to everything, when set
	asked    int               // how often it was asked for one service
}

func (d *directory) Service(_ context.Context, id string) (apisix.Service, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.failure != nil {
		return apisix.Service{}, d.failure
	}
	incarnation, ok := d.services[id]
	if !ok {
		return apisix.Service{}, fmt.Errorf("read service %q: %w", id, apisix.ErrNotFound)
	}
	return apisix.Service{ID: id, Incarnation: incarnation, CreateTime: d.created[id]}, nil
}

func (d *directory) Services(context.Context) ([]apisix.Service, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return nil, d.failure
	}
	var list []apisix.Service
	for _, id := range slices.Sorted(maps.Keys(d.services)) {
		if id != d.hidden {
			list = append(list, apisix.Service{ID: id, Incarnation: d.services[id]})
		}
	}
	return list, nil
}

func (d *directory) set(change func(*directory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		rule          string
		record        string // the incarnation of the stored decoration
		service       string // that of the service; "-" when there is none
		hidden        bool
		failure       error
		wantKept      bool
		wantIncarnate string
	}{
		{rule: "its own service keeps it", record: "27", service: "27", wantKept: true, wantIncarnate: "27"},
		{rule: "a deleted service loses it", record: "27", service: "-"},
		{rule: "a service created again starts without it", record: "27", service: "31"},
		{rule: "a service that a listing missed keeps it", record: "27", service: "27", hidden: true, wantKept: true, wantIncarnate: "27"},
		{rule: "an unreachable Admin API takes nothing", record: "27", service: "-", failure: errors.New("connection refused"), wantKept: true, wantIncarnate: "27"},
		{rule: "one that nobody asked about is kept for a service to come", record: "", service: "-", wantKept: true, wantIncarnate: "none"},
		{rule: "one that nobody asked about becomes its service's", record: "", service: "27", wantKept: true, wantIncarnate: "27"},
		{rule: "one whose service did not exist is kept while it does not", record: "none", service: "-", wantKept: true, wantIncarnate: "none"},
		{rule: "one whose service did not exist is older than the service", record: "none", service: "27"},
		{rule: "a service that tells no incarnation takes nothing", record: "27", service: "", wantKept: true, wantIncarnate: "27"},
		{rule: "an index after a time is the same service, told otherwise", record: "t1700000000", service: "27", wantKept: true, wantIncarnate: "27"},
		{rule: "another time is another service", record: "t1700000000", service: "t1700000001"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			d := &directory{services: map[string]string{"other": "1"}, failure: c.failure}
			if c.service != "-" {
				d.services["shop"] = c.service
			}
			if c.hidden {
				d.hidden = "shop"
			}
			e := startEndpoint(t, d)
			draft := testDraft("shop", "d1", "Query.a")
			draft.Incarnation = c.record
			put(t, e.store, draft)
			kept := testDraft("other", "d1", "Query.a")
			kept.Incarnation = "1"
			put(t, e.store, kept)
			require.NoError(t, e.models.Load(t.Context()))

			err := e.reclaimer.Reconcile(t.Context())
			require.ErrorIs(t, err, c.failure)
			require.Equal(t, 1, e.stored("other"))
			records, err := e.store.List(t.Context(), "shop")
			require.NoError(t, err)
			if !c.wantKept {
				require.Empty(t, records)
				require.Nil(t, e.models.Model("shop"))
				return
			}
			require.Len(t, records, 1)
			require.Equal(t, c.wantIncarnate, records[0].Incarnation)
			require.NotNil(t, e.models.Model("shop"))
		})
	}
}

func TestDeletedServicesAreReclaimedInTheBackground(t *testing.T) {
	e := startWithGateway(t)
	e.createService("shop")
	e.createService("blog")
	for _, service := range []string{"shop", "blog"} {
		r := e.do(http.MethodPut, decorationsPath(service, "d1"), `{"field_path":"Query.a"}`)
		require.Equal(t, http.StatusCreated, r.status, r.text)
	}
	background(t, e.reclaimer.Run)
	e.deleteService("shop")
	require.Eventually(t, func() bool {
		return e.stored("shop") == 0 && e.models.Model("shop") == nil
	}, patience, testPoll)
	require.Equal(t, 1, e.stored("blog"))
}

func TestAServiceCreatedAgainStartsWithoutDecorations(t *testing.T) {
	for _, c := range []struct {
		rule string
		ask  func(*endpoint) reply
		want int
	}{
		{"as a reader sees", func(e *endpoint) reply { return e.do(http.MethodGet, decorationsPath("shop"), nil) }, http.StatusNotFound},
		{"as a patch finds", func(e *endpoint) reply {
			return e.do(http.MethodPatch, decorationsPath("shop", "d1"), `{"add_value":3}`)
		}, http.StatusNotFound},
		{"and may give the path to another id", func(e *endpoint) reply {
			return e.do(http.MethodPut, decorationsPath("shop", "d2"), `{"field_path":"Query.a"}`)
		}, http.StatusCreated},
	} {
		t.Run(c.rule, func(t *testing.T) {
			e := startWithGateway(t)
			e.createService("shop")
			require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
			e.deleteService("shop")
			e.createService("shop")
			r := c.ask(e)
			require.Equal(t, c.want, r.status, r.text)
			_, err := e.store.Get(t.Context(), "shop", "d1")
			require.ErrorIs(t, err, ErrNotFound)
		})
	}
}

func TestAnUpdatedServiceKeepsItsDecorations(t *testing.T) {
	e := startWithGateway(t)
	e.createService("shop")
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	r := e.apisix(http.MethodPut, "/apisix/admin/services/shop", `{"upstream":{"type":"roundrobin","nodes":{"127.0.0.1:1981":1}}}`)
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.NoError(t, e.reclaimer.Reconcile(t.Context()))
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop", "d1"), nil).status)
}

func TestWhileAPISIXCannotBeAskedReadsAreServedAndWritesRefused(t *testing.T) {
	d := &directory{services: map[string]string{"shop": "1"}}
	e := startEndpoint(t, d)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	d.set(func(d *directory) { d.failure = errors.New("connection refused") })
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPut, decorationsPath("shop", "d2"), `{"field_path":"Query.b"}`},
		{http.MethodPost, decorationsPath("shop"), `{"field_path":"Query.b"}`},
		{http.MethodPatch, decorationsPath("shop", "d1"), `{"add_value":2}`},
	} {
		r := e.do(c.method, c.path, c.body)
		require.Equal(t, http.StatusServiceUnavailable, r.status, c.method)
		require.Equal(t, "APISIX cannot be asked about the service at the moment, try again later", r.member(memberError))
	}
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop"), nil).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop", "d1"), nil).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, modelPath("shop"), nil).status)
	d.set(func(d *directory) { d.failure = fmt.Errorf("status 401: %w", apisix.ErrKeyRefused) })
	r := e.do(http.MethodPut, decorationsPath("shop", "d2"), `{"field_path":"Query.b"}`)
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "APISIX cannot be asked about the service: it refuses the key of this runner (--apisix-admin-key)", r.member(memberError))
	require.Equal(t, http.StatusOK, e.do(http.MethodDelete, decorationsPath("shop", "d1"), nil).status, "removing needs no service")
}

// What is in a file can neither be removed nor noted as a service's: asking APISIX for each
// service in every round would change nothing.
func TestTheServicesOfAFileAreNotAskedForAgainAndAgain(t *testing.T) {
	f := newFileFixture(t)
	store := f.open()
	apisix := &directory{services: map[string]string{"shop": "27"}}
	r := NewReclaimer(ReclaimerConfig{Store: store, Models: NewModels(store, f.logger), Directory: apisix, Logger: f.logger})
	require.NoError(t, r.Reconcile(t.Context()))
	asked := apisix.asked
	for range 3 {
		require.NoError(t, r.Reconcile(t.Context()))
	}
	require.Equal(t, asked, apisix.asked)
	require.Len(t, paths(t, store, "shop"), 2)
}

// When APISIX's configuration is copied to another etcd, all indexes are other ones, but the
// services are those that they were.
func TestWhatWasWrittenAfterItsServiceWasCreatedIsTheServices(t *testing.T) {
	const written = 1_700_000_000
	for _, c := range []struct {
		rule        string
		incarnation string
		created     int64
		kept        bool
	}{
		{"a service that was copied keeps it", "27", written - 1, true},
		{"one that does not say when it was created does not", "27", 0, false},
		{"one created in the same second does not", "27", written, false},
		{"one created later does not", "27", written + 1, false},
		{"what was found to be nobody's stays that", noService, written - 1, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			store := openStore(t, t.TempDir()+"/decorations.db")
			store.now = func() time.Time { return time.Unix(written, 0) }
			draft := testDraft("shop", "d1", "Query.a")
			draft.Incarnation = c.incarnation
			put(t, store, draft)
			_, _, err := store.PutSchema(t.Context(), Schema{ServiceID: "shop", Incarnation: c.incarnation, Text: []byte("type Query { a: Int }")})
			require.NoError(t, err)
			r := NewReclaimer(ReclaimerConfig{Store: store, Models: NewModels(store, zap.NewNop()), Logger: zap.NewNop(),
				Directory: &directory{services: map[string]string{"shop": "5"}, created: map[string]int64{"shop": c.created}}})
			require.NoError(t, r.Reconcile(t.Context()))
			records, err := store.List(t.Context(), "shop")
			require.NoError(t, err)
			upload, err := store.GetSchema(t.Context(), "shop")
			if !c.kept {
				require.Empty(t, records)
				require.ErrorIs(t, err, ErrNoSchema)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"5", "5"}, []string{records[0].Incarnation, upload.Incarnation}, "it is adopted")
		})
	}
}
