package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func repeated(n int, item string) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = item
	}
	return items
}

func labelled(n, length int) map[string]string {
	labels := make(map[string]string, n)
	for i := range n {
		labels[fmt.Sprintf("%0*d", length, i)] = "x"
	}
	return labels
}

func TestWhatADecorationHoldsIsBounded(t *testing.T) {
	e := startEndpoint(t, nil)
	for _, c := range []struct {
		name   string
		member string
		within any
		beyond any
		want   string
	}{
		{"a path's bytes", "field_path", strings.Repeat("x", 4096), strings.Repeat("x", 4097),
			`invalid configuration: property "field_path" validation failed: string too long, expected at most 4096, got 4097`},
		{"a path's names", "field_path", "a" + strings.Repeat(".a", 127), "a" + strings.Repeat(".a", 128),
			`invalid configuration: property "field_path" validation failed: too many names, expected at most 128, got 129`},
		{"how many arguments add", "add_arguments", repeated(256, "a"), repeated(257, "a"),
			`invalid configuration: property "add_arguments" validation failed: too many items, expected at most 256, got 257`},
		{"how many arguments multiply", "mul_arguments", repeated(256, "a"), repeated(257, "a"),
			`invalid configuration: property "mul_arguments" validation failed: too many items, expected at most 256, got 257`},
		{"an argument's bytes", "mul_arguments", []string{strings.Repeat("x", 256)}, []string{"a", strings.Repeat("x", 257)},
			`invalid configuration: property "mul_arguments" validation failed: failed to validate item 2: string too long, expected at most 256, got 257`},
		{"how many labels", "labels", labelled(64, 3), labelled(65, 3),
			`invalid configuration: property "labels" validation failed: too many labels, expected at most 64, got 65`},
		{"a label's key", "labels", labelled(1, 256), labelled(1, 257),
			`invalid configuration: property "labels" validation failed: key too long, expected at most 256, got 257`},
		{"a label's value", "labels", map[string]string{"a": strings.Repeat("x", 256)}, map[string]string{"a": strings.Repeat("x", 257)},
			`invalid configuration: property "labels" validation failed: failed to validate a (matching ".*"): string too long, expected at most 256, got 257`},
		{"a description", "desc", strings.Repeat("x", 256), strings.Repeat("x", 257),
			`invalid configuration: property "desc" validation failed: string too long, expected at most 256, got 257`},
		{"a name", "name", strings.Repeat("x", 256), strings.Repeat("x", 257),
			`invalid configuration: property "name" validation failed: string too long, expected at most 256, got 257`},
	} {
		t.Run(c.name, func(t *testing.T) {
			send := func(value any) reply {
				return e.do(http.MethodPut, decorationsPath("shop", "d1"), map[string]any{"field_path": "Query.a", c.member: value})
			}
			require.Less(t, send(c.within).status, 300)
			r := send(c.beyond)
			require.Equal(t, http.StatusBadRequest, r.status)
			require.Equal(t, c.want, r.member(memberError))
		})
	}
}

// APISIX's own Admin API knows no such bounds: what it has put into a shared store counts.
func TestADecorationBeyondTheBoundsCountsWhenOthersStoredIt(t *testing.T) {
	models, store, _ := newTestModels(t)
	value, err := json.Marshal(map[string]any{"field_path": "Query.a", "mul_arguments": repeated(1000, "first")})
	require.NoError(t, err)
	put(t, store, Draft{ServiceID: "shop", ID: "d1", FieldPath: "Query.a", Value: value})
	require.NoError(t, models.Load(t.Context()))
	require.NotNil(t, models.Model("shop"))
}

// full is a store with a service that has as many decorations as it may have.
type full struct{ Store }

func (f full) List(ctx context.Context, serviceID string) ([]Record, error) {
	if serviceID != "full" {
		return f.Store.List(ctx, serviceID)
	}
	return manyRecords(maxPerService), nil
}

func manyRecords(n int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i].Draft = testDraft("full", fmt.Sprintf("d%d", i), fmt.Sprintf("Query.f%d", i))
	}
	return records
}

func TestTheDecorationsOfAServiceAreBounded(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "decorations.db"))
	e := startEndpointOn(t, full{store}, nil)
	for _, c := range []struct{ method, path string }{
		{"PUT", decorationsPath("full", "new")}, {"POST", decorationsPath("full")},
	} {
		r := e.do(c.method, c.path, `{"field_path":"Query.new"}`)
		require.Equal(t, http.StatusBadRequest, r.status, r.text)
		require.Equal(t, "the service has 20000 decorations, which is the most that it may have", r.member(memberError))
	}
	require.NoError(t, checkRoom(manyRecords(maxPerService), "d7"), "one of them may be replaced")
	require.NoError(t, checkRoom(manyRecords(maxPerService-1), "new"))
}
