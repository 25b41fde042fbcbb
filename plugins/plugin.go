// Package plugins is the APISIX plugin graphql-limit-count: it charges GraphQL
// requests by what they cost, enforces a ceiling per query and a quota per client,
// and reports both in response headers.
//
// [Plugin] implements apisix-go-plugin-runner's plugin.Plugin, so it serves in any
// runner that it is registered with:
//
//	plugin.RegisterPlugin(plugins.New(plugins.Options{...}))
//
// A request goes straight through: its operations are decoded from the body,
// costed, charged to a counter, and passed on or refused. Whatever goes wrong on
// the way refuses the request, unless the configuration allows degradation.
package plugins

import (
	"context"
	"net/http"
	"sync"
	"time"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
)

// Name is the plugin's name in APISIX's ext-plugin-* configurations.
const Name = "graphql-limit-count"

// DefaultMaxBodySize is the limit of a request's body in bytes where neither the
// process nor the configuration sets one.
const DefaultMaxBodySize = 1 << 20

// ModelSource knows the cost models of Services.
type ModelSource interface {
	// Model returns the cost model of a Service, nil when it has no decorations.
	// It is asked for every request and must not block.
	Model(serviceID string) *cost.Model
}

// SchemaSource knows the GraphQL schemas of upstreams.
type SchemaSource interface {
	// Cached returns the schema if it is known already, without Path and Host of
	// the request; nil otherwise. It must not block.
	Cached(of introspect.Request) *cost.Schema
	// Schema returns the schema of the upstream behind a request. An error means
	// that it cannot be had now.
	Schema(ctx context.Context, of introspect.Request) (*cost.Schema, error)
}

// RedisSource shares connections to Redis. Each method returns a limiter for the
// settings, and what gives it up again. *limiter.Clients is one.
type RedisSource interface {
	Redis(settings limiter.RedisConfig) (lim limiter.Limiter, release func())
	Cluster(settings limiter.ClusterConfig) (lim limiter.Limiter, release func())
	Sentinel(settings limiter.SentinelConfig) (lim limiter.Limiter, release func())
	// Delayed settles with the store of the settings once an interval.
	Delayed(settings limiter.StoreConfig, interval time.Duration) (lim limiter.Limiter, release func())
}

// Options are what the plugin works with.
type Options struct {
	// Models and Schemas weight the fields of requests to Services. Required.
	Models  ModelSource
	Schemas SchemaSource
	// Local counts under policy "local". Required.
	Local limiter.Limiter
	// Redis counts under the other policies. Required.
	Redis RedisSource
	// Owners tells what configurations stand on, and so whose counters are charged. nil
	// leaves it to the rule: the Service's where the route is bound to one.
	Owners OwnerSource
	// MaxBodySize is the limit of a request's body in bytes for configurations
	// that set none; 0 or less means DefaultMaxBodySize.
	MaxBodySize int64
	// PlanCacheBytes and PlanCacheEntries bound the memory and the number of compiled
	// plans; 0 or less means DefaultPlanCacheBytes and DefaultPlanCacheEntries. A plan is
	// one entry as such and one for each text of a document that has it.
	PlanCacheBytes   int64
	PlanCacheEntries int
	// Secrets decrypts encrypted texts in configurations. nil means that there is no
	// keyring, and such texts are faults.
	Secrets Secrets
	// Logger is told of invalid configurations and of stores and upstreams that
	// fail, never of single requests at its default level. Required.
	Logger *zap.Logger
	// Registerer takes the plugin's metrics. nil leaves them uncollected.
	Registerer prometheus.Registerer
	// Now is the clock by which groups change hands. nil means time.Now.
	Now func() time.Time
}

// Plugin is the plugin. It is safe for concurrent use.
type Plugin struct {
	options Options
	groups  Groups
	plans   *plans
	metrics *metrics
	log     *failureLog
	// decisions are those that no request uses now.
	decisions sync.Pool
}

var _ plugin.Plugin = (*Plugin)(nil)

// New returns the plugin.
func New(options Options) *Plugin {
	if options.MaxBodySize <= 0 {
		options.MaxBodySize = DefaultMaxBodySize
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	p := &Plugin{
		options: options,
		plans:   newPlans(options.PlanCacheBytes, options.PlanCacheEntries),
		metrics: newMetrics(options.Registerer),
		log:     newFailureLog(options.Logger),
	}
	if options.Registerer != nil {
		options.Registerer.MustRegister(p.plans.collectors()...)
	}
	p.decisions.New = func() any { return newDecision(p) }
	return p
}

// Name returns the plugin's name, graphql-limit-count.
func (p *Plugin) Name() string { return Name }

// ParseConf reads a configuration. It never fails: a runner skips a plugin whose
// configuration is an error, so a typo would switch the limit off. What it returns
// for an invalid configuration refuses every request, unless the configuration
// itself allows degradation.
func (p *Plugin) ParseConf(in []byte) (any, error) {
	cfg, err := ParseConfig(in, p.options.Secrets)
	if err != nil {
		degrade := AllowsDegradation(in)
		p.options.Logger.Error("invalid configuration of "+Name,
			zap.Error(err), zap.Bool("allow_degradation", degrade))
		return &route{invalid: err, degrade: degrade, locked: p.newLocked(in, err)}, nil
	}
	return p.newRoute(cfg), nil
}

// RequestFilter decides on one request: it writes a refusal to w, or sets the
// headers of the response to come and lets the request pass. conf is what ParseConf
// returned.
func (p *Plugin) RequestFilter(conf any, w http.ResponseWriter, r pkghttp.Request) {
	rt, ok := conf.(*route)
	if !ok {
		rt = &route{invalid: errForeignConf}
	}
	rt = p.unlocked(rt)
	d := p.decisions.Get().(*decision)
	d.route, d.request.Request = rt, r
	d.run()
	d.answer(w)
	d.end()
	p.decisions.Put(d)
}

// ResponseFilter does nothing: a request is decided on before it is proxied.
func (p *Plugin) ResponseFilter(any, pkghttp.Response) {}
