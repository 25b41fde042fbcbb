package plugins

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
)

// errForeignConf answers a configuration that ParseConf did not return.
var errForeignConf = errors.New("the configuration was not parsed by this plugin")

// route is a configuration made ready for requests: what can be decided once is
// decided here. Routes with equal configurations share one.
type route struct {
	*Config
	// invalid is why the configuration is none; then only degrade counts.
	invalid error
	degrade bool
	locked  *locked // nil unless it is invalid for want of a secret's key
	// told: the log knows a route that has the invalid configuration.
	told atomic.Bool

	limiter limiter.Limiter
	local   bool // the limiter counts in memory
	// quotas are what a request is charged to, in order.
	quotas []quota
	// variables are asked of APISIX together with the body.
	variables []string
	allow     string // the Allow header of a 405
	getIsCost bool   // GET is costed as well
	strategy  cost.Strategy
	maxBody   int64
	observe   bool
	// introspection is how the schema is fetched.
	introspection introspect.Settings
	release       func()
}

// quota is one counter that requests are charged to.
type quota struct {
	// name is what the standard headers call it.
	name          string
	count, window Quantity
	key           func(Lookup) (key string, applies bool)
	headers       headerNames
}

// AllowDegradation reports whether requests pass when deciding on them fails.
func (rt *route) AllowDegradation() bool {
	if rt.Config == nil {
		return rt.degrade
	}
	return rt.Config.AllowDegradation
}

// Close gives up what the configuration holds, once no request uses it any more.
func (rt *route) Close() error {
	if rt.locked != nil {
		return rt.locked.close()
	}
	if rt.Config != nil {
		rt.release()
	}
	return nil
}

func (p *Plugin) newRoute(cfg *Config) *route {
	rt := &route{
		Config:    cfg,
		allow:     joinMethods(cfg.AllowedMethods),
		getIsCost: slices.Contains(cfg.AllowedMethods, "GET"),
		strategy:  cost.Strategy(cfg.CostStrategy),
		maxBody:   p.options.MaxBodySize,
		observe:   cfg.Mode == ModeObserve,

		introspection: introspect.NewSettings(cfg.IntrospectionEndpoint, cfg.IntrospectionHeaders),
	}
	if cfg.MaxBodySize > 0 {
		rt.maxBody = cfg.MaxBodySize
	}
	rt.limiter, rt.release = p.limiter(cfg)
	rt.local = cfg.Policy == PolicyLocal
	rt.quotas = newQuotas(cfg)
	rt.variables = rt.neededVariables()
	// A runner that does not know Close lets go of configurations silently.
	runtime.AddCleanup(rt, func(release func()) { release() }, rt.release)
	return rt
}

// neededVariables are those that decide whose counter is charged and under which
// key. The client's address comes with the call.
func (rt *route) neededVariables() []string {
	names := slices.DeleteFunc(rt.Config.Variables(), func(name string) bool { return name == fallbackVariable })
	for _, owner := range []string{varRouteID, varServiceID} {
		if !slices.Contains(names, owner) {
			names = append(names, owner)
		}
	}
	return names
}

func newQuotas(cfg *Config) []quota {
	if cfg.Rules == nil {
		return []quota{{
			name:  singlePolicy,
			count: cfg.Count, window: cfg.TimeWindow,
			key:     func(lookup Lookup) (string, bool) { return cfg.KeySource.Resolve(lookup), true },
			headers: headerNames{cfg.LimitHeader, cfg.RemainingHeader, cfg.ResetHeader},
		}}
	}
	quotas := make([]quota, 0, len(cfg.Rules))
	for _, rule := range cfg.Rules {
		quotas = append(quotas, quota{
			name:  rule.HeaderPrefix,
			count: rule.Count, window: rule.TimeWindow,
			key: func(lookup Lookup) (string, bool) {
				key, resolved := rule.KeyTemplate.Resolve(lookup)
				return key, resolved > 0
			},
			headers: headerNames{cfg.LimitHeader, cfg.RemainingHeader, cfg.ResetHeader}.prefixed(rule.HeaderPrefix),
		})
	}
	return quotas
}
