package e2e_test

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	// inForce is within which time a changed decoration counts.
	inForce = time.Second
	// reclaimed is within which time the decorations of a deleted Service are gone.
	reclaimed = 10 * time.Second
)

// awaitCost asks until the query has the cost, and returns the time that it took.
func (s *endToEnd) awaitCost(to target, query, cost string, within time.Duration) {
	s.T().Helper()
	start := time.Now()
	for {
		asked := time.Now()
		a := s.ask(to, query)
		s.Require().Equal(http.StatusOK, a.status, "no request is lost: %s", a.body)
		if a.header.Get(costHeader) == cost {
			s.T().Logf("in force after %s", time.Since(start).Round(time.Millisecond))
			return
		}
		s.Require().Less(asked.Sub(start), within, "the cost is still %s", a.header.Get(costHeader))
		time.Sleep(pollInterval)
	}
}

func (s *endToEnd) TestDecorationsCountWithinASecondOfTheirChange() {
	service := s.decorated()
	to := s.route(records(object{"count": 1_000_000}), routing{service: service})
	s.awaitCost(to, fiftyByTwenty, "52", inForce)
	// 1 list of products and 50 of reviews that weigh 3 each.
	s.decorate(http.MethodPatch, service, "reviews", object{"add_value": 3})
	s.awaitCost(to, fiftyByTwenty, "152", inForce)
	s.decorate(http.MethodPut, service, "products", object{"field_path": "Query.products", "mul_arguments": []string{"first"}, "add_value": 100})
	s.awaitCost(to, fiftyByTwenty, "251", inForce)
	status, answer := s.administer(http.MethodDelete, s.decorations(service)+"/products", runnerAdminKey, nil)
	s.Require().Equal(http.StatusOK, status, "%s", answer)
	s.awaitCost(to, fiftyByTwenty, "4", inForce)
	status, answer = s.administer(http.MethodDelete, s.decorations(service)+"/reviews", runnerAdminKey, nil)
	s.Require().Equal(http.StatusOK, status, "%s", answer)
	s.awaitCost(to, fiftyByTwenty, "1", inForce)
}

func (s *endToEnd) TestDecorationsOfAnUnknownServiceAreRefused() {
	status, answer := s.administer(http.MethodPut, s.decorations(unique("missing"))+"/d1", runnerAdminKey,
		object{"field_path": "Query.products"})
	s.Equal(http.StatusNotFound, status)
	s.JSONEq(`{"error_msg":"service not found"}`, string(answer))
}

func (s *endToEnd) TestTheAdminEndpointWantsItsKey() {
	status, answer := s.administer(http.MethodGet, s.decorations("any"), "wrong", nil)
	s.Equal(http.StatusUnauthorized, status)
	s.Contains(string(answer), `"error_msg":"failed to check token"`)
}

// recreate deletes a decorated Service with its route and makes both again under their
// ids.
func (s *endToEnd) recreate() (service string, to target) {
	s.T().Helper()
	// More than the polling can spend.
	conf := records(object{"count": 1_000_000})
	service = s.decorated()
	to = s.route(conf, routing{service: service})
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "52")
	s.forget("routes/" + to.id)
	s.forget("services/" + service)
	s.tell(s.site, "services/"+service, serviceOf(s.shopAddr))
	return service, s.route(conf, routing{service: service, name: to.id})
}

// total is the number of a Service's decorations.
func (s *endToEnd) total(service string) int {
	s.T().Helper()
	status, answer := s.administer(http.MethodGet, s.decorations(service), runnerAdminKey, nil)
	if status == http.StatusNotFound { // so APISIX lists nothing in a sub-resource
		s.Require().JSONEq(`{"message":"Key not found"}`, string(answer))
		return 0
	}
	s.Require().Equal(http.StatusOK, status, "%s", answer)
	var list struct{ Total *int }
	s.Require().NoError(json.Unmarshal(answer, &list))
	s.Require().NotNil(list.Total, "%s", answer)
	return *list.Total
}

func (s *endToEnd) TestTheDecorationsOfADeletedServiceAreReclaimed() {
	// Nothing asks the admin endpoint meanwhile.
	_, to := s.recreate()
	s.awaitCost(to, fiftyByTwenty, "1", reclaimed)
}

func (s *endToEnd) TestAServiceCreatedAgainHasNoDecorations() {
	service, to := s.recreate()
	s.Zero(s.total(service))
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "1")
	s.decorateAsREADME(service)
	s.Equal(2, s.total(service))
	s.awaitCost(to, fiftyByTwenty, "52", inForce)
}
