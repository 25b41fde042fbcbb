package plugins

import (
	"github.com/prometheus/client_golang/prometheus"
)

// outcomeNames are the values of the metrics' outcome label.
var outcomeNames = [outcomes]string{
	passed:              "passed",
	passedPreflight:     "preflight",
	passedDegraded:      "degraded",
	refusedMethod:       "method_not_allowed",
	refusedRequest:      "bad_request",
	refusedCost:         "max_cost",
	refusedQuota:        "quota",
	failedConfiguration: "invalid_configuration",
	failedIntrospection: "introspection_failed",
	failedCounter:       "counter_failed",
	observedCost:        "observed_max_cost",
	observedQuota:       "observed_quota",
}

// metrics counts decisions; looking up a label is done once.
type metrics struct {
	byOutcome [outcomes]prometheus.Counter
	costs     prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "graphql_limit_count_requests_total",
		Help: "Requests by how they ended; observed_* would have been refused if the route did not only observe.",
	}, []string{"outcome"})
	const smallest, factor, buckets = 1, 4, 12 // 1 to 4 194 304
	m := &metrics{costs: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "graphql_limit_count_query_cost",
		Help:    "What requests were charged.",
		Buckets: prometheus.ExponentialBuckets(smallest, factor, buckets),
	})}
	for o, name := range outcomeNames {
		m.byOutcome[o] = decisions.WithLabelValues(name)
	}
	if registerer != nil {
		registerer.MustRegister(decisions, m.costs)
	}
	return m
}

func (m *metrics) count(o outcome) { m.byOutcome[o].Inc() }

func (m *metrics) cost(charged int64) { m.costs.Observe(float64(charged)) }
