package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const anUpstream = `{"upstream":{"type":"roundrobin","nodes":{"127.0.0.1:1980":1}}}`

func TestAdminKey(t *testing.T) {
	g := testGateway(t)
	path := g.AdminURL() + "/apisix/admin/services"
	for _, c := range []struct {
		name, url, key string
		status         int
		description    string
	}{
		{"no key is refused", path, "", 401, "missing apikey"},
		{"a wrong key is refused", path, "wrong", 401, "wrong apikey"},
		{"a wrong argument is refused", path + "?api_key=wrong", "", 401, "wrong apikey"},
		{"the header opens", path, testKey, 200, ""},
		{"the argument opens", path + "?api_key=" + testKey, "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.key != "" {
				headers = []string{"X-API-KEY", c.key}
			}
			r := send(t, http.MethodGet, c.url, "", headers...)
			require.Equal(t, c.status, r.status, r.text)
			if c.status == http.StatusUnauthorized {
				require.Equal(t, map[string]any{"error_msg": "failed to check token", "description": c.description}, r.json(t))
			}
		})
	}
}

func TestAnObjectIsCreatedReplacedReadAndDeleted(t *testing.T) {
	g := testGateway(t)
	for plural, body := range map[string]string{
		"services":  anUpstream,
		"upstreams": `{"type":"roundrobin","nodes":[{"host":"127.0.0.1","port":1980,"weight":1}]}`,
		"routes":    `{"uri":"/x","upstream":{"nodes":{"127.0.0.1:1980":1}}}`,
		"consumers": `{"username":"o1","plugins":{"key-auth":{"key":"k"}}}`,
	} {
		t.Run(plural, func(t *testing.T) {
			created := g.adminCall(t, http.MethodPut, plural+"/o1", body)
			require.Equal(t, 201, created.status, created.text)
			require.Equal(t, "application/json", created.header.Get("Content-Type"))
			object := created.json(t)
			require.Equal(t, "/apisix/"+plural+"/o1", object["key"])
			require.Len(t, object, 2, "a write's answer carries no revisions")
			value := object["value"].(map[string]any)
			require.NotZero(t, value["create_time"])
			require.NotZero(t, value["update_time"])

			require.Equal(t, 200, g.adminCall(t, http.MethodPut, plural+"/o1", body).status)

			read := g.adminCall(t, http.MethodGet, plural+"/o1", "").json(t)
			require.Equal(t, "/apisix/"+plural+"/o1", read["key"])
			require.Greater(t, read["modifiedIndex"], read["createdIndex"])
			listed := g.adminCall(t, http.MethodGet, plural, "").json(t)
			require.Equal(t, map[string]any{"total": 1.0, "list": []any{read}}, listed)

			deleted := g.adminCall(t, http.MethodDelete, plural+"/o1", "")
			require.Equal(t, 200, deleted.status)
			require.Equal(t, map[string]any{"key": "/apisix/" + plural + "/o1", "deleted": "1"}, deleted.json(t))

			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				gone := g.adminCall(t, method, plural+"/o1", "")
				require.Equal(t, 404, gone.status)
				require.Equal(t, map[string]any{"message": "Key not found"}, gone.json(t))
			}
			require.Equal(t, map[string]any{"total": 0.0, "list": []any{}}, g.adminCall(t, http.MethodGet, plural, "").json(t))

			require.Equal(t, 201, g.adminCall(t, http.MethodPut, plural+"/o1", body).status)
			again := g.adminCall(t, http.MethodGet, plural+"/o1", "").json(t)
			require.Greater(t, again["createdIndex"], read["createdIndex"], "an object created again is another one")
		})
	}
}

func TestPostGeneratesAnID(t *testing.T) {
	g := testGateway(t)
	r := g.adminCall(t, http.MethodPost, "services", anUpstream)
	require.Equal(t, 201, r.status)
	id := r.json(t)["value"].(map[string]any)["id"].(string)
	require.Len(t, id, 20)
	require.Equal(t, "/apisix/services/"+id, r.json(t)["key"])
	require.Equal(t, 200, g.adminCall(t, http.MethodGet, "services/"+id, "").status)
}

func TestAnIDMayBeANumber(t *testing.T) {
	g := testGateway(t)
	require.Equal(t, 201, g.adminCall(t, http.MethodPut, "services", `{"id":1,"upstream":{"nodes":{"127.0.0.1:1980":1}}}`).status)
	g.put(t, "routes/900", `{"uri":"/x","service_id":1}`)
	require.Equal(t, "can not delete this service directly, route [900] is still using it now",
		g.adminCall(t, http.MethodDelete, "services/1", "").json(t)["error_msg"])
}

