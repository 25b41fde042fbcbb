package apisix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// eventually bounds how long a test waits for what must happen.
const eventually = time.Minute

// store is an etcd with a prefix, as APISIX writes into it.
type store struct{ client *etcd.Client }

func openEtcd(tb testing.TB, server *servers.Etcd, prefix string) *store {
	tb.Helper()
	client, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint()}, Prefix: prefix, Logger: zap.NewNop()})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, client.Close()) })
	return &store{client}
}

// store writes objects, and one more that keeps etcd from looking empty.
func (s *store) store(tb testing.TB, objects stored) {
	tb.Helper()
	s.put(tb, "routes/of-somebody-else", `{}`)
	for path, value := range objects {
		s.put(tb, path, value)
	}
}

func (s *store) put(tb testing.TB, path, value string) (revision int64) {
	tb.Helper()
	answer, err := s.client.Put(tb.Context(), s.client.Prefix()+"/"+path, value)
	require.NoError(tb, err)
	return answer.Header.Revision
}

func (s *store) delete(tb testing.TB, path string) {
	tb.Helper()
	_, err := s.client.Delete(tb.Context(), s.client.Prefix()+"/"+path)
	require.NoError(tb, err)
}

// mirror starts a mirror and waits for its first reading.
func (s *store) mirror(tb testing.TB) *Mirror {
	tb.Helper()
	m := NewMirror(MirrorConfig{Etcd: s.client, Logger: zap.NewNop()})
	s.run(tb, m)
	waitFor(tb, m.Read())
	return m
}

// run lets a mirror run until the test ends.
func (s *store) run(tb testing.TB, m *Mirror) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		require.ErrorIs(tb, <-ended, context.Canceled)
	})
}

func waitFor(tb testing.TB, happened <-chan struct{}) {
	tb.Helper()
	select {
	case <-happened:
	case <-time.After(eventually):
		tb.Fatal("it did not happen")
	}
}

// reader is both readers of etcd.
type reader interface {
	Service(ctx context.Context, id string) (Service, error)
	Route(ctx context.Context, id string) (Route, error)
	Upstream(ctx context.Context, id string) (Upstream, error)
}

func TestEtcdAnswersLikeTheAdminAPI(t *testing.T) {
	s := openEtcd(t, servers.RunEtcd(t), "")
	s.put(t, "services/", "init_dir")
	created := s.put(t, "services/s", `{"id":"s"}`)
	s.put(t, "services/s", `{"id":"s","upstream":{"nodes":{"127.0.0.1:1980":1}},`+oursPre[1:])
	s.put(t, "services/s/graphql_cost_decorations/d", `{"id":"d","field_path":"Query.a"}`)
	s.put(t, "services/s2", `{"id":"s2","upstream_id":1}`)
	s.put(t, "services/broken", `{"id":"broken","upstream":{"nodes":{"a:x":1}}}`)
	s.put(t, "services/worse", `{`)
	route := s.put(t, "routes/r", `{"service_id":"s","upstream_id":"u","plugin_config_id":"p","upstream":{"scheme":"https","pass_host":"rewrite","upstream_host":"h","nodes":[{"host":"a","port":8443,"weight":0,"priority":-1}]},`+oursPost[1:])
	up := s.put(t, "upstreams/u", `{"id":"u","type":"roundrobin","nodes":{"u:1":1}}`)
	s.put(t, "upstreams/v", `{"id":"v","nodes":7}`)
	s.put(t, "upstreams/w", `{"id":"w","scheme":1}`)

	for name, r := range map[string]reader{"asked": NewEtcd(s.client), "followed": s.mirror(t)} {
		t.Run(name, func(t *testing.T) {
			service, err := r.Service(t.Context(), "s")
			require.NoError(t, err)
			require.Equal(t, Service{ID: "s", Incarnation: fmt.Sprint(created), Plugins: hasPlugins | hasPreReq | runsPreReq,
				Upstream: &Upstream{Scheme: "http", PassHost: "pass", Nodes: []Node{{Host: "127.0.0.1", Port: 1980, Weight: 1}}}}, service)
			service, err = r.Service(t.Context(), "s2")
			require.NoError(t, err)
			require.Equal(t, "1", service.UpstreamID)
			got, err := r.Route(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, Route{ID: "r", Incarnation: fmt.Sprint(route), ServiceID: "s", UpstreamID: "u", PluginConfigID: "p",
				Plugins: hasPlugins | hasPostReq | runsPostReq,
				Upstream: &Upstream{Scheme: "https", PassHost: "rewrite", UpstreamHost: "h",
					Nodes: []Node{{Host: "a", Port: 8443, Weight: 0, Priority: -1}}}}, got)
			upstream, err := r.Upstream(t.Context(), "u")
			require.NoError(t, err)
			require.Equal(t, Upstream{ID: "u", Incarnation: fmt.Sprint(up), Scheme: "http", PassHost: "pass", Nodes: []Node{{Host: "u", Port: 1, Weight: 1}}}, upstream)

			for _, id := range []string{"", "gone", "s/graphql_cost_decorations/d", "s/", ".", ".."} {
				_, err = r.Service(t.Context(), id)
				require.ErrorIs(t, err, ErrNotFound, id)
				_, err = r.Route(t.Context(), id)
				require.ErrorIs(t, err, ErrNotFound, id)
				_, err = r.Upstream(t.Context(), id)
				require.ErrorIs(t, err, ErrNotFound, id)
			}
			for id, want := range map[string]string{"broken": `node "a:x"`, "worse": "unexpected end"} {
				_, err = r.Service(t.Context(), id)
				require.ErrorContains(t, err, `read service "`+id+`"`)
				require.ErrorContains(t, err, want)
				require.NotErrorIs(t, err, ErrNotFound, "it exists")
			}
			for _, id := range []string{"v", "w"} {
				_, err = r.Upstream(t.Context(), id)
				require.Error(t, err)
				require.NotErrorIs(t, err, ErrNotFound)
			}
		})
	}

	list, err := NewEtcd(s.client).Services(t.Context())
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, service := range list {
		ids[service.ID] = true
		require.NotEmpty(t, service.Incarnation)
	}
	require.Equal(t, map[string]bool{"s": true, "s2": true, "broken": true, "worse": true}, ids,
		"what lies below a service is none, what cannot be read is one")
}

