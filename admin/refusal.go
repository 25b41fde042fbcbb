package admin

import (
	"context"
	"errors"
	"net/http"

	"graphql-limit-count/internal/apisix"
)

// memberError carries the text of a refusal.
const memberError = "error_msg"

// refusal is an answer other than success.
type refusal struct {
	status int
	body   map[string]any
	allow  string // the header Allow; "" when there is none
}

// Error returns the answer's text.
func (r *refusal) Error() string {
	for _, member := range []string{memberError, "message"} {
		if text, ok := r.body[member].(string); ok {
			return text
		}
	}
	return http.StatusText(r.status)
}

// refuse is a refusal with APISIX's error_msg.
func refuse(status int, message string) error {
	return &refusal{status: status, body: map[string]any{memberError: message}}
}

// keyNotFound is what etcd, and so APISIX, answers about an object that does not exist.
func keyNotFound() error {
	return &refusal{status: http.StatusNotFound, body: map[string]any{"message": "Key not found"}}
}

// unaskedError means that APISIX could not be asked about a service.
type unaskedError struct{ cause error }

func (e *unaskedError) Error() string { return e.cause.Error() }
func (e *unaskedError) Unwrap() error { return e.cause }

// answerFor turns any error into the answer that tells it. What is not the client's fault is
// the store's or APISIX's, and the answer says which of them in plain words: their own errors
// name files, addresses and statements and are for the log.
func answerFor(err error) *refusal {
	var answer *refusal
	var taken *TakenError
	var unasked *unaskedError
	switch {
	case errors.As(err, &answer):
	case errors.As(err, &taken):
		errors.As(refuse(http.StatusBadRequest, taken.Error()), &answer)
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrNoSchema):
		errors.As(keyNotFound(), &answer)
	case errors.Is(err, ErrReadOnly):
		errors.As(refuse(http.StatusForbidden, ErrReadOnly.Error()), &answer)
	case errors.Is(err, ErrTooLarge):
		errors.As(refuse(http.StatusRequestEntityTooLarge, err.Error()), &answer)
	case errors.Is(err, apisix.ErrKeyRefused):
		errors.As(refuse(http.StatusServiceUnavailable, "APISIX cannot be asked about the service: it refuses the key of this runner (--apisix-admin-key)"), &answer)
	case errors.As(err, &unasked):
		errors.As(refuse(http.StatusServiceUnavailable, "APISIX cannot be asked about the service at the moment, try again later"), &answer)
	case errors.Is(err, errBusy), errors.Is(err, errContended):
		errors.As(refuse(http.StatusServiceUnavailable, "the store is busy with the writes of another process, try again later"), &answer)
	case errors.Is(err, context.DeadlineExceeded):
		errors.As(refuse(http.StatusServiceUnavailable, "the store did not answer in time, try again later"), &answer)
	default:
		errors.As(refuse(http.StatusServiceUnavailable, "the store cannot be used at the moment, the log of the runner tells why"), &answer)
	}
	return answer
}
