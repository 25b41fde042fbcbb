package decorations

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parsed is a set that must parse.
func parsed(t *testing.T, text string) Set {
	t.Helper()
	set, err := Parse([]byte(text))
	require.NoError(t, err)
	return set
}

func TestParseReadsEveryFormOfASet(t *testing.T) {
	want := []Decoration{
		{FieldPath: "Query.products", Value: json.RawMessage(`{"field_path":"Query.products","mul_arguments":["first"]}`)},
		{ID: "r", FieldPath: "Product.reviews", Value: json.RawMessage(`{"field_path":"Product.reviews","add_value":1.50,"assumed_size":20,"labels":{"a":"1","b":"x"}}`)},
	}
	for rule, c := range map[string]struct {
		text  string
		id    string
		lines []int
	}{
		"YAML": {"# ours\nservice_id: shop\ndecorations:\n  - field_path: Query.products\n    mul_arguments: [first]\n  - id: r\n    field_path: Product.reviews\n    labels: {b: x, a: \"1\"}\n    assumed_size: 20\n    add_value: 1.50\n", "shop", []int{4, 6}},
		"JSON": {"{\"decorations\": [\n{\"mul_arguments\": [\"first\"], \"field_path\": \"Query.products\"},\n\n{\"id\": \"r\", \"field_path\": \"Product.reviews\", \"labels\": {\"b\": \"x\", \"a\": \"1\"}, \"assumed_size\": 20, \"add_value\": 1.50}], \"service_id\": \"shop\"}",
			"shop", []int{2, 4}},
		"a YAML list":             {"- field_path: Query.products\n  mul_arguments:\n  - first\n- {id: r, field_path: Product.reviews, add_value: 1.50, assumed_size: 20, labels: {a: '1', b: x}}", "", []int{1, 4}},
		"a JSON list":             {`[{"field_path":"Query.products","mul_arguments":["first"]},{"id":"r","field_path":"Product.reviews","add_value":1.50,"assumed_size":20,"labels":{"a":"1","b":"x"}}]`, "", []int{1, 1}},
		"one with a mark":         {"\ufeff[{\"field_path\":\"Query.products\",\"mul_arguments\":[\"first\"]},{\"id\":\"r\",\"field_path\":\"Product.reviews\",\"add_value\":1.50,\"assumed_size\":20,\"labels\":{\"a\":\"1\",\"b\":\"x\"}}]", "", []int{1, 1}},
		"one that names it twice": {"service_id: shop\ndecorations: [{service_id: shop, field_path: Query.products, mul_arguments: [first]}, {id: r, field_path: Product.reviews, add_value: 1.50, assumed_size: 20, labels: {a: '1', b: x}}]", "shop", []int{2, 2}},
	} {
		t.Run(rule, func(t *testing.T) {
			set := parsed(t, c.text)
			require.Equal(t, c.id, set.ServiceID)
			for i := range set.Decorations {
				require.Equal(t, c.lines[i], set.Decorations[i].Line)
				set.Decorations[i].Line = 0
			}
			require.Equal(t, want, set.Decorations)
		})
	}
	require.Empty(t, parsed(t, "decorations: []").Decorations)
	require.Empty(t, parsed(t, "[]").Decorations)
}

