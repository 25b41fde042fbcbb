package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestKeysAllowWhatTheirRoleMay(t *testing.T) {
	e := startEndpoint(t, nil)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	const body = `{"field_path":"Query.a"}`
	for _, c := range []struct {
		rule, key, method, path string
		body                    any
		status                  int
		description             any
	}{
		{"no key", "", http.MethodGet, decorationsPath("shop"), nil, 401, "missing apikey"},
		{"a wrong key", "guess", http.MethodGet, decorationsPath("shop"), nil, 401, "wrong apikey"},
		{"a prefix of the key", testAdminKey[:5], http.MethodGet, decorationsPath("shop"), nil, 401, "wrong apikey"},
		{"a key in the URL", "", http.MethodGet, decorationsPath("shop") + "?api_key=" + "x", nil, 401, "missing apikey"},
		{"a viewer lists", testViewerKey, http.MethodGet, decorationsPath("shop"), nil, 200, nil},
		{"a viewer reads one", testViewerKey, http.MethodGet, decorationsPath("shop", "d1"), nil, 200, nil},
		{"a viewer reads the schema", testViewerKey, http.MethodGet, "/apisix/admin/schema/plugins/graphql-limit-count", nil, 200, nil},
		{"a viewer must not put", testViewerKey, http.MethodPut, decorationsPath("shop", "d1"), body, 401, "invalid method for role viewer"},
		{"a viewer must not post", testViewerKey, http.MethodPost, decorationsPath("shop"), body, 401, "invalid method for role viewer"},
		{"a viewer must not patch", testViewerKey, http.MethodPatch, decorationsPath("shop", "d1"), body, 401, "invalid method for role viewer"},
		{"a viewer must not delete", testViewerKey, http.MethodDelete, decorationsPath("shop", "d1"), nil, 401, "invalid method for role viewer"},
		{"the schema needs a key", "", http.MethodGet, "/apisix/admin/schema/plugins/graphql-limit-count", nil, 401, "missing apikey"},
		{"an admin may", testAdminKey, http.MethodPut, decorationsPath("shop", "d1"), body, 200, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := e.send(e.url, c.key, c.method, c.path, c.body)
			require.Equal(t, c.status, r.status, r.text)
			require.Equal(t, c.description, r.member("description"))
			if c.description != nil {
				require.Equal(t, "failed to check token", r.member(memberError))
			}
		})
	}
}

func TestHandlerNeedsAKey(t *testing.T) {
	_, err := NewHandler(Config{Logger: zap.NewNop()})
	require.EqualError(t, err, "configure the admin endpoint: there are no keys")
	h, err := NewHandler(Config{Keys: keysOf(t, "k", ""), Logger: zap.NewNop()})
	require.NoError(t, err)
	for _, key := range []string{"", "v"} {
		request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+decorationsPath("shop"), nil)
		request.Header.Set(keyHeader, key)
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		require.Equal(t, http.StatusUnauthorized, recorder.Code, "without a viewer key no key is a viewer's")
	}
}

