package gateway

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

const (
	adminPrefix = "/apisix/admin/"

	// maxAdminBody is APISIX's own bound on an Admin API body, in bytes.
	maxAdminBody = 3 * 1024 * 1024 / 2

	// APISIX's bounds on page_size.
	minPageSize, maxPageSize = 10, 500
)

// apiError is a refusal of the Admin API: a status and the member that carries the
// text, `error_msg` or, for etcd's own answers, `message`.
type apiError struct {
	status       int
	member, text string
}

func (e *apiError) Error() string { return e.text }

var errKeyNotFound = &apiError{http.StatusNotFound, "message", "Key not found"}

// badRequest is a 400 with an error_msg.
func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "error_msg", fmt.Sprintf(format, args...)}
}

// admin serves the Admin API.
type admin struct {
	store *store
	key   string
	log   *zap.Logger
}

func newAdmin(s *store, key string, log *zap.Logger) *admin {
	return &admin{store: s, key: key, log: log}
}

// call is one request to the Admin API, taken apart.
type call struct {
	kind    *kind
	id      string
	subPath []string // PATCH only: the member that the body replaces
	body    any      // nil when there was none
	hasBody bool
	args    url.Values
}

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body, err := a.answer(w, r)
	if err != nil {
		var refusal *apiError
		if !errors.As(err, &refusal) {
			refusal = &apiError{http.StatusInternalServerError, "error_msg", err.Error()}
		}
		status, body = refusal.status, map[string]any{refusal.member: refusal.text}
		if refusal.status == http.StatusUnauthorized {
			body = map[string]any{"error_msg": "failed to check token", "description": refusal.text}
		}
	}
	writeJSON(w, "application/json", status, body)
}

// answer runs one call and returns the status and the body to send.
func (a *admin) answer(w http.ResponseWriter, r *http.Request) (int, any, error) {
	if err := a.authorise(r); err != nil {
		return 0, nil, err
	}
	c, err := parseCall(w, r)
	if err != nil {
		return 0, nil, err
	}
	switch r.Method {
	case http.MethodGet:
		return a.get(c)
	case http.MethodPut:
		return a.put(c)
	case http.MethodPost:
		return a.post(c)
	case http.MethodPatch:
		return a.patch(c)
	case http.MethodDelete:
		return a.delete(c)
	}
	return 0, nil, &apiError{http.StatusNotFound, "error_msg", "404 Route Not Found"}
}

// authorise checks the key, from the header or, as APISIX also allows, the api_key
// argument.
func (a *admin) authorise(r *http.Request) error {
	key := cmp.Or(r.Header.Get("X-API-KEY"), r.URL.Query().Get("api_key"))
	if key == "" {
		return &apiError{http.StatusUnauthorized, "error_msg", "missing apikey"}
	}
	if subtle.ConstantTimeCompare([]byte(key), []byte(a.key)) != 1 {
		return &apiError{http.StatusUnauthorized, "error_msg", "wrong apikey"}
	}
	return nil
}

// parseCall takes the path and the body apart.
func parseCall(w http.ResponseWriter, r *http.Request) (call, error) {
	rest, ok := strings.CutPrefix(r.URL.Path, adminPrefix)
	if !ok {
		return call{}, &apiError{http.StatusNotFound, "error_msg", "404 Route Not Found"}
	}
	segments := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	c := call{kind: kinds[segments[0]], args: r.URL.Query()}
	if c.kind == nil {
		return call{}, &apiError{http.StatusNotFound, "error_msg", "Unsupported resource type: " + segments[0]}
	}
	if len(segments) > 1 {
		c.id, c.subPath = segments[1], segments[2:]
	}
	if len(c.subPath) > 0 && r.Method != http.MethodPatch {
		return call{}, &apiError{http.StatusNotFound, "error_msg", "Unsupported resource type: " + rest}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err != nil {
		return call{}, badRequest("invalid request body: %v", err)
	}
	if c.hasBody = len(text) > 0; !c.hasBody {
		return c, nil
	}
	if c.body, err = decodeJSON(text); err != nil {
		return call{}, badRequest("invalid request body: %v", err)
	}
	return c, nil
}

// decodeJSON decodes exactly one JSON value, keeping numbers as they were written.
func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the value")
	}
	return value, nil
}

