package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatTheSchemaDoesNotHaveIsAcceptedAndReported(t *testing.T) {
	e := startWithSchemas(t, nil)
	const d = `{"field_path":"Query.productz","mul_arguments":["first"]}`
	r := e.do(http.MethodPut, decorationsPath("shop", "d1"), d)
	require.Equal(t, http.StatusCreated, r.status)
	require.NotContains(t, r.body, memberWarnings, "no schema is known")

	r = e.do(http.MethodPut, schemaPath("shop"), shopSDL)
	require.Equal(t, []any{"Query.productz: type Query has no field productz"}, r.body[memberWarnings])

	for _, c := range []struct {
		name, method, path, body string
		want                     any // nil: no member
	}{
		{"a put that names no field", "PUT", decorationsPath("shop", "d1"), d, []any{"Query.productz: type Query has no field productz"}},
		{"a put of what there is", "PUT", decorationsPath("shop", "d1"), `{"field_path":"Query.products","mul_arguments":["first"]}`, nil},
		{"a patch that names no argument", "PATCH", decorationsPath("shop", "d1"), `{"mul_arguments":["frist"]}`,
			[]any{"Query.products: mul_arguments names frist, which is no argument there"}},
		{"a post that names no type", "POST", decorationsPath("shop"), `{"field_path":"Produkt"}`,
			[]any{"Produkt: the schema has no type Produkt"}},
		{"a post of a chain that breaks", "POST", decorationsPath("shop"), `{"field_path":"Query.products.reviews.author"}`,
			[]any{"Query.products.reviews.author: type Review has no field author"}},
		{"a chain through an interface", "PUT", decorationsPath("shop", "d2"), `{"field_path":"Query.node.reviews"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e.do(c.method, c.path, c.body)
			require.Less(t, r.status, 300, r.text)
			if c.want == nil {
				require.NotContains(t, r.body, memberWarnings)
				return
			}
			require.Equal(t, c.want, r.body[memberWarnings])
		})
	}

	r = e.send(e.url, testViewerKey, http.MethodGet, decorationsPath("shop", "check"), nil)
	require.Equal(t, http.StatusOK, r.status, r.text)
	list := r.body["list"].([]any)
	require.Len(t, list, 3)
	first := list[0].(map[string]any)
	require.NotEmpty(t, first["id"])
	delete(first, "id")
	require.Equal(t, map[string]any{"field_path": "Produkt", "warnings": []any{"Produkt: the schema has no type Produkt"}}, first)
	delete(r.body, "list")
	require.Equal(t, map[string]any{"schema_known": true, "checked": 4.0, "total": 3.0}, r.body)
}

func TestACheckWithoutASchemaSaysSo(t *testing.T) {
	e := startWithSchemas(t, nil)
	require.Equal(t, http.StatusCreated, e.do(http.MethodPut, decorationsPath("shop", "d1"), `{"field_path":"Query.a"}`).status)
	r := e.do(http.MethodGet, decorationsPath("shop", "check"), nil)
	require.Equal(t, http.StatusOK, r.status, r.text)
	require.Equal(t, map[string]any{"schema_known": false, "checked": 1.0, "total": 0.0, "list": []any{}}, r.body)
}

func TestAnAnswerHoldsAHundredWarnings(t *testing.T) {
	e := startWithSchemas(t, nil)
	require.Less(t, e.do(http.MethodPut, schemaPath("shop"), shopSDL).status, 300)
	model := []map[string]any{}
	for i := range 130 {
		model = append(model, map[string]any{"field_path": fmt.Sprintf("T%03d", i)})
	}
	text, err := json.Marshal(model)
	require.NoError(t, err)
	r := e.do(http.MethodPut, modelPath("shop"), string(text))
	require.Equal(t, http.StatusOK, r.status, r.text)
	warnings := r.body[memberWarnings].([]any)
	require.Len(t, warnings, 101)
	require.Equal(t, "T099: the schema has no type T099", warnings[99])
	require.Equal(t, "and 30 more", warnings[100])
	r = e.do(http.MethodGet, decorationsPath("shop", "check"), nil)
	require.Len(t, r.body["list"], 100)
	require.EqualValues(t, 130, r.body["total"])
}

// The id "check" is a path of its own; a store that is shared with APISIX may have it all the
// same.
func TestTheIDOfTheCheckIsReservedForIt(t *testing.T) {
	e := startWithSchemas(t, nil)
	for _, c := range []struct{ method, path, body string }{
		{"PUT", decorationsPath("shop", "check"), `{"field_path":"Query.a"}`},
		{"PUT", decorationsPath("shop"), `{"field_path":"Query.a","id":"check"}`},
		{"PUT", modelPath("shop"), `[{"id":"check","field_path":"Query.a"}]`},
	} {
		r := e.do(c.method, c.path, c.body)
		require.Equal(t, http.StatusBadRequest, r.status, r.text)
		require.Equal(t, "the id check is reserved", r.member(memberError))
	}
	put(t, e.store, testDraft("shop", "check", "Query.a"))
	require.Equal(t, http.StatusOK, e.do(http.MethodPut, decorationsPath("shop", "check"), `{"field_path":"Query.b"}`).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodPatch, decorationsPath("shop", "check"), `{"add_value":3}`).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodPut, modelPath("shop"), `[{"id":"check","field_path":"Query.a"}]`).status)
	require.Equal(t, http.StatusOK, e.do(http.MethodDelete, decorationsPath("shop", "check"), nil).status)
}
