package decorations

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffTellsWhatAPushWouldChange(t *testing.T) {
	current := parsed(t, `
- {id: a, field_path: Query.a, mul_arguments: [first]}
- {id: b, field_path: Query.b, add_value: 2, desc: old}
- {id: c, field_path: Query.c, add_value: 1}
- {id: d, field_path: Query.d}
- {id: e, field_path: Query.e}
`)
	for _, c := range []struct{ rule, wanted, want string }{
		{"the same", "- {field_path: Query.e}\n- {field_path: Query.d, mul_value: 1}\n- {field_path: Query.c}\n- {field_path: Query.b, add_value: 2.0, desc: old}\n- {field_path: Query.a, mul_arguments: [first]}",
			"0 added, 0 changed, 0 removed, 5 unchanged\n"},
		{"nothing", "[]", `- Query.a  id: "a"  mul_arguments: ["first"]
- Query.b  id: "b"  add_value: 2  desc: "old"
- Query.c  id: "c"
- Query.d  id: "d"
- Query.e  id: "e"
0 added, 0 changed, 5 removed, 0 unchanged
`},
		{"other members", "- {field_path: Query.a, mul_arguments: [last, first]}\n- {field_path: Query.b, desc: new, assumed_size: 3}\n- {field_path: Query.c}\n- {field_path: Query.d}\n- {field_path: Query.e}",
			`~ Query.a
    mul_arguments: ["first"] -> ["last","first"]
~ Query.b
    add_value: 2 -> (none)
    assumed_size: (none) -> 3
    desc: "old" -> "new"
0 added, 2 changed, 0 removed, 3 unchanged
`},
		{"an id on another path", "- {id: a, field_path: Query.z}\n- {id: x, field_path: Query.d}\n- {id: e, field_path: Query.e}\n- {id: b, field_path: Query.b, add_value: 2, desc: old}\n- field_path: Query.c",
			`- Query.d  id: "d"
~ Query.z
    field_path: "Query.a" -> "Query.z"
    mul_arguments: ["first"] -> (none)
+ Query.d  id: "x"
1 added, 1 changed, 1 removed, 3 unchanged
`},
		{"a path whose id goes to another", "- {id: d, field_path: Query.e}\n- {field_path: Query.d}\n- {field_path: Query.a, mul_arguments: [first]}\n- {field_path: Query.b, add_value: 2, desc: old}\n- field_path: Query.c",
			`- Query.e  id: "e"
~ Query.e
    field_path: "Query.d" -> "Query.e"
+ Query.d
1 added, 1 changed, 1 removed, 3 unchanged
`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, Diff(current, parsed(t, c.wanted)).String())
		})
	}
}

func TestDiffComparesWhatIsNoObjectAsText(t *testing.T) {
	broken := Set{Decorations: []Decoration{{ID: "a", FieldPath: "A", Value: json.RawMessage("[")}}}
	require.True(t, Diff(broken, broken).Empty())
	require.Equal(t, "~ A\n    value: \"[\" -> \"{\\\"field_path\\\":\\\"A\\\"}\"\n0 added, 1 changed, 0 removed, 0 unchanged\n",
		Diff(broken, parsed(t, "- field_path: A")).String())
}

func TestChangesAreReadAsTheyAreWritten(t *testing.T) {
	result := Result{Changes: Diff(parsed(t, "- {id: a, field_path: A}\n- {id: b, field_path: B}"),
		parsed(t, "- {field_path: A, mul_arguments: [x]}\n- {field_path: C, id: c, labels: {z: '1', a: '2'}}")),
		Warnings: []string{"w"}, DryRun: true}
	text, err := json.Marshal(result)
	require.NoError(t, err)
	require.JSONEq(t, `{"added": [{"field_path": "C", "id": "c", "labels": {"a": "2", "z": "1"}}],
		"changed": [{"id": "a", "field_path": "A", "members": [{"name": "mul_arguments", "old": null, "new": ["x"]}]}],
		"removed": [{"field_path": "B", "id": "b"}], "unchanged": 0, "warnings": ["w"], "dry_run": true}`, string(text))
	var again Result
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, result.String(), again.String())
	text, err = json.Marshal(Result{Changes: Diff(Set{}, Set{}), Warnings: []string{}})
	require.NoError(t, err)
	require.JSONEq(t, `{"added": [], "changed": [], "removed": [], "unchanged": 0, "warnings": [], "dry_run": false}`, string(text))
	var d Decoration
	require.Error(t, json.Unmarshal([]byte(`[]`), &d))
	require.Error(t, json.Unmarshal([]byte(`{"id": 1}`), &d))
}

func TestWithIDs(t *testing.T) {
	current := parsed(t, "- {id: a, field_path: A}\n- {id: b, field_path: B}")
	made := 0
	makeID := func(string) string { made++; return "new" + strconv.Itoa(made) }
	set, err := parsed(t, "- {field_path: A}\n- {id: x, field_path: B}\n- field_path: C\n- field_path: D").WithIDs(current, makeID)
	require.NoError(t, err)
	ids := []string{}
	for _, d := range set.Decorations {
		ids = append(ids, d.ID)
	}
	require.Equal(t, []string{"a", "x", "new1", "new2"}, ids)
	_, err = parsed(t, "- {field_path: A}\n- {id: a, field_path: Z}").WithIDs(current, makeID)
	require.EqualError(t, err, "id a is given to Z but is that of the decoration of A, which has none in the document")
}
