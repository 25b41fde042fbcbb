package validation

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

const testSchema = `{
  "type": "object",
  "required": ["field_path"],
  "additionalProperties": false,
  "properties": {
    "id": {"anyOf": [
      {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9-_.]+$"},
      {"type": "integer", "minimum": 1}]},
    "field_path": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$"},
    "name": {"type": "string", "minLength": 1, "maxLength": 256},
    "desc": {"type": "string", "maxLength": 256},
    "add_value": {"type": "number", "minimum": 0},
    "mul_value": {"type": "number", "minimum": 0},
    "add_arguments": {"$ref": "#/$defs/arguments"},
    "mul_arguments": {"$ref": "#/$defs/arguments"},
    "labels": {"type": "object", "patternProperties": {".*": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^\\S+$"}}},
    "strategy": {"type": "string", "enum": ["depth", "complexity", "node_quantifier"]},
    "fixed": {"const": "only"},
    "never": false,
    "even": {"type": "integer", "multipleOf": 2, "maximum": 10},
    "open": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "count": {"oneOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}]},
    "both": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "rules": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/rule"}},
    "methods": {"type": "array", "minItems": 1, "uniqueItems": true, "contains": {"const": "POST"}},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1, "maxProperties": 2},
    "a/b~c": {"type": "object", "properties": {"properties": {"type": "string"}}},
    "depends": {"type": "object", "dependentRequired": {"burst": ["kind"]}},
    "not": {"not": {"type": "string"}}
  },
  "$defs": {
    "arguments": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "rule": {
      "type": "object",
      "required": ["key", "count"],
      "additionalProperties": false,
      "properties": {
        "key": {"type": "string"},
        "count": {"oneOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}]}
      }
    }
  }
}`

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return Compile("test.json", []byte(testSchema))
})

func validate(t *testing.T, document string) error {
	t.Helper()
	schema, err := compiled()
	require.NoError(t, err)
	value, err := Decode([]byte(document))
	require.NoError(t, err)
	return schema.Validate(value)
}