func TestWhatIsNotServedIsRefusedAsAPISIXDoes(t *testing.T) {
	e := startEndpoint(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/", 404, "404 Route Not Found"},
		{"GET", "/apisix", 404, "404 Route Not Found"},
		{"GET", "/apisix/admin", 404, "404 Route Not Found"},
		{"GET", "/other/admin/services", 404, "404 Route Not Found"},
		{"GET", "/apisix/admin/routes/1", 404, "Unsupported resource type: routes"},
		{"GET", "/apisix/admin/services", 404, "not found"},
		{"GET", "/apisix/admin/services/shop", 404, "not found"},
		{"GET", "/apisix/admin/services/shop/other", 404, "not found"},
		{"PATCH", decorationsPath("shop", "d1", "add_value"), 404, "not found"},
		{"GET", "/apisix/admin/services//graphql_cost_decorations", 400, "missing service id"},
		{"GET", "/apisix/admin/schema/plugins/limit-count", 404, "not found"},
		{"PUT", "/apisix/admin/schema/plugins/graphql-limit-count", 404, "not found"},
		{"GET", "/apisix/admin/schema", 404, "not found"},
		{"OPTIONS", decorationsPath("shop"), 405, "not supported `OPTIONS` method for graphql cost decoration"},
		{"TRACE", decorationsPath("shop", "d1"), 405, "not supported `TRACE` method for graphql cost decoration"},
		{"PUT", decorationsPath("shop", "d1") + "?ttl=soon", 400, "invalid argument ttl: should be a number"},
		{"PUT", decorationsPath("shop", "d1") + "?ttl=60", 400, "invalid argument ttl: not supported for graphql cost decoration"},
		{"PUT", decorationsPath("a b", "d1"), 400, `invalid configuration: property "service_id" validation failed: object matches none of the required`},
		{"PUT", decorationsPath("a/b", "d1"), 400, `invalid configuration: property "service_id" validation failed: object matches none of the required`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			r := e.do(c.method, c.path, `{"field_path":"Query.a"}`)
			require.Equal(t, c.status, r.status, r.text)
			require.Equal(t, c.text, r.member(memberError))
			require.Equal(t, "application/json", r.header.Get("Content-Type"))
			if c.status == http.StatusMethodNotAllowed {
				require.Equal(t, "DELETE, GET, PATCH, POST, PUT", r.header.Get("Allow"))
			}
		})
	}
}

func TestSideDoors(t *testing.T) {
	e := startEndpoint(t, nil)
	r := e.send(e.url, "", http.MethodGet, "/healthz", nil)
	require.Equal(t, 200, r.status)
	require.Equal(t, "ok\n", r.text)
	require.Equal(t, "a_metric 1\n", e.send(e.url, "", http.MethodGet, "/metrics", nil).text)
	r = e.do(http.MethodGet, "/apisix/admin/schema/plugins/graphql-limit-count", nil)
	require.Equal(t, 200, r.status)
	require.JSONEq(t, `{"type":"object"}`, r.text)
}

func TestRequestsAreBounded(t *testing.T) {
	e := startEndpoint(t, nil)
	desc := func(size int) string {
		const frame = `{"field_path":"Query.a","desc":""}`
		return fmt.Sprintf(`{"field_path":"Query.a","desc":"%s"}`, strings.Repeat("x", size-len(frame)))
	}
	r := e.do(http.MethodPut, decorationsPath("shop", "d1"), desc(maxBody))
	require.Equal(t, 400, r.status)
	require.Contains(t, r.member(memberError), "string too long, expected at most 256, got", "a body of 1 MiB is read")

	r = e.do(http.MethodPut, decorationsPath("shop", "d1"), desc(maxBody+1))
	require.Equal(t, 400, r.status)
	require.Equal(t, "invalid request body: request size 1048577 is greater than the maximum size 1048576 allowed", r.member(memberError))

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, e.url+decorationsPath("shop", "d1"),
		io.MultiReader(strings.NewReader(desc(maxBody+1)))) // of unknown length
	require.NoError(t, err)
	request.Header.Set(keyHeader, testAdminKey)
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	require.Equal(t, 400, response.StatusCode)
	require.Contains(t, string(text), "greater than the maximum size 1048576 allowed")

	request.Body = http.NoBody
	request.Header.Set("X-Long", strings.Repeat("x", maxHeaderBytes+8<<10))
	response, err = http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode)
}

func TestValuesComeBackAsTheyWereSent(t *testing.T) {
	e := startEndpoint(t, nil)
	const sent = `{"mul_arguments":[],"field_path":"Query.a","add_value":1.50,"mul_value":1e2,"assumed_size":9007199254740993,"desc":"<&> ä"}`
	r := e.do(http.MethodPut, decorationsPath("shop", "d1"), sent)
	require.Equal(t, http.StatusCreated, r.status, r.text)
	const value = `"value":{"add_value":1.50,"assumed_size":9007199254740993,"create_time":`
	require.Contains(t, r.text, value)
	require.Contains(t, r.text, `"desc":"<&> ä","field_path":"Query.a","id":"d1","mul_arguments":[],"mul_value":1e2,"service_id":"shop"`)
	r = e.do(http.MethodGet, decorationsPath("shop", "d1"), nil)
	require.Equal(t, http.StatusOK, r.status)
	require.True(t, strings.HasPrefix(r.text, `{"key":"/apisix/services/shop/graphql_cost_decorations/d1",`+value), r.text)
	require.Contains(t, r.text, `"createdIndex":1,"modifiedIndex":1}`)
}

