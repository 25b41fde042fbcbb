package cost

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// introspectionAsTree is ParseIntrospection written plainly: encoding/json builds the tree,
// which is then read. ok is false where it is none.
func introspectionAsTree(text []byte) (s *Schema, ok bool) {
	type schema struct {
		QueryType, MutationType, SubscriptionType *introspectedRoot
		Types                                     []struct {
			Kind, Name string
			Fields     []struct {
				Name string
				Args []struct {
					Name         string
					DefaultValue any
				}
				Type map[string]any
			}
		}
	}
	var answer struct {
		Data *struct {
			Schema *schema `json:"__schema"`
		} `json:"data"`
		Schema *schema `json:"__schema"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&answer) != nil {
		return nil, false
	}
	in := answer.Schema
	if answer.Data != nil {
		in = answer.Data.Schema
	}
	if in == nil || len(in.Types) == 0 {
		return nil, false
	}
	s = &Schema{types: map[string]*typeDefinition{}}
	for _, t := range in.Types {
		if t.Name == "" {
			continue
		}
		definition := s.define(t.Name)
		definition.concrete = t.Kind != "" && t.Kind != "INTERFACE" && t.Kind != "UNION"
		for _, f := range t.Fields {
			of := f.Type
			for inner, wraps := of["ofType"].(map[string]any); wraps; inner, wraps = of["ofType"].(map[string]any) {
				of = inner
			}
			name, _ := of["name"].(string)
			field := &fieldDefinition{returns: name}
			for _, a := range f.Args {
				field.addArgument(a.Name, defaultAsTree(a.DefaultValue))
			}
			definition.addField(f.Name, field)
		}
	}
	for root, to := range map[*introspectedRoot]**typeDefinition{
		in.QueryType: &s.query, in.MutationType: &s.mutation, in.SubscriptionType: &s.subscription,
	} {
		if root != nil {
			*to = s.types[root.Name]
		}
	}
	return s, s.link() == nil
}

// defaultAsTree is a default as an argument's definition keeps it.
func defaultAsTree(given any) Value {
	switch d := given.(type) {
	case string:
		return parseDefault(d)
	case json.Number:
		return parseDefault(d.String())
	case bool:
		return Value{kind: unusable}
	default:
		return Value{}
	}
}

// introspections are answers in unusual forms that mean the usual thing.
var introspections = []string{
	`{"data":{"__schema":{"queryType":{"name":"Q"},"types":[{"kind":"OBJECT","name":"Q","fields":[{"name":"a","type":{"name":"A"}}]}]}}}`,
	// The name comes after what it names, as members in order of the alphabet do.
	`{"__schema":{"types":[{"fields":[{"args":[{"defaultValue":"1","name":"n"}],"name":"a","type":{"ofType":{"name":"A","ofType":null},"name":null}}],"kind":"OBJECT","name":"Q"}],"queryType":{"kind":"OBJECT","name":"Q"}}}`,
	// Escapes and other alphabets.
	`{"data":{"__schema":{"types":[{"name":"\u0051","fields":[{"name":"a\"\\\u00e9\ud83d\ude00","description":"]}\"","type":{"name":"é"}}]},{"name":"é"}]}}}`,
	// A type that is there twice, one without a name, and members that nobody asked for.
	"{\"errors\" : [ ],\t\"data\":{\"x\":[[{}],-1.5e3,true],\r\n\"__schema\":{\"types\":[{\"name\":\"A\",\"fields\":[{\"name\":\"a\",\"type\":{\"name\":\"X\"}}]} , {\"name\":\"A\",\"fields\":[{\"name\":\"a\",\"type\":{\"name\":\"Y\"}},{\"name\":\"b\"}]},{},null]}}}",
	`{"data":{"__schema":{"queryType":null,"types":[{"name":"A","fields":null},{"name":"B","fields":[]},{"name":"C","kind":"UNION","fields":[null]}]}}}`,
	`{"data":{"__schema":{"types":[{"name":"A","fields":[{"name":"a","type":{"ofType":{"ofType":{"ofType":{"name":"A"}}}}}]}]}}}`,
	`{"data":{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"name":"x","defaultValue":null},{"name":"x","defaultValue":"3"},{}],"type":null}]}]}}}`,
	// Defaults that are no strings.
	`{"data":{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"defaultValue":5,"name":"i"},{"name":"f","defaultValue" : 1.5e1 },{"name":"b","defaultValue":true},{"name":"l","defaultValue":[[1,"]"],{}]},{"name":"o","defaultValue":{"a":{"}":[]}}},{"name":"n","defaultValue":-0}]}]}]}}}`,
}

func TestIntrospectionTakesDefaultsThatAreNoStrings(t *testing.T) {
	none, noCount := Value{}, Value{kind: unusable}
	for _, c := range []struct {
		name, json string
		want       Value
	}{
		{"a literal in a string", `"5"`, Value{kind: count, num: 5}},
		{"a string literal in a string", `"\"5\""`, noCount},
		{"an empty string", `""`, noCount},
		{"an integer", `5`, Value{kind: count, num: 5}},
		{"zero", `0`, Value{kind: count}},
		{"a fraction", `1.5`, Value{kind: count, num: 1.5}},
		{"an exponent", `2E+1`, Value{kind: count, num: 20}},
		{"a negative number", `-1`, noCount},
		{"a number that float64 cannot hold", `1e400`, noCount},
		{"a number that is too long", strings.Repeat("1", 5000), noCount},
		{"true", `true`, noCount},
		{"false", `false`, noCount},
		{"null is no default", `null`, none},
		{"an array is none", `[1, [2], "]"]`, none},
		{"an empty array is none", `[]`, none},
		{"an object is none", `{"n": {"}": 1}}`, none},
		{"nesting is none", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), none},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, members := range []string{`"name": "n", "defaultValue": ` + c.json, `"defaultValue":` + c.json + `,"name":"n"`} {
				s, err := ParseIntrospection([]byte(`{"__schema": {"queryType": {"name": "Query"}, "types": [{"kind": "OBJECT", "name": "Query",
					"fields": [{"name": "a", "args": [{` + members + `}, {"name": "m", "defaultValue": "7"}], "type": {"name": "Query"}}]}]}}`))
				require.NoError(t, err)
				a := s.query.fields["a"]
				require.Equal(t, c.want, a.fallback("n"))
				require.Equal(t, Value{kind: count, num: 7}, a.fallback("m"), "what comes after it is read")
				require.Equal(t, "Query", a.returns)
			}
		})
	}
}

func TestIntrospectionIsReadAsItsTreeIs(t *testing.T) {
	for _, text := range introspections {
		want, ok := introspectionAsTree([]byte(text))
		require.True(t, ok, text)
		got, err := ParseIntrospection([]byte(text))
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
}

func TestIntrospectionOfTheWrongShape(t *testing.T) {
	for text, want := range map[string]string{
		`{"data":{"__schema":1}}`:                                              "number into __schema",
		`{"data":{"__schema":"x"}}`:                                            "string into __schema",
		`{"data":{"__schema":{"queryType":[]}}}`:                               "array into __schema.queryType",
		`{"data":{"__schema":{"mutationType":true}}}`:                          "bool into __schema.mutationType",
		`{"data":{"__schema":{"subscriptionType":false}}}`:                     "bool into __schema.subscriptionType",
		`{"data":{"__schema":{"types":[1]}}}`:                                  "number into __schema.types",
		`{"data":{"__schema":{"types":[{"name":{}}]}}}`:                        "object into types.name",
		`{"data":{"__schema":{"types":[{"kind":1}]}}}`:                         "number into types.kind",
		`{"data":{"__schema":{"types":[{"fields":[1]}]}}}`:                     "number into types.fields",
		`{"data":{"__schema":{"types":[{"fields":[{"name":1}]}]}}}`:            "number into fields.name",
		`{"data":{"__schema":{"types":[{"fields":[{"type":1}]}]}}}`:            "number into fields.type",
		`{"data":{"__schema":{"types":[{"fields":[{"type":{"ofType":1}}]}]}}}`: "number into ofType",
		`{"data":{"__schema":{"types":[{"fields":[{"args":1}]}]}}}`:            "number into fields.args",
		`{"data":{"__schema":{"types":[{"fields":[{"args":[{"name":1}]}]}]}}}`: "number into args.name",
		`{"data":{"__schema":{"types":[{"fields":[{"args":[1]}]}]}}}`:          "number into fields.args",
	} {
		_, err := ParseIntrospection([]byte(text))
		require.EqualError(t, err, "failed to decode the introspection response: json: cannot unmarshal "+want, text)
	}
}

func FuzzIntrospection(f *testing.F) {
	for _, text := range introspections {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"data":{"__schema":{"types":[{"fields":[{"args":1}]}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseIntrospection(text)
		want, ok := introspectionAsTree(text)
		// encoding/json takes names in any case, and of repeated members makes one.
		if !ok || err != nil || bytes.ContainsRune(text, '\\') || !uniqueMembers(text) || foldsNames(text) {
			return
		}
		require.True(t, want.Equal(got))
	})
}

// uniqueMembers reports whether no object names a member twice: decoding would drop one.
func uniqueMembers(text []byte) bool {
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return false
	}
	compact, err := json.Marshal(tree)
	return err == nil && bytes.Count(compact, []byte(`":`)) == bytes.Count(bytes.ReplaceAll(text, []byte(" "), nil), []byte(`":`))
}

// foldsNames reports whether a name of a member is there in another case.
func foldsNames(text []byte) bool {
	for _, name := range []string{"data", "__schema", "queryType", "mutationType", "subscriptionType", "types", "kind", "name", "fields", "args", "type", "defaultValue", "ofType"} {
		if strings.Count(strings.ToLower(string(text)), `"`+strings.ToLower(name)+`"`) != strings.Count(string(text), `"`+name+`"`) {
			return true
		}
	}
	return false
}
