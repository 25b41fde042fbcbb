package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/apisix"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const (
	testAdminKey  = "the admin key of these tests"
	testViewerKey = "the viewer key of these tests"
	// testPoll makes waiting for a background round short.
	testPoll = 10 * time.Millisecond
	patience = 10 * time.Second
)

// endpoint is a served admin endpoint with its store and, where the test wants one, the
// development gateway as APISIX.
type endpoint struct {
	t         *testing.T
	url       string
	path      string  // of the store's file
	store     *SQLite // nil when the records are kept elsewhere
	records   Store
	models    *Models
	reclaimer *Reclaimer
	gateway   *gateway.Gateway // nil: APISIX cannot be asked
	etcd      *etcd.Client     // nil: nothing is kept in etcd
}

// startEndpoint serves on a free port. services is APISIX; nil means that it cannot be
// asked.
func startEndpoint(t *testing.T, services ServiceDirectory) *endpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "decorations.db")
	store := openStore(t, path)
	e := startEndpointOn(t, store, services)
	e.path, e.store = path, store
	return e
}

// keysOf are keys that do not change; the viewer's may be empty.
func keysOf(t *testing.T, admin, viewer string) *Keys {
	t.Helper()
	keys, err := OpenKeys(KeysConfig{Admin: admin, Viewer: viewer})
	require.NoError(t, err)
	return keys
}

// startEndpointOn is startEndpoint with the store given.
func startEndpointOn(t *testing.T, store Store, services ServiceDirectory) *endpoint {
	t.Helper()
	e := &endpoint{t: t, records: store}
	e.models = NewModels(store, zap.NewNop())
	cfg := Config{Store: store, Models: e.models, Keys: keysOf(t, testAdminKey, testViewerKey),
		PluginSchema: []byte(`{"type":"object"}`), Logger: zap.NewNop(),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a_metric 1\n") })}
	if services != nil {
		e.reclaimer = NewReclaimer(ReclaimerConfig{Store: store, Models: e.models, Directory: services,
			Logger: zap.NewNop(), Interval: testPoll})
		cfg.Reclaimer = e.reclaimer
	}
	handler, err := NewHandler(cfg)
	require.NoError(t, err)
	e.url = serve(t, handler)
	return e
}

// startWithGateway serves an endpoint that asks a development gateway's Admin API.
func startWithGateway(t *testing.T) *endpoint {
	t.Helper()
	g, client := startGateway(t)
	e := startEndpoint(t, client)
	e.gateway = g
	return e
}

// startWithEtcd serves an endpoint whose records are in etcd, under a prefix of the test's own.
// What the gateway's Admin API takes is written there as well, as APISIX would.
func startWithEtcd(t *testing.T, server *servers.Etcd, prefix string) *endpoint {
	t.Helper()
	client := etcdClient(t, server, prefix)
	e := startEndpointOn(t, NewEtcd(EtcdConfig{Client: client, Logger: zap.NewNop()}), apisix.NewEtcd(client))
	e.gateway, _ = startGateway(t)
	e.etcd = client
	// Without any configuration an etcd is taken for one that lost it.
	_, err := client.Put(t.Context(), prefix+"/global_rules/1", `{"id":"1","plugins":{}}`)
	require.NoError(t, err)
	return e
}

// startGateway starts a development gateway and a client of its Admin API.
func startGateway(t *testing.T) (*gateway.Gateway, *apisix.Client) {
	t.Helper()
	g, err := gateway.Start(t.Context(), gateway.Config{FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	client := apisix.NewClient(apisix.Config{URL: g.AdminURL(), Key: gateway.DefaultAdminKey})
	t.Cleanup(client.Close)
	return g, client
}

func openStore(t *testing.T, path string) *SQLite {
	t.Helper()
	store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop(), PollInterval: testPoll})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	require.NoError(t, err)
	background(t, func(ctx context.Context) error {
		return NewServer(handler, zap.NewNop()).Serve(ctx, listener)
	})
	return "http://" + listener.Addr().String()
}

// background runs do until the test ends.
func background(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// reply is an answer of the endpoint or the gateway.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any // nil when the answer is no JSON object
}

func (r reply) member(name string) any { return r.body[name] }

// do sends a request with the admin key to the endpoint. body is text, or any other value,
// which is sent as JSON; nil sends none.
func (e *endpoint) do(method, path string, body any) reply {
	return e.send(e.url, testAdminKey, method, path, body)
}

// apisix sends a request to the gateway's Admin API.
func (e *endpoint) apisix(method, path string, body any) reply {
	r := e.send(e.gateway.AdminURL(), gateway.DefaultAdminKey, method, path, body)
	if e.etcd != nil && r.status < http.StatusMultipleChoices {
		e.copyToEtcd(method, r)
	}
	return r
}

// copyToEtcd does in etcd what the gateway's Admin API did.
func (e *endpoint) copyToEtcd(method string, r reply) {
	e.t.Helper()
	const gatewayPrefix = "/apisix"
	if method == http.MethodDelete {
		key := r.member("key").(string)
		_, err := e.etcd.Delete(e.t.Context(), e.etcd.Prefix()+strings.TrimPrefix(key, gatewayPrefix))
		require.NoError(e.t, err)
	} else if key, ok := r.member("key").(string); ok && method != http.MethodGet {
		value, err := json.Marshal(r.member("value"))
		require.NoError(e.t, err)
		_, err = e.etcd.Put(e.t.Context(), e.etcd.Prefix()+strings.TrimPrefix(key, gatewayPrefix), string(value))
		require.NoError(e.t, err)
	}
}

func (e *endpoint) send(base, key, method, path string, body any) reply {
	e.t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		text, err := json.Marshal(body)
		require.NoError(e.t, err)
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(e.t.Context(), method, base+path, reader)
	require.NoError(e.t, err)
	if key != "" {
		request.Header.Set(keyHeader, key)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	r := reply{status: response.StatusCode, header: response.Header, text: string(text)}
	_ = json.Unmarshal(text, &r.body) // not every answer is an object
	return r
}

// createService creates a service in the gateway.
func (e *endpoint) createService(id string) {
	e.t.Helper()
	r := e.apisix(http.MethodPut, "/apisix/admin/services/"+id, `{"upstream":{"type":"roundrobin","nodes":{"127.0.0.1:1980":1}}}`)
	require.Equal(e.t, http.StatusCreated, r.status, r.text)
}

func (e *endpoint) deleteService(id string) {
	e.t.Helper()
	r := e.apisix(http.MethodDelete, "/apisix/admin/services/"+id, nil)
	require.Equal(e.t, http.StatusOK, r.status, r.text)
}

// decorationsPath is the path of a service's decorations, or of one of them.
func decorationsPath(service string, id ...string) string {
	path := "/apisix/admin/services/" + url.PathEscape(service) + "/graphql_cost_decorations"
	for _, segment := range id {
		path += "/" + url.PathEscape(segment)
	}
	return path
}

// stored counts a service's decorations below the HTTP layer.
func (e *endpoint) stored(service string) int {
	e.t.Helper()
	records, err := e.records.List(e.t.Context(), service)
	require.NoError(e.t, err)
	return len(records)
}