func TestParseReadsScalarsAsJSONHasThem(t *testing.T) {
	set := parsed(t, "- {field_path: A, name: yes, desc: 2020-01-01, id: 12}\n- {field_path: on, add_value: 1e3}")
	require.Equal(t, "12", set.Decorations[0].ID)
	require.JSONEq(t, `{"field_path":"A","name":"yes","desc":"2020-01-01"}`, string(set.Decorations[0].Value))
	require.JSONEq(t, `{"field_path":"on","add_value":1e3}`, string(set.Decorations[1].Value))
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"nothing", "", "line 1: decorations must be a list, not null"},
		{"a comment only", "# nothing", "line 1: decorations must be a list, not null"},
		{"text", "all of them", "line 1: decorations must be a list, not a string"},
		{"a set without decorations", "service_id: shop", "line 1: the member decorations is missing"},
		{"an unknown member of the set", "decorations: []\ndecoration: []", `line 2: unknown member "decoration": a set has decorations and service_id`},
		{"a decoration that is none", "- field_path", "line 1: a decoration must be an object, not a string"},
		{"an unknown member", "- field_path: A\n  mul_argument: [first]", `line 2: decoration of "A": additional properties forbidden, found mul_argument`},
		{"no field_path", "- add_value: 1", `line 1: decoration of "": property "field_path" is required`},
		{"a field_path that is no chain of names", "- add_value: 1\n  field_path: A..b", `line 2: decoration of "A..b": property "field_path" validation failed: failed to match pattern`},
		{"a field_path that is no text", "- field_path: 12", `line 1: decoration of "": property "field_path" validation failed: wrong type: expected string, got number`},
		{"a negative weight", "- field_path: A\n  add_value: -1", `line 2: decoration of "A": property "add_value" validation failed: expected -1 to be at least 0`},
		{"a weight that is text", "- field_path: A\n  mul_value: '2'", `line 2: decoration of "A": property "mul_value" validation failed: wrong type: expected number, got string`},
		{"a weight that is null", "- field_path: A\n  mul_value:", `line 2: decoration of "A": property "mul_value" validation failed: wrong type: expected number, got null`},
		{"arguments that are text", "- field_path: A\n  mul_arguments: first", `line 2: decoration of "A": property "mul_arguments" validation failed: wrong type: expected array, got string`},
		{"an empty argument", "- field_path: A\n  mul_arguments: ['']", `line 2: decoration of "A": property "mul_arguments" validation failed: failed to validate item 1: string too short, expected at least 1, got 0`},
		{"a path that is decorated twice", "- field_path: A\n- field_path: B\n- field_path: A", "line 3: field_path A is decorated already, on line 1"},
		{"an id that is given twice", "- {id: a, field_path: A}\n- {id: a, field_path: B}", "line 2: id a is taken already, on line 1"},
		{"an id with a slash", "- {id: a/b, field_path: A}", "line 1: id must be 1 to 64 letters, digits, points, dashes or underscores, or an integer above 0"},
		{"an id that is 0", "- {id: 0, field_path: A}", "line 1: id must be 1 to 64 letters, digits, points, dashes or underscores, or an integer above 0"},
		{"another service's decoration", "- {service_id: shop, field_path: A}", "line 1: service_id belongs to the whole set, not to a decoration of another service"},
		{"a time", "- {field_path: A, create_time: 1}", "line 1: create_time is kept by the store and cannot be set"},
		{"a member that occurs twice", "- field_path: A\n  field_path: B", `line 2: member "field_path" occurs more than once, first on line 1`},
		{"a member that occurs twice in JSON", `[{"field_path":"A","field_path":"B"}]`, `failed to validate item 1: property "field_path" occurs more than once`},
		{"a label that is a number in JSON", "[{\"field_path\":\"A\",\n\"labels\":\n{\"a\": 1}}]", `line 2: decoration of "A": property "labels" validation failed: failed to validate a (matching ".*"): wrong type: expected string, got number`},
		{"an alias", "- &a {field_path: A}\n- *a", "line 2: aliases are not supported, write *a out"},
		{"an alias bomb", "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]", "line 2: aliases are not supported, write *a out"},
		{"a merge key", "- <<: {field_path: A}", "line 1: a member's name must be plain text"},
		{"a list as a member's name", "- ? [a]\n  : b", "line 1: a member's name must be plain text"},
		{"a tag", "- field_path: !!binary QQ==", `line 1: the tag "!!binary" is not supported`},
		{"a tagged list", "!set [A]", `line 1: the tag "!set" is not supported`},
		{"a number that only YAML has", "- field_path: A\n  add_value: 0x10", `line 2: write the number "0x10" in decimal, as in JSON, or in quotes if it is text`},
		{"an octal number", "- field_path: A\n  add_value: 010", `line 2: write the number "010" in decimal, as in JSON, or in quotes if it is text`},
		{"infinity", "- field_path: A\n  add_value: .inf", `line 2: write the number ".inf" in decimal, as in JSON, or in quotes if it is text`},
		{"a number that becomes zero", "- field_path: A\n  add_value: 0.1e-400", `line 2: number 0.1e-400 is out of range`},
		{"a second document", "decorations: []\n---\ndecorations: []", "line 2: a second document begins"},
		{"what is no YAML", "decorations: [", "invalid YAML: line 1: did not find expected node content"},
		{"what is no JSON", "[{]", "invalid JSON: invalid character ']' looking for beginning of object key string (line 1, column 3)"},
		{"bytes that are not UTF-8", "- field_path: \xff", "the document is not UTF-8"},
		{"deep nesting", strings.Repeat("- ", 70) + "a", "line 1: objects and lists are nested more than 64 deep"},
		{"too many bytes", strings.Repeat("#", MaxBytes+1), "the document has 2097153 bytes, more than 2097152"},
		{"too many decorations", strings.Repeat("- a\n", MaxDecorations+1), "20001 decorations are more than 20000"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			require.ErrorContains(t, err, "read decorations: "+c.want)
		})
	}
}

