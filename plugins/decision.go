package plugins

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
)

// decision is the course of one request.
type decision struct {
	plugin  *Plugin
	route   *route
	request request

	outcome outcome
	refusal *refusal // nil: the request passes

	serviceID, routeID string
	ownedBy            Owner          // once it was asked for
	charged            int64          // what the request costs, once known
	over               limiter.Result // the charge that was refused

	// headers are those of the response.
	headers headerList
	room    room
	// lookup is request.variable; made once, as each making takes memory.
	lookup Lookup
}

// outcome is how a request ended, as the metrics name it.
type outcome uint8

const (
	passed outcome = iota
	passedPreflight
	passedDegraded
	refusedMethod
	refusedRequest // 400
	refusedCost
	refusedQuota
	failedConfiguration
	failedIntrospection
	failedCounter
	observedCost
	observedQuota
	outcomes
)

// refuse ends the decision with an answer in the upstream's place.
func (d *decision) refuse(o outcome, r refusal) {
	d.outcome, d.refusal = o, &r
}

// fail refuses a request that could not be decided on, or lets it pass where the
// configuration prefers that. cause goes to the log only.
func (d *decision) fail(o outcome, what string, cause error, r refusal) {
	d.plugin.log.failure(what, cause, zap.String("route_id", d.routeID), zap.String("service_id", d.serviceID))
	if d.route.AllowDegradation() {
		d.outcome = passedDegraded
		return
	}
	d.refuse(o, r)
}

// run decides.
func (d *decision) run() {
	if d.route.invalid != nil {
		d.invalidConfiguration()
		return
	}
	if d.route.Group != "" {
		if err := d.plugin.groups.Use(d.route.Config, d.plugin.options.Now()); err != nil {
			d.fail(failedConfiguration, "sharing a counter", err, errConfiguration)
			return
		}
	}
	if !d.methodAllowed() {
		return
	}
	operations, err := d.operations()
	if err != nil {
		d.unreadable(err)
		return
	}
	d.serviceID, _ = d.request.variable(varServiceID)
	d.routeID, _ = d.request.variable(varRouteID)
	if err := d.request.failed; err != nil {
		d.fail(failedCounter, "asking APISIX whose request it is", err, errCounter)
		return
	}
	if !d.cost(operations) {
		return
	}
	d.plugin.metrics.cost(d.charged)
	if d.route.ShowLimitQuotaHeader {
		d.headers.number(headerCost, d.charged)
	}
	d.charge()
}

// invalidConfiguration refuses everything on the route, or nothing. The fault was
// logged when the configuration was read, but not whose it is: that is known now.
func (d *decision) invalidConfiguration() {
	if d.route.told.CompareAndSwap(false, true) {
		routeID, _ := d.request.variable(varRouteID)
		d.plugin.options.Logger.Error("the configuration of "+Name+" on this route is invalid",
			zap.String("route_id", routeID), zap.Bool("requests_pass", d.route.degrade), zap.Error(d.route.invalid))
	}
	if d.route.degrade {
		d.outcome = passedDegraded
		return
	}
	d.refuse(failedConfiguration, errConfiguration)
}

// methodAllowed lets POST (and GET, where configured) go on, and CORS preflights
// pass: before authentication APISIX's cors plugin has not seen them yet.
func (d *decision) methodAllowed() bool {
	switch method := d.request.Method(); {
	case method == http.MethodPost:
		return true
	case method == http.MethodGet && d.route.getIsCost:
		return true
	case d.request.preflight():
		d.outcome = passedPreflight
		return false
	}
	d.headers.add("Allow", d.route.allow)
	d.refuse(refusedMethod, errMethod)
	return false
}

// unreadable answers a request that could not be read: 400 where that is the
// client's fault, in the words of the error.
func (d *decision) unreadable(err error) {
	var fault *requestError
	if !errors.As(err, &fault) {
		d.fail(failedCounter, "reading a request", err, errCounter)
		return
	}
	d.refuse(refusedRequest, refusal{status: http.StatusBadRequest, code: fault.code, message: fault.message, inErrors: fault.inErrors})
}

// cost computes what the request is charged. It reports whether to go on.
func (d *decision) cost(operations []operation) bool {
	options := cost.Options{
		Strategy:  d.route.strategy,
		Variables: d.route.ResolveVariables, Defaults: d.route.ResolveVariables,
	}
	if d.route.strategy != cost.Depth && d.serviceID != "" {
		options.Model = d.plugin.options.Models.Model(d.serviceID)
	}
	if !options.Model.Empty() {
		schema, err := d.schema()
		if err != nil {
			d.fail(failedIntrospection, "introspecting the upstream's schema", err, errIntrospection)
			return false
		}
		options.Schema = schema
	}
	for i := range operations {
		op := &operations[i]
		plan := d.plugin.plans.known(op.query, op.name, &options)
		if plan == nil {
			var err error
			options.OperationName = string(op.name)
			if plan, err = d.plugin.plans.plan(string(op.query), options); err != nil {
				d.unreadable(costError(err))
				return false
			}
		}
		raw := plan.Cost(d.values(op, plan))
		charged := cost.Charged(d.route.strategy, raw, d.route.ScoreFactor)
		d.charged = min(d.charged+charged, cost.MaxCost)
	}
	return true
}

