package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/ci/runner"
	"graphql-limit-count/ci/servers"
	"graphql-limit-count/ci/shop"
	"graphql-limit-count/internal/etcd"
)

const (
	// changeTimeout is ample for what must be in force within a second.
	changeTimeout = 10 * time.Second
	adminTestKey  = "the admin key of the test"
	// sampleQuery costs 52 with the two decorations of the README, 1 without.
	sampleQuery = `{"query": "{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }"}`
)

// host is a runner and the gateway that calls it.
type host struct {
	runner  *runner.Process
	gateway *gateway.Gateway
	log     *bytes.Buffer
}

// startHost starts a runner with these flags, and a gateway with a route to upstream that
// limits by node_quantifier.
func startHost(t *testing.T, upstream string, flags ...string) *host {
	t.Helper()
	folder := t.TempDir()
	h := &host{log: &bytes.Buffer{}}
	var err error
	h.runner, err = runner.Start(t.Context(), runner.Config{
		Binary: asCommand(t), Socket: filepath.Join(folder, "r.sock"), DataDir: folder,
		AdminAddr: "127.0.0.1:0", AdminKey: adminTestKey, Flags: flags, Log: h.log,
	})
	require.NoError(t, err, h.log)
	t.Cleanup(h.runner.Kill)
	h.gateway, err = gateway.Start(t.Context(), gateway.Config{
		FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", RunnerSocket: h.runner.Socket(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(h.gateway.Close)
	h.put(t, "services/shop", `{"upstream": {"type": "roundrobin", "nodes": {"`+upstream+`": 1}}}`)
	h.put(t, "routes/shop", `{"uri": "/graphql", "service_id": "shop", "plugins": {"ext-plugin-pre-req": {"conf": [{
		"name": "graphql-limit-count",
		"value": "{\"count\": 1000000, \"time_window\": 60, \"cost_strategy\": \"node_quantifier\"}"}]}}}`)
	return h
}

// put writes an object of APISIX into the gateway.
func (h *host) put(t *testing.T, path, body string) {
	t.Helper()
	status, answer := call(t, http.MethodPut, h.gateway.AdminURL()+"/apisix/admin/"+path, gateway.DefaultAdminKey, body)
	require.Less(t, status, http.StatusBadRequest, answer)
}

// decorate writes a decoration of the service shop through the runner's endpoint.
func (h *host) decorate(t *testing.T, id, body string) (status int, answer string) {
	t.Helper()
	return call(t, http.MethodPut, h.runner.AdminURL()+"/apisix/admin/services/shop/graphql_cost_decorations/"+id, adminTestKey, body)
}

// cost is what the sample query is charged.
func (h *host) cost(t *testing.T) string {
	t.Helper()
	response, err := http.Post(h.gateway.FrontURL()+"/graphql", "application/json", strings.NewReader(sampleQuery))
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.Header.Get("X-Graphql-Query-Cost")
}

// awaitCost waits until the sample query is charged that much.
func (h *host) awaitCost(t *testing.T, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return h.cost(t) == want }, changeTimeout, 20*time.Millisecond,
		"the query costs %s, not %s", h.cost(t), want)
}

func call(t *testing.T, method, url, key, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("X-API-KEY", key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

const (
	productsBody = `{"field_path": "Query.products", "mul_arguments": ["first"]}`
	reviewsBody  = `{"field_path": "Product.reviews", "mul_arguments": ["first"]}`
)

func TestAFleetSharesOneModelThroughAPISIXsEtcd(t *testing.T) {
	server := servers.RunEtcd(t)
	upstream, err := shop.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(upstream.Close)
	client, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	for _, service := range []string{"shop", "other"} {
		_, err = client.Put(t.Context(), "/apisix/services/"+service,
			`{"id": "`+service+`", "upstream": {"type": "roundrobin", "nodes": {"`+upstream.Addr()+`": 1}}}`)
		require.NoError(t, err)
	}
	flags := []string{"--store", "etcd", "--etcd-endpoints", server.Endpoint()}
	one, other := startHost(t, upstream.Addr(), flags...), startHost(t, upstream.Addr(), flags...)
	require.Equal(t, "1", one.cost(t))

	status, answer := one.decorate(t, "products", productsBody)
	require.Equal(t, http.StatusCreated, status, answer)
	status, answer = other.decorate(t, "reviews", reviewsBody)
	require.Equal(t, http.StatusCreated, status, answer)
	one.awaitCost(t, "52")
	other.awaitCost(t, "52")
	status, answer = other.decorate(t, "again", productsBody)
	require.Equal(t, http.StatusBadRequest, status, answer)
	require.Contains(t, answer, "field_path Query.products is already decorated on this service by [products]")

	require.NoError(t, server.Stop())
	require.Equal(t, "52", one.cost(t), "without etcd the last known model stays")
	require.NoError(t, server.Start(context.Background()))
	_, err = client.Delete(t.Context(), "/apisix/services/shop", clientv3.WithPrefix())
	require.NoError(t, err)
	one.awaitCost(t, "1")
	other.awaitCost(t, "1")
}

func TestDecorationsOfAFileAreInForceWhenItChanges(t *testing.T) {
	upstream, err := shop.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(upstream.Close)
	const head = "services:\n  shop:\n    decorations:\n"
	path := file(t, "decorations.yaml", head+"    - {field_path: Query.products, mul_arguments: [first]}\n")
	h := startHost(t, upstream.Addr(), "--store", "file", "--decorations", path)
	// Without APISIX to ask, the endpoint has to be named.
	h.put(t, "routes/shop", `{"uri": "/graphql", "service_id": "shop", "plugins": {"ext-plugin-pre-req": {"conf": [{
		"name": "graphql-limit-count", "value": "{\"count\": 1000000, \"time_window\": 60, \"cost_strategy\": \"node_quantifier\", \"introspection_endpoint\": \"`+upstream.URL()+`\"}"}]}}}`)
	h.awaitCost(t, "2")
	require.NoError(t, os.WriteFile(path, []byte(head+
		"    - {field_path: Query.products, mul_arguments: [first]}\n"+
		"    - {field_path: Product.reviews, mul_arguments: [first]}\n"), 0o600))
	h.awaitCost(t, "52")
	status, answer := h.decorate(t, "other", `{"field_path": "Query.other"}`)
	require.Equal(t, http.StatusForbidden, status, answer)
}