func TestParseServices(t *testing.T) {
	services, err := ParseServices([]byte("services:\n  shop:\n    schema_file: shop.graphql\n    decorations: [{field_path: A}]\n  blog: {decorations: []}\n  \"7\": {schema_file: s}\n"))
	require.NoError(t, err)
	require.Equal(t, []Service{
		{Set: Set{ServiceID: "7"}, SchemaFile: "s", Line: 6},
		{Set: Set{ServiceID: "blog", Decorations: []Decoration{}}, Line: 5},
		{Set: Set{ServiceID: "shop", Decorations: []Decoration{{FieldPath: "A", Value: json.RawMessage(`{"field_path":"A"}`), Line: 4}}},
			SchemaFile: "shop.graphql", Line: 2},
	}, services)
	services, err = ParseServices([]byte("service_id: shop\ndecorations: []"))
	require.NoError(t, err)
	require.Equal(t, []Service{{Set: Set{ServiceID: "shop", Decorations: []Decoration{}}, Line: 1}}, services)
	for _, c := range []struct{ rule, text, want string }{
		{"nobody's decorations", "- field_path: A", "line 1: neither services nor service_id says whose the decorations are"},
		{"a list of services", "services: [shop]", "line 1: services must be an object of services by their ids, not a list"},
		{"another member", "services: {}\nservice_id: shop", `line 2: unknown member "service_id" beside services`},
		{"a service that is no object", "services:\n  shop: [a]", "line 2: service shop must be an object with decorations or schema_file"},
		{"a service without anything", "services:\n  shop:", "line 2: service shop must be an object with decorations or schema_file"},
		{"an id that is none", "services: {a/b: {decorations: []}}", `line 1: "a/b" is no id of a service`},
		{"a service that occurs twice", "services:\n  a: {decorations: []}\n  a: {decorations: []}", `line 3: member "a" occurs more than once, first on line 2`},
		{"a decoration that is none", "services:\n  a:\n    decorations:\n      - field_path: A\n      - {}", `service a: line 5: decoration of "": property "field_path" is required`},
		{"decorations that are no list", "services: {a: {decorations: {}}}", "service a: line 1: decorations must be a list, not an object"},
		{"a schema_file that is no name", "services: {a: {schema_file: 1}}", "line 1: service a: schema_file must name a file"},
		{"an unknown member", "services: {a: {schema: x}}", `line 1: service a: unknown member "schema": it may have decorations and schema_file`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ParseServices([]byte(c.text))
			require.EqualError(t, err, "read decorations: "+c.want)
		})
	}
}

func TestDocumentsHaveAFixedForm(t *testing.T) {
	set := parsed(t, `{"service_id": "shop", "decorations": [
		{"labels": {"team": "b", "on": "1"}, "desc": "all: of them", "name": "yes", "assumed_size": 2.50, "mul_arguments": ["first", "last"],
		 "mul_value": 2, "add_arguments": [], "add_value": 0, "id": "d1", "field_path": "Query.b"},
		{"field_path": "Query.a", "add_value": 1.0, "mul_value": 1, "id": "12"}]}`)
	set.Decorations[0].Comment = "why\nand how"
	yaml, err := set.YAML()
	require.NoError(t, err)
	require.Equal(t, `service_id: shop
decorations:
  # why
  # and how
  - field_path: Query.b
    id: d1
    add_value: 0
    add_arguments: []
    mul_value: 2
    mul_arguments: [first, last]
    assumed_size: 2.50
    name: "yes"
    desc: 'all: of them'
    labels:
      "on": "1"
      team: b
  - field_path: Query.a
    id: "12"
`, string(yaml))
	require.True(t, Diff(set, parsed(t, string(yaml))).Empty())

	text, err := NewSet("", set.Decorations).JSON()
	require.NoError(t, err)
	require.Equal(t, `{
  "decorations": [
    {
      "field_path": "Query.a",
      "id": "12"
    },
    {
      "field_path": "Query.b",
      "id": "d1",
      "add_value": 0,
      "add_arguments": [],
      "mul_value": 2,
      "mul_arguments": [
        "first",
        "last"
      ],
      "assumed_size": 2.50,
      "name": "yes",
      "desc": "all: of them",
      "labels": {
        "on": "1",
        "team": "b"
      }
    }
  ]
}
`, string(text))
	empty, err := Set{}.YAML()
	require.NoError(t, err)
	require.Equal(t, "decorations: []\n", string(empty))
	empty, err = Set{}.JSON()
	require.NoError(t, err)
	require.Equal(t, "{\n  \"decorations\": []\n}\n", string(empty))
	_, err = Set{Decorations: []Decoration{{FieldPath: "A", Value: json.RawMessage("7")}}}.YAML()
	require.EqualError(t, err, "write decorations: decoration of A: its value is not an object")
}

// FuzzParse: what Parse takes survives being written and read again, in both formats, and is
// a decoration that Schema allows.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"service_id: shop\ndecorations:\n  - field_path: A.b\n    mul_arguments: [first]\n    labels: {a: 'b'}\n", "[]", "- field_path: A\n  add_value: 1.50",
		`{"decorations":[{"field_path":"A","id":"x","desc":"\u2028 # x: y"}]}`, "- &a {field_path: A}\n- *a", "- {field_path: A, name: 'on', desc: ~}",
		"- field_path: A\n  desc: |\n    two\n    lines\n", "- field_path: A\n  add_value: 0.1e-3\n  assumed_size: 00", "? - a\n: b", "\ufeff- field_path: A",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := Parse(text)
		if err != nil {
			return
		}
		yaml, err := set.YAML()
		require.NoError(t, err)
		text, err = set.JSON()
		require.NoError(t, err)
		for _, written := range [][]byte{yaml, text} {
			again, err := Parse(written)
			require.NoError(t, err, string(written))
			require.Equal(t, set.ServiceID, again.ServiceID)
			require.True(t, Diff(set, again).Empty(), string(written))
			require.Len(t, again.Decorations, len(set.Decorations))
			for i := range again.Decorations {
				require.Equal(t, set.Decorations[i].ID, again.Decorations[i].ID)
			}
		}
	})
}
