package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// router finds the route of a request. It is built from one state of the store and
// never changes.
type router struct {
	entries   []entry // the order in which they are tried
	consumers map[string]*record
	tables    tables
}

// entry is one path of one route.
type entry struct {
	path   string // without the trailing `*` of a prefix
	prefix bool
	hosts  []string
	rec    *record
	route  *route
}

// newRouter orders the routes as APISIX tries them: those with a host first, an exact
// path before a prefix, a longer prefix before a shorter one, and among equals the
// higher priority. The last resort is the id, so that the order never depends on
// chance.
func newRouter(all tables) *router {
	r := &router{tables: all, consumers: map[string]*record{}}
	for _, rec := range sorted(all["routes"]) {
		parsed := rec.parsed.(*route)
		if parsed.Status != nil && *parsed.Status == 0 {
			continue
		}
		var svc *service
		if bound := all["services"][string(parsed.ServiceID)]; bound != nil {
			svc = bound.parsed.(*service)
		}
		for _, uri := range parsed.paths() {
			path, prefix := strings.CutSuffix(uri, "*")
			r.entries = append(r.entries, entry{path: path, prefix: prefix, hosts: parsed.hosts(svc), rec: rec, route: parsed})
		}
	}
	slices.SortStableFunc(r.entries, func(a, b entry) int {
		return cmp.Or(
			first(len(a.hosts) > 0, len(b.hosts) > 0),
			first(!a.prefix, !b.prefix),
			cmp.Compare(len(b.path), len(a.path)),
			cmp.Compare(b.route.Priority, a.route.Priority),
		)
	})
	for _, rec := range all["consumers"] {
		if key := rec.parsed.(*consumer).key; key != "" {
			r.consumers[key] = rec
		}
	}
	return r
}

// first orders what has a property before what has not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// match finds the route of a request with this normalised path and this host, which
// has no port; nil when there is none.
func (r *router) match(method, host, path string) *entry {
	for i, e := range r.entries {
		if e.path != path && (!e.prefix || !strings.HasPrefix(path, e.path)) {
			continue
		}
		if len(e.route.Methods) > 0 && !slices.Contains(e.route.Methods, method) {
			continue
		}
		if len(e.hosts) == 0 || slices.ContainsFunc(e.hosts, func(pattern string) bool { return hostMatches(pattern, host) }) {
			return &r.entries[i]
		}
	}
	return nil
}

// hostMatches compares without case; a pattern may begin with `*.`.
func hostMatches(pattern, host string) bool {
	pattern, host = strings.ToLower(pattern), strings.ToLower(host)
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return pattern == host
}

// binding is a route with what it inherits from its service and the consumer.
type binding struct {
	types         string   // as the key of a PrepareConf begins: route&service
	ids, versions []string // of those, in the same order

	routeID, routeName     string
	serviceID, serviceName string
	plugins                plugins
	upstream               *upstream
}

// key is that of the PrepareConf for one of the binding's plugins.
func (b *binding) key(attachment string) string {
	return strings.Join([]string{b.types, strings.Join(b.ids, "&"), attachment, strings.Join(b.versions, "&")}, "#")
}

// with is the binding after authentication: the consumer's plugins count before the
// route's, and every consumer has keys of its own. A consumer without plugins changes
// nothing, as in APISIX.
func (b *binding) with(rec *record) *binding {
	c := rec.parsed.(*consumer)
	if len(c.Plugins) == 0 {
		return b
	}
	next := *b
	next.types += "&consumer"
	next.ids = append(slices.Clip(b.ids), rec.id)
	next.versions = append(slices.Clip(b.versions), version(rec))
	next.plugins = c.plugins.over(b.plugins).on()
	return &next
}

// errNotConfigured is a route whose service or upstream was deleted by force, or that
// never had an upstream.
type errNotConfigured struct {
	status int
	what   string
}

func (e errNotConfigured) Error() string { return e.what }

// resolve merges the entry's route with its service and finds the upstream: the
// route's own before the service's.
func (r *router) resolve(e *entry) (*binding, error) {
	m := &binding{types: "route", routeID: e.rec.id, routeName: e.route.Name, plugins: e.route.plugins, upstream: e.route.upstream}
	m.ids, m.versions = []string{e.rec.id}, []string{version(e.rec)}
	upstreamID := e.route.UpstreamID
	if id := string(e.route.ServiceID); id != "" {
		rec := r.tables["services"][id]
		if rec == nil {
			return nil, errNotConfigured{http.StatusNotFound, "the route's service is gone"}
		}
		svc := rec.parsed.(*service)
		m.types, m.serviceID, m.serviceName = m.types+"&service", id, svc.Name
		m.ids, m.versions = append(m.ids, id), append(m.versions, version(rec))
		m.plugins = m.plugins.over(svc.plugins)
		if m.upstream == nil && upstreamID == "" {
			m.upstream, upstreamID = svc.upstream, svc.UpstreamID
		}
	}
	m.plugins = m.plugins.on()
	if m.upstream == nil && upstreamID != "" {
		if rec := r.tables["upstreams"][string(upstreamID)]; rec != nil {
			m.upstream = rec.parsed.(*upstream)
		}
	}
	return m, nil
}

// version is a record's part of a PrepareConf key.
func version(rec *record) string { return strconv.FormatInt(rec.modified, 10) }
