package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"graphql-limit-count/introspect"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const (
	shopSDL = `type Query { products(first: Int): [Product!]! node: Node }
type Product implements Node { id: ID! reviews(first: Int): [Review!]! }
type Review { body: String }
interface Node { id: ID! }`
	introspected = `{"data":{"__schema":{"queryType":{"name":"Query"},"types":[
{"kind":"OBJECT","name":"Query","fields":[{"name":"posts","args":[],"type":{"kind":"OBJECT","name":"Post"}}]},
{"kind":"OBJECT","name":"Post","fields":[{"name":"title","args":[],"type":{"kind":"SCALAR","name":"String"}}]}]}}}`
)

// schemaEndpoint is an endpoint that knows schemas.
type schemaEndpoint struct {
	*endpoint
	source *introspect.Source
	broken atomic.Bool // uploaded schemas cannot be read
	logs   *observer.ObservedLogs
}

// startWithSchemas serves an endpoint with a source of schemas. directory is APISIX; nil means
// that it cannot be asked.
func startWithSchemas(t *testing.T, directory ServiceDirectory) *schemaEndpoint {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	e := &schemaEndpoint{endpoint: &endpoint{t: t}, logs: logs}
	e.store = openStore(t, filepath.Join(t.TempDir(), "decorations.db"))
	e.records = e.store
	e.models = NewModels(e.store, zap.NewNop())
	e.source = introspect.New(introspect.Config{Logger: zap.NewNop()})
	t.Cleanup(e.source.Close)
	uploads := breakable{NewSchemas(e.store, e.source, zap.NewNop()), &e.broken}
	cfg := Config{Store: e.store, Models: e.models, Uploads: uploads, SchemaSource: e.source,
		Keys: keysOf(t, testAdminKey, testViewerKey), Logger: zap.New(core)}
	if directory != nil {
		e.reclaimer = NewReclaimer(ReclaimerConfig{Store: e.store, Models: e.models, Uploads: uploads, Schemas: e.source,
			Directory: directory, Logger: zap.NewNop(), Interval: testPoll})
		cfg.Reclaimer = e.reclaimer
	}
	handler, err := NewHandler(cfg)
	require.NoError(t, err)
	e.url = serve(t, handler)
	return e
}

// breakable is a follower that fails while broken is set.
type breakable struct {
	Follower
	broken *atomic.Bool
}

func (b breakable) Refresh(ctx context.Context, services ...string) error {
	if b.broken.Load() {
		return errors.New("the disk is gone")
	}
	return b.Follower.Refresh(ctx, services...)
}

func schemaPath(service string, rest ...string) string {
	return strings.Join(append([]string{"/apisix/admin/services/" + service + "/graphql_schema"}, rest...), "")
}

// withoutTimes takes the times out of an answer's value after looking at them.
func withoutTimes(t *testing.T, body map[string]any) map[string]any {
	t.Helper()
	value := body["value"].(map[string]any)
	require.Positive(t, value[memberCreateTime])
	require.Positive(t, value[memberUpdateTime])
	delete(value, memberCreateTime)
	delete(value, memberUpdateTime)
	return body
}

func TestASchemaIsUploadedShownAndRemoved(t *testing.T) {
	e := startWithSchemas(t, nil)
	for _, c := range []struct{ name, text, format, contentType string }{
		{"SDL", shopSDL, "sdl", "text/plain; charset=utf-8"},
		{"introspection JSON", introspected, "introspection", "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e.do(http.MethodGet, schemaPath("shop"), nil)
			require.Equal(t, http.StatusNotFound, r.status, r.text)
			require.Equal(t, "Key not found", r.member("message"))

			for _, status := range []int{http.StatusCreated, http.StatusOK} {
				r = e.do(http.MethodPut, schemaPath("shop"), c.text)
				require.Equal(t, status, r.status, r.text)
				require.Equal(t, map[string]any{
					"key":   "/apisix/graphql_limit_count/schemas/shop",
					"value": map[string]any{"service_id": "shop", "format": c.format, "bytes": float64(len(c.text))},
				}, withoutTimes(t, r.body))
			}
			require.NotNil(t, e.source.Known("shop"), "it is in force when it is answered")

			r = e.do(http.MethodGet, schemaPath("shop"), nil)
			require.Equal(t, http.StatusOK, r.status, r.text)
			require.Positive(t, r.body["modifiedIndex"])
			require.Less(t, r.body["createdIndex"], r.body["modifiedIndex"])
			delete(r.body, "createdIndex")
			delete(r.body, "modifiedIndex")
			require.Equal(t, map[string]any{
				"key":   "/apisix/graphql_limit_count/schemas/shop",
				"value": map[string]any{"service_id": "shop", "format": c.format, "bytes": float64(len(c.text)), "schema": c.text},
			}, withoutTimes(t, r.body))

			r = e.do(http.MethodGet, schemaPath("shop", "?format=raw"), nil)
			require.Equal(t, http.StatusOK, r.status)
			require.Equal(t, c.text, r.text)
			require.Equal(t, c.contentType, r.header.Get("Content-Type"))
			require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))

			r = e.do(http.MethodDelete, schemaPath("shop"), nil)
			require.Equal(t, http.StatusOK, r.status, r.text)
			require.Equal(t, map[string]any{"deleted": "1", "key": "/apisix/graphql_limit_count/schemas/shop"}, r.body)
			require.Nil(t, e.source.Known("shop"))
			r = e.do(http.MethodDelete, schemaPath("shop"), nil)
			require.Equal(t, http.StatusNotFound, r.status, r.text)
		})
	}
}

