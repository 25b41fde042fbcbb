package e2e_test

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/suite"

	"graphql-limit-count/ci/shop"
)

const (
	// exchangeTimeout bounds one request to a gateway or an admin endpoint.
	exchangeTimeout = 30 * time.Second
	// routeTimeout is how long a gateway may take to know what its Admin API was told.
	routeTimeout = 10 * time.Second
	// pollInterval is the pause between two looks at something that takes time.
	pollInterval = 10 * time.Millisecond
	// maxIdle is how many connections to one gateway are kept.
	maxIdle = 64
)

// endToEnd is the suite, with one of the two protocol servers.
type endToEnd struct {
	suite.Suite
	server string

	ctx      context.Context
	http     *http.Client
	shopAddr string // of the upstream, for the gateway
	*site
}

// SetupSuite starts everything. What was started is ended after the suite also when
// the rest could not be.
func (s *endToEnd) SetupSuite() {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	s.T().Cleanup(cancel)
	s.http = &http.Client{Timeout: exchangeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle}}
	s.T().Cleanup(s.http.CloseIdleConnections)
	host, listen := upstreamAddress()
	upstream, err := shop.Start(s.ctx, listen)
	s.Require().NoError(err)
	s.T().Cleanup(upstream.Close)
	_, port, err := net.SplitHostPort(upstream.Addr())
	s.Require().NoError(err)
	s.shopAddr = net.JoinHostPort(host, port)
	s.site, err = startSite(s.ctx, 0, s.server)
	s.Require().NoError(err)
	s.T().Cleanup(func() { s.NoError(s.site.stop(), "the runner said: %s", s.log) })
}

func (s *endToEnd) TearDownTest() {
	if s.T().Failed() {
		s.T().Logf("the runner said: %s", s.log)
	}
}

// onlyOwnServer skips what the stock server cannot give.
func (s *endToEnd) onlyOwnServer(why string) {
	if s.server != ownServer {
		s.T().Skip("not with the stock server: " + why)
	}
}

// unique makes an id that no other test and no other run has.
func unique(what string) string { return "e2e-" + what + "-" + strings.ToLower(rand.Text()[:8]) }
