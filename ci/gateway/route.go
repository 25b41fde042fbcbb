package gateway

import (
	"regexp"
	"slices"
	"strings"
)

// route is a parsed route.
type route struct {
	Name       string         `json:"name"`
	URI        string         `json:"uri"`
	URIs       []string       `json:"uris"`
	Host       string         `json:"host"`
	Hosts      []string       `json:"hosts"`
	Methods    []string       `json:"methods"`
	Priority   int            `json:"priority"`
	Status     *int           `json:"status"` // 0 switches the route off, 1 is the default
	ServiceID  identifier     `json:"service_id"`
	UpstreamID identifier     `json:"upstream_id"`
	Plugins    map[string]any `json:"plugins"`

	upstream *upstream // the one written inside, or nil
	plugins  plugins
}

// service is a parsed service: what its routes inherit.
type service struct {
	Name       string         `json:"name"`
	Hosts      []string       `json:"hosts"`
	UpstreamID identifier     `json:"upstream_id"`
	Plugins    map[string]any `json:"plugins"`

	upstream *upstream // the one written inside, or nil
	plugins  plugins
}

// consumer is a parsed consumer.
type consumer struct {
	Username string         `json:"username"`
	Plugins  map[string]any `json:"plugins"`

	key     string // of its key-auth, empty when it has none
	plugins plugins
}

var (
	routeMembers = members("uri uris host hosts methods priority status service_id upstream_id upstream plugins enable_websocket timeout",
		"vars filter_func remote_addr remote_addrs script script_id plugin_config_id")
	serviceMembers  = members("hosts upstream_id upstream plugins enable_websocket", "script")
	consumerMembers = members("username plugins", "group_id auth_conf")
)

// methods are those that APISIX's route schema knows.
var methods = []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"}

// parseRoute checks a route and the objects that it refers to.
func parseRoute(all tables, _ string, value map[string]any) (any, error) {
	r := &route{}
	if err := decode(value, routeMembers, r); err != nil {
		return nil, err
	}
	if (r.URI == "") == (len(r.URIs) == 0) {
		return nil, badRequest(`invalid configuration: value should match only one schema, exactly one of "uri" and "uris"`)
	}
	for _, uri := range r.paths() {
		if !strings.HasPrefix(uri, "/") {
			return nil, invalid("uri", `failed to match pattern "^/"`)
		}
	}
	for _, m := range r.Methods {
		if !slices.Contains(methods, m) {
			return nil, invalid("methods", "matches none of the enum values")
		}
	}
	if r.Status != nil && *r.Status != 0 && *r.Status != 1 {
		return nil, invalid("status", "matches none of the enum values")
	}
	if r.ServiceID == "" && r.UpstreamID == "" && value["upstream"] == nil && len(r.Plugins) == 0 {
		return nil, badRequest(`invalid configuration: allOf 1 failed: one of "plugins", "upstream", "upstream_id" and "service_id" is required`)
	}
	if err := exists(all, "services", "service", r.ServiceID); err != nil {
		return nil, err
	}
	if err := exists(all, "upstreams", "upstream", r.UpstreamID); err != nil {
		return nil, err
	}
	var err error
	if r.upstream, err = inlineUpstream(value); err != nil {
		return nil, err
	}
	r.plugins, err = parsePlugins(r.Plugins)
	return r, err
}

// paths is `uri` or `uris`.
func (r *route) paths() []string {
	if r.URI != "" {
		return []string{r.URI}
	}
	return r.URIs
}

// hosts is the route's own hosts or, as in APISIX, those of its service.
func (r *route) hosts(s *service) []string {
	switch {
	case r.Host != "":
		return []string{r.Host}
	case len(r.Hosts) > 0 || s == nil:
		return r.Hosts
	}
	return s.Hosts
}

// parseService checks a service and the upstream that it refers to.
func parseService(all tables, _ string, value map[string]any) (any, error) {
	s := &service{}
	if err := decode(value, serviceMembers, s); err != nil {
		return nil, err
	}
	if err := exists(all, "upstreams", "upstream", s.UpstreamID); err != nil {
		return nil, err
	}
	var err error
	if s.upstream, err = inlineUpstream(value); err != nil {
		return nil, err
	}
	s.plugins, err = parsePlugins(s.Plugins)
	return s, err
}

// usernamePattern is APISIX's for a consumer's username.
var usernamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// parseConsumer checks a consumer; its key must not be another one's.
func parseConsumer(all tables, id string, value map[string]any) (any, error) {
	c := &consumer{}
	if err := decode(value, consumerMembers, c); err != nil {
		return nil, err
	}
	if !usernamePattern.MatchString(c.Username) {
		return nil, invalid("username", `failed to match pattern "`+usernamePattern.String()+`"`)
	}
	if auth, ok := c.Plugins["key-auth"]; ok {
		conf, _ := auth.(map[string]any)
		if c.key, _ = conf["key"].(string); c.key == "" {
			return nil, badRequest(`invalid plugins configuration: failed to check the configuration of plugin key-auth err: property "key" is required`)
		}
	}
	for _, rec := range sorted(all["consumers"]) {
		if rec.id != id && c.key != "" && rec.parsed.(*consumer).key == c.key {
			return nil, badRequest("duplicate key found with consumer: %s", rec.id)
		}
	}
	var err error
	c.plugins, err = parsePlugins(c.Plugins)
	return c, err
}