func TestTheFirstKnownTypeOfAcceptDecides(t *testing.T) {
	e := startWithSchemas(t, nil)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
	for _, c := range []struct {
		accept, query string
		raw           bool
	}{
		{"", "", false},
		{"*/*", "", false},
		{"application/json", "", false},
		{"text/plain", "", true},
		{"text/html, text/plain;q=0.5, application/json", "", true},
		{"application/json, text/plain", "", false},
		{";;;", "", false},
		{"text/plain", "?format=json", false},
		{"application/json", "?format=raw", true},
	} {
		t.Run(c.accept+c.query, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+schemaPath("shop", c.query), nil)
			require.NoError(t, err)
			request.Header.Set(keyHeader, testViewerKey)
			if c.accept != "" {
				request.Header.Set("Accept", c.accept)
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, string(text))
			require.Equal(t, c.raw, string(text) == shopSDL)
		})
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	r := e.do(http.MethodGet, schemaPath("shop", "?format=xml"), nil)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Equal(t, "invalid argument format: must be raw or json", r.member(memberError))
}

func TestASchemaThatCannotBeUsedIsRefusedWithWhy(t *testing.T) {
	e := startWithSchemas(t, nil)
	for _, c := range []struct{ name, path, text, want string }{
		{"nothing", schemaPath("shop"), " \n", "invalid schema: the body is empty, it must be SDL or the answer to an introspection query"},
		{"broken SDL", schemaPath("shop"), "type Query {\n  a: \n}", `invalid schema: parse schema: line 3: expected a name, found "}"`},
		{"no types", schemaPath("shop"), "directive @a on FIELD", "invalid schema: parse schema: the schema declares no types"},
		{"a failed introspection", schemaPath("shop"), `{"errors":[{"message":"introspection is off"}]}`, "invalid schema: "},
		{"no query root", schemaPath("shop"), "type X { a: Int }", "invalid schema: the query root type Query is not declared"},
		{"an undeclared type", schemaPath("shop"), "type Query { a: Prodct }", "invalid schema: fields return types that are not declared: Prodct (Query.a)"},
		{"no UTF-8", schemaPath("shop"), "type Query { a: Int } # \xff", "invalid schema: it is not UTF-8"},
		{"a service id that is none", schemaPath("a%20b"), shopSDL, "invalid service id: it must be 1 to 64 letters, digits, points, dashes or underscores"},
		{"too many bytes", schemaPath("shop"), strings.Repeat(" ", MaxSchemaBytes+1),
			"invalid request body: request size 8388609 is greater than the maximum size 8388608 allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e.do(http.MethodPut, c.path, c.text)
			require.Equal(t, http.StatusBadRequest, r.status, r.text)
			require.Contains(t, r.member(memberError), c.want)
		})
	}
	schemas, err := e.store.Schemas(t.Context())
	require.NoError(t, err)
	require.Empty(t, schemas)
}

// A schema may be larger than a decoration's body may be.
func TestALargeSchemaIsTaken(t *testing.T) {
	e := startWithSchemas(t, nil)
	text := shopSDL + strings.Repeat("\n# "+strings.Repeat("x", 1000), 4<<10)
	require.Greater(t, len(text), 3<<20)
	r := e.do(http.MethodPut, schemaPath("shop"), text)
	require.Equal(t, http.StatusCreated, r.status, r.text)
	require.Equal(t, text, e.do(http.MethodGet, schemaPath("shop", "?format=raw"), nil).text)
}

