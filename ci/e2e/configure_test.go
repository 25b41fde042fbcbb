package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// object is a JSON object.
type object = map[string]any

// The plugins that the runner is called from.
const (
	preReq  = "ext-plugin-pre-req"
	postReq = "ext-plugin-post-req"
)

// knownTimes is how often in a row a gateway must know a route before it is used: each
// of APISIX's workers learns of it by itself.
const knownTimes = 3

// administer sends one request to an admin endpoint.
func (s *endToEnd) administer(method, url, key string, body any) (status int, answer []byte) {
	s.T().Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		s.Require().NoError(err)
	}
	request, err := http.NewRequestWithContext(s.ctx, method, url, bytes.NewReader(text))
	s.Require().NoError(err)
	request.Header.Set("X-API-KEY", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.http.Do(request)
	s.Require().NoError(err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	s.Require().NoError(err)
	return response.StatusCode, answer
}

// tell gives a gateway's Admin API an object such as routes/r1, which is deleted after
// the test: after the objects told later, which may refer to it.
func (s *endToEnd) tell(at *site, path string, body any) {
	s.T().Helper()
	url := at.admin + "/apisix/admin/" + path
	status, answer := s.administer(http.MethodPut, url, at.adminKey, body)
	s.Require().Less(status, http.StatusMultipleChoices, "PUT %s: %s", path, answer)
	s.T().Cleanup(func() { s.administer(http.MethodDelete, url, at.adminKey, nil) })
}

// forget deletes an object from the gateway's Admin API.
func (s *endToEnd) forget(path string) {
	s.T().Helper()
	status, answer := s.administer(http.MethodDelete, s.admin+"/apisix/admin/"+path, s.adminKey, nil)
	s.Require().Equal(http.StatusOK, status, "DELETE %s: %s", path, answer)
}

// service makes a Service whose upstream is the shop and returns its id.
func (s *endToEnd) service() string {
	s.T().Helper()
	id := unique("service")
	s.tell(s.site, "services/"+id, serviceOf(s.shopAddr))
	return id
}

// serviceOf is a Service whose upstream has this address.
func serviceOf(address string) object {
	return object{"upstream": object{"type": "roundrobin", "nodes": object{address: 1}}}
}

// decorated makes a Service with the README's decorations: the lengths of the lists of
// products and of their reviews come from `first`.
func (s *endToEnd) decorated() string {
	s.T().Helper()
	id := s.service()
	s.decorateAsREADME(id)
	return id
}

func (s *endToEnd) decorateAsREADME(service string) {
	s.T().Helper()
	s.decorate(http.MethodPut, service, "products", object{"field_path": "Query.products", "mul_arguments": []string{"first"}})
	s.decorate(http.MethodPut, service, "reviews", object{"field_path": "Product.reviews", "mul_arguments": []string{"first"}})
}

// decorations is the path of a Service's decorations on the runner's admin endpoint.
func (s *endToEnd) decorations(service string) string {
	return s.runner.AdminURL() + "/apisix/admin/services/" + service + "/graphql_cost_decorations"
}

// decorate changes a decoration and deletes it after the test.
func (s *endToEnd) decorate(method, service, id string, body any) {
	s.T().Helper()
	url := s.decorations(service) + "/" + id
	status, answer := s.administer(method, url, runnerAdminKey, body)
	s.Require().Less(status, http.StatusMultipleChoices, "%s %s: %s", method, id, answer)
	if method == http.MethodPut {
		s.T().Cleanup(func() { s.administer(http.MethodDelete, url, runnerAdminKey, nil) })
	}
}

// routing is what a route has besides the plugin's configuration.
type routing struct {
	service string // empty: a route with the shop as its own upstream
	phase   string // the plugin that calls the runner; empty: ext-plugin-pre-req
	plugins object // further plugins
	raw     string // the configuration as text, where it is no JSON object
	site    *site  // nil: the suite's
	name    string // its id and, below .test, its host; empty: a new one
}

// route makes a route to the shop that is limited as conf says, waits until the gateway
// knows it and returns it.
func (s *endToEnd) route(conf object, with routing) target {
	s.T().Helper()
	if with.site == nil {
		with.site = s.site
	}
	if with.name == "" {
		with.name = unique("route")
	}
	to := target{front: with.site.front, host: with.name + ".test", id: with.name}
	s.tell(with.site, "routes/"+to.id, s.routeOf(conf, with, to.host))
	s.awaitKnown(to)
	return to
}

// routeOf is the body of a route. Its host tells it from others: all of them lead to
// /graphql, where the shop answers, also when it is asked for its schema.
func (s *endToEnd) routeOf(conf object, with routing, host string) object {
	s.T().Helper()
	value := with.raw
	if value == "" {
		text, err := json.Marshal(conf)
		s.Require().NoError(err)
		value = string(text)
	}
	if with.phase == "" {
		with.phase = preReq
	}
	plugins := object{with.phase: object{"conf": []object{{"name": "graphql-limit-count", "value": value}}}}
	for name, conf := range with.plugins {
		plugins[name] = conf
	}
	route := object{"uri": "/graphql", "host": host, "plugins": plugins}
	if with.service != "" {
		route["service_id"] = with.service
	} else {
		route["upstream"] = serviceOf(s.shopAddr)["upstream"]
	}
	return route
}

// awaitKnown waits until the gateway has a route; a GET is never charged.
func (s *endToEnd) awaitKnown(to target) {
	s.T().Helper()
	for known, deadline := 0, time.Now().Add(routeTimeout); known < knownTimes; {
		if s.send(to, message{method: http.MethodGet}).status != http.StatusNotFound {
			known++
			continue
		}
		known = 0
		s.Require().True(time.Now().Before(deadline), "the gateway does not know the route %s", to.id)
		time.Sleep(pollInterval)
	}
}
