package gateway

import (
	"errors"
	"log"
	"net/http"
	"time"

	"go.uber.org/zap"
)

const (
	textPlain = "text/plain; charset=utf-8" // APISIX's default for answers of its own

	maxIdlePerNode        = 32
	idleNodeTimeout       = time.Minute
	responseHeaderTimeout = time.Minute // APISIX's default read timeout
)

// front serves the clients.
type front struct {
	store     *store
	runner    *runner
	transport *http.Transport
	log       *zap.Logger
	stdLog    *log.Logger // log, for the standard library's proxy
}

func newFront(s *store, run *runner, logger *zap.Logger) *front {
	return &front{store: s, runner: run, log: logger, stdLog: zap.NewStdLog(logger), transport: &http.Transport{
		DisableCompression:    true, // the client's Accept-Encoding is the upstream's business
		MaxIdleConnsPerHost:   maxIdlePerNode,
		IdleConnTimeout:       idleNodeTimeout,
		ResponseHeaderTimeout: responseHeaderTimeout,
	}}
}

// close ends what outlives a request: idle connections.
func (f *front) close() {
	f.runner.close()
	f.transport.CloseIdleConnections()
}

// answer is a response of the gateway itself. Without a body, a status of 400 and
// above gets an HTML page, as nginx has it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// refusal is an answer in JSON.
func refusal(status int, member, text string) *answer {
	return &answer{
		status: status,
		header: http.Header{"Content-Type": {textPlain}},
		body:   []byte(`{"` + member + `":"` + text + `"}` + "\n"),
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, r)
	router := f.store.router.Load()
	found := router.match(r.Method, x.hostname(), x.path)
	if found == nil {
		x.send(w, refusal(http.StatusNotFound, "error_msg", "404 Route Not Found"))
		return
	}
	bound, err := router.resolve(found)
	var missing errNotConfigured
	if errors.As(err, &missing) {
		f.log.Warn("a route is not usable", zap.String("route", found.rec.id), zap.Error(err))
		x.send(w, &answer{status: missing.status})
		return
	}
	x.binding = bound
	if stop := f.phases(router, x); stop != nil {
		x.send(w, stop)
		return
	}
	f.proxy(w, x)
}

// phases runs the plugins in APISIX's order: ext-plugin-pre-req has priority 12000,
// key-auth 2500 and proxy-rewrite 1008 in the rewrite phase; what only the consumer
// has of the rewrite phase comes after it; ext-plugin-post-req is in the access
// phase. The first answer ends it.
func (f *front) phases(router *router, x *exchange) *answer {
	if x.request.ContentLength > maxBody {
		return &answer{status: http.StatusRequestEntityTooLarge}
	}
	own := x.binding.plugins
	if stop := f.external(x, preReq, own.preReq); stop != nil {
		return stop
	}
	if stop := x.authenticate(router, own.keyAuth); stop != nil {
		return stop
	}
	if own.rewrite != nil {
		x.rewriteURI(own.rewrite.URI)
	}
	if own.preReq == nil {
		if stop := f.external(x, preReq, x.binding.plugins.preReq); stop != nil {
			return stop
		}
	}
	return f.external(x, postReq, x.binding.plugins.postReq)
}

// external calls the runner, if the plugin is configured, and applies its action.
func (f *front) external(x *exchange, attachment string, conf *extPlugin) *answer {
	if conf == nil {
		return nil
	}
	action, err := f.runner.call(x.request.Context(), x.binding.key(attachment), conf, x.call(), x)
	switch {
	case x.tooLarge:
		return &answer{status: http.StatusRequestEntityTooLarge}
	case err != nil && conf.AllowDegradation:
		f.log.Warn("the runner failed, allow_degradation lets the request pass", zap.Error(err))
		return nil
	case err != nil:
		f.log.Error("the runner failed", zap.Error(err))
		return &answer{status: http.StatusServiceUnavailable}
	}
	return x.apply(action)
}
