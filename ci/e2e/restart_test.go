package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// recovery is within which time after its start good requests pass again.
	recovery = 2 * time.Second
	// warmUp is how many good answers each route has had before the runner is
	// restarted, and must have after it.
	warmUp = 20
	// warmUpTime bounds the wait for them.
	warmUpTime = 30 * time.Second
)

// whyTokensMix says what the stock server cannot give: it numbers its tokens from 1 at
// every start, and the gateway still has those of the runner before. The token of one
// route then names the configuration of whichever route was prepared as that number
// after the start, and the stock server has no way to notice. The server of this
// project derives tokens from what they stand for.
const whyTokensMix = "a token from before a restart can name another route's configuration after it"

// restart ends the runner, abruptly or as APISIX does, and starts it again.
func (s *endToEnd) restart(abruptly bool) {
	s.T().Helper()
	if abruptly {
		s.runner.Kill()
	} else {
		s.Require().NoError(s.runner.Stop(), "%s", s.log)
	}
	again, err := s.runner.Again(s.ctx)
	s.Require().NoError(err, "%s", s.log)
	s.runner = again
}

// loaded is a route under load. Its limit tells it from the others.
type loaded struct {
	to    target
	limit string
	good  atomic.Int64 // answers with 200
}

// load is steady traffic on some routes.
type load struct {
	routes []*loaded
	down   atomic.Int64 // answers with 503
	stop   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	faults []string
}

// startLoad sends requests to four routes from two clients each, until it is ended.
func (s *endToEnd) startLoad() *load {
	s.T().Helper()
	const routes, clients = 4, 2
	l := &load{stop: make(chan struct{})}
	for i := range routes {
		limit := 1_000_001 + i
		conf := object{"count": limit, "time_window": 600, "rejected_code": 429}
		l.routes = append(l.routes, &loaded{to: s.route(conf, routing{}), limit: strconv.Itoa(limit)})
	}
	for _, route := range l.routes {
		for range clients {
			l.wg.Go(func() { l.run(s, route) })
		}
	}
	return l
}

// run is one client of a route.
func (l *load) run(s *endToEnd, route *loaded) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		a, err := s.exchange(route.to, question(`{ __typename }`, nil))
		switch limit := a.header.Get(limitHeader); {
		case err != nil:
			l.fault(fmt.Sprintf("route %s: %v", route.limit, err))
		case a.status == http.StatusServiceUnavailable:
			l.down.Add(1)
			time.Sleep(time.Millisecond) // a gateway without a runner answers fast
		case a.status != http.StatusOK && a.status != http.StatusTooManyRequests:
			l.fault(fmt.Sprintf("route %s: status %d: %s", route.limit, a.status, a.body))
		case limit != route.limit && s.server == ownServer: // see whyTokensMix
			l.fault(fmt.Sprintf("route %s: status %d with the limit %q", route.limit, a.status, limit))
		default:
			route.good.Add(1)
		}
	}
}

func (l *load) fault(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, text)
}

// end ends the traffic and returns what went wrong, the first few.
func (l *load) end() []string {
	close(l.stop)
	l.wg.Wait()
	return l.faults[:min(len(l.faults), 5)]
}

// awaitGood waits until every route has had this many further good answers.
func (s *endToEnd) awaitGood(l *load, further int64, within time.Duration) {
	s.T().Helper()
	deadline := time.Now().Add(within)
	for _, route := range l.routes {
		for until := route.good.Load() + further; route.good.Load() < until; time.Sleep(time.Millisecond) {
			s.Require().True(time.Now().Before(deadline), "route %s has no good answers", route.limit)
		}
	}
}

func (s *endToEnd) TestARestartUnderLoadGivesNoRequestAnotherRoutesLimit() {
	for _, c := range []struct {
		name     string
		abruptly bool
	}{
		{"SIGTERM", false}, {"SIGKILL", true},
	} {
		s.Run(c.name, func() {
			l := s.startLoad()
			defer func() { s.Empty(l.end()) }()
			s.awaitGood(l, warmUp, warmUpTime)
			s.restart(c.abruptly)
			started := time.Now()
			s.awaitGood(l, 1, recovery)
			s.T().Logf("all routes are served %s after the start, %d requests were answered with 503",
				time.Since(started).Round(time.Millisecond), l.down.Load())
			s.awaitGood(l, warmUp, warmUpTime)
		})
	}
}

func (s *endToEnd) TestATokenFromBeforeARestartNamesNoOtherRoute() {
	s.onlyOwnServer(whyTokensMix)
	old := s.route(object{"count": 111, "time_window": 60}, routing{})
	s.expect(s.ask(old, fourDeep), http.StatusOK, limitHeader, "111")
	s.restart(false)
	// The first configuration that the new runner is given is the new route's.
	young := s.route(object{"count": 222, "time_window": 60}, routing{})
	s.expect(s.ask(young, fourDeep), http.StatusOK, limitHeader, "222")
	s.expect(s.ask(old, fourDeep), http.StatusOK, limitHeader, "111")
}

func (s *endToEnd) TestDecorationsOutliveARestart() {
	to := s.route(records(nil), routing{service: s.decorated()})
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "52")
	s.restart(false)
	s.expect(s.ask(to, fiftyByTwenty), http.StatusOK, costHeader, "52")
}

func (s *endToEnd) TestAReloadHandsNobodyAFreshQuota() {
	to := s.route(depthLimit, routing{})
	s.expect(s.ask(to, fourDeep), http.StatusOK, remainingHeader, "6")
	s.restart(false)
	s.expect(s.ask(to, fourDeep), http.StatusOK, remainingHeader, "2")
}
