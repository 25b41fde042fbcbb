package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"graphql-limit-count/ci/servers"
)

// redisQuota is a quota in this Redis, with further members.
func redisQuota(r *servers.Redis, further object) object {
	conf := object{"count": 100, "time_window": 60, "rejected_code": 429,
		"policy": "redis", "redis_host": r.Host, "redis_port": r.Port}
	for name, value := range further {
		conf[name] = value
	}
	return conf
}

func (s *endToEnd) TestTwoRunnersThatShareARedisAdmitTheQuotaOnce() {
	if realGateway() && len(listed(gatewayURLs)) < 2 {
		s.T().Skipf("two runners need two gateways, %s names one", gatewayURLs)
	}
	const clients, each = 4, 10 // for each gateway: 80 requests, of which 25 have room
	redis := servers.RunRedis(s.T())
	second, err := startSite(s.ctx, 1, s.server)
	s.Require().NoError(err)
	s.T().Cleanup(func() { s.NoError(second.stop(), "%s", second.log) }) // after its routes are deleted
	conf, name := redisQuota(redis, nil), unique("route")
	var wg sync.WaitGroup
	var admitted, rejected atomic.Int64
	faults := make(chan string, 2*clients*each)
	for _, at := range []*site{s.site, second} {
		to := s.route(conf, routing{site: at, name: name})
		for range clients {
			wg.Go(func() {
				for range each {
					switch a, err := s.exchange(to, question(fourDeep, nil)); {
					case err == nil && a.status == http.StatusOK && a.header.Get(costHeader) == "4":
						admitted.Add(1)
					case err == nil && a.status == http.StatusTooManyRequests:
						rejected.Add(1)
					default:
						faults <- fmt.Sprintf("%v, status %d: %s", err, a.status, a.body)
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
	s.EqualValues(25, admitted.Load())
	s.EqualValues(55, rejected.Load())
}

func (s *endToEnd) TestAStoreThatIsDownRefusesUntilItIsBack() {
	redis := servers.RunRedis(s.T())
	strict := s.route(redisQuota(redis, nil), routing{})
	degrading := s.route(redisQuota(redis, object{"allow_degradation": true}), routing{})
	s.expect(s.ask(strict, fourDeep), http.StatusOK, remainingHeader, "96")
	s.expect(s.ask(degrading, fourDeep), http.StatusOK, remainingHeader, "96")

	s.Require().NoError(redis.Stop())
	refused := s.ask(strict, fourDeep)
	s.expect(refused, http.StatusInternalServerError, remainingHeader, "")
	s.Contains(refused.body, `"error_msg":"failed to limit count"`)
	s.expect(s.ask(degrading, fourDeep), http.StatusOK, remainingHeader, "")

	s.Require().NoError(redis.Start(s.ctx))
	s.Require().Eventually(func() bool { return s.ask(strict, fourDeep).status == http.StatusOK }, recovery, pollInterval)
}