func TestAServiceCreatedAgainIsAnotherOne(t *testing.T) {
	s := openEtcd(t, servers.RunEtcd(t), "")
	s.store(t, stored{"services/s": `{}`})
	e := NewEtcd(s.client)
	before, err := e.Service(t.Context(), "s")
	require.NoError(t, err)
	s.put(t, "services/s", `{"name":"changed"}`)
	changed, err := e.Service(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, before.Incarnation, changed.Incarnation)
	s.delete(t, "services/s")
	_, err = e.Service(t.Context(), "s")
	require.ErrorIs(t, err, ErrNotFound)
	s.put(t, "services/s", `{}`)
	after, err := e.Service(t.Context(), "s")
	require.NoError(t, err)
	require.NotEqual(t, before.Incarnation, after.Incarnation)
}

// TestNothingIsMissingForAnEtcdThatCannotSay: what is missing is cleaned up after.
func TestNothingIsMissingForAnEtcdThatCannotSay(t *testing.T) {
	server := servers.RunEtcd(t)
	s := openEtcd(t, server, "")
	e := NewEtcd(s.client)
	refusesWithin := func(ctx context.Context, why string) {
		t.Helper()
		_, err := e.Service(ctx, "s")
		require.ErrorContains(t, err, `read service "s" from etcd: `)
		require.ErrorContains(t, err, why)
		require.NotErrorIs(t, err, ErrNotFound)
		_, err = e.Services(ctx)
		require.ErrorContains(t, err, "list services: ")
		require.NotErrorIs(t, err, ErrNotFound)
	}
	refuses := func(why string) {
		t.Helper()
		refusesWithin(t.Context(), why)
	}
	refuses("holds no configuration of APISIX at all")
	s.put(t, "services/", "init_dir")
	s.put(t, "plugins", "[]")
	refuses("holds no configuration of APISIX at all")

	s.store(t, stored{"services/s": `{}`})
	m := s.mirror(t)
	_, err := e.Service(t.Context(), "s")
	require.NoError(t, err)
	_, err = NewEtcd(openEtcd(t, server, "/another").client).Service(t.Context(), "s")
	require.ErrorContains(t, err, "or the prefix is another one")

	require.NoError(t, server.Stop())
	soon, stop := context.WithTimeout(t.Context(), 200*time.Millisecond) // nobody answers
	defer stop()
	refusesWithin(soon, "")
	remembered := func() {
		t.Helper()
		_, err := m.Service(t.Context(), "s")
		require.NoError(t, err, "the mirror knows what it was told last")
	}
	remembered()
	require.NoError(t, server.LoseData())
	require.NoError(t, server.Start(t.Context()))
	require.Eventually(t, func() bool {
		_, err := e.Service(t.Context(), "s")
		return errors.Is(err, errBlank)
	}, eventually, 10*time.Millisecond)
	refuses("its data seems to be lost")
	remembered()

	s.store(t, stored{"services/other": `{}`})
	_, err = e.Service(t.Context(), "other")
	require.NoError(t, err, "what is there is there")
	_, err = e.Service(t.Context(), "s")
	require.ErrorContains(t, err, "data was lost or replaced since this process started", "it may only not be there yet")
	_, err = NewEtcd(s.client).Service(t.Context(), "s")
	require.ErrorIs(t, err, ErrNotFound, "a process that starts now takes what is there for whole")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Service(ended, "s")
	require.ErrorIs(t, err, context.Canceled)
}