func TestMessageNamesTheFault(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, c := range []struct{ rule, document, want string }{
		{"a missing property is named", `{}`, `property "field_path" is required`},
		{"another root type is named", `[]`, `wrong type: expected object, got array`},
		{"a surplus property is named", `{"field_path":"Q","foo":1}`, `additional properties forbidden, found foo`},
		{"surplus properties are sorted and come first", `{"foo":1,"bar":1,"add_value":-1}`, `additional properties forbidden, found bar, foo`},
		{"a pattern is quoted with the value", `{"field_path":"Query."}`,
			`property "field_path" validation failed: failed to match pattern "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$" with "Query."`},
		{"a type is named", `{"field_path":1}`, `property "field_path" validation failed: wrong type: expected string, got number`},
		{"null is a type", `{"field_path":null}`, `property "field_path" validation failed: wrong type: expected string, got null`},
		{"a minimum", `{"field_path":"Q","add_value":-1}`, `property "add_value" validation failed: expected -1 to be at least 0`},
		{"fractions are short", `{"field_path":"Q","add_value":-0.10}`, `property "add_value" validation failed: expected -0.1 to be at least 0`},
		{"astronomical numbers are short", `{"field_path":"Q","add_value":-1e300}`, `property "add_value" validation failed: expected -1e+300 to be at least 0`},
		{"a maximum", `{"field_path":"Q","even":12}`, `property "even" validation failed: expected 12 to be at most 10`},
		{"a fraction where whole numbers are wanted", `{"field_path":"Q","even":2.5}`, `property "even" validation failed: wrong type: expected integer, got number with a fraction`},
		{"a multiple", `{"field_path":"Q","even":3}`, `property "even" validation failed: expected 3 to be a multiple of 2`},
		{"an open minimum", `{"field_path":"Q","open":0}`, `property "open" validation failed: expected 0 to be greater than 0`},
		{"an open maximum", `{"field_path":"Q","open":1}`, `property "open" validation failed: expected 1 to be smaller than 1`},
		{"an item, counted from 1", `{"field_path":"Q","add_arguments":["a",""]}`,
			`property "add_arguments" validation failed: failed to validate item 2: string too short, expected at least 1, got 0`},
		{"an item's type", `{"field_path":"Q","mul_arguments":[1]}`,
			`property "mul_arguments" validation failed: failed to validate item 1: wrong type: expected string, got number`},
		{"a long string", `{"field_path":"Q","name":"` + long + `"}`, `property "name" validation failed: string too long, expected at most 256, got 257`},
		{"a member under a pattern", `{"field_path":"Q","labels":{"env":1}}`,
			`property "labels" validation failed: failed to validate env (matching ".*"): wrong type: expected string, got number`},
		{"a pattern under a pattern", `{"field_path":"Q","labels":{"env":"a b"}}`,
			`property "labels" validation failed: failed to validate env (matching ".*"): failed to match pattern "^\\S+$" with "a b"`},
		{"the first of two members at fault", `{"field_path":"Q","labels":{"z":1,"b":1}}`,
			`property "labels" validation failed: failed to validate b (matching ".*"): wrong type: expected string, got number`},
		{"one fault for a value, the first keyword's", `{"field_path":"Q","labels":{"env":""}}`,
			`property "labels" validation failed: failed to validate env (matching ".*"): string too short, expected at least 1, got 0`},
		{"no alternative of anyOf, the one of that type explains", `{"field_path":"Q","id":0}`,
			`property "id" validation failed: object matches none of the required: expected 0 to be at least 1`},
		{"no alternative of that type", `{"field_path":"Q","id":true}`,
			`property "id" validation failed: object matches none of the required: wrong type: expected string or integer, got boolean`},
		{"an enum lists its values", `{"field_path":"Q","strategy":"x"}`,
			`property "strategy" validation failed: matches none of the enum values: expected "depth", "complexity" or "node_quantifier"`},
		{"a constant", `{"field_path":"Q","fixed":"x"}`, `property "fixed" validation failed: expected "only"`},
		{"a property that must not be there", `{"field_path":"Q","never":1}`, `property "never" validation failed: no value is allowed here`},
		{"no alternative of oneOf", `{"field_path":"Q","count":0}`,
			`property "count" validation failed: value should match only one schema, but matches none: expected 0 to be greater than 0`},
		{"two alternatives of oneOf", `{"field_path":"Q","both":1}`,
			`property "both" validation failed: value should match only one schema, but matches both schemas 1 and 2`},
		{"a property of an item", `{"field_path":"Q","rules":[{"key":"a","count":1},{"count":1}]}`,
			`property "rules" validation failed: failed to validate item 2: property "key" is required`},
		{"a surplus property of an item", `{"field_path":"Q","rules":[{"keys":"a"}]}`,
			`property "rules" validation failed: failed to validate item 1: additional properties forbidden, found keys`},
		{"an alternative inside an item", `{"field_path":"Q","rules":[{"key":"a","count":true}]}`,
			`property "rules" validation failed: failed to validate item 1: property "count" validation failed: value should match only one schema, but matches none: wrong type: expected integer or string, got boolean`},
		{"too many items", `{"field_path":"Q","rules":[{"key":"a","count":1},{"key":"a","count":1},{"key":"a","count":1}]}`,
			`property "rules" validation failed: expected at most 2 items, got 3`},
		{"too few items", `{"field_path":"Q","methods":[]}`, `property "methods" validation failed: expected at least 1 item, got 0`},
		{"an item that must be there", `{"field_path":"Q","methods":["GET"]}`, `property "methods" validation failed: no item is as required: expected "POST"`},
		{"an item that occurs twice", `{"field_path":"Q","methods":["POST","GET","POST"]}`, `property "methods" validation failed: items 1 and 3 are equal`},
		{"a member that the schema does not name", `{"field_path":"Q","headers":{"a":1}}`,
			`property "headers" validation failed: failed to validate additional property "a": wrong type: expected string, got number`},
		{"too few members", `{"field_path":"Q","headers":{}}`, `property "headers" validation failed: expected at least 1 property, got 0`},
		{"too many members", `{"field_path":"Q","headers":{"a":"","b":"","c":""}}`, `property "headers" validation failed: expected at most 2 properties, got 3`},
		{"names that look like keywords or pointers", `{"field_path":"Q","a/b~c":{"properties":1}}`,
			`property "a/b~c" validation failed: property "properties" validation failed: wrong type: expected string, got number`},
		{"a property that another one needs", `{"field_path":"Q","depends":{"burst":1}}`,
			`property "depends" validation failed: property "kind" is required when property "burst" is set`},
		{"a negated schema", `{"field_path":"Q","not":"x"}`, `property "not" validation failed: value should not match the schema`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for range 20 { // the library reads objects in random order
				require.Equal(t, c.want, Message(validate(t, c.document)))
			}
		})
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 200)
	require.Equal(t, `additional properties forbidden, found `+strings.Repeat("é", 128)+`...`,
		Message(validate(t, `{"field_path":"Q","`+long+`":1}`)))
	require.Contains(t, Message(validate(t, `{"field_path":"`+long+`"}`)),
		` with "`+strings.Repeat("é", 128)+`..."`)
}