func TestAWriteIsInForceWhenItIsAnswered(t *testing.T) {
	e := startEndpoint(t, nil) // nothing follows the store here
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	first := e.models.Model("shop")
	require.False(t, first.Empty())
	require.Equal(t, http.StatusOK, e.do(http.MethodPatch, decorationsPath("shop", "d1"), `{"add_value":3}`).status)
	require.NotSame(t, first, e.models.Model("shop"))
	require.Equal(t, http.StatusOK, e.do(http.MethodDelete, decorationsPath("shop", "d1"), nil).status)
	require.Nil(t, e.models.Model("shop"))
}

func TestWritesAreCheckedInAPISIXsOrder(t *testing.T) {
	e := startEndpoint(t, nil)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	for _, c := range []struct{ rule, method, path, body, want string }{
		{"a patch must not set a time", "PATCH", decorationsPath("shop", "d1"), `{"update_time":1}`, "the property is forbidden:  update_time"},
		{"a patch must not name the service", "PATCH", decorationsPath("shop", "d1"), `{"service_id":null}`, "service_id can not be patched"},
		{"a patch onto a taken path, before its id is missed", "PATCH", decorationsPath("shop"), `{"field_path":"Query.a"}`,
			"field_path Query.a is already decorated on this service by [d1]"},
		{"a null is a value", "PUT", decorationsPath("shop", "d2"), `{"field_path":"Query.b","add_value":null}`,
			`invalid configuration: property "add_value" validation failed: wrong type: expected number, got null`},
		{"a list is no decoration", "PUT", decorationsPath("shop", "d2"), `[]`, "invalid configuration"},
		{"null is no decoration", "POST", decorationsPath("shop"), `null`, "invalid configuration"},
		{"a numeric id that is none", "PUT", decorationsPath("shop"), `{"field_path":"Query.b","id":0}`,
			`invalid configuration: property "id" validation failed: object matches none of the required`},
		{"a repeated member", "PUT", decorationsPath("shop", "d2"), `{"field_path":"Query.a","field_path":"Query.b"}`,
			`invalid request body: property "field_path" occurs more than once`},
		{"a number that no weight can be", "PUT", decorationsPath("shop", "d2"), `{"field_path":"Query.b","add_value":1e999}`,
			`invalid request body: property "add_value" validation failed: number 1e999 is out of range`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := e.do(c.method, c.path, c.body)
			require.Equal(t, 400, r.status, r.text)
			require.Equal(t, c.want, r.member(memberError))
		})
	}
	r := e.do(http.MethodPut, decorationsPath("shop"), `{"field_path":"Query.b","id":7}`)
	require.Equal(t, http.StatusCreated, r.status, r.text)
	require.Equal(t, "/apisix/services/shop/graphql_cost_decorations/7", r.member("key"))
}

