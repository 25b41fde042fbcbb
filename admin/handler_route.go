package admin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// What APISIX, or this endpoint where APISIX has no such thing, calls the sub-resources of a
// service in paths and in messages.
const (
	resourceName = "graphql_cost_decorations"
	kindName     = "graphql cost decoration"
	modelName    = "graphql_cost_model"
	modelKind    = "graphql cost model"
	schemaName   = "graphql_schema"
	schemaKind   = "graphql schema"

	// checkName is in the place of a decoration's id in the path that lists the warnings.
	checkName = "check"
	// refreshName follows schemaName in the path that has a schema fetched again.
	refreshName = "refresh"

	// pluginName is the plugin whose schema the endpoint serves.
	pluginName = "graphql-limit-count"
)

// call is one request to a sub-resource of a service.
type call struct {
	serviceID string
	id        string // of a decoration; "" when the path names the list
	query     url.Values
	header    http.Header
	body      any    // of a decoration's write; nil when there is none
	text      []byte // of any other write
}

// operation is what one method of a sub-resource does: read the body, then serve.
type operation struct {
	read  func(r *http.Request, c *call) error
	serve func(ctx context.Context, c call) (int, any, error)
}

// resource is a sub-resource of a service.
type resource struct {
	kind    string
	methods map[string]operation
}

// route checks the key and serves what the path names.
func (h *Handler) route(r *http.Request) (int, any, error) {
	segments, err := segmentsOf(r.URL)
	if err != nil {
		return 0, nil, refuse(http.StatusBadRequest, err.Error())
	}
	if len(segments) < 3 || segments[0] != "apisix" || segments[1] != "admin" {
		return 0, nil, refuse(http.StatusNotFound, "404 Route Not Found")
	}
	if err := h.gate.check(r); err != nil {
		return 0, nil, err
	}
	segments = segments[2:]
	switch {
	case segments[0] == "schema":
		return h.servePluginSchema(r, segments[1:])
	case segments[0] != "services":
		return 0, nil, refuse(http.StatusNotFound, "Unsupported resource type: "+segments[0])
	case len(segments) < 3:
		return 0, nil, refuse(http.StatusNotFound, "not found")
	}
	served, id, ok := h.resource(r.Method, segments[2], segments[3:])
	switch {
	case !ok:
		return 0, nil, refuse(http.StatusNotFound, "not found")
	case segments[1] == "":
		return 0, nil, refuse(http.StatusBadRequest, "missing service id")
	}
	return served.dispatch(r, call{serviceID: segments[1], id: id, query: r.URL.Query(), header: r.Header})
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

// resource finds the sub-resource of a name and what follows it in the path; id is that of a
// decoration.
func (h *Handler) resource(method, name string, rest []string) (r resource, id string, ok bool) {
	switch {
	case name == resourceName && len(rest) == 0:
		return h.decorationResource(), "", true
	case name == resourceName && len(rest) == 1 && rest[0] == checkName && method == http.MethodGet:
		return resource{kindName, map[string]operation{http.MethodGet: {noBody, h.check}}}, "", true
	case name == resourceName && len(rest) == 1:
		return h.decorationResource(), rest[0], true
	case name == modelName && len(rest) == 0:
		return resource{modelKind, map[string]operation{
			http.MethodGet: {noBody, h.getModel},
			http.MethodPut: {readModel, h.putModel},
		}}, "", true
	case name == schemaName && len(rest) == 0:
		return resource{schemaKind, map[string]operation{
			http.MethodGet:    {noBody, h.getSchema},
			http.MethodPut:    {readSchema, h.putSchema},
			http.MethodDelete: {noBody, h.deleteSchema},
		}}, "", true
	case name == schemaName && len(rest) == 1 && rest[0] == refreshName:
		return resource{schemaKind, map[string]operation{http.MethodPost: {noBody, h.refreshSchema}}}, "", true
	}
	return resource{}, "", false
}

// decorationResource is the list of a service's decorations and each of them: APISIX routes
// the same methods to both.
func (h *Handler) decorationResource() resource {
	return resource{kindName, map[string]operation{
		http.MethodGet:    {readDecoration, h.get},
		http.MethodPut:    {readDecoration, h.put},
		http.MethodPost:   {readDecoration, h.post},
		http.MethodPatch:  {readDecoration, h.patch},
		http.MethodDelete: {readDecoration, h.delete},
	}}
}

func (s resource) dispatch(r *http.Request, c call) (int, any, error) {
	operation, ok := s.methods[r.Method]
	if !ok {
		return 0, nil, &refusal{
			status: http.StatusMethodNotAllowed,
			body:   map[string]any{memberError: "not supported `" + r.Method + "` method for " + s.kind},
			allow:  strings.Join(slices.Sorted(maps.Keys(s.methods)), ", "),
		}
	}
	if err := operation.read(r, &c); err != nil {
		return 0, nil, err
	}
	if c.query.Has("ttl") {
		return 0, nil, refuseTTL(c.query.Get("ttl"), s.kind)
	}
	ctx := r.Context()
	if r.Method == http.MethodGet {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		ctx = bounded
	}
	return operation.serve(ctx, c)
}

// refuseTTL refuses a lifetime rather than ignore it: only etcd can keep one.
func refuseTTL(ttl, kind string) error {
	if _, err := strconv.ParseFloat(ttl, 64); err != nil {
		return refuse(http.StatusBadRequest, "invalid argument ttl: should be a number")
	}
	return refuse(http.StatusBadRequest, "invalid argument ttl: not supported for "+kind)
}

func (h *Handler) servePluginSchema(r *http.Request, segments []string) (int, any, error) {
	if len(segments) != 2 || segments[0] != "plugins" || segments[1] != pluginName || len(h.schema) == 0 {
		return 0, nil, refuse(http.StatusNotFound, "not found")
	}
	if r.Method != http.MethodGet {
		return 0, nil, refuse(http.StatusNotFound, "not found") // as APISIX: no other method is routed
	}
	return http.StatusOK, rawJSON(h.schema), nil
}

// key is a decoration's key in APISIX's layout, under the prefix that its Admin API shows.
func key(serviceID, id string) string {
	return "/apisix/services/" + serviceID + "/" + resourceName + "/" + id
}

// schemaKey is an uploaded schema's key. It is not below the service's: releases of APISIX
// that do not know decorations take everything there for a service.
func schemaKey(serviceID string) string {
	return "/apisix/graphql_limit_count/schemas/" + serviceID
}
