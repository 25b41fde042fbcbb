package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func modelPath(service string, rest ...string) string {
	return strings.Join(append([]string{"/apisix/admin/services/" + service + "/graphql_cost_model"}, rest...), "")
}

// sendTyped sends a body with a Content-Type, and an Accept header.
func (e *endpoint) sendTyped(method, path, contentType, accept, body string) reply {
	e.t.Helper()
	request, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, strings.NewReader(body))
	require.NoError(e.t, err)
	request.Header.Set(keyHeader, testAdminKey)
	for name, value := range map[string]string{"Content-Type": contentType, "Accept": accept} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	require.NoError(e.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(e.t, err)
	r := reply{status: response.StatusCode, header: response.Header, text: string(text)}
	_ = json.Unmarshal(text, &r.body) // not every answer is an object
	return r
}

const modelYAML = `decorations:
  - field_path: Query.products
    mul_arguments: [first]
  - id: reviews
    field_path: Product.reviews
    mul_arguments: [first]
    assumed_size: 20
`

func TestAModelIsReplacedAsAWhole(t *testing.T) {
	e := startWithSchemas(t, nil)
	put(t, e.store, testDraft("shop", "d1", "Query.products"))
	put(t, e.store, testDraft("shop", "d2", "Query.old"))
	put(t, e.store, testDraft("shop", "d3", "Query.same"))
	body := modelYAML + "  - {field_path: Query.same, add_value: 2.0, mul_value: 1}\n"
	want := map[string]any{
		"added": []any{map[string]any{"id": "reviews", "field_path": "Product.reviews", "mul_arguments": []any{"first"}, "assumed_size": 20.0}},
		"changed": []any{map[string]any{"id": "d1", "field_path": "Query.products", "members": []any{
			map[string]any{"name": "add_value", "old": 2.0, "new": nil},
			map[string]any{"name": "mul_arguments", "old": nil, "new": []any{"first"}},
		}}},
		"removed":   []any{map[string]any{"id": "d2", "field_path": "Query.old", "add_value": 2.0}},
		"unchanged": 1.0,
		"warnings":  []any{},
		"dry_run":   true,
	}
	before, err := e.store.List(t.Context(), "shop")
	require.NoError(t, err)

	r := e.sendTyped(http.MethodPut, modelPath("shop", "?dry_run=true"), "application/yaml", "", body)
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.Equal(t, want, r.body)
	after, err := e.store.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, before, after, "a dry run writes nothing")

	r = e.sendTyped(http.MethodPut, modelPath("shop", "?dry_run=false"), "application/yaml", "", body)
	require.Equal(t, http.StatusOK, r.status, r.text)
	want["dry_run"] = false
	require.Equal(t, want, r.body)
	after, err = e.store.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, after, 3)
	require.Equal(t, "d1", after[0].ID)
	require.JSONEq(t, `{"field_path":"Query.products","mul_arguments":["first"]}`, string(after[0].Value))
	require.Equal(t, before[0].CreatedIndex, after[0].CreatedIndex)
	require.Equal(t, before[2], after[1], "the same is left alone, whichever way it is written")
	require.Equal(t, "reviews", after[2].ID)
	require.NotNil(t, e.models.Model("shop"), "it is in force when it is answered")

	r = e.sendTyped(http.MethodPut, modelPath("shop"), "application/json", "", `{"decorations":[]}`)
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.Len(t, r.body["removed"], 3)
	require.Zero(t, e.stored("shop"))
	require.Nil(t, e.models.Model("shop"))
}

func TestWhatIsShownCanBeSentBack(t *testing.T) {
	e := startWithSchemas(t, nil)
	require.Equal(t, http.StatusOK, e.sendTyped(http.MethodPut, modelPath("shop"), "text/yaml", "", modelYAML).status)
	for _, c := range []struct{ query, accept, contentType, begin string }{
		{"", "", "application/json", "{\n  \"service_id\": \"shop\",\n  \"decorations\": ["},
		{"?format=json", "application/yaml", "application/json", "{\n"},
		{"?format=yaml", "", "application/yaml", "service_id: shop\ndecorations:\n  - field_path: Product.reviews\n    id: reviews\n    mul_arguments: [first]\n    assumed_size: 20\n"},
		{"", "application/yaml", "application/yaml", "service_id: shop\n"},
		{"", "application/json, application/yaml", "application/json", "{\n"},
	} {
		t.Run(c.query+c.accept, func(t *testing.T) {
			r := e.sendTyped(http.MethodGet, modelPath("shop", c.query), "", c.accept, "")
			require.Equal(t, http.StatusOK, r.status, r.text)
			require.Equal(t, c.contentType, r.header.Get("Content-Type"))
			require.True(t, strings.HasPrefix(r.text, c.begin), r.text)
			back := e.sendTyped(http.MethodPut, modelPath("shop"), c.contentType, "", r.text)
			require.Equal(t, http.StatusOK, back.status, back.text)
			require.Equal(t, map[string]any{"added": []any{}, "changed": []any{}, "removed": []any{},
				"unchanged": 2.0, "warnings": []any{}, "dry_run": false}, back.body)
		})
	}
	r := e.do(http.MethodGet, modelPath("none"), nil)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, map[string]any{"service_id": "none", "decorations": []any{}}, r.body)
}

