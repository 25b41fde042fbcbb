package extplugin

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are the server's counts since it was made.
type counters struct {
	accepted  atomic.Int64
	refused   atomic.Int64
	open      atomic.Int64
	prepared  atomic.Int64
	requests  atomic.Int64
	stopped   atomic.Int64
	questions atomic.Int64
	panics    atomic.Int64
	errors    atomic.Int64
}

// Stats is a reading of a server's counts. All but Open, Tokens and Configs only
// grow.
type Stats struct {
	Accepted  int64 // connections accepted
	Refused   int64 // connections closed at once because of Config.MaxConns
	Open      int64 // connections open now
	Prepared  int64 // PrepareConf calls answered with a token
	Requests  int64 // HTTPReqCall calls whose token was known
	Stopped   int64 // requests that a plugin or the server answered itself
	Questions int64 // ExtraInfo questions asked
	Panics    int64 // panics recovered in filters
	Errors    int64 // error frames sent, other than for unknown tokens
	Tokens    int64 // configuration tokens known now
	Configs   int64 // parsed configurations shared by them
}

// Stats returns the server's counts now. It takes no lock that requests take.
func (s *Server) Stats() Stats {
	tokens, configs := s.confs.size()
	return Stats{
		Accepted:  s.metrics.accepted.Load(),
		Refused:   s.metrics.refused.Load(),
		Open:      s.metrics.open.Load(),
		Prepared:  s.metrics.prepared.Load(),
		Requests:  s.metrics.requests.Load(),
		Stopped:   s.metrics.stopped.Load(),
		Questions: s.metrics.questions.Load(),
		Panics:    s.metrics.panics.Load(),
		Errors:    s.metrics.errors.Load(),
		Tokens:    int64(tokens),
		Configs:   int64(configs),
	}
}

// Collector returns the server's counts as Prometheus metrics named
// graphql_limit_count_runner_*.
func (s *Server) Collector() prometheus.Collector {
	metric := func(name, help string, kind prometheus.ValueType, read func(Stats) int64) statMetric {
		full := prometheus.BuildFQName("graphql_limit_count", "runner", name)
		return statMetric{desc: prometheus.NewDesc(full, help, nil, nil), kind: kind, read: read}
	}
	count, gauge := prometheus.CounterValue, prometheus.GaugeValue
	return &collector{server: s, metrics: []statMetric{
		metric("connections_accepted_total", "Connections accepted from APISIX.", count, func(v Stats) int64 { return v.Accepted }),
		metric("connections_refused_total", "Connections closed at once because too many were open.", count, func(v Stats) int64 { return v.Refused }),
		metric("connections_open", "Connections open now.", gauge, func(v Stats) int64 { return v.Open }),
		metric("configurations_prepared_total", "PrepareConf calls answered with a token.", count, func(v Stats) int64 { return v.Prepared }),
		metric("requests_total", "HTTPReqCall calls whose token was known.", count, func(v Stats) int64 { return v.Requests }),
		metric("requests_stopped_total", "Requests that were answered instead of passed on.", count, func(v Stats) int64 { return v.Stopped }),
		metric("questions_total", "ExtraInfo questions asked of APISIX.", count, func(v Stats) int64 { return v.Questions }),
		metric("panics_total", "Panics recovered in filters.", count, func(v Stats) int64 { return v.Panics }),
		metric("errors_total", "Error frames sent, other than for unknown tokens.", count, func(v Stats) int64 { return v.Errors }),
		metric("tokens", "Configuration tokens known now.", gauge, func(v Stats) int64 { return v.Tokens }),
		metric("configurations", "Parsed configurations that the tokens share.", gauge, func(v Stats) int64 { return v.Configs }),
	}}
}

type statMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(Stats) int64
}

type collector struct {
	server  *Server
	metrics []statMetric
}

var _ prometheus.Collector = (*collector)(nil)

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	stats := c.server.Stats()
	for _, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.read(stats)))
	}
}