func (a *admin) get(c call) (int, any, error) {
	if c.id == "" {
		return a.list(c)
	}
	rec := a.store.get(c.kind, c.id)
	if rec == nil {
		return 0, nil, errKeyNotFound
	}
	return http.StatusOK, item(c.kind, rec), nil
}

// item is a record as GET shows it, with its revisions.
func item(k *kind, rec *record) map[string]any {
	body := written(k, rec)
	body["createdIndex"], body["modifiedIndex"] = rec.created, rec.modified
	return body
}

// written is a record as the answer to a write shows it: APISIX strips the revisions
// there.
func written(k *kind, rec *record) map[string]any {
	return map[string]any{"key": k.key(rec.id), "value": rec.value}
}

// list answers all objects that pass the filters, in key order; with page and
// page_size one page of them, in the order of creation.
func (a *admin) list(c call) (int, any, error) {
	records := slices.DeleteFunc(a.store.list(c.kind), func(rec *record) bool { return !matches(rec.value, c.args) })
	total := len(records)
	if c.args.Has("page") && c.args.Has("page_size") {
		size, err := strconv.Atoi(c.args.Get("page_size"))
		if err != nil || size < minPageSize || size > maxPageSize {
			return 0, nil, badRequest("page_size must be between %d and %d", minPageSize, maxPageSize)
		}
		page, _ := strconv.Atoi(c.args.Get("page")) // not a number: APISIX answers the first page
		slices.SortFunc(records, func(a, b *record) int { return cmp.Compare(a.created, b.created) })
		pages := slices.Collect(slices.Chunk(records, size))
		records = nil
		if page = max(page, 1); page <= len(pages) {
			records = pages[page-1]
		}
	}
	items := make([]map[string]any, 0, len(records))
	for _, rec := range records {
		items = append(items, item(c.kind, rec))
	}
	return http.StatusOK, map[string]any{"total": total, "list": items}, nil
}

// matches applies APISIX's list filters: name and uri are parts of the text, label
// is a label's key.
func matches(value map[string]any, args url.Values) bool {
	text := func(v any) string { s, _ := v.(string); return s }
	if name := args.Get("name"); name != "" && !strings.Contains(text(value["name"]), name) {
		return false
	}
	if label := args.Get("label"); label != "" {
		labels, _ := value["labels"].(map[string]any)
		if _, ok := labels[label]; !ok {
			return false
		}
	}
	if uri := args.Get("uri"); uri != "" {
		all := []any{value["uri"]}
		if uris, ok := value["uris"].([]any); ok {
			all = append(all, uris...)
		}
		return slices.ContainsFunc(all, func(v any) bool { return strings.Contains(text(v), uri) })
	}
	return true
}

// object is the body as a JSON object.
func (c call) object() (map[string]any, error) {
	if !c.hasBody {
		return nil, badRequest("missing configurations")
	}
	value, ok := c.body.(map[string]any)
	if !ok {
		return nil, badRequest("invalid configuration")
	}
	for _, name := range []string{"create_time", "update_time"} {
		if _, ok := value[name]; ok {
			return nil, badRequest("the property is forbidden:  %s", name)
		}
	}
	return value, nil
}

func (a *admin) put(c call) (int, any, error) {
	value, err := c.object()
	if err != nil {
		return 0, nil, err
	}
	value = maps.Clone(value)
	id, err := c.kind.identify(c.id, value)
	if err != nil {
		return 0, nil, err
	}
	rec, created, err := a.store.put(c.kind, id, value)
	if err != nil {
		return 0, nil, err
	}
	a.warn(c.kind, rec)
	if created {
		return http.StatusCreated, written(c.kind, rec), nil
	}
	return http.StatusOK, written(c.kind, rec), nil
}

