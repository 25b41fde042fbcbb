package decorations

import (
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// kongExport is an answer of Kong's Admin API.
const kongExport = `{
  "data": [
    {"id": "1d0a4a5e-7a3a-4d6c-8b0e-000000000001", "created_at": 1700000000, "service": {"id": "5f6a"},
     "type_path": "Query.allPeople", "mul_arguments": ["first"], "mul_constant": 1, "add_arguments": [], "add_constant": 1},
    {"id": "1d0a4a5e-7a3a-4d6c-8b0e-000000000002", "created_at": 1700000000, "service": {"id": "5f6a"},
     "type_path": "Person.vehicleConnection", "mul_arguments": ["first"], "mul_constant": 1, "add_arguments": [], "add_constant": 2.5}
  ],
  "next": null
}`

func TestKongIsTranslated(t *testing.T) {
	for _, c := range []struct{ rule, export, service, want, notes string }{
		{"an export of the Admin API", kongExport, "",
			"- field_path: Query.allPeople\n  mul_arguments: [first]\n- field_path: Person.vehicleConnection\n  add_value: 2.5\n  mul_arguments: [first]\n", ""},
		{"a list", `[{"type_path": "A", "add_constant": 3, "mul_constant": 2, "add_arguments": ["x"]}]`, "",
			"- field_path: A\n  add_value: 3\n  add_arguments: [x]\n  mul_value: 2\n", ""},
		{"a dump in YAML", "graphql_ratelimiting_advanced_cost_decoration:\n- type_path: A\n  mul_arguments: [m]\n  service: shop\n  add_arguments: null\n", "",
			"- field_path: A\n  mul_arguments: [m]\n", ""},
		{"an empty list that clears what a shorter path gives", `[{"type_path": "Person", "mul_arguments": ["first"]}, {"type_path": "Query.person", "mul_arguments": [], "add_arguments": []}]`, "",
			"- field_path: Person\n  mul_arguments: [first]\n- field_path: Query.person\n  mul_arguments: []\n", ""},
		{"one of several services", `[{"type_path": "A", "service": {"id": "s1"}}, {"type_path": "B", "service": {"id": "s2"}}, {"type_path": "C", "service": null}]`, "s2",
			"- field_path: B\n- field_path: C\n", "line 1: C: it is global in Kong: give it to every other service too\n"},
		{"what has no counterpart", `{"data": [
{"type_path": "A", "add_constant": -1},
{"type_path": "B.b", "color": "red"},
{"type_path": "C."},
{"add_constant": 2},
{"type_path": "B.b", "add_constant": 2},
{"type_path": "D", "mul_arguments": "first"},
{"type_path": "E", "mul_constant": "2"},
7]}`, "",
			"- field_path: B.b\n",
			`line 2: A: not mapped: add_constant -1 is negative, and add_value cannot be
line 3: B.b: not mapped: the member "color" is not known
line 4: C.: not mapped: it is no chain of names
line 5: a decoration: not mapped: it has no type_path
line 6: B.b: not mapped: the path is decorated already, on line 3, and only one decoration of a path counts
line 7: D: not mapped: property "mul_arguments" validation failed: wrong type: expected array, got string
line 8: E: not mapped: property "mul_value" validation failed: wrong type: expected number, got string
line 9: a decoration: not mapped: it has no type_path
`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			set, notes, err := FromKong([]byte(c.export), c.service)
			require.NoError(t, err)
			require.Equal(t, "decorations:\n"+indented(c.want), asYAML(t, set))
			require.Equal(t, c.notes, FormatNotes(notes))
			requireAccepted(t, set)
		})
	}
}

func TestKongRefuses(t *testing.T) {
	for _, c := range []struct{ rule, export, want string }{
		{"several services", `[{"type_path": "A", "service": {"id": "s2"}}, {"type_path": "B", "service": {"id": "s1"}}]`,
			"read Kong's decorations: they belong to 2 services, choose one of s1, s2"},
		{"one page of several", `{"next": "/services/s/graphql-rate-limiting-advanced/costs?offset=x", "data": [{"type_path": "A"}]}`,
			"read Kong's decorations: the document is only one page, the rest is at /services/s/graphql-rate-limiting-advanced/costs?offset=x: put the data of all pages into one"},
		{"another document", `{"list": []}`, "read Kong's decorations: line 1: there is no member data"},
		{"data that is no list", `{"data": 1}`, "read Kong's decorations: line 1: the decorations must be a list, not a number"},
		{"what is no JSON", `{"data": [}`, "read Kong's decorations: invalid JSON: invalid character '}' looking for beginning of value (line 1, column 11)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, _, err := FromKong([]byte(c.export), "")
			require.EqualError(t, err, c.want)
		})
	}
}