func TestAMirrorFollows(t *testing.T) {
	server := servers.RunEtcd(t)
	s := openEtcd(t, server, "")
	s.store(t, stored{"services/s": `{"upstream_id":"1"}`, "consumers/jack/credentials/c": oursPost})
	m := s.mirror(t)
	waitFor(t, m.ServicesChanged())
	upstreamID := func() string {
		service, err := m.Service(t.Context(), "s")
		if errors.Is(err, ErrNotFound) {
			return "gone"
		}
		require.NoError(t, err)
		return service.UpstreamID
	}
	becomes := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return upstreamID() == want }, eventually, time.Millisecond)
	}
	becomes("1")
	s.put(t, "services/s", `{"upstream_id":"2"}`)
	becomes("2")
	require.Empty(t, m.ServicesChanged(), "it is the same service")
	s.put(t, "services/s/graphql_cost_decorations/d", `{}`)
	s.delete(t, "services/s/graphql_cost_decorations/d")
	s.delete(t, "services/s")
	waitFor(t, m.ServicesChanged())
	becomes("gone")
	s.put(t, "services/s", `{"upstream_id":"3"}`)
	waitFor(t, m.ServicesChanged())
	becomes("3")
	require.Zero(t, m.tables[consumers].len(), "a credential is no consumer")

	require.NoError(t, server.Stop())
	becomes("3")
	require.NoError(t, server.Start(t.Context()))
	require.Eventually(t, func() bool {
		_, err := s.client.Put(t.Context(), "/apisix/services/s", `{"upstream_id":"4"}`)
		return err == nil
	}, eventually, 10*time.Millisecond)
	becomes("4")
}

func TestOwnersChangeWithEtcd(t *testing.T) {
	s := openEtcd(t, servers.RunEtcd(t), "")
	s.store(t, stored{"routes/r": bare, "services/s": oursPre})
	m := s.mirror(t)
	at := Place{Route: "r", Service: "s", Attachment: PreReq}
	becomes := func(want Owner) {
		t.Helper()
		require.Eventually(t, func() bool { return m.Owner(at) == want }, eventually, time.Millisecond)
	}
	becomes(Owner{OwnerService, "s"})
	s.put(t, "routes/r", oursPre)
	becomes(Owner{OwnerRoute, "r"})
	s.delete(t, "routes/r")
	becomes(Owner{})
}

func TestBeforeTheFirstReading(t *testing.T) {
	server := servers.RunEtcd(t)
	s := openEtcd(t, server, "")
	s.store(t, stored{"routes/r": oursPre})
	require.NoError(t, server.Pause())
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			require.NoError(t, server.Resume())
		}
	}
	defer resume()
	at := Place{Route: "r", Attachment: PreReq}

	patient := NewMirror(MirrorConfig{Etcd: s.client, Logger: zap.NewNop(), FirstWait: eventually})
	s.run(t, patient)
	hasty := NewMirror(MirrorConfig{Etcd: s.client, Logger: zap.NewNop(), FirstWait: time.Nanosecond})
	s.run(t, hasty)
	_, err := hasty.Route(t.Context(), "r")
	require.ErrorIs(t, err, errNoSnapshot, "it does not wait beyond its time")
	require.NotErrorIs(t, err, ErrNotFound)
	require.Equal(t, Owner{}, hasty.Owner(at))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = patient.Route(gone, "r")
	require.ErrorIs(t, err, errNoSnapshot, "nor for who has gone")

	owner := make(chan Owner)
	go func() { owner <- patient.Owner(at) }()
	resume()
	select {
	case got := <-owner:
		require.Equal(t, Owner{OwnerRoute, "r"}, got)
	case <-time.After(eventually):
		t.Fatal("it was not told")
	}
	waitFor(t, hasty.Read())
	require.Equal(t, Owner{OwnerRoute, "r"}, hasty.Owner(at))
}

func TestConsumersAreKeptOnlyWhereTheyMatter(t *testing.T) {
	m := newTestMirror()
	change := etcd.Change{Snapshot: true}
	for id, value := range map[string]string{"plain": unrelated, "ours": oursPost, "bare": bare, "broken": `{`} {
		require.Equal(t, id != "broken", json.Valid([]byte(value)))
		change.Puts = append(change.Puts, etcd.KV{Key: "/consumers/" + id, Value: []byte(value)})
	}
	m.apply(consumers, "/consumers/", change)
	require.Equal(t, 2, m.tables[consumers].len())
	require.Same(t, plainConsumer, m.find(ref{consumers, "plain"}, version{}))
	require.Same(t, bareConsumer, m.find(ref{consumers, "bare"}, version{}))
	m.apply(consumers, "/consumers/", etcd.Change{Puts: []etcd.KV{{Key: "/consumers/ours", Value: []byte(unrelated)}}})
	require.Equal(t, 1, m.tables[consumers].len())
}

func TestAnOwnerCostsNoMemory(t *testing.T) {
	m := newTestMirror()
	m.apply(routes, "/routes/", etcd.Change{Snapshot: true, Puts: []etcd.KV{{Key: "/routes/r", Value: []byte(unrelated)}}})
	m.apply(services, "/services/", etcd.Change{Snapshot: true, Puts: []etcd.KV{{Key: "/services/s", Value: []byte(oursPost)}}})
	at := Place{Route: "r", Service: "s", Consumer: "jack", Attachment: PostReq, Versions: "1&2&3"}
	require.Equal(t, Owner{OwnerService, "s"}, m.Owner(at))
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Owner(at) }))
}
