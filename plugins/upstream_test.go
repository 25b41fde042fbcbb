package plugins_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/graphql-go/graphql/language/ast"
	"github.com/graphql-go/graphql/language/parser"
	"github.com/graphql-go/graphql/language/printer"
	"github.com/stretchr/testify/require"
)

// upstream is a GraphQL server that executes nothing: it answers introspection, and
// everything else with a fixed text. What it does depends on the first segment of
// the path, so that every test has one of its own.
type upstream struct {
	*httptest.Server
	mu        sync.Mutex
	behaviour map[string]*behaviour
}

// behaviour is what an upstream does under one first segment.
type behaviour struct {
	schema string // SDL, as introspection shows it; none when empty
	// introspection, when set, answers introspection instead.
	introspection http.HandlerFunc
	// queries, when set, answers everything else.
	queries http.HandlerFunc

	mu   sync.Mutex
	urls []string // of the introspections, as in the request line
}

// helloWorld is what the upstream answers to queries.
const helloWorld = "hello world\n"

func startUpstream(tb testing.TB) *upstream {
	tb.Helper()
	u := &upstream{behaviour: map[string]*behaviour{}}
	u.Server = httptest.NewServer(u)
	tb.Cleanup(u.Close)
	return u
}

func (u *upstream) set(segment string, b *behaviour) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.behaviour[segment] = b
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	u.mu.Lock()
	b := u.behaviour[segment]
	u.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a client that goes away gets no answer anyway
	switch {
	case b == nil:
		_, _ = io.WriteString(w, helloWorld)
	case strings.Contains(string(body), "__schema"):
		b.introspect(w, r)
	case b.queries != nil:
		b.queries(w, r)
	default:
		_, _ = io.WriteString(w, `{"data":{}}`)
	}
}

func (b *behaviour) introspect(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.urls = append(b.urls, r.RequestURI)
	b.mu.Unlock()
	if b.introspection != nil {
		b.introspection(w, r)
		return
	}
	b.answerSchema(w)
}

func (b *behaviour) answerSchema(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if b.schema == "" {
		_, _ = io.WriteString(w, `{"errors":[{"message":"introspection is not allowed"}]}`)
		return
	}
	result, err := introspectionOf(b.schema)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(result)
}

func (b *behaviour) introspections() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.urls
}

// guardedBy answers introspection only with the credential.
func (b *behaviour) guardedBy(authorization string) {
	b.introspection = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != authorization {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		b.answerSchema(w)
	}
}

// introspectionOf is the introspection result of a schema.
func introspectionOf(sdl string) ([]byte, error) {
	document, err := parser.Parse(parser.ParseParams{Source: sdl})
	if err != nil {
		return nil, err
	}
	kinds := kindsOf(document)
	schema := map[string]any{"queryType": nil, "mutationType": nil, "subscriptionType": nil, "directives": []any{}}
	types := []any{}
	for _, root := range []string{"query", "mutation", "subscription"} {
		if name := strings.ToUpper(root[:1]) + root[1:]; kinds[name] != "" {
			schema[root+"Type"] = map[string]any{"name": name}
		}
	}
	for _, definition := range document.Definitions {
		if d, ok := definition.(*ast.SchemaDefinition); ok {
			for _, root := range []string{"query", "mutation", "subscription"} {
				schema[root+"Type"] = nil
			}
			for _, operation := range d.OperationTypes {
				schema[operation.Operation+"Type"] = map[string]any{"name": operation.Type.Name.Value}
			}
			continue
		}
		types = append(types, kinds.typeOf(definition))
	}
	for _, scalar := range builtInScalars {
		types = append(types, map[string]any{"kind": "SCALAR", "name": scalar})
	}
	schema["types"] = types
	return json.Marshal(map[string]any{"data": map[string]any{"__schema": schema}})
}

var builtInScalars = []string{"Int", "Float", "String", "Boolean", "ID"}

// typeKinds are the kinds of types by name.
type typeKinds map[string]string

func kindsOf(document *ast.Document) typeKinds {
	kinds := typeKinds{}
	for _, name := range builtInScalars {
		kinds[name] = "SCALAR"
	}
	for _, definition := range document.Definitions {
		switch d := definition.(type) {
		case *ast.ObjectDefinition:
			kinds[d.Name.Value] = "OBJECT"
		case *ast.InterfaceDefinition:
			kinds[d.Name.Value] = "INTERFACE"
		case *ast.UnionDefinition:
			kinds[d.Name.Value] = "UNION"
		case *ast.EnumDefinition:
			kinds[d.Name.Value] = "ENUM"
		case *ast.ScalarDefinition:
			kinds[d.Name.Value] = "SCALAR"
		case *ast.InputObjectDefinition:
			kinds[d.Name.Value] = "INPUT_OBJECT"
		}
	}
	return kinds
}

func (k typeKinds) typeOf(definition ast.Node) map[string]any {
	switch d := definition.(type) {
	case *ast.ObjectDefinition:
		return map[string]any{"kind": "OBJECT", "name": d.Name.Value, "fields": k.fields(d.Fields), "interfaces": k.named(d.Interfaces)}
	case *ast.InterfaceDefinition:
		return map[string]any{"kind": "INTERFACE", "name": d.Name.Value, "fields": k.fields(d.Fields)}
	case *ast.UnionDefinition:
		return map[string]any{"kind": "UNION", "name": d.Name.Value, "possibleTypes": k.named(d.Types)}
	case *ast.EnumDefinition:
		return map[string]any{"kind": "ENUM", "name": d.Name.Value}
	case *ast.ScalarDefinition:
		return map[string]any{"kind": "SCALAR", "name": d.Name.Value}
	case *ast.InputObjectDefinition:
		return map[string]any{"kind": "INPUT_OBJECT", "name": d.Name.Value, "inputFields": k.inputs(d.Fields)}
	}
	return map[string]any{}
}

func (k typeKinds) fields(definitions []*ast.FieldDefinition) []any {
	fields := []any{}
	for _, d := range definitions {
		fields = append(fields, map[string]any{
			"name": d.Name.Value, "args": k.inputs(d.Arguments), "type": k.reference(d.Type), "isDeprecated": false,
		})
	}
	return fields
}

func (k typeKinds) inputs(definitions []*ast.InputValueDefinition) []any {
	inputs := []any{}
	for _, d := range definitions {
		input := map[string]any{"name": d.Name.Value, "type": k.reference(d.Type), "defaultValue": nil}
		if d.DefaultValue != nil {
			input["defaultValue"] = printer.Print(d.DefaultValue)
		}
		inputs = append(inputs, input)
	}
	return inputs
}

func (k typeKinds) named(types []*ast.Named) []any {
	list := []any{}
	for _, t := range types {
		list = append(list, k.reference(t))
	}
	return list
}

func (k typeKinds) reference(t ast.Type) map[string]any {
	switch t := t.(type) {
	case *ast.NonNull:
		return map[string]any{"kind": "NON_NULL", "name": nil, "ofType": k.reference(t.Type)}
	case *ast.List:
		return map[string]any{"kind": "LIST", "name": nil, "ofType": k.reference(t.Type)}
	case *ast.Named:
		return map[string]any{"kind": k[t.Name.Value], "name": t.Name.Value, "ofType": nil}
	}
	return nil
}

func TestIntrospectionShowsASchema(t *testing.T) {
	result, err := introspectionOf(`type Query { p(first: Int = 5, tags: [String!]): [P!]! } type P { id: ID }`)
	require.NoError(t, err)
	require.Contains(t, string(result), `"defaultValue":"5"`)
	require.Contains(t, string(result), `"queryType":{"name":"Query"}`)
}