func TestPatchMergesMembers(t *testing.T) {
	g := testGateway(t)
	g.put(t, "services/s", `{"name":"n","labels":{"a":"1"},"upstream":{"nodes":{"127.0.0.1:1980":1},"scheme":"http"}}`)

	r := g.adminCall(t, http.MethodPatch, "services/s", `{"name":null,"labels":{"b":"2"},"upstream":{"nodes":{"127.0.0.1:1981":2}}}`)
	require.Equal(t, 200, r.status, r.text)
	value := r.json(t)["value"].(map[string]any)
	require.NotContains(t, value, "name")
	require.Equal(t, map[string]any{"a": "1", "b": "2"}, value["labels"])
	require.Equal(t, map[string]any{"scheme": "http", "nodes": map[string]any{"127.0.0.1:1980": 1.0, "127.0.0.1:1981": 2.0}}, value["upstream"])

	r = g.adminCall(t, http.MethodPatch, "services/s/upstream/nodes", `{"127.0.0.1:1982":1}`)
	require.Equal(t, 200, r.status, r.text)
	value = r.json(t)["value"].(map[string]any)
	require.Equal(t, map[string]any{"scheme": "http", "nodes": map[string]any{"127.0.0.1:1982": 1.0}}, value["upstream"])
}

func TestListFiltersAndPages(t *testing.T) {
	g := testGateway(t)
	ids := func(query string) (ids []string) {
		for _, one := range g.adminCall(t, http.MethodGet, "routes"+query, "").json(t)["list"].([]any) {
			ids = append(ids, one.(map[string]any)["value"].(map[string]any)["id"].(string))
		}
		return ids
	}
	for i := 12; i > 0; i-- {
		g.put(t, fmt.Sprintf("routes/r%02d", i),
			fmt.Sprintf(`{"uri":"/p%d","name":"n%d","labels":{"l%d":"x"},"upstream":{"nodes":{"127.0.0.1:1980":1}}}`, i, i, i))
	}
	require.Equal(t, "r01", ids("")[0], "without paging by key")
	require.Equal(t, "r12", ids("?page=1&page_size=10")[0], "with paging by creation")
	require.Equal(t, []string{"r02", "r01"}, ids("?page=2&page_size=10"))
	require.Empty(t, ids("?page=3&page_size=10"))
	require.Equal(t, []string{"r12"}, ids("?name=n12"))
	require.Equal(t, []string{"r03"}, ids("?label=l3"))
	require.Equal(t, []string{"r04"}, ids("?uri=p4"))
	r := g.adminCall(t, http.MethodGet, "routes?page=1&page_size=9", "")
	require.Equal(t, 400, r.status)
	require.Equal(t, "page_size must be between 10 and 500", r.json(t)["error_msg"])
}

