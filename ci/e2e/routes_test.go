package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"graphql-limit-count/ci/ports"
)

func (s *endToEnd) TestTwoRoutesNeverMix() {
	byRecords := s.route(records(object{"count": 100_000}), routing{service: s.decorated()})
	byDepth := s.route(object{"count": 5000, "time_window": 60}, routing{})
	for i := 1; i <= 3; i++ {
		s.expect(s.ask(byRecords, fiftyByTwenty), http.StatusOK, costHeader, "52", limitHeader, "100000",
			remainingHeader, strconv.Itoa(100_000-52*i))
		s.expect(s.ask(byDepth, fiftyByTwenty), http.StatusOK, costHeader, "5", limitHeader, "5000",
			remainingHeader, strconv.Itoa(5000-5*i))
	}
}

func (s *endToEnd) TestTwoRoutesNeverMixConcurrently() {
	const (
		clients, each = 4, 40
		query         = `query ($n: Int) { products(first: $n) { nodes { reviews(first: 2) { __typename } } } }`
	)
	message := question(query, object{"n": 10})
	routes := []struct {
		to          target
		cost, limit string
	}{
		{s.route(records(object{"count": 100_000}), routing{service: s.decorated()}), "12", "100000"},
		{s.route(object{"count": 5000, "time_window": 60}, routing{}), "4", "5000"},
	}
	var wg sync.WaitGroup
	faults := make(chan string, 2*clients*each)
	for _, route := range routes {
		for range clients {
			wg.Go(func() {
				for range each {
					a, err := s.exchange(route.to, message)
					if err != nil || a.status != http.StatusOK || a.header.Get(costHeader) != route.cost || a.header.Get(limitHeader) != route.limit {
						faults <- fmt.Sprintf("%s: %v, status %d, %v", route.to.id, err, a.status, a.header)
					}
				}
			})
		}
	}
	wg.Wait()
	close(faults)
	for fault := range faults {
		s.Fail(fault)
	}
	// 160 requests of 12 and of 4, and the next.
	s.expect(s.send(routes[0].to, message), http.StatusOK, remainingHeader, "98068")
	s.expect(s.send(routes[1].to, message), http.StatusOK, remainingHeader, "4356")
}

// mebibyte is the limit of a body, in bytes, where nothing else is configured.
const mebibyte = 1 << 20

// padded is a request of exactly this many bytes.
func padded(size int) []byte {
	const head, tail = `{"query":"{ __typename }"`, `}`
	return []byte(head + strings.Repeat(" ", size-len(head)-len(tail)) + tail)
}

func (s *endToEnd) TestABodyOfTheLimitIsCosted() {
	s.onlyOwnServer("it reads a piece of a frame for the whole, so large bodies fail by chance")
	to := s.route(depthLimit, routing{})
	s.expect(s.send(to, message{body: padded(mebibyte)}), http.StatusOK, costHeader, "1", remainingHeader, "9")
	s.expect(s.send(to, message{body: padded(mebibyte), chunked: true}), http.StatusOK, costHeader, "1", remainingHeader, "8")
	over := s.send(to, message{body: padded(mebibyte + 1), chunked: true})
	s.expect(over, http.StatusBadRequest, costHeader, "", remainingHeader, "")
	s.expectMessage(over, "Invalid graphql request: can't get graphql request body")
}

func (s *endToEnd) TestABodyOfOneByteMoreIsRefused() {
	to := s.route(depthLimit, routing{})
	over := s.send(to, message{body: padded(mebibyte + 1)})
	s.expect(over, http.StatusBadRequest, costHeader, "", remainingHeader, "")
	s.expectMessage(over, "Invalid graphql request: can't get graphql request body")
}

func (s *endToEnd) TestWhatIsNoGraphQLIsRefusedAndNotCharged() {
	to := s.route(depthLimit, routing{})
	for _, c := range []struct {
		name, contentType, body, text string
	}{
		{"no body", "application/json", "", "Invalid graphql request: can't get graphql request body"},
		{"no document", "application/json", `{"query":"{ products("}`, "Invalid graphql request: failed to parse graphql query"},
		{"no operation", "application/graphql", "# nothing", "Invalid graphql request: empty graphql query"},
		{"another content type", "text/plain", "{ a }", "invalid graphql request, error content-type: text/plain"},
	} {
		s.Run(c.name, func() {
			refused := s.send(to, message{contentType: c.contentType, body: []byte(c.body)})
			s.expect(refused, http.StatusBadRequest, costHeader, "", remainingHeader, "")
			s.expectMessage(refused, c.text)
		})
	}
	s.expect(s.send(to, message{method: http.MethodGet}), http.StatusMethodNotAllowed, remainingHeader, "", "Allow", "POST")
	s.expect(s.ask(to, fourDeep), http.StatusOK, remainingHeader, "6")
}