func (d *decision) schema() (*cost.Schema, error) {
	of := introspect.Request{
		ServiceID: d.serviceID, RouteID: d.routeID,
		Settings: d.route.introspection, TTL: d.route.IntrospectionTTL.Duration(),
	}
	// Asking APISIX for the Host costs an exchange: only a fetch is worth it.
	if schema := d.plugin.options.Schemas.Cached(of); schema != nil {
		return schema, nil
	}
	if d.route.IntrospectionEndpoint == "" {
		of.Path = string(d.request.Path())
		of.Host, _ = d.request.variable(varHTTPHost)
	}
	return d.plugin.options.Schemas.Schema(d.request.Context(), of)
}

// charge charges every quota that applies, in order, up to the first that refuses,
// and decides. It comes before max_cost is looked at: a request that is refused for
// its size is paid for.
func (d *decision) charge() {
	charges, err := d.chargesDue(d.room.charges[:0])
	d.room.charges = charges
	if err != nil {
		d.counterFailed("resolving the quota", err)
		return
	}
	var over *limiter.Result
	var standard standardHeaders
	for i := range charges {
		c := &charges[i]
		result, err := d.route.limiter.Charge(d.context(), c.counter, d.charged, c.quota)
		if err != nil {
			d.counterFailed("charging a counter", err)
			return
		}
		if d.route.ShowLimitQuotaHeader {
			d.headers.quota(&c.of.headers, result)
		}
		if d.route.StandardHeaders {
			standard.add(c.of.name, c.windowSeconds, result)
		}
		if !result.Allowed {
			d.over, over = result, &d.over
			break
		}
	}
	if d.route.ShowLimitQuotaHeader {
		d.headers.standard(&standard)
	}
	d.decide(over)
}

// context bounds a charge. Counters in memory take no time, and making the request's
// context does.
func (d *decision) context() context.Context {
	if d.route.local {
		return context.Background()
	}
	return d.request.Context()
}

var errNoRule = errors.New("no rule applies to the request: none of its key's variables is present")

// due is a charge that is to be made.
type due struct {
	of            *quota
	counter       string
	windowSeconds int64
	quota         limiter.Quota
}

// chargesDue appends the charges of the quotas that apply. All are known before the
// first is made: a request that cannot be decided on is not charged to some of them.
func (d *decision) chargesDue(to []due) ([]due, error) {
	for i := range d.route.quotas {
		q := &d.route.quotas[i]
		key, applies := q.key(d.lookup)
		if !applies {
			continue
		}
		count, err := q.count.Resolve(d.lookup)
		if err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		window, err := q.window.Resolve(d.lookup)
		if err != nil {
			return nil, fmt.Errorf("time_window: %w", err)
		}
		to = append(to, due{of: q, counter: d.counter(key), windowSeconds: window, quota: limiter.Quota{
			Limit: count, Window: limiter.WindowSeconds(window),
			Type: limiter.WindowType(d.route.WindowType), Burst: d.route.Burst,
			ForgiveRejected: !d.route.ChargeRejected,
		}})
	}
	if d.request.failed != nil {
		return nil, d.request.failed
	}
	if len(to) == 0 {
		return nil, errNoRule
	}
	return to, nil
}

// counterFailed ends a request whose charge has no outcome. max_cost needs none.
func (d *decision) counterFailed(what string, cause error) {
	if d.route.AllowDegradation() && d.overMaxCost() {
		d.plugin.log.failure(what, cause, zap.String("route_id", d.routeID), zap.String("service_id", d.serviceID))
		d.decide(nil)
		return
	}
	d.fail(failedCounter, what, cause, errCounter)
}

func (d *decision) overMaxCost() bool {
	return d.route.MaxCost > 0 && float64(d.charged) > d.route.MaxCost
}

// decide refuses for the ceiling, which wins, or for a quota; a route that only
// observes says what it would have done.
func (d *decision) decide(over *limiter.Result) {
	switch {
	case d.overMaxCost() && d.route.observe:
		d.outcome = observedCost
	case d.overMaxCost():
		d.refuse(refusedCost, d.costRefusal())
	case over != nil && d.route.observe:
		d.outcome = observedQuota
	case over != nil:
		d.refuse(refusedQuota, d.quotaRefusal(over))
		if seconds := d.retryAfter(over); seconds > 0 {
			d.headers.number("Retry-After", seconds)
		}
	}
	if d.route.observe {
		d.headers.add(headerDecision, observedDecision(d.outcome))
	}
}

// counter names the counter of a key: whose it is, under which configuration.
// Changing the configuration starts afresh; routes of a group share one.
func (d *decision) counter(key string) string {
	if d.route.Group != "" {
		return "group:" + d.route.Group + ":" + d.route.GroupDigest + ":" + key
	}
	owner := d.owner()
	return string(owner.Kind) + ":" + owner.ID + ":" + d.route.Digest + ":" + key
}
