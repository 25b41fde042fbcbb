package e2e_test

import "net/http"

// depthLimit is the README's depth example.
var depthLimit = object{"count": 10, "time_window": 60, "rejected_code": 429}

// records is a configuration under node_quantifier with a quota of 10000 and further
// members.
func records(further object) object {
	conf := object{"count": 10000, "time_window": 60, "cost_strategy": "node_quantifier", "rejected_code": 429}
	for name, value := range further {
		conf[name] = value
	}
	return conf
}

func (s *endToEnd) TestDepthIsChargedUntilTheQuotaIsSpent() {
	to := s.route(depthLimit, routing{})
	s.expect(s.ask(to, fourDeep), http.StatusOK, costHeader, "4", limitHeader, "10", remainingHeader, "6")
	s.expect(s.ask(to, fourDeep), http.StatusOK, costHeader, "4", limitHeader, "10", remainingHeader, "2")
	rejected := s.ask(to, fourDeep)
	s.expect(rejected, http.StatusTooManyRequests, costHeader, "4", limitHeader, "10", remainingHeader, "0")
	s.expectMessage(rejected, "rate limit exceeded")
	s.NotEmpty(rejected.header.Get("Retry-After"))
	s.Contains(rejected.body, `"code":"RATE_LIMITED"`)
}

func (s *endToEnd) TestFiftyProductsWithTwentyReviewsEachCost52() {
	to := s.route(records(nil), routing{service: s.decorated()})
	passed := s.ask(to, fiftyByTwenty)
	s.expect(passed, http.StatusOK, costHeader, "52", limitHeader, "10000", remainingHeader, "9948")
	s.Contains(passed.body, `{"data":{"products":{"nodes":[{"reviews"`, "the upstream's answer passes through")
}

func (s *endToEnd) TestNothingDecoratedCostsOne() {
	to := s.route(records(nil), routing{service: s.service()})
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "1", remainingHeader, "9999")
}

func (s *endToEnd) TestComplexityCountsEveryNode() {
	conf := object{"count": 10000, "time_window": 60, "cost_strategy": "complexity"}
	to := s.route(conf, routing{service: s.decorated()})
	s.expect(s.ask(to, `{ __typename }`), http.StatusOK, costHeader, "3")
	// id 1, nodes 2, products 2*50+1, the operation 102.
	s.expect(s.ask(to, `{ products(first: 50) { nodes { id } } }`), http.StatusOK, costHeader, "103")
}

func (s *endToEnd) TestAQueryOverMaxCostIsRefusedAndCharged() {
	conf := records(object{"count": 100, "max_cost": 20})
	to := s.route(conf, routing{service: s.decorated()})
	refused := s.ask(to, fiftyByTwenty)
	s.expect(refused, http.StatusForbidden, costHeader, "52", limitHeader, "100", remainingHeader, "48")
	s.expectMessage(refused, "Invalid graphql request: query cost 52 exceeds max_cost 20")
	s.expect(s.ask(to, fiftyByTwenty), http.StatusForbidden, costHeader, "52", remainingHeader, "0")
	s.expect(s.ask(to, `{ __typename }`), http.StatusTooManyRequests, costHeader, "1", remainingHeader, "0")
}

func (s *endToEnd) TestVariablesCountBySourceInOrder() {
	service := s.decorated()
	s.decorate(http.MethodPut, service, "top", object{"field_path": "Query.topProducts", "mul_arguments": []string{"first"}})
	to := s.route(records(nil), routing{service: service})
	withDefault := `query ($n: Int = 5) { products(first: $n) { nodes { reviews(first: 20) { nodes { body } } } } }`
	for _, c := range []struct {
		name, query string
		variables   any
		cost        string
	}{
		{"a supplied variable counts", byVariable, object{"n": 10}, "12"},
		{"a supplied text that is a decimal counts", byVariable, object{"n": "10"}, "12"},
		{"a supplied zero counts", byVariable, object{"n": 0}, "2"},
		{"a supplied variable wins over the operation's default", withDefault, object{"n": 10}, "12"},
		{"the operation's default counts", withDefault, nil, "7"},
		{"a supplied null is no value and ends the search", withDefault, object{"n": nil}, "2"},
		{"a supplied object is no value and ends the search", withDefault, object{"n": object{}}, "2"},
		{"the schema's default counts", `{ topProducts { nodes { reviews(first: 20) { nodes { body } } } } }`, nil, "27"},
		{"a literal wins over the schema's default", `{ topProducts(first: 3) { nodes { reviews(first: 20) { nodes { body } } } } }`, nil, "5"},
	} {
		s.Run(c.name, func() { s.expect(s.ask(to, c.query, c.variables), http.StatusOK, costHeader, c.cost) })
	}
}

func (s *endToEnd) TestOnlyLiteralsCountWithoutResolveVariables() {
	to := s.route(records(object{"resolve_variables": false}), routing{service: s.decorated()})
	s.expect(s.ask(to, byVariable, object{"n": 10}), http.StatusOK, costHeader, "2")
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "52")
}

func (s *endToEnd) TestFragmentsCostWhatTheyStandFor() {
	service := s.decorated()
	byRecords, byDepth := s.route(records(nil), routing{service: service}), s.route(object{"count": 1000, "time_window": 60}, routing{})
	const (
		inline = `{ ... on Query { products(first: 50) { nodes { ... { reviews(first: 20) { nodes { body } } } } } } }`
		spread = `query { ...P } fragment P on Query { products(first: 50) { nodes { ...R } } } ` +
			`fragment R on Product { reviews(first: 20) { nodes { body } } }`
		twice = `query { a: products(first: 50) { nodes { ...R } } b: products(first: 50) { nodes { ...R } } } ` +
			`fragment R on Product { reviews(first: 20) { nodes { body } } }`
		cycle = `{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }`
	)
	s.expect(s.ask(byRecords, inline), http.StatusOK, costHeader, "52")
	s.expect(s.ask(byRecords, spread), http.StatusOK, costHeader, "52")
	s.expect(s.ask(byRecords, twice), http.StatusOK, costHeader, "103")
	s.expect(s.ask(byDepth, spread), http.StatusOK, costHeader, "5")
	for _, to := range []target{byRecords, byDepth} {
		refused := s.ask(to, cycle)
		s.expect(refused, http.StatusBadRequest, costHeader, "", remainingHeader, "")
		s.expectMessage(refused, "Invalid graphql request: fragment spreads must not form cycles")
	}
}

func (s *endToEnd) TestTheDearestOperationIsChargedUnlessOneIsNamed() {
	to := s.route(object{"count": 1000, "time_window": 60}, routing{})
	const two = `query Flat { __typename } query Deep { products { nodes { id } } }`
	named := message{body: []byte(`{"query":"` + two + `","operationName":"Flat"}`)}
	s.expect(s.send(to, named), http.StatusOK, costHeader, "1")
	s.expect(s.ask(to, two), http.StatusOK, costHeader, "3")
}
