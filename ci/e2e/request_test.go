package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Names of headers.
const (
	costHeader      = "X-Graphql-Query-Cost"
	limitHeader     = "X-RateLimit-Limit"
	remainingHeader = "X-RateLimit-Remaining"
	decisionHeader  = "X-Graphql-Limit-Decision"
)

// The README's queries.
const (
	// fourDeep is the README's depth example, in the shop's names.
	fourDeep = `{ products { nodes { reviews { __typename } } } }`
	// fiftyByTwenty is 50 products with 20 reviews each.
	fiftyByTwenty = `{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }`
	// byVariable is n products with 20 reviews each.
	byVariable = `query ($n: Int) { products(first: $n) { nodes { reviews(first: 20) { nodes { body } } } } }`
)

// target is where a request is sent.
type target struct {
	front, host string
	id          string // of the route
}

// message is a request.
type message struct {
	method      string // empty: POST
	contentType string // empty: application/json
	body        []byte
	apikey      string // for key-auth
	chunked     bool   // without a Content-Length
}

// answer is what a gateway answered.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// send sends one request.
func (s *endToEnd) send(to target, m message) answer {
	s.T().Helper()
	a, err := s.exchange(to, m)
	s.Require().NoError(err)
	return a
}

// exchange is send for goroutines that must not end the test.
func (s *endToEnd) exchange(to target, m message) (answer, error) {
	var body io.Reader = bytes.NewReader(m.body)
	if m.chunked {
		body = io.MultiReader(body) // hides the length
	}
	request, err := http.NewRequestWithContext(s.ctx, cmp.Or(m.method, http.MethodPost), to.front+"/graphql", body)
	if err != nil {
		return answer{}, err
	}
	request.Host = to.host
	request.Header.Set("Content-Type", cmp.Or(m.contentType, "application/json"))
	if m.apikey != "" {
		request.Header.Set("apikey", m.apikey)
	}
	start := time.Now()
	response, err := s.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return answer{response.StatusCode, response.Header, string(text), time.Since(start)}, nil
}

// question is a request for a query. Variables are left out when nil.
func question(query string, variables any) message {
	body := object{"query": query}
	if variables != nil {
		body["variables"] = variables
	}
	text, err := json.Marshal(body)
	if err != nil { // the tests' own literals
		panic(err)
	}
	return message{body: text}
}

// ask sends a query.
func (s *endToEnd) ask(to target, query string, variables ...any) answer {
	s.T().Helper()
	if len(variables) > 0 {
		return s.send(to, question(query, variables[0]))
	}
	return s.send(to, question(query, nil))
}

// expect compares an answer's status and headers, name and value in turn; an empty
// value is a header that is not there.
func (s *endToEnd) expect(a answer, status int, headers ...string) {
	s.T().Helper()
	s.Equal(status, a.status, "status; the body is %s", a.body)
	for i := 0; i < len(headers); i += 2 {
		s.Equal(headers[i+1], a.header.Get(headers[i]), headers[i])
	}
}

// expectMessage compares the text of a refusal, in APISIX's member and in GraphQL's.
func (s *endToEnd) expectMessage(a answer, text string) {
	s.T().Helper()
	var body struct {
		Message string
		Errors  []struct{ Message string }
	}
	s.Require().NoError(json.Unmarshal([]byte(a.body), &body), "the body is %s", a.body)
	s.Equal(text, body.Message)
	s.Require().Len(body.Errors, 1)
	s.Equal(text, body.Errors[0].Message)
}