func (a *admin) post(c call) (int, any, error) {
	if c.kind.named {
		return 0, nil, &apiError{http.StatusMethodNotAllowed, "error_msg", "not supported `POST` method for " + c.kind.singular}
	}
	value, err := c.object()
	if err != nil {
		return 0, nil, err
	}
	if _, ok := value["id"]; ok || c.id != "" {
		return 0, nil, badRequest("wrong %s id, do not need it", c.kind.singular)
	}
	rec, _, err := a.store.put(c.kind, "", value)
	if err != nil {
		return 0, nil, err
	}
	a.warn(c.kind, rec)
	return http.StatusCreated, written(c.kind, rec), nil
}

func (a *admin) patch(c call) (int, any, error) {
	if c.kind.named {
		return 0, nil, &apiError{http.StatusMethodNotAllowed, "error_msg", "not supported `PATCH` method for " + c.kind.singular}
	}
	if c.id == "" {
		return 0, nil, badRequest("missing %s id", c.kind.singular)
	}
	if !c.hasBody {
		return 0, nil, badRequest("missing new configuration")
	}
	if _, ok := c.body.(map[string]any); !ok && len(c.subPath) == 0 {
		return 0, nil, badRequest("invalid configuration")
	}
	rec, err := a.store.patch(c.kind, c.id, func(old map[string]any) (map[string]any, error) {
		value, err := patched(old, c.subPath, c.body)
		if err != nil {
			return nil, err
		}
		if fmt.Sprint(value["id"]) != c.id {
			return nil, badRequest("wrong %s id", c.kind.singular)
		}
		return value, nil
	})
	if err != nil {
		return 0, nil, err
	}
	a.warn(c.kind, rec)
	return http.StatusOK, written(c.kind, rec), nil
}

// patched is old with change merged in at the sub-path; old stays as it was. Without
// a sub-path objects merge member by member, null removes a member and anything else
// replaces it; at a sub-path the value is replaced whole.
func patched(old map[string]any, subPath []string, change any) (map[string]any, error) {
	next := maps.Clone(old)
	if len(subPath) == 0 {
		return merged(next, change.(map[string]any)), nil
	}
	name := subPath[0]
	if len(subPath) == 1 {
		if next[name] = change; change == nil {
			delete(next, name)
		}
		return next, nil
	}
	inner, ok := next[name].(map[string]any)
	if !ok {
		return nil, badRequest("invalid sub-path: /%s", strings.Join(subPath, "/"))
	}
	inner, err := patched(inner, subPath[1:], change)
	next[name] = inner
	return next, err
}

// merged is old with the members of change, as RFC 7396 has it.
func merged(old, change map[string]any) map[string]any {
	next := maps.Clone(old)
	for name, v := range change {
		inner, isObject := v.(map[string]any)
		was, wasObject := next[name].(map[string]any)
		switch {
		case v == nil:
			delete(next, name)
		case isObject && wasObject:
			next[name] = merged(was, inner)
		default:
			next[name] = v
		}
	}
	return next
}

func (a *admin) delete(c call) (int, any, error) {
	if c.id == "" {
		return 0, nil, badRequest("missing %s id", c.kind.singular)
	}
	if err := a.store.remove(c.kind, c.id, c.args.Get("force") == "true"); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"key": c.kind.key(c.id), "deleted": "1"}, nil
}

// warn names the plugins that this gateway stores and does not run.
func (a *admin) warn(k *kind, rec *record) {
	plugins, _ := rec.value["plugins"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		if !supportedPlugins[name] {
			a.log.Warn("the development gateway ignores this plugin",
				zap.String("plugin", name), zap.String("key", k.key(rec.id)))
		}
	}
}

// writeJSON sends body as JSON. A client that went away is not an error.
func writeJSON(w http.ResponseWriter, contentType string, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error_msg":"failed to encode the answer"}`)
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