func (s *endToEnd) TestAnInvalidConfigurationRefusesEverything() {
	to := s.route(object{"count": 10, "time_windw": 60}, routing{})
	refused := s.ask(to, fourDeep)
	s.expect(refused, http.StatusInternalServerError, limitHeader, "")
	s.expectMessage(refused, "invalid plugin configuration")
	s.True(s.logged("invalid configuration", "time_windw"), "the log names the field: %s", s.log)
	s.expect(s.send(to, message{method: http.MethodGet}), http.StatusInternalServerError)

	s.expect(s.ask(s.route(nil, routing{raw: `{"count": 10,`}), fourDeep), http.StatusInternalServerError)
}

func (s *endToEnd) TestAnInvalidConfigurationThatAllowsDegradationLimitsNothing() {
	to := s.route(object{"count": 10, "time_windw": 60, "allow_degradation": true}, routing{})
	for range 4 {
		s.expect(s.ask(to, fourDeep), http.StatusOK, limitHeader, "")
	}
}

func (s *endToEnd) TestConsumersHaveQuotasOfTheirOwn() {
	jack, jill := unique("jack"), unique("jill")
	for _, name := range []string{jack, jill} {
		name = strings.ReplaceAll(name, "-", "_") // older APISIX take no hyphens
		s.tell(s.site, "consumers/"+name, object{"username": name, "plugins": object{"key-auth": object{"key": "key-of-" + name}}})
	}
	key := func(name string) string { return "key-of-" + strings.ReplaceAll(name, "-", "_") }
	conf := object{"count": 10, "time_window": 60, "rejected_code": 429, "key": "consumer_name"}
	to := s.route(conf, routing{phase: postReq, plugins: object{"key-auth": object{}}})
	as := func(name string) answer {
		return s.send(to, message{apikey: key(name), body: question(fourDeep, nil).body})
	}
	s.Require().Eventually(func() bool {
		known := func(name string) bool {
			return s.send(to, message{method: http.MethodGet, apikey: key(name)}).status != http.StatusUnauthorized
		}
		return known(jack) && known(jill)
	}, routeTimeout, pollInterval)

	s.expect(s.ask(to, fourDeep), http.StatusUnauthorized, limitHeader, "")
	s.expect(as(jack), http.StatusOK, remainingHeader, "6")
	s.expect(as(jack), http.StatusOK, remainingHeader, "2")
	s.expect(as(jack), http.StatusTooManyRequests, remainingHeader, "0")
	s.expect(as(jill), http.StatusOK, remainingHeader, "6")
}

func (s *endToEnd) TestAnUnknownRouteIsNotTouched() {
	a := s.ask(target{front: s.front, host: unique("nobody") + ".test"}, fourDeep)
	s.expect(a, http.StatusNotFound, costHeader, "", limitHeader, "")
	s.JSONEq(`{"error_msg":"404 Route Not Found"}`, a.body)
}

func (s *endToEnd) TestAQueryIsRefusedWhileTheSchemaCannotBeHad() {
	port, err := ports.Free()
	s.Require().NoError(err)
	service := unique("service")
	s.tell(s.site, "services/"+service, serviceOf("127.0.0.1:"+strconv.Itoa(port)))
	s.decorateAsREADME(service)
	refused := s.ask(s.route(records(nil), routing{service: service}), fiftyByTwenty)
	s.expect(refused, http.StatusBadRequest, costHeader, "", remainingHeader, "")
	s.expectMessage(refused, "Invalid graphql request: failed to introspect the upstream graphql schema")

	// Depth needs no schema; the missing upstream is then the gateway's to report.
	s.expect(s.ask(s.route(depthLimit, routing{service: service}), fourDeep), http.StatusBadGateway, remainingHeader, "6")
}

func (s *endToEnd) TestObservingRefusesNothing() {
	conf := records(object{"count": 60, "max_cost": 20, "mode": "observe"})
	to := s.route(conf, routing{service: s.decorated()})
	s.expect(s.ask(to, byVariable, object{"n": 10}), http.StatusOK, decisionHeader, "pass", costHeader, "12", remainingHeader, "48")
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, decisionHeader, "max_cost", costHeader, "52", remainingHeader, "0")
	s.expect(s.ask(to, byVariable, object{"n": 10}), http.StatusOK, decisionHeader, "quota", costHeader, "12", remainingHeader, "0")
}

// logged reports whether a line of the runner's log holds all texts.
func (s *endToEnd) logged(texts ...string) bool {
	for line := range strings.Lines(s.log.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}