func TestFaultsAreOnePerValueInPathOrder(t *testing.T) {
	const document = `{"rules":[{"count":1},{"key":"b","count":0,"x":1}],"name":"","count":0,"add_value":"1"}`
	want := []string{
		`property "field_path" is required`,
		`property "add_value" validation failed: wrong type: expected number, got string`,
		`property "count" validation failed: value should match only one schema, but matches none: expected 0 to be greater than 0`,
		`property "name" validation failed: string too short, expected at least 1, got 0`,
		`property "rules" validation failed: failed to validate item 1: property "key" is required`,
		`property "rules" validation failed: failed to validate item 2: additional properties forbidden, found x`,
		`property "rules" validation failed: failed to validate item 2: property "count" validation failed: value should match only one schema, but matches none: expected 0 to be greater than 0`,
	}
	for range 20 {
		faults := Faults(validate(t, document))
		var got []string
		for _, f := range faults {
			got = append(got, f.String())
		}
		require.Equal(t, want, got)
		require.Equal(t, KeywordRequired, faults[0].Keyword)
		require.Equal(t, []string{"field_path"}, faults[0].Names)
		require.Equal(t, []string{"rules", "0"}, faults[4].Path)
		require.Equal(t, KeywordAdditionalProperties, faults[5].Keyword)
		require.Equal(t, []string{"x"}, faults[5].Names)
		require.Equal(t, "/properties/count", faults[2].Location)
		require.Equal(t, "/$defs/rule", faults[5].Location)
	}
}

func TestEachMissingPropertyIsAFault(t *testing.T) {
	faults := Faults(validate(t, `{"field_path":"Q","rules":[{}]}`))
	require.Len(t, faults, 2)
	require.Contains(t, faults[0].String(), `property "count" is required`)
	require.Contains(t, faults[1].String(), `property "key" is required`)
}

func TestMessageOfAnotherError(t *testing.T) {
	require.Empty(t, Message(nil))
	require.Equal(t, "boom", Message(errors.New("boom")))
	require.Nil(t, Faults(errors.New("boom")))
	require.NoError(t, validate(t, `{"field_path":"Q"}`))
}

func TestCompileRefuses(t *testing.T) {
	for rule, schema := range map[string]string{
		"text that is not JSON":         `{`,
		"a schema that is not one":      `{"type": "thing"}`,
		"a reference to another schema": `{"$ref": "other.json"}`,
		"a reference into the network":  `{"$ref": "http://127.0.0.1:1/x.json"}`,
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := Compile("bad.json", []byte(schema))
			require.ErrorContains(t, err, "bad.json")
		})
	}
}

// The sentences of the reference validator for the objects of the admin endpoint;
// the file's cases about configurations belong to package plugins.
func TestDecorationVectorsReadAlike(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vectors/schema_check.json")
	require.NoError(t, err)
	var cases []struct {
		ID, Object string
		Conf       json.RawMessage
		Expect     struct {
			Valid         bool     `json:"valid"`
			ErrorContains []string `json:"error_contains"`
		}
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	ran := 0
	for _, c := range cases {
		if c.Object != "graphql_cost_decoration" {
			continue
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			err := validate(t, string(c.Conf))
			require.Equal(t, c.Expect.Valid, err == nil, "%v", err)
			for _, part := range c.Expect.ErrorContains {
				require.Contains(t, Message(err), part)
			}
		})
	}
	require.Positive(t, ran)
}