func TestListFiltersAndPages(t *testing.T) {
	e := startEndpoint(t, nil)
	for i := range 12 {
		body := fmt.Sprintf(`{"field_path":"Query.f%d","name":"name %d","labels":{"n%d":"x"}}`, i, i, i)
		require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", fmt.Sprintf("z%02d", 20-i)), body).status)
	}
	for _, c := range []struct {
		query string
		total int
		ids   []string
	}{
		{"?label=n3", 1, []string{"z17"}},
		{"?label=x", 0, []string{}},
		{"?name=name 1", 3, []string{"z09", "z10", "z19"}},
		{"?name=^name 1$&label=n1", 1, []string{"z19"}},
		{"?uri=/x", 0, []string{}},
		{"?filter=field_path%3DQuery.f3", 1, []string{"z17"}},
		{"?filter=id%3Dz17%26id%3Dz18%26service_id%3Dshop", 1, []string{"z18"}},
		{"?filter=id%3Dz17&label=n4", 0, []string{}},
		{"?filter=upstream_id%3D1&label=n4", 1, []string{"z16"}},
		{"?page=2&page_size=10", 12, []string{"z10", "z09"}},
		{"?page=3&page_size=10", 12, []string{}},
		{"?page=9223372036854775807&page_size=10", 12, []string{}},
		{"?page=0&page_size=10&name=name 11", 1, []string{"z09"}},
		{"?page=x&page_size=10&label=n0", 1, []string{"z20"}},
	} {
		t.Run(c.query, func(t *testing.T) {
			r := e.do(http.MethodGet, decorationsPath("shop")+strings.ReplaceAll(c.query, " ", "+"), nil)
			require.Equal(t, 200, r.status, r.text)
			require.EqualValues(t, c.total, r.member("total"))
			ids := []string{}
			for _, entry := range r.member("list").([]any) {
				ids = append(ids, entry.(map[string]any)["value"].(map[string]any)["id"].(string))
			}
			require.Equal(t, c.ids, ids)
		})
	}
	for _, query := range []string{"?page=1&page_size=9", "?page=1&page_size=501"} {
		r := e.do(http.MethodGet, decorationsPath("shop")+query, nil)
		require.Equal(t, 400, r.status)
		require.Equal(t, "page_size must be between 10 and 500", r.member(memberError))
	}
	r := e.do(http.MethodGet, decorationsPath("shop")+"?name=(", nil)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.member(memberError), "invalid argument name: ")
	r = e.do(http.MethodGet, decorationsPath("shop")+"?filter=%25zz", nil)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.member(memberError), "invalid argument filter: ")
}

func TestAStoreThatFailsIsUnavailable(t *testing.T) {
	e := startEndpoint(t, nil)
	_, err := e.store.db.ExecContext(t.Context(), "DROP TABLE decoration")
	require.NoError(t, err)
	for _, c := range []struct{ method, path string }{
		{"GET", decorationsPath("shop")}, {"GET", decorationsPath("shop", "d1")}, {"PUT", decorationsPath("shop", "d1")},
		{"POST", decorationsPath("shop")}, {"PATCH", decorationsPath("shop", "d1")}, {"DELETE", decorationsPath("shop", "d1")},
	} {
		r := e.do(c.method, c.path, `{"field_path":"Query.a"}`)
		require.Equal(t, http.StatusServiceUnavailable, r.status, c.method)
		require.Equal(t, "the store cannot be used at the moment, the log of the runner tells why", r.member(memberError))
	}
}

// TestDecorationsAreCheckedAsAPISIXDoes runs the decoration cases of the configuration
// vectors through the endpoint's own check.
func TestDecorationsAreCheckedAsAPISIXDoes(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/schema_check.json")
	require.NoError(t, err)
	var cases []struct {
		ID     string          `json:"id"`
		Object string          `json:"object"`
		Conf   json.RawMessage `json:"conf"`
		Expect struct {
			Valid         bool     `json:"valid"`
			ErrorContains []string `json:"error_contains"`
			NamesField    string   `json:"names_field"`
		} `json:"expect"`
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	run := 0
	for _, c := range cases {
		if c.Object != "graphql_cost_decoration" {
			continue // a configuration of the plugin
		}
		run++
		t.Run(c.ID, func(t *testing.T) {
			body, err := parseBody(c.Conf)
			require.NoError(t, err)
			object, err := asObject(body)
			require.NoError(t, err)
			err = checkDecoration(object)
			if c.Expect.Valid {
				require.NoError(t, err)
				return
			}
			for _, part := range append(c.Expect.ErrorContains, c.Expect.NamesField) {
				require.ErrorContains(t, err, part)
			}
			if len(c.Expect.ErrorContains) == 1 {
				require.EqualError(t, err, "invalid configuration: "+c.Expect.ErrorContains[0])
			}
		})
	}
	require.Equal(t, 40, run)
}
