package admin

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"graphql-limit-count/ci/servers"

	"github.com/stretchr/testify/require"
)

// adminCase is one case of testdata/vectors/admin.json.
type adminCase struct {
	ID        string         `json:"id"`
	Source    string         `json:"source"`
	Derived   bool           `json:"derived"`
	Note      string         `json:"note"`
	Steps     []adminStep    `json:"steps"`
	ErrorBody map[string]any `json:"error_body"`
}

type adminStep struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Body    json.RawMessage   `json:"body"`
	RawBody *string           `json:"raw_body"`
	Args    map[string]string `json:"args"`
	Setup   bool              `json:"setup"`
	Observe string            `json:"observe"`
	EtcdSet *struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	} `json:"etcd_set"`
	Expect adminExpect `json:"expect"`
}

type adminExpect struct {
	Status             int            `json:"status"`
	StatusBelow        int            `json:"status_below"`
	ErrorMsg           *string        `json:"error_msg"`
	ErrorMsgContains   string         `json:"error_msg_contains"`
	ErrorMsgAlso       []string       `json:"error_msg_contains_also"`
	Message            *string        `json:"message"`
	Value              map[string]any `json:"value"`
	ValueHasTimestamps bool           `json:"value_has_timestamps"`
	Key                string         `json:"key"`
	KeyParent          string         `json:"key_parent"`
	Total              *int           `json:"total"`
	ListIDs            *[]string      `json:"list_ids"`
	FieldPaths         []string       `json:"field_paths"`
	ItemsWithFieldPath *int           `json:"items_with_field_path"`
	IncludesIDs        []string       `json:"includes_ids"`
	Deleted            string         `json:"deleted"`
	StoredDecorations  *int           `json:"stored_decorations"`
}

// TestEndpointAnswersAsAPISIX runs the conformance vectors against a real listener, each of the
// real stores and the development gateway as APISIX.
func TestEndpointAnswersAsAPISIX(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors/admin.json")
	require.NoError(t, err)
	var cases []adminCase
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields() // an expectation that is not understood must not pass
	require.NoError(t, decoder.Decode(&cases))
	require.Len(t, cases, 51)
	server := servers.RunEtcd(t)
	for _, store := range []struct {
		name  string
		start func(t *testing.T, id string) *endpoint
	}{
		{"sqlite", func(t *testing.T, _ string) *endpoint { return startWithGateway(t) }},
		{"etcd", func(t *testing.T, id string) *endpoint { return startWithEtcd(t, server, "/"+id) }},
	} {
		for _, c := range cases {
			t.Run(store.name+"/"+c.ID, func(t *testing.T) {
				t.Parallel()
				e := store.start(t, c.ID)
				var last reply
				for _, step := range c.Steps {
					last = runStep(t, e, step)
				}
				if c.ErrorBody != nil {
					require.Equal(t, c.ErrorBody, last.body)
				}
			})
		}
	}
}

var (
	subResource   = regexp.MustCompile(`^/apisix/admin/services/[^/]+/graphql_cost_decorations(/|$)`)
	storedKey     = regexp.MustCompile(`^/services/([^/]+)/graphql_cost_decorations/([^/]+)$`)
	observedCount = regexp.MustCompile(`^number of keys under /services/([^/]+)/graphql_cost_decorations$`)
)

func runStep(t *testing.T, e *endpoint, step adminStep) reply {
	t.Helper()
	switch {
	case step.EtcdSet != nil:
		writeByHand(t, e, step.EtcdSet.Key, step.EtcdSet.Value)
		return reply{}
	case step.Observe != "":
		// A round of the background task, now rather than within three seconds.
		require.NoError(t, e.reclaimer.Reconcile(t.Context()))
		match := observedCount.FindStringSubmatch(step.Observe)
		require.NotNil(t, match, step.Observe)
		require.Equal(t, *step.Expect.StoredDecorations, e.stored(match[1]))
		return reply{}
	}
	path := strings.ReplaceAll(step.Path, " ", "%20")
	if len(step.Args) > 0 {
		query := url.Values{}
		for name, value := range step.Args {
			query.Set(name, value)
		}
		path += "?" + query.Encode()
	}
	var body any
	if step.RawBody != nil {
		body = *step.RawBody
	} else if step.Body != nil {
		body = string(step.Body)
	}
	send := e.apisix // services and routes are APISIX's
	if subResource.MatchString(step.Path) {
		send = e.do
	}
	r := send(step.Method, path, body)
	checkReply(t, step.Expect, r)
	return r
}

