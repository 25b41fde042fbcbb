package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"graphql-limit-count/cost"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// Config holds what a Handler serves.
type Config struct {
	// Store keeps the decorations and the uploaded schemas. Required.
	Store Store
	// Models are refreshed after each write, before it is answered. Required.
	Models *Models
	// Uploads is refreshed after each write of an uploaded schema, before it is answered.
	// Nil: such a write is in force when whoever follows the store has seen it.
	Uploads Follower
	// SchemaSource knows the schemas of services. Nil: none is known, nothing is warned about
	// and nothing can be refreshed.
	SchemaSource SchemaSource
	// Reclaimer asks APISIX about services. Nil: APISIX cannot be asked, any service id is
	// taken for an existing one and nothing is reclaimed.
	Reclaimer *Reclaimer
	// Keys allow requests. Required.
	Keys *Keys
	// Hosts are the names by which the endpoint may be called, besides localhost and IP
	// addresses; ports in them are ignored. The host of the address that it listens on
	// should be one.
	Hosts []string
	// PluginSchema is the JSON Schema of the plugin's configuration, served at
	// /apisix/admin/schema/plugins/graphql-limit-count. Empty: not served.
	PluginSchema []byte
	// Metrics is served at /metrics, without a key. Nil: not served.
	Metrics http.Handler
	// Registerer takes the endpoint's own metrics. Nil leaves them uncollected.
	Registerer prometheus.Registerer
	// Logger gets a line for each write, at level info, and one when the store or APISIX
	// fails, at most once a minute. Required.
	Logger *zap.Logger
}

// SchemaSource knows the GraphQL schemas of services; *introspect.Source is one.
type SchemaSource interface {
	// Known returns a schema of the service that is in memory, nil when there is none. It
	// asks no upstream.
	Known(serviceID string) *cost.Schema
	// Refresh fetches the schema of a service again, now. Its error wraps
	// introspect.ErrUnasked or introspect.ErrGiven where there is nothing to fetch; any
	// other means that fetching failed, and it shows no header's value.
	Refresh(ctx context.Context, serviceID string) error
}

// Handler is the admin endpoint. /healthz answers 200 to anyone, without a key and under any
// name, for as long as the process serves: the answer tells nothing else, and probes call by
// all sorts of names.
type Handler struct {
	store     Store
	models    *Models
	uploads   Follower
	source    SchemaSource
	reclaimer *Reclaimer
	hosts     hostNames
	gate      *gate
	schema    []byte
	metrics   http.Handler
	logger    *zap.Logger
	complaint *throttled
}

// NewHandler returns the endpoint. Missing keys, what is no name of a host, and a registerer
// that has the metrics already are errors.
func NewHandler(cfg Config) (*Handler, error) {
	hosts, err := newHostNames(cfg.Hosts)
	if err == nil && cfg.Keys == nil {
		err = errors.New("there are no keys")
	}
	gate := newGate(cfg.Keys)
	if err == nil && cfg.Registerer != nil {
		err = cfg.Registerer.Register(gate.counted)
	}
	if err != nil {
		return nil, fmt.Errorf("configure the admin endpoint: %w", err)
	}
	return &Handler{
		store: cfg.Store, models: cfg.Models, uploads: cfg.Uploads, source: cfg.SchemaSource,
		reclaimer: cfg.Reclaimer, hosts: hosts, gate: gate, schema: cfg.PluginSchema, metrics: cfg.Metrics,
		logger: cfg.Logger, complaint: newThrottled(cfg.Logger),
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A client that has gone does not read the answer; there is nothing to do about it.
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	if err := h.hosts.check(r); err != nil {
		answer := answerFor(err)
		write(w, answer.status, answer.body)
		return
	}
	if r.URL.Path == metricsPath && h.metrics != nil {
		h.metrics.ServeHTTP(w, r)
		return
	}
	status, body, err := h.route(r)
	if err != nil {
		answer := answerFor(err)
		status, body = answer.status, answer.body
		if answer.allow != "" {
			w.Header().Set("Allow", answer.allow)
		}
	}
	h.record(r, status, err)
	write(w, status, body)
}

// document is an answer that is not JSON, or whose JSON is written already.
type document struct {
	contentType string
	text        []byte
}

func write(w http.ResponseWriter, status int, body any) {
	answer, ok := body.(document)
	if !ok {
		text, err := encode(body)
		if err != nil { // a stored value that is no JSON
			status, text = http.StatusInternalServerError, []byte(`{"error_msg":"failed to encode the answer"}`)
		}
		answer = document{contentType: jsonType, text: append(text, '\n')}
	}
	w.Header().Set("Content-Type", answer.contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-API-VERSION", "v3")
	w.WriteHeader(status)
	// As above: a client that has gone does not read the answer.
	_, _ = w.Write(answer.text)
}
