package extplugin

import "net/http"

const (
	minStatus = 100
	maxStatus = 999
)

// response is the answer that a plugin gives in the upstream's place. It stops
// the request as soon as something is written, were it nothing but a status.
type response struct {
	header  http.Header
	status  int
	body    []byte
	written bool
}

var _ http.ResponseWriter = (*response)(nil)

func (w *response) reset() {
	w.header = trimHeader(w.header, nil)
	w.status = 0
	w.body = trim(w.body)
	w.written = false
}

// Header returns the headers that are sent when something is written.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader sets the status; only the first call counts. A status that HTTP
// does not have becomes 500.
func (w *response) WriteHeader(status int) {
	if w.written {
		return
	}
	if status < minStatus || status > maxStatus {
		status = http.StatusInternalServerError
	}
	w.written = true
	w.status = status
}

// Write appends to the body.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p...)
	return len(p), nil
}

// WriteString appends to the body.
func (w *response) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, s...)
	return len(s), nil
}

// refusal is the body of an answer that the server itself gives.
const refusal = `{"message":"internal server error","errors":[{"message":"internal server error",` +
	`"extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`

// refuse replaces whatever was written by the server's own 500.
func (w *response) refuse() {
	w.reset()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	w.body = append(w.body, refusal...)
}