func TestAModelThatCannotBeTakenChangesNothing(t *testing.T) {
	e := startWithSchemas(t, nil)
	put(t, e.store, testDraft("shop", "d1", "Query.a"))
	for _, c := range []struct {
		name, query, contentType, body string
		status                         int
		want                           string
	}{
		{"a type that is neither", "", "text/html", modelYAML, 415, `the body must be application/yaml or application/json, not "text/html"`},
		{"a type that is none", "", "a b", modelYAML, 415, "the body must be application/yaml or application/json"},
		{"no document", "", "application/yaml", "", 400, "read decorations: "},
		{"an unknown member", "", "application/yaml", "decorations: [{field_path: Query.a, weight: 2}]", 400, "weight"},
		{"a path twice", "", "", "- field_path: Query.a\n- field_path: Query.a\n", 400, "Query.a"},
		{"another service's", "", "", "service_id: blog\n" + modelYAML, 400, "wrong service_id, it is taken from the path"},
		{"no such way of running", "?dry_run=perhaps", "", modelYAML, 400, "invalid argument dry_run: must be true or false"},
		{"a lifetime", "?ttl=5", "", modelYAML, 400, "invalid argument ttl: not supported for graphql cost model"},
		{"an id that is another's", "", "", "- field_path: Query.a\n- {id: d1, field_path: Query.b}\n", 400, "d1"},
		{"a path beyond the bound", "", "", "- field_path: " + strings.Repeat("a.", 200) + "a\n", 400, "too many names, expected at most 128, got 201"},
		{"too many bytes", "", "", strings.Repeat(" ", 2<<20+1), 400, "request size 2097153 is greater than the maximum size 2097152 allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e.sendTyped(http.MethodPut, modelPath("shop", c.query), c.contentType, "", c.body)
			require.Equal(t, c.status, r.status, r.text)
			require.Contains(t, r.member(memberError), c.want)
			require.Equal(t, 1, e.stored("shop"))
		})
	}
	r := e.do(http.MethodGet, modelPath("shop", "?format=xml"), nil)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Equal(t, "invalid argument format: must be json or yaml", r.member(memberError))
	r = e.do(http.MethodPut, modelPath("a%20b"), modelYAML)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Contains(t, r.member(memberError), "invalid service id")
	r = e.do(http.MethodDelete, modelPath("shop"), nil)
	require.Equal(t, http.StatusMethodNotAllowed, r.status)
	require.Equal(t, "GET, PUT", r.header.Get("Allow"))
}

func TestAModelNeedsItsService(t *testing.T) {
	e := startWithSchemas(t, &directory{services: map[string]string{"shop": "7"}})
	r := e.do(http.MethodPut, modelPath("blog"), modelYAML)
	require.Equal(t, http.StatusNotFound, r.status, r.text)
	require.Equal(t, "service not found", r.member(memberError))
	for _, path := range []string{modelPath("blog"), decorationsPath("blog", checkName)} {
		r = e.do(http.MethodGet, path, nil)
		require.Equal(t, http.StatusNotFound, r.status, path+r.text)
		require.Equal(t, "service not found", r.member(memberError))
	}
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, modelPath("shop"), nil).status, "a service without decorations")
	require.Equal(t, http.StatusOK, e.do(http.MethodPut, modelPath("shop"), modelYAML).status)
	records, err := e.store.List(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, []string{"7", "7"}, []string{records[0].Incarnation, records[1].Incarnation})
}