func TestAnUploadNeedsItsServiceAndGoesWithIt(t *testing.T) {
	d := &directory{}
	e := startWithSchemas(t, d)
	r := e.do(http.MethodPut, schemaPath("shop"), shopSDL)
	require.Equal(t, http.StatusNotFound, r.status, r.text)
	require.Equal(t, "service not found", r.member(memberError))

	d.set(func(d *directory) { d.services = map[string]string{"shop": "1"} })
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, schemaPath("shop"), nil).status)

	d.set(func(d *directory) { d.services = map[string]string{"shop": "2"} }) // created again
	r = e.do(http.MethodGet, schemaPath("shop"), nil)
	require.Equal(t, http.StatusNotFound, r.status, r.text)
	require.Nil(t, e.source.Known("shop"))
	_, err := e.store.GetSchema(t.Context(), "shop")
	require.ErrorIs(t, err, ErrNoSchema)

	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
	d.set(func(d *directory) { d.failure = errors.New("connection refused") })
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, schemaPath("shop"), nil).status, "while APISIX cannot be asked it is shown")
	r = e.do(http.MethodPut, schemaPath("shop"), shopSDL)
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "APISIX cannot be asked about the service at the moment, try again later", r.member(memberError))
}

func TestAWriteStandsWhenItCannotBePutInForceYet(t *testing.T) {
	e := startWithSchemas(t, nil)
	e.broken.Store(true)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
	require.Equal(t, 1, e.logs.FilterMessage("a write is not in force yet").Len())
}

// upstream is a GraphQL server that answers introspection queries when told to.
type upstream struct {
	*httptest.Server
	down atomic.Bool
}

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if u.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, introspected)
	}))
	t.Cleanup(u.Close)
	return u
}

func TestASchemaIsFetchedAgainOnDemand(t *testing.T) {
	e := startWithSchemas(t, nil)
	refresh := func() reply { return e.do(http.MethodPost, schemaPath("blog", "/refresh"), nil) }
	r := refresh()
	require.Equal(t, http.StatusNotFound, r.status, r.text)
	require.Equal(t, "there is no schema to refresh: no request has needed the schema yet, so that it is not known how to fetch it", r.member(memberError))

	u := startUpstream(t)
	_, err := e.source.Schema(t.Context(), introspect.Request{ServiceID: "blog",
		Settings: introspect.NewSettings(u.URL+"/graphql", map[string]string{"Authorization": "Bearer the secret"})})
	require.NoError(t, err)
	r = refresh()
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.Equal(t, map[string]any{"service_id": "blog", "refreshed": true}, r.body)

	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("blog", "d1"), `{"field_path":"Query.postz"}`).status)
	r = refresh()
	require.Equal(t, []any{"Query.postz: type Query has no field postz"}, r.body["warnings"])

	u.down.Store(true)
	r = refresh()
	require.Equal(t, http.StatusBadGateway, r.status, r.text)
	require.Contains(t, r.member(memberError), "the schema stays as it is: ")
	require.Contains(t, r.member(memberError), u.URL)
	require.NotContains(t, r.text, "the secret")
	require.NotNil(t, e.source.Known("blog"))

	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("blog"), shopSDL).status)
	r = refresh()
	require.Equal(t, http.StatusConflict, r.status, r.text)
	require.Equal(t, "there is nothing to refresh: the schema was uploaded, it is not introspected", r.member(memberError))

	require.Equal(t, http.StatusUnauthorized, e.send(e.url, testViewerKey, http.MethodPost, schemaPath("blog", "/refresh"), nil).status)
	require.Equal(t, http.StatusMethodNotAllowed, e.do(http.MethodGet, schemaPath("blog", "/refresh"), nil).status)
	require.Equal(t, http.StatusNotFound, e.do(http.MethodPost, schemaPath("blog", "/refresh/x"), nil).status)
	e.source.Close()
	require.Equal(t, http.StatusServiceUnavailable, func() int {
		e.source.Give("blog", nil)
		return refresh().status
	}())
}

func TestWithoutASourceNothingIsRefreshed(t *testing.T) {
	e := startEndpoint(t, nil)
	r := e.do(http.MethodPost, schemaPath("shop", "/refresh"), nil)
	require.Equal(t, http.StatusNotFound, r.status, r.text)
	require.Equal(t, "this process introspects no schemas", r.member(memberError))
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
}
