package admin

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// stepping returns a store whose clock a test moves.
func stepping(t *testing.T) (*SQLite, *time.Time) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	store, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "decorations.db"),
		SQLiteConfig{Logger: zap.NewNop(), PollInterval: testPoll, Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store, &now
}

func plan(drafts ...Draft) func([]Record) ([]Draft, error) {
	return func([]Record) ([]Draft, error) { return drafts, nil }
}

func TestReplaceLeavesAloneWhatIsTheSame(t *testing.T) {
	store, now := stepping(t)
	same, changed := testDraft("shop", "same", "Query.same"), testDraft("shop", "changed", "Query.changed")
	same.Incarnation = "27"
	kept := put(t, store, same)
	created := put(t, store, changed)
	put(t, store, testDraft("shop", "removed", "Query.removed"))
	other := put(t, store, testDraft("other", "removed", "Query.removed"))
	*now = now.Add(time.Minute)

	same.Value, same.Incarnation = []byte(`{ "add_value": 2.0, "field_path": "Query.same" }`), ""
	changed.Value = []byte(`{"field_path":"Query.changed","add_value":3}`)
	added := testDraft("shop", "added", "Query.removed")
	var seen []Record
	after, err := store.Replace(t.Context(), "shop", func(current []Record) ([]Draft, error) {
		seen = current
		return []Draft{same, changed, added}, nil
	})
	require.NoError(t, err)
	require.Len(t, seen, 3)
	require.Equal(t, []Record{
		{Draft: added, CreateTime: 1_700_000_060, UpdateTime: 1_700_000_060, CreatedIndex: 6, ModifiedIndex: 6},
		{Draft: changed, CreateTime: 1_700_000_000, UpdateTime: 1_700_000_060, CreatedIndex: created.CreatedIndex, ModifiedIndex: 5},
		kept,
	}, after)
	records, err := store.All(t.Context())
	require.NoError(t, err)
	require.Equal(t, append([]Record{other}, after...), records)
}

func TestARefusedReplacementChangesNothing(t *testing.T) {
	refusal := errors.New("no")
	for _, c := range []struct {
		name string
		plan func([]Record) ([]Draft, error)
		want string
	}{
		{"by the plan, whose error comes back as it is", func([]Record) ([]Draft, error) { return nil, refusal }, "no"},
		{"a draft without an id", plan(testDraft("shop", "", "Query.a")),
			`replace the decorations of service shop: the decoration of "Query.a" has no id`},
		{"an id given twice", plan(testDraft("shop", "d1", "Query.a"), testDraft("shop", "d1", "Query.b")),
			`replace the decorations of service shop: decoration "d1" is given twice`},
		{"a path given twice", plan(testDraft("shop", "d1", "Query.a"), testDraft("shop", "d2", "Query.a")),
			`replace the decorations of service shop: field_path Query.a is already decorated on this service by [d1]`},
		{"a draft of another service", plan(testDraft("blog", "d1", "Query.a")),
			`replace the decorations of service shop: decoration "d1" belongs to service "blog"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, _ := stepping(t)
			before := put(t, store, testDraft("shop", "d0", "Query.z"))
			_, err := store.Replace(t.Context(), "shop", c.plan)
			require.EqualError(t, err, c.want)
			records, err := store.List(t.Context(), "shop")
			require.NoError(t, err)
			require.Equal(t, []Record{before}, records)
		})
	}
}

func TestValuesAreTheSameAsJSON(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"the same text, even if it is no JSON", `{`, `{`, true},
		{"another order of members", `{"a":1,"b":[{"c":2}]}`, `{ "b": [{"c": 2}], "a": 1 }`, true},
		{"another spelling of a number", `{"a":100,"b":[1]}`, `{"a":1e2,"b":[1.0]}`, true},
		{"another number", `{"a":1}`, `{"a":2}`, false},
		{"a number and its text", `{"a":1}`, `{"a":"1"}`, false},
		{"another order of a list", `{"a":["x","y"]}`, `{"a":["y","x"]}`, false},
		{"a member that is null and none", `{"a":null}`, `{}`, false},
		{"no JSON", `{`, `{}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, SameValue([]byte(c.a), []byte(c.b)))
			require.Equal(t, c.want, SameValue([]byte(c.b), []byte(c.a)))
		})
	}
}
