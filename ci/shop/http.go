package shop

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// maxBody bounds a request's body, in bytes, as sent and decompressed.
const maxBody = 8 << 20

// request is a GraphQL request, as JSON carries it.
type request struct {
	Query         string         `json:"query"`
	Variables     map[string]any `json:"variables"`
	OperationName string         `json:"operationName"`
}

// httpError is a refusal before any GraphQL: the status and what to say.
type httpError struct {
	status int
	text   string
}

func (e httpError) Error() string { return e.text }

// handle answers one request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	result, err := s.answer(w, r)
	status := http.StatusOK
	if err != nil {
		var refusal httpError
		if !errors.As(err, &refusal) {
			refusal = httpError{http.StatusInternalServerError, err.Error()}
		}
		status = refusal.status
		result = map[string]any{"errors": []any{map[string]any{"message": refusal.text}}}
	}
	text, err := json.Marshal(result)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"errors":[{"message":"failed to encode the answer"}]}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that went away is not an error
}

// answer checks the request and executes it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	switch {
	case r.URL.Path != s.path:
		return nil, httpError{http.StatusNotFound, "not found, GraphQL is at " + s.path}
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, httpError{http.StatusMethodNotAllowed, "only POST is answered"}
	}
	req, err := decode(w, r)
	if err != nil {
		return nil, err
	}
	doc, result := s.execute.parse(req)
	introspection := doc != nil && asksForSchema(doc)
	if introspection {
		s.introspections.Add(1)
	}
	guarded := s.guard == GuardAll || s.guard == GuardIntrospection && introspection
	if guarded && r.Header.Get("Authorization") != s.authorization {
		return nil, httpError{http.StatusUnauthorized, "the Authorization header is missing or wrong"}
	}
	if s.delay > 0 {
		timer := time.NewTimer(s.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil, httpError{http.StatusServiceUnavailable, "the client or the shop is going"}
		}
	}
	if result != nil {
		return result, nil
	}
	return s.execute.run(r.Context(), doc, req), nil
}

// decode reads the body as its content type says.
func decode(w http.ResponseWriter, r *http.Request) (request, error) {
	body, err := readBody(w, r)
	if err != nil {
		return request{}, err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return request{}, httpError{http.StatusUnsupportedMediaType, "the Content-Type cannot be read"}
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	switch media {
	case "application/graphql":
		return request{Query: string(body)}, nil
	case "application/json":
		var req request
		if err := json.Unmarshal(body, &req); err != nil {
			return request{}, httpError{http.StatusBadRequest, fmt.Sprintf("the body is no GraphQL request: %v", err)}
		}
		if req.Query == "" {
			return request{}, httpError{http.StatusBadRequest, "the request has no query"}
		}
		return req, nil
	}
	return request{}, httpError{http.StatusUnsupportedMediaType, "the Content-Type is neither application/json nor application/graphql"}
}

// readBody reads the body, decompressed, within maxBody.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body cannot be read: %v", err)}
	}
	if r.Header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, httpError{http.StatusBadRequest, "the body is no gzip"}
	}
	if body, err = io.ReadAll(io.LimitReader(packed, maxBody+1)); err != nil {
		return nil, httpError{http.StatusBadRequest, "the body is no gzip"}
	}
	if len(body) > maxBody {
		return nil, httpError{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	return body, nil
}
