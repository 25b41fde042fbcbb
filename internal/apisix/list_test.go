package apisix

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

func TestServices(t *testing.T) {
	tests := []struct {
		name, body string
		want       []Service
	}{
		{"APISIX 3", `{"total":2,"list":[{"key":"/apisix/services/a","value":{"id":"a"},"createdIndex":3},{"key":"/apisix/services/b","value":{"create_time":4}}]}`,
			[]Service{{ID: "a", Incarnation: "3"}, {ID: "b", Incarnation: "t4"}}},
		{"APISIX 2", `{"count":1,"node":{"dir":true,"key":"/apisix/services","nodes":[{"key":"/apisix/services/a","value":{"id":"a"},"createdIndex":3}]}}`,
			[]Service{{ID: "a", Incarnation: "3"}}},
		{"none", `{"total":0,"list":[]}`, []Service{}},
		{"none, as an empty Lua table", `{"list":{},"total":0}`, []Service{}},
		{"an upstream that cannot be read does not hide the service", `{"total":1,"list":[{"key":"/apisix/services/a","value":{"upstream":{"nodes":7}}}]}`,
			[]Service{{ID: "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := startAdmin(t, replies(200, tt.body))
			got, err := a.Services(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.EqualValues(t, 1, a.calls.Load())
		})
	}
}

func TestAListingThatCannotBeTrustedIsAnError(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		err    string
	}{
		{"no such collection", 404, `{"message":"Key not found"}`, "the collection of services does not exist"},
		{"another server", 404, `{"error_msg":"404 Route Not Found"}`, "unexpected status 404"},
		{"no list", 200, `{}`, "the answer holds no list"},
		{"a null list", 200, `{"list":null}`, "the answer holds no list"},
		{"a list with members", 200, `{"list":{"a":1}}`, "the list is an object with members"},
		{"not JSON", 200, `{"list":[`, "decode the answer"},
		{"entries of another kind", 200, `{"list":[1]}`, "decode the answer"},
		{"an entry without value", 200, `{"list":[{"key":"/a"}]}`, "decode entry 1 of the answer"},
		{"an entry without id", 200, `{"list":[{"value":{}}]}`, "entry 1 of the answer has no id"},
		{"a total of another kind", 200, `{"list":[],"total":"many"}`, `total "many" is not an integer`},
		{"a total that the pages do not reach", 200, `{"list":[],"total":3}`, "the list changed while it was read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := startAdmin(t, replies(tt.status, tt.body)).Services(t.Context())
			require.ErrorContains(t, err, "list services from APISIX's Admin API")
			require.ErrorContains(t, err, tt.err)
			require.False(t, isNotFound(err))
		})
	}
}

// paging serves n services in pages, as a server that pages without being asked.
func paging(n func(call int) int) http.HandlerFunc {
	call := 0
	return func(w http.ResponseWriter, r *http.Request) {
		total := n(call)
		call++
		page, size := 1, 10
		if q := r.URL.Query(); q.Has("page") {
			page, _ = strconv.Atoi(q.Get("page"))
			size, _ = strconv.Atoi(q.Get("page_size"))
		}
		var list []string
		for i := (page - 1) * size; i < min(page*size, total); i++ {
			list = append(list, fmt.Sprintf(`{"key":"/apisix/services/s%d","value":{}}`, i))
		}
		_, _ = fmt.Fprintf(w, `{"total":%d,"list":[%s]}`, total, strings.Join(list, ","))
	}
}

func TestAllPagesAreRead(t *testing.T) {
	a := startAdmin(t, paging(func(int) int { return 1234 }))
	got, err := a.Services(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 1234)
	require.Equal(t, "s1233", got[1233].ID)
	require.EqualValues(t, 4, a.calls.Load())
}

func TestAListThatChangesBetweenPagesIsReadAgain(t *testing.T) {
	a := startAdmin(t, paging(func(call int) int {
		if call < 2 { // the plain listing and the first page
			return 1001
		}
		return 1000
	}))
	got, err := a.Services(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 1000)
}

func TestAPageThatFailsFailsTheListing(t *testing.T) {
	pages := paging(func(int) int { return 600 })
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "2" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		pages(w, r)
	})
	_, err := a.Services(t.Context())
	require.ErrorContains(t, err, "unexpected status 503")
}