func TestMadeIDsOfAModelAreNobodyElses(t *testing.T) {
	e := startWithSchemas(t, nil)
	put(t, e.store, testDraft("shop", "00000000000000000002", "Query.a"))
	long := "Query" + strings.Repeat(".abcdefghij", 6) // more than an id may have
	r := e.do(http.MethodPut, modelPath("shop"), `[{"field_path":"Query.a"},{"field_path":"Query.b"},
		{"field_path":"Query.c"},{"id":"Query.c","field_path":"Query.d"},{"field_path":"check"},{"field_path":"`+long+`"}]`)
	require.Equal(t, http.StatusOK, r.status, r.text)
	records, err := e.store.List(t.Context(), "shop")
	require.NoError(t, err)
	paths := map[string]string{}
	for _, r := range records {
		paths[r.ID] = r.FieldPath
	}
	require.Equal(t, map[string]string{
		"00000000000000000002": "Query.a", "Query.b": "Query.b", "Query.c": "Query.d",
		pathDigest("Query.c"): "Query.c", pathDigest("check"): "check", pathDigest(long): long,
	}, paths, "none is a number, which APISIX could make once more")
	put(t, e.store, testDraft("shop", "Query.c", "Query.e")) // its path moves on
	put(t, e.store, testDraft("shop", pathDigest("Query.c"), "Query.f"))
	r = e.do(http.MethodPut, modelPath("shop"), `[{"field_path":"Query.e"},{"field_path":"Query.f"},{"field_path":"Query.c"}]`)
	require.Equal(t, http.StatusOK, r.status, r.text)
	record, err := e.store.Get(t.Context(), "shop", pathDigest("Query.c 1"))
	require.NoError(t, err)
	require.Equal(t, "Query.c", record.FieldPath)
	r = e.do(http.MethodPost, decorationsPath("shop"), `{"field_path":"Query.g"}`)
	require.Equal(t, http.StatusCreated, r.status, r.text)
}

func TestAModelTellsWhatTheSchemaDoesNotHave(t *testing.T) {
	e := startWithSchemas(t, nil)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status)
	for _, query := range []string{"?dry_run=true", ""} {
		r := e.do(http.MethodPut, modelPath("shop", query), `[{"field_path":"Query.products","mul_arguments":["last"]},{"field_path":"Order"}]`)
		require.Equal(t, http.StatusOK, r.status, r.text)
		require.Equal(t, []any{
			"Order: the schema has no type Order",
			"Query.products: mul_arguments names last, which is no argument there",
		}, r.body["warnings"])
	}
}

// A file store takes no writes; reading goes on.
func TestAReadOnlyStoreRefusesWrites(t *testing.T) {
	store := openStore(t, t.TempDir()+"/decorations.db")
	put(t, store, testDraft("shop", "d1", "Query.a"))
	e := startEndpointOn(t, readOnly{store}, &directory{services: map[string]string{"shop": "7"}})
	for _, c := range []struct{ method, path, body string }{
		{"PUT", decorationsPath("shop", "d2"), `{"field_path":"Query.b"}`},
		{"POST", decorationsPath("shop"), `{"field_path":"Query.b"}`},
		{"PATCH", decorationsPath("shop", "d1"), `{"add_value":2}`},
		{"DELETE", decorationsPath("shop", "d1"), ""},
		{"PUT", modelPath("shop"), `[]`},
		{"PUT", schemaPath("shop"), shopSDL},
		{"DELETE", schemaPath("shop"), ""},
	} {
		r := e.do(c.method, c.path, c.body)
		require.Equal(t, http.StatusForbidden, r.status, fmt.Sprint(c, r.text))
		want := "the decorations are read from a file, which is the place to change them"
		if c.path == schemaPath("shop") {
			want = "schemas are read from the files that schema_file names, which are the place to change them"
		}
		require.Equal(t, want, r.member(memberError))
	}
	require.Equal(t, http.StatusOK, e.do(http.MethodGet, decorationsPath("shop", "d1"), nil).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodPut, modelPath("shop", "?dry_run=true"), `[]`).status)
	require.NoError(t, e.reclaimer.Reconcile(t.Context()))
}

// readOnly is a store that takes no writes, as one that is read from a file.
type readOnly struct{ Store }

func (readOnly) Put(context.Context, Draft) (Record, bool, error) {
	return Record{}, false, fmt.Errorf("put: %w", ErrReadOnly)
}

func (readOnly) Patch(context.Context, string, string, func(Record) (Draft, error)) (Record, error) {
	return Record{}, ErrReadOnly
}
func (readOnly) Delete(context.Context, string, string) error        { return ErrReadOnly }
func (readOnly) Reclaim(context.Context, []Record) (int, error)      { return 0, ErrReadOnly }
func (readOnly) Adopt(context.Context, []Record, string) error       { return ErrReadOnly }
func (readOnly) DeleteSchema(context.Context, string) error          { return ErrReadOnly }
func (readOnly) ReclaimSchema(context.Context, Schema) (bool, error) { return false, ErrReadOnly }
func (readOnly) AdoptSchema(context.Context, Schema, string) error   { return ErrReadOnly }
func (readOnly) PutSchema(context.Context, Schema) (Schema, bool, error) {
	return Schema{}, false, ErrReadOnly
}

func (s readOnly) Replace(ctx context.Context, serviceID string, plan func([]Record) ([]Draft, error)) ([]Record, error) {
	return s.Store.Replace(ctx, serviceID, func(current []Record) ([]Draft, error) {
		if _, err := plan(current); err != nil {
			return nil, err
		}
		return nil, ErrReadOnly
	})
}
