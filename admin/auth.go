package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keyHeader carries the API key, as in APISIX. A key in the URL is not accepted: URLs end up
// in logs.
const keyHeader = "X-API-KEY"

// Why a key did not allow a request, as the metric names it.
const (
	failureMissing = "missing_key"
	failureWrong   = "wrong_key"
	failureRole    = "viewer_key"
)

// gate lets requests in by their key, and slows down who guesses.
type gate struct {
	keys     *Keys
	failures *failures
	counted  *prometheus.CounterVec
	// after is time.After, for tests.
	after func(time.Duration) <-chan time.Time
}

func newGate(keys *Keys) *gate {
	g := &gate{keys: keys, failures: newFailures(time.Now), after: time.After}
	g.counted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "graphql_limit_count_admin_auth_failures_total",
		Help: "Requests to the admin endpoint that their key did not allow.",
	}, []string{"reason"})
	for _, reason := range []string{failureMissing, failureWrong, failureRole} {
		g.counted.WithLabelValues(reason)
	}
	return g
}

// check returns the refusal of a request whose key does not allow it. A viewer may only GET.
// The refusal of a wrong key takes its time when that client's keys have been wrong before.
// A right one never waits, whoever else guesses from the same address.
func (g *gate) check(r *http.Request) error {
	key := r.Header.Get(keyHeader)
	if key == "" {
		g.counted.WithLabelValues(failureMissing).Inc()
		return unauthorized("missing apikey")
	}
	switch role := g.keys.role(key); {
	case role == roleAdmin, role == roleViewer && r.Method == http.MethodGet:
		keepConnection(r.Context())
		return nil
	case role == roleViewer:
		g.counted.WithLabelValues(failureRole).Inc()
		return unauthorized("invalid method for role viewer")
	}
	g.counted.WithLabelValues(failureWrong).Inc()
	g.wait(r.Context(), g.failures.note(clientOf(r.RemoteAddr)))
	return unauthorized("wrong apikey")
}

// wait waits until the time is over, the client is gone or the server stops.
func (g *gate) wait(ctx context.Context, delay time.Duration) {
	if delay <= 0 {
		return
	}
	select {
	case <-g.after(delay):
	case <-ctx.Done():
	case <-stopping(ctx):
	}
}

// digestOf makes keys comparable in constant time: neither a key's bytes nor its length can
// be found out by timing.
func digestOf(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }

func sameDigest(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// unauthorized is APISIX's answer, also to a viewer who writes.
func unauthorized(description string) error {
	return &refusal{status: http.StatusUnauthorized, body: map[string]any{
		memberError:   "failed to check token",
		"description": description,
	}}
}