// writeByHand writes below the HTTP layer, as an operator with a database shell would.
func writeByHand(t *testing.T, e *endpoint, key string, value map[string]any) {
	t.Helper()
	match := storedKey.FindStringSubmatch(key)
	require.NotNil(t, match, key)
	text, err := json.Marshal(value)
	require.NoError(t, err)
	if e.etcd != nil {
		_, err := e.etcd.Put(t.Context(), e.etcd.Prefix()+key, string(text))
		require.NoError(t, err)
		return
	}
	_, err = e.store.db.ExecContext(t.Context(),
		`INSERT INTO decoration (service_id, id, field_path, value) VALUES (?, ?, ?, ?)`,
		match[1], match[2], value[memberFieldPath], string(text))
	require.NoError(t, err)
}

func checkReply(t *testing.T, want adminExpect, got reply) {
	t.Helper()
	if want.Status != 0 {
		require.Equal(t, want.Status, got.status, got.text)
	}
	if want.StatusBelow != 0 {
		require.Less(t, got.status, want.StatusBelow, got.text)
	}
	message, _ := got.member(memberError).(string)
	if want.ErrorMsg != nil {
		require.Equal(t, *want.ErrorMsg, message)
	}
	for _, part := range append(want.ErrorMsgAlso, want.ErrorMsgContains) {
		require.Contains(t, message, part)
	}
	if want.Message != nil {
		require.Equal(t, *want.Message, got.member("message"))
	}
	checkValue(t, want, got)
	checkList(t, want, got)
	require.Equal(t, "application/json", strings.Split(got.header.Get("Content-Type"), ";")[0])
}

func checkValue(t *testing.T, want adminExpect, got reply) {
	t.Helper()
	key, _ := got.member("key").(string)
	if want.Key != "" {
		require.Equal(t, want.Key, key)
	}
	if want.KeyParent != "" {
		require.Equal(t, want.KeyParent, key[:strings.LastIndexByte(key, '/')])
	}
	if want.Deleted != "" {
		require.Equal(t, want.Deleted, got.member("deleted"))
	}
	if want.Value == nil {
		return
	}
	value, _ := got.member("value").(map[string]any)
	if want.ValueHasTimestamps { // then the value is given whole
		require.Positive(t, value[memberCreateTime])
		require.Positive(t, value[memberUpdateTime])
		delete(value, memberCreateTime)
		delete(value, memberUpdateTime)
		require.Equal(t, want.Value, value)
	}
	for name, member := range want.Value {
		require.Equal(t, member, value[name], name)
	}
}

func checkList(t *testing.T, want adminExpect, got reply) {
	t.Helper()
	if want.Total != nil {
		require.EqualValues(t, *want.Total, got.member("total"), got.text)
	}
	entries, _ := got.member("list").([]any)
	ids, paths := []string{}, []string{}
	for _, e := range entries {
		value := e.(map[string]any)["value"].(map[string]any)
		ids = append(ids, value[memberID].(string))
		if path, ok := value[memberFieldPath].(string); ok {
			paths = append(paths, path)
		}
	}
	if want.ListIDs != nil {
		require.NotNil(t, entries, got.text)
		require.Equal(t, *want.ListIDs, ids)
	}
	if want.FieldPaths != nil {
		slices.Sort(paths)
		require.Equal(t, want.FieldPaths, paths)
	}
	if want.ItemsWithFieldPath != nil {
		require.Len(t, paths, *want.ItemsWithFieldPath)
	}
	for _, id := range want.IncludesIDs {
		require.Contains(t, ids, id)
	}
}