// The documented example of Kong's default strategy, which is complexity here.
func TestKongCostsAsInKong(t *testing.T) {
	const sdl = `type Query { allPeople(first: Int): People } type People { people: [Person] }
		type Person { name: String vehicleConnection(first: Int): Vehicles } type Vehicles { vehicles: [Vehicle] }
		type Vehicle { id: ID name: String cargoCapacity: Int }`
	set, _, err := FromKong([]byte(`{"data": [{"type_path": "Query.allPeople", "mul_arguments": ["first"], "mul_constant": 1, "add_arguments": [], "add_constant": 1},
		{"type_path": "Person.vehicleConnection", "mul_arguments": ["first"], "mul_constant": 1, "add_arguments": [], "add_constant": 1}]}`), "")
	require.NoError(t, err)
	require.EqualValues(t, 862, raw(t, cost.Complexity, sdl, requireAccepted(t, set),
		"{ allPeople(first: 20) { people { name vehicleConnection(first: 10) { vehicles { id name cargoCapacity } } } } }"))
}

func TestReadTellsFormatsApart(t *testing.T) {
	const sdl = "# a schema\n\"\"\"\ntype: x\n\"\"\"\ntype Query { a: Int @cost(weight: \"2\") }"
	for _, c := range []struct {
		rule, name, text string
		format           Format
		want             string // the only field path
	}{
		{"SDL by its name", "schema.graphqls", "type Query{a:Int @cost(weight:2)}", FormatAuto, "Query.a"},
		{"SDL by its text", "-", sdl, FormatAuto, "Query.a"},
		{"SDL that begins with an extension", "", "extend schema @link(url: \"x\") type Query { a: Int @cost(weight: 2) }", "", "Query.a"},
		{"Kong's by its members", "costs.json", `{"data": [{"type_path": "A"}]}`, FormatAuto, "A"},
		{"Kong's in a list", "costs.json", `[{"type_path": "A"}]`, FormatAuto, "A"},
		{"YAML", "decorations.yaml", "- field_path: A", FormatAuto, "A"},
		{"YAML with a member called type", "-", "type : x", FormatAuto, ""},
		{"JSON", "-", `[{"field_path": "A"}]`, FormatAuto, "A"},
		{"as it is told", "x.graphql", `[{"field_path": "A"}]`, FormatJSON, "A"},
		{"SDL as it is told", "x.txt", sdl, FormatSDL, "Query.a"},
		{"Kong's as it is told", "x.yaml", "data: [{type_path: A}]", FormatKong, "A"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			set, _, err := Read([]byte(c.text), ReadOptions{Format: c.format, Name: c.name})
			if c.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Len(t, set.Decorations, 1)
			require.Equal(t, c.want, set.Decorations[0].FieldPath)
		})
	}
	_, _, err := Read(nil, ReadOptions{Format: "toml"})
	require.EqualError(t, err, `format "toml" is none of [auto yaml json sdl kong]`)
	_, _, err = Read([]byte(`{"data": []}`), ReadOptions{})
	require.EqualError(t, err, "read Kong's decorations: there are none", "an empty set would remove everything")
	_, _, err = Read([]byte(kongExport), ReadOptions{KongService: "other"})
	require.ErrorContains(t, err, `read Kong's decorations: there are none of service "other", only of `)
}

// FuzzFromKong: what is translated is accepted.
func FuzzFromKong(f *testing.F) {
	for _, seed := range []string{kongExport, `[{"type_path": "A", "service": {"id": "s"}, "mul_arguments": []}, {"type_path": "A.b", "add_constant": 1e-400}]`,
		"data:\n- type_path: A\n  mul_constant: 1.50\n  add_arguments: [a, b]\nnext: x", `{"data": [{"type_path": 1, "service": 2}, [], null]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, export []byte) {
		set, notes, err := FromKong(export, "")
		if err != nil {
			return
		}
		FormatNotes(notes)
		requireAccepted(t, set)
	})
}