func TestAdminRefusals(t *testing.T) {
	g := testGateway(t)
	g.put(t, "services/s", anUpstream)
	g.put(t, "upstreams/u", `{"nodes":{"127.0.0.1:1980":1}}`)
	g.put(t, "services/of-u", `{"upstream_id":"u"}`)
	g.put(t, "upstreams/of-route", `{"nodes":{"127.0.0.1:1980":1}}`)
	g.put(t, "routes/of-upstream", `{"uri":"/x","upstream_id":"of-route"}`)
	g.put(t, "consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"one"}}}`)
	const invalid = "invalid configuration: "
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		text                     string
	}{
		{"an unknown resource", "GET", "plugins", "", 404, "Unsupported resource type: plugins"},
		{"a sub-resource of the sidecar", "GET", "services/s/graphql_cost_decorations", "", 404, "Unsupported resource type: services/s/graphql_cost_decorations"},
		{"an unknown method", "OPTIONS", "services", "", 404, "404 Route Not Found"},
		{"no body", "PUT", "services/x", "", 400, "missing configurations"},
		{"a body that is a number", "PUT", "services/x", "1", 400, "invalid configuration"},
		{"a body that is a list", "PUT", "services/x", "[]", 400, "invalid configuration"},
		{"a body that is null", "PUT", "services/x", "null", 400, "invalid configuration"},
		{"a body cut short", "PUT", "services/x", "{", 400, "invalid request body: unexpected EOF"},
		{"text after the body", "PUT", "services/x", "{}{}", 400, "invalid request body: text after the value"},
		{"a body that is too large", "PUT", "services/x", `{"a":"` + strings.Repeat("x", maxAdminBody) + `"}`, 400, "invalid request body: http: request body too large"},
		{"a time of the client's", "PUT", "services/x", `{"create_time":1}`, 400, "the property is forbidden:  create_time"},
		{"no id", "PUT", "services", anUpstream, 400, "missing service id"},
		{"another id in the body", "PUT", "services/x", `{"id":"y"}`, 400, "wrong service id"},
		{"an id with a space", "PUT", "services/a%20b", anUpstream, 400, invalid + `property "id" validation failed: object matches none of the required`},
		{"an id of 65 bytes", "PUT", "services/" + strings.Repeat("a", 65), anUpstream, 400, invalid + `property "id" validation failed: object matches none of the required`},
		{"an id that is a list", "PUT", "services", `{"id":[]}`, 400, invalid + `property "id" validation failed: object matches none of the required`},
		{"post with an id", "POST", "services/x", anUpstream, 400, "wrong service id, do not need it"},
		{"post of a body that is invalid", "POST", "services", `{"upstream":{}}`, 400, invalid + `property "upstream" validation failed: property "nodes" validation failed: is required`},
		{"post without a body", "POST", "services", "", 400, "missing configurations"},
		{"patch into what is invalid", "PATCH", "services/s", `{"upstream":{"type":"x"}}`, 400, invalid + `property "upstream" validation failed: property "type" validation failed: matches none of the enum values`},
		{"patch that removes the id", "PATCH", "services/s/id", `null`, 400, "wrong service id"},
		{"a reference that is no id", "PUT", "routes/r", `{"uri":"/x","service_id":"a b"}`, 400, invalid + "object matches none of the required"},
		{"a reference that is a fraction", "PUT", "routes/r", `{"uri":"/x","service_id":1.5}`, 400, invalid + "object matches none of the required"},
		{"an inline upstream with a misspelt member", "PUT", "services/x", `{"upstream":{"node":{}}}`, 400, invalid + `property "upstream" validation failed: additional properties forbidden, found node`},
		{"an ext-plugin that is a list", "PUT", "routes/r", `{"uri":"/x","plugins":{"ext-plugin-pre-req":[]}}`, 400, "failed to check the configuration of plugin ext-plugin-pre-req err: wrong type: expected object"},
		{"post of a consumer", "POST", "consumers", `{"username":"a"}`, 405, "not supported `POST` method for consumer"},
		{"patch of a consumer", "PATCH", "consumers/jack", `{}`, 405, "not supported `PATCH` method for consumer"},
		{"patch without an id", "PATCH", "services", `{}`, 400, "missing service id"},
		{"patch without a body", "PATCH", "services/s", "", 400, "missing new configuration"},
		{"patch with a number", "PATCH", "services/s", "1", 400, "invalid configuration"},
		{"patch of the id", "PATCH", "services/s", `{"id":"t"}`, 400, "wrong service id"},
		{"patch of what is missing", "PATCH", "services/nope", `{}`, 404, "Key not found"},
		{"patch below what is no object", "PATCH", "services/s/name/x", `1`, 400, "invalid sub-path: /name/x"},
		{"delete without an id", "DELETE", "services", "", 400, "missing service id"},
		{"delete of an upstream in use", "DELETE", "upstreams/u", "", 400, "can not delete this upstream, service [of-u] is still using it now"},
		{"delete of an upstream that a route uses", "DELETE", "upstreams/of-route", "", 400, "can not delete this upstream, route [of-upstream] is still using it now"},
		{"a misspelt member", "PUT", "routes/r", `{"ury":"/x"}`, 400, invalid + "additional properties forbidden, found ury"},
		{"a member of the wrong type", "PUT", "routes/r", `{"uri":1}`, 400, invalid + `property "uri" validation failed: wrong type: expected string, got number`},
		{"a member that would change which requests match", "PUT", "routes/r", `{"uri":"/x","vars":[]}`, 400, invalid + `property "vars" validation failed: the development gateway does not support it`},
		{"a route without a path", "PUT", "routes/r", `{"service_id":"s"}`, 400, invalid + `value should match only one schema, exactly one of "uri" and "uris"`},
		{"a route that leads nowhere", "PUT", "routes/r", `{"uri":"/x"}`, 400, invalid + `allOf 1 failed: one of "plugins", "upstream", "upstream_id" and "service_id" is required`},
		{"a path without its slash", "PUT", "routes/r", `{"uri":"x","service_id":"s"}`, 400, invalid + `property "uri" validation failed: failed to match pattern "^/"`},
		{"a method that is none", "PUT", "routes/r", `{"uri":"/x","service_id":"s","methods":["GTE"]}`, 400, invalid + `property "methods" validation failed: matches none of the enum values`},
		{"a status that is none", "PUT", "routes/r", `{"uri":"/x","service_id":"s","status":2}`, 400, invalid + `property "status" validation failed: matches none of the enum values`},
		{"a service that is missing", "PUT", "routes/r", `{"uri":"/x","service_id":"nope"}`, 400, "failed to fetch service info by service id [nope], response code: 404"},
		{"an upstream that is missing", "PUT", "services/x", `{"upstream_id":"nope"}`, 400, "failed to fetch upstream info by upstream id [nope], response code: 404"},
		{"a balancing type that is none", "PUT", "services/x", `{"upstream":{"type":"not-a-type"}}`, 400, invalid + `property "upstream" validation failed: property "type" validation failed: matches none of the enum values`},
		{"an upstream without nodes", "PUT", "upstreams/x", `{"type":"chash"}`, 400, invalid + `property "nodes" validation failed: is required`},
		{"an upstream that is text", "PUT", "services/x", `{"upstream":"u"}`, 400, invalid + `property "upstream" validation failed: wrong type: expected object`},
		{"a scheme that cannot be proxied to", "PUT", "upstreams/x", `{"scheme":"grpc","nodes":{"a:1":1}}`, 400, invalid + `property "scheme" validation failed: the development gateway proxies to http and https only`},
		{"a pass_host that is none", "PUT", "upstreams/x", `{"pass_host":"no","nodes":{"a:1":1}}`, 400, invalid + `property "pass_host" validation failed: matches none of the enum values`},
		{"a rewritten host without the host", "PUT", "upstreams/x", `{"pass_host":"rewrite","nodes":{"a:1":1}}`, 400, invalid + `property "upstream_host" validation failed: is required when "pass_host" is "rewrite"`},
		{"a node with a port that is none", "PUT", "upstreams/x", `{"nodes":{"a:b":1}}`, 400, invalid + `property "nodes" validation failed: port "b" of "a:b" is no port`},
		{"a node with a negative weight", "PUT", "upstreams/x", `{"nodes":[{"host":"a","port":1,"weight":-1}]}`, 400, invalid + `property "nodes" validation failed: host "a", port 1, weight -1`},
		{"another consumer's key", "PUT", "consumers/jill", `{"username":"jill","plugins":{"key-auth":{"key":"one"}}}`, 400, "duplicate key found with consumer: jack"},
		{"a consumer without a name", "PUT", "consumers", `{}`, 400, invalid + `property "username" is required`},
		{"a consumer's name with a dot", "PUT", "consumers/a.b", `{"username":"a.b"}`, 400, invalid + `property "username" validation failed: failed to match pattern "^[A-Za-z0-9_-]+$"`},
		{"a consumer's key-auth without a key", "PUT", "consumers/j", `{"username":"j","plugins":{"key-auth":{}}}`, 400, `invalid plugins configuration: failed to check the configuration of plugin key-auth err: property "key" is required`},
		{"an ext-plugin with an empty list", "PUT", "routes/r", `{"uri":"/x","plugins":{"ext-plugin-pre-req":{"conf":[]}}}`, 400, `failed to check the configuration of plugin ext-plugin-pre-req err: property "conf" validation failed: expect array to have at least 1 items`},
		{"an ext-plugin's entry without a value", "PUT", "routes/r", `{"uri":"/x","plugins":{"ext-plugin-pre-req":{"conf":[{"name":"a"}]}}}`, 400, `failed to check the configuration of plugin ext-plugin-pre-req err: property "conf" validation failed: failed to validate item 1: name and value are required`},
		{"a value that is no string", "PUT", "routes/r", `{"uri":"/x","plugins":{"ext-plugin-pre-req":{"conf":[{"name":"a","value":{}}]}}}`, 400, `failed to check the configuration of plugin ext-plugin-pre-req err: property "conf.value" validation failed: wrong type: expected string, got object`},
		{"a rewrite with variables", "PUT", "routes/r", `{"uri":"/x","plugins":{"proxy-rewrite":{"uri":"/$x"}}}`, 400, `failed to check the configuration of plugin proxy-rewrite err: property "uri" validation failed: expect a path without variables, got "/$x"`},
		{"a rewrite of the host", "PUT", "routes/r", `{"uri":"/x","plugins":{"proxy-rewrite":{"host":"h"}}}`, 400, `failed to check the configuration of plugin proxy-rewrite err: the development gateway does not support "host"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.adminCall(t, c.method, c.path, c.body)
			require.Equal(t, c.status, r.status, r.text)
			object := r.json(t)
			require.Len(t, object, 1)
			for _, text := range object {
				require.Equal(t, c.text, text)
			}
		})
	}
}

func TestDeletingWhatIsInUseNeedsForce(t *testing.T) {
	g := testGateway(t)
	g.put(t, "services/s", anUpstream)
	g.put(t, "routes/r1", `{"uri":"/x","service_id":"s"}`)
	require.Equal(t, 400, g.adminCall(t, http.MethodDelete, "services/s", "").status)
	require.Equal(t, 400, g.adminCall(t, http.MethodDelete, "services/s?force=anyvalue", "").status)
	require.Equal(t, 200, g.adminCall(t, http.MethodDelete, "services/s?force=true", "").status)
}

func TestPluginsThatAreNotRunAreNamedInTheLog(t *testing.T) {
	log, logs := observed()
	g := testGateway(t, func(c *Config) { c.Logger = log })
	g.put(t, "routes/r", `{"uri":"/x","plugins":{"cors":{},"key-auth":{}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`)
	require.Equal(t, 1, logs.Len())
	require.Equal(t, "cors", logs.All()[0].ContextMap()["plugin"])
	require.Equal(t, "/apisix/routes/r", logs.All()[0].ContextMap()["key"])
}

// vectorStep is what a step of the conformance vectors says about APISIX's own
// objects.
type vectorStep struct {
	Method, Path string
	Body         json.RawMessage
	Args         map[string]string
	Expect       struct {
		Status       int
		StatusBelow  int      `json:"status_below"`
		ErrorMsg     string   `json:"error_msg"`
		Message      string   `json:"message"`
		Key          string   `json:"key"`
		Deleted      string   `json:"deleted"`
		IncludesIDs  []string `json:"includes_ids"`
		ItemsWithFor *int     `json:"items_with_field_path"`
	}
}

// TestAdminVectors runs the steps of the vectors that address routes and services
// themselves; the others are the sidecar's.
func TestAdminVectors(t *testing.T) {
	text, err := os.ReadFile("../../testdata/vectors/admin.json")
	require.NoError(t, err)
	var cases []struct {
		ID    string
		Steps []vectorStep
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			g, err := Start(t.Context(), Config{FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", AdminKey: testKey, Logger: zap.NewNop()})
			require.NoError(t, err)
			defer g.Close()
			for i, s := range c.Steps {
				if s.Path != "" && !strings.Contains(s.Path, "graphql_cost_decorations") {
					s.run(t, g, i)
				}
			}
		})
	}
}

// run sends one step and compares what it expects.
func (s vectorStep) run(t *testing.T, g *Gateway, i int) {
	args := url.Values{}
	for name, value := range s.Args {
		args.Set(name, value)
	}
	r := send(t, s.Method, g.AdminURL()+s.Path+"?"+args.Encode(), string(s.Body), "X-API-KEY", testKey)
	object := r.json(t)
	if s.Expect.Status != 0 {
		require.Equal(t, s.Expect.Status, r.status, "step %d: %s", i, r.text)
	} else {
		require.Less(t, r.status, max(s.Expect.StatusBelow, 300), "step %d: %s", i, r.text)
	}
	for member, want := range map[string]string{
		"error_msg": s.Expect.ErrorMsg, "message": s.Expect.Message, "key": s.Expect.Key, "deleted": s.Expect.Deleted,
	} {
		if want != "" {
			require.Equal(t, want, object[member], "step %d", i)
		}
	}
	for _, id := range s.Expect.IncludesIDs {
		require.Contains(t, r.text, `"id":"`+id+`"`, "step %d", i)
	}
	if s.Expect.ItemsWithFor != nil {
		require.NotContains(t, r.text, "field_path", "step %d", i)
	}
}
