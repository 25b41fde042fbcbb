package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

const (
	// kindName is what APISIX calls a decoration in its messages.
	kindName = "graphql cost decoration"
	// resourceName is the sub-resource's name in paths and keys.
	resourceName = "graphql_cost_decorations"
	// pluginName is the plugin whose schema the endpoint serves.
	pluginName = "graphql-limit-count"

	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// Config holds what a Handler serves.
type Config struct {
	// Store keeps the decorations. Required.
	Store Store
	// Models are refreshed after each write, before it is answered. Required.
	Models *Models
	// Reclaimer asks APISIX about services. Nil: APISIX cannot be asked, any service id is
	// taken for an existing one and nothing is reclaimed.
	Reclaimer *Reclaimer
	// AdminKey is the key that allows everything. Required.
	AdminKey string
	// ViewerKey is the key that allows reading. Empty: there is none.
	ViewerKey string
	// PluginSchema is the JSON Schema of the plugin's configuration, served at
	// /apisix/admin/schema/plugins/graphql-limit-count. Empty: not served.
	PluginSchema []byte
	// Metrics is served at /metrics, without a key. Nil: not served.
	Metrics http.Handler
	// Logger is told when the store or APISIX fails, at most once a minute. Required.
	Logger *zap.Logger
}

// Handler is the admin endpoint. /healthz answers 200 without a key for as long as the
// process serves.
type Handler struct {
	store     Store
	models    *Models
	reclaimer *Reclaimer
	keys      keys
	schema    []byte
	metrics   http.Handler
	complaint *throttled
}

// NewHandler returns the endpoint. A missing admin key, and a viewer key that equals it, are
// errors.
func NewHandler(cfg Config) (*Handler, error) {
	keys, err := newKeys(cfg.AdminKey, cfg.ViewerKey)
	if err != nil {
		return nil, fmt.Errorf("configure the admin endpoint: %w", err)
	}
	return &Handler{
		store: cfg.Store, models: cfg.Models, reclaimer: cfg.Reclaimer, keys: keys,
		schema: cfg.PluginSchema, metrics: cfg.Metrics, complaint: newThrottled(cfg.Logger),
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == healthPath:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A client that has gone does not read the answer; there is nothing to do about it.
		_, _ = w.Write([]byte("ok\n"))
		return
	case r.URL.Path == metricsPath && h.metrics != nil:
		h.metrics.ServeHTTP(w, r)
		return
	}
	status, body, err := h.route(r)
	if err != nil {
		answer := answerFor(err)
		if answer.status >= http.StatusInternalServerError {
			h.complaint.Error("admin request failed", zap.String("method", r.Method),
				zap.String("path", r.URL.Path), zap.Error(err))
		}
		status, body = answer.status, answer.body
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", allowed)
		}
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := encode(body)
	if err != nil { // a stored value that is no JSON
		status, text = http.StatusInternalServerError, []byte(`{"error_msg":"failed to encode the answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-API-VERSION", "v3")
	w.WriteHeader(status)
	// As above: a client that has gone does not read the answer.
	_, _ = w.Write(append(text, '\n'))
}

// allowed are the methods of a decoration and of the list of them.
const allowed = "GET, PUT, POST, PATCH, DELETE"

// route checks the key and finds what the path names.
func (h *Handler) route(r *http.Request) (int, any, error) {
	segments, err := segmentsOf(r.URL)
	if err != nil {
		return 0, nil, refuse(http.StatusBadRequest, err.Error())
	}
	if len(segments) < 3 || segments[0] != "apisix" || segments[1] != "admin" {
		return 0, nil, refuse(http.StatusNotFound, "404 Route Not Found")
	}
	if err := h.keys.check(r); err != nil {
		return 0, nil, err
	}
	segments = segments[2:]
	switch {
	case segments[0] == "schema":
		return h.serveSchema(r, segments[1:])
	case segments[0] != "services":
		return 0, nil, refuse(http.StatusNotFound, "Unsupported resource type: "+segments[0])
	case len(segments) < 3 || segments[2] != resourceName || len(segments) > 4:
		return 0, nil, refuse(http.StatusNotFound, "not found")
	case segments[1] == "":
		return 0, nil, refuse(http.StatusBadRequest, "missing service id")
	}
	c := call{serviceID: segments[1], query: r.URL.Query()}
	if len(segments) == 4 {
		c.id = segments[3]
	}
	return h.dispatch(r, c)
}

// segmentsOf splits a path before it is unescaped, so that an escaped slash stays inside its
// segment. A slash at the end adds none.
func segmentsOf(u *url.URL) ([]string, error) {
	segments := strings.Split(strings.Trim(u.EscapedPath(), "/"), "/")
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return nil, fmt.Errorf("path: %w", err)
		}
		segments[i] = plain
	}
	return segments, nil
}

func (h *Handler) serveSchema(r *http.Request, segments []string) (int, any, error) {
	if len(segments) != 2 || segments[0] != "plugins" || segments[1] != pluginName || len(h.schema) == 0 {
		return 0, nil, refuse(http.StatusNotFound, "not found")
	}
	if r.Method != http.MethodGet {
		return 0, nil, refuse(http.StatusNotFound, "not found") // as APISIX: no other method is routed
	}
	return http.StatusOK, rawJSON(h.schema), nil
}

// call is one request to the sub-resource.
type call struct {
	serviceID string
	id        string // "" when the path names the list
	query     url.Values
	body      any // nil when there is none
}

func (h *Handler) dispatch(r *http.Request, c call) (int, any, error) {
	var serve func(context.Context, call) (int, any, error)
	switch r.Method {
	case http.MethodGet:
		serve = h.get
	case http.MethodPut:
		serve = h.put
	case http.MethodPost:
		serve = h.post
	case http.MethodPatch:
		serve = h.patch
	case http.MethodDelete:
		serve = h.delete
	default:
		return 0, nil, refuse(http.StatusMethodNotAllowed, "not supported `"+r.Method+"` method for "+kindName)
	}
	var err error
	if c.body, err = readBody(r); err != nil {
		return 0, nil, err
	}
	if c.query.Has("ttl") {
		return 0, nil, refuseTTL(c.query.Get("ttl"))
	}
	return serve(r.Context(), c)
}

// refuseTTL refuses a lifetime rather than ignore it: only etcd can keep one.
func refuseTTL(ttl string) error {
	if _, err := strconv.ParseFloat(ttl, 64); err != nil {
		return refuse(http.StatusBadRequest, "invalid argument ttl: should be a number")
	}
	return refuse(http.StatusBadRequest, "invalid argument ttl: not supported for "+kindName)
}

// key is a decoration's key in APISIX's layout, under the prefix that its Admin API shows.
func key(serviceID, id string) string {
	return "/apisix/services/" + serviceID + "/" + resourceName + "/" + id
}
