package plugins

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"graphql-limit-count/limiter"
)

// The codes of the extensions of a refusal's errors.
const (
	codeBadRequest       = "BAD_REQUEST"
	codeMethodNotAllowed = "METHOD_NOT_ALLOWED"
	codeParseFailed      = "GRAPHQL_PARSE_FAILED"
	codeCostLimit        = "COST_LIMIT_EXCEEDED"
	codeRateLimited      = "RATE_LIMITED"
	codeInternal         = "INTERNAL_SERVER_ERROR"
)

// refusal is an answer in the upstream's place.
type refusal struct {
	status  int
	code    string
	message string
	// inErrors are the words of the GraphQL error where they are not those of message.
	inErrors string
	// errorMsg is APISIX's error_msg, left out when empty.
	errorMsg   string
	extensions extensions
}

// extensions are the numbers behind a refusal.
type extensions struct {
	Code       string   `json:"code"`
	Cost       *int64   `json:"cost,omitempty"`
	MaxCost    *float64 `json:"maxCost,omitempty"`
	Limit      *int64   `json:"limit,omitempty"`
	Remaining  *int64   `json:"remaining,omitempty"`
	RetryAfter *int64   `json:"retryAfter,omitempty"`
}

// graphqlError is an error as GraphQL clients show it (October 2021, section 7.1.2).
type graphqlError struct {
	Message    string     `json:"message"`
	Extensions extensions `json:"extensions"`
}

type refusalBody struct {
	ErrorMsg string         `json:"error_msg,omitempty"`
	Message  string         `json:"message"`
	Errors   []graphqlError `json:"errors"`
}

var (
	errConfiguration = refusal{
		status: http.StatusInternalServerError, code: codeInternal,
		message: "invalid plugin configuration",
	}
	errMethod = refusal{
		status: http.StatusMethodNotAllowed, code: codeMethodNotAllowed,
		message: "method not allowed",
	}
	errCounter = refusal{
		status: http.StatusInternalServerError, code: codeInternal,
		message: "failed to limit count", errorMsg: "failed to limit count",
	}
	errIntrospection = refusal{
		status: http.StatusBadRequest, code: codeBadRequest,
		message: "Invalid graphql request: failed to introspect the upstream graphql schema",
	}
)

// costRefusal answers a query that costs more than max_cost.
func (d *decision) costRefusal() refusal {
	limit := strconv.FormatFloat(d.route.MaxCost, 'f', -1, 64)
	return refusal{
		status: http.StatusForbidden, code: codeCostLimit,
		message:    fmt.Sprintf("Invalid graphql request: query cost %d exceeds max_cost %s", d.charged, limit),
		extensions: extensions{Cost: &d.charged, MaxCost: &d.route.MaxCost},
	}
}

// quotaRefusal answers a client that is over its quota.
func (d *decision) quotaRefusal(over *limiter.Result) refusal {
	r := refusal{
		status: d.route.RejectedCode, code: codeRateLimited,
		message:  "rate limit exceeded",
		errorMsg: d.route.RejectedMsg,
		extensions: extensions{
			Cost: &d.charged, Limit: &over.Limit, Remaining: &over.Remaining,
		},
	}
	if d.route.RejectedMsg != "" {
		r.message = d.route.RejectedMsg
	}
	if seconds := d.retryAfter(over); seconds > 0 {
		r.extensions.RetryAfter = &seconds
	}
	return r
}

// retryAfter is the Retry-After of a rejection in whole seconds: when the same request
// may pass, else, for one that costs more than the whole quota, when the window ends
// and a cheaper one may. A leaky bucket has no window: then nothing is promised, 0.
func (d *decision) retryAfter(over *limiter.Result) int64 {
	if over.RetryAfter == 0 && d.route.WindowType != WindowLeakyBucket {
		return ceilSeconds(over.Reset)
	}
	return ceilSeconds(over.RetryAfter)
}

// body is the JSON of a refusal.
func (r *refusal) body() []byte {
	e := r.extensions
	e.Code = r.code
	body, err := json.Marshal(refusalBody{
		ErrorMsg: r.errorMsg,
		Message:  r.message,
		Errors:   []graphqlError{{Message: cmp.Or(r.inErrors, r.message), Extensions: e}},
	})
	if err != nil { // strings and finite numbers always marshal
		return []byte(`{"message":"internal error"}`)
	}
	return append(body, '\n')
}

const (
	mediaJSON            = "application/json"
	mediaGraphQLResponse = "application/graphql-response+json"
)

// contentType is application/json, unless the client accepts the media type of
// GraphQL over HTTP.
func contentType(accept string) string {
	for media := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(media, ";")
		if strings.EqualFold(strings.TrimSpace(name), mediaGraphQLResponse) && !zeroQuality(parameters) {
			return mediaGraphQLResponse
		}
	}
	return mediaJSON
}

// zeroQuality reports whether parameters of an Accept header say "not this".
func zeroQuality(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}

// answer writes what was decided: a refusal to w, or headers for the response to come.
func (d *decision) answer(w http.ResponseWriter) {
	d.plugin.metrics.count(d.outcome)
	if d.refusal == nil {
		if len(d.headers.names) > 0 {
			d.headers.set(d.request.RespHeader())
		}
		return
	}
	h := w.Header()
	d.headers.set(h)
	h["Content-Type"] = []string{contentType(d.request.Header().Get("Accept"))}
	w.WriteHeader(d.refusal.status)
	// A refusal that cannot be written is a connection that is gone.
	_, _ = w.Write(d.refusal.body())
}
