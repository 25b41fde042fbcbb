package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/admin"
	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/internal/apisix"
	"graphql-limit-count/plugins"
)

// decorationKey is the key of the decorations' endpoint.
const decorationKey = "the-key-of-the-decorations"

// longest bounds waits for what must happen.
const longest = time.Minute

// site is everything at once: the runner, the gateway in front of it, the upstream
// behind it, and the endpoint of the decorations.
type site struct {
	*stack
	gateway     *gateway.Gateway
	upstream    *upstream
	decorations *httptest.Server
	client      *http.Client
}

// startSite starts all until the test ends.
func startSite(tb testing.TB, maxBodySize int64) *site {
	tb.Helper()
	folder, err := os.MkdirTemp("", "glc")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &site{upstream: startUpstream(tb), client: &http.Client{Transport: &http.Transport{}}}
	tb.Cleanup(s.client.CloseIdleConnections)
	socket := filepath.Join(folder, "s")
	s.gateway, err = gateway.Start(context.Background(), gateway.Config{
		FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", RunnerSocket: socket, Logger: zap.NewNop(),
	})
	require.NoError(tb, err)
	directory := apisix.NewClient(apisix.Config{URL: s.gateway.AdminURL(), Key: gateway.DefaultAdminKey})
	owners := apisix.NewOwners(apisix.OwnersConfig{Client: directory, Wait: longest, Logger: zap.NewNop()})
	tb.Cleanup(func() {
		owners.Close()
		directory.Close()
		s.gateway.Close()
	})
	models := s.startDecorations(tb, filepath.Join(folder, "decorations.db"))
	s.stack = startStackAt(tb, socket, stackConfig{
		models: models, upstreams: apisix.NewCache(directory, apisix.CacheConfig{}), owners: owners, maxBodySize: maxBodySize,
	})
	return s
}

// startDecorations serves the endpoint of the decorations over a store in a file.
func (s *site) startDecorations(tb testing.TB, file string) *admin.Models {
	tb.Helper()
	store, err := admin.OpenSQLite(context.Background(), file, admin.SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, store.Close()) })
	models := admin.NewModels(store, zap.NewNop())
	require.NoError(tb, models.Load(context.Background()))
	keys, err := admin.OpenKeys(admin.KeysConfig{Admin: decorationKey})
	require.NoError(tb, err)
	handler, err := admin.NewHandler(admin.Config{
		Store: store, Models: models, Keys: keys, PluginSchema: plugins.ConfigSchema(), Logger: zap.NewNop(),
	})
	require.NoError(tb, err)
	s.decorations = httptest.NewServer(handler)
	tb.Cleanup(s.decorations.Close)
	return models
}

// put writes an object of APISIX: its kind and id, and its members.
func (s *site) put(tb testing.TB, path string, object map[string]any) {
	tb.Helper()
	text, err := json.Marshal(object)
	require.NoError(tb, err)
	got := s.do(tb, http.MethodPut, s.gateway.AdminURL()+"/apisix/admin/"+path, string(text), map[string]string{"X-API-KEY": gateway.DefaultAdminKey})
	require.Less(tb, got.status, 300, got.body)
}

// decorate writes a decoration of a service.
func (s *site) decorate(tb testing.TB, method, serviceID, id string, object map[string]any) {
	tb.Helper()
	text, err := json.Marshal(object)
	require.NoError(tb, err)
	address := s.decorations.URL + "/apisix/admin/services/" + serviceID + "/graphql_cost_decorations"
	if id != "" {
		address += "/" + id
	}
	got := s.do(tb, method, address, string(text), map[string]string{"X-API-KEY": decorationKey})
	require.Less(tb, got.status, 300, got.body)
}

// upstreamNode is the upstream as an object of APISIX.
func (s *site) upstreamNode() map[string]any {
	return map[string]any{"type": "roundrobin", "nodes": map[string]any{s.upstream.Listener.Addr().String(): 1}}
}

// limited are the plugins of a route that is limited by conf, under the attachment.
func limited(tb testing.TB, attachment string, conf map[string]any) map[string]any {
	tb.Helper()
	text, err := json.Marshal(conf)
	require.NoError(tb, err)
	return map[string]any{attachment: map[string]any{"conf": []any{map[string]any{"name": plugins.Name, "value": string(text)}}}}
}

// response is a response of the gateway.
type response struct {
	status int
	header http.Header
	body   string
}

// do makes a request. An empty body is none; a header whose name is Host is the host.
func (s *site) do(tb testing.TB, method, address, body string, headers map[string]string) response {
	tb.Helper()
	parsed, err := url.Parse(address)
	require.NoError(tb, err)
	request := &http.Request{Method: method, URL: parsed, Header: http.Header{}, Host: parsed.Host}
	if body != "" {
		request.Body = io.NopCloser(bytes.NewReader([]byte(body)))
		request.ContentLength = int64(len(body))
	}
	for name, value := range headers {
		if strings.EqualFold(name, "Host") {
			request.Host = value
			continue
		}
		request.Header.Set(name, value)
	}
	got, err := s.client.Do(request)
	require.NoError(tb, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(tb, err)
	return response{status: got.StatusCode, header: got.Header, body: string(text)}
}
