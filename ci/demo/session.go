package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"graphql-limit-count/ci/gateway"
	"graphql-limit-count/plugins"
)

// session configures routes and sends requests.
type session struct {
	out                                        io.Writer
	front, gatewayAdmin, runnerAdmin, upstream string
	unexpected                                 int
}

// serviceID is the Service whose fields are decorated.
const serviceID = "shop"

// sample is a request and the answer that is documented for it.
type sample struct {
	title  string
	path   string
	body   string
	status int
	// headers are name and value in turn.
	headers []string
}

// The queries of the samples. The nested one is the README's: 50 products with 20
// reviews each.
const (
	depthQuery    = `{"query":"{ products { nodes { reviews { __typename } } } }"}`
	nestedQuery   = `{"query":"{ products(first: 50) { nodes { reviews(first: 20) { nodes { body } } } } }"}`
	variableQuery = `{"query":"query ($n: Int) { products(first: $n) { nodes { reviews(first: 20) { nodes { body } } } } }","variables":{"n":10}}`
)

// beforeChange are the samples sent to the routes as they are first configured.
var beforeChange = []sample{
	{"nesting: 4 levels cost 4 of 10", "/depth", depthQuery, 200,
		[]string{"X-Graphql-Query-Cost", "4", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "6"}},
	{"nesting: the same again", "/depth", depthQuery, 200,
		[]string{"X-Graphql-Query-Cost", "4", "X-RateLimit-Remaining", "2"}},
	{"nesting: the third does not fit", "/depth", depthQuery, 429,
		[]string{"X-Graphql-Query-Cost", "4", "X-RateLimit-Remaining", "0"}},
	{"records: 1 list of products and 50 of reviews cost 52 of 10000", "/graphql", nestedQuery, 200,
		[]string{"X-Graphql-Query-Cost", "52", "X-RateLimit-Limit", "10000", "X-RateLimit-Remaining", "9948"}},
	{"records: the number of products comes from a variable", "/graphql", variableQuery, 200,
		[]string{"X-Graphql-Query-Cost", "12", "X-RateLimit-Remaining", "9936"}},
	{"ceiling: 52 is over max_cost 20, refused and still charged", "/capped", nestedQuery, 403,
		[]string{"X-Graphql-Query-Cost", "52", "X-RateLimit-Limit", "10000", "X-RateLimit-Remaining", "9948"}},
	{"no GraphQL: refused, nothing charged", "/graphql", `{"query":"{ products("}`, 400,
		[]string{"X-Graphql-Query-Cost", ""}},
}

// afterChange follows a decoration that was changed while the runner was running:
// a list of reviews costs 3 instead of 1.
var afterChange = []sample{
	{"records: 1 + 50 * 3 = 151 once reviews weigh 3", "/graphql", nestedQuery, 200,
		[]string{"X-Graphql-Query-Cost", "152", "X-RateLimit-Remaining", "9784"}},
}

// settleTime is how long a changed decoration may take to be in force.
const settleTime = time.Second

// play configures everything and sends the samples.
func (s *session) play(ctx context.Context) error {
	if err := s.configure(ctx); err != nil {
		return err
	}
	for _, sample := range beforeChange {
		if err := s.send(ctx, sample); err != nil {
			return err
		}
	}
	change := map[string]any{"add_value": 3}
	if err := s.admin(ctx, s.runnerAdmin, RunnerAdminKey, http.MethodPatch, decorationPath("reviews"), change); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settleTime):
	}
	for _, sample := range afterChange {
		if err := s.send(ctx, sample); err != nil {
			return err
		}
	}
	if s.unexpected > 0 {
		return fmt.Errorf("%w: %d differ", ErrUnexpected, s.unexpected)
	}
	fmt.Fprintln(s.out, "\nEvery answer was the documented one.")
	return nil
}

// configure makes the README's example: a Service, its decorations and the routes.
func (s *session) configure(ctx context.Context) error {
	service := map[string]any{"upstream": map[string]any{"type": "roundrobin", "nodes": map[string]int{s.upstream: 1}}}
	records := map[string]any{"count": 10000, "time_window": 60, "cost_strategy": "node_quantifier", "rejected_code": 429}
	capped := map[string]any{"count": 10000, "time_window": 60, "cost_strategy": "node_quantifier", "rejected_code": 429, "max_cost": 20}
	depth := map[string]any{"count": 10, "time_window": 60, "rejected_code": 429}
	steps := []struct {
		base, key, path string
		body            any
	}{
		{s.gatewayAdmin, gateway.DefaultAdminKey, "/apisix/admin/services/" + serviceID, service},
		{s.runnerAdmin, RunnerAdminKey, decorationPath("products"),
			map[string]any{"field_path": "Query.products", "mul_arguments": []string{"first"}}},
		{s.runnerAdmin, RunnerAdminKey, decorationPath("reviews"),
			map[string]any{"field_path": "Product.reviews", "mul_arguments": []string{"first"}}},
		{s.gatewayAdmin, gateway.DefaultAdminKey, "/apisix/admin/routes/records", limitedRoute("/graphql", records)},
		{s.gatewayAdmin, gateway.DefaultAdminKey, "/apisix/admin/routes/capped", limitedRoute("/capped", capped)},
		{s.gatewayAdmin, gateway.DefaultAdminKey, "/apisix/admin/routes/depth", limitedRoute("/depth", depth)},
	}
	for _, step := range steps {
		if err := s.admin(ctx, step.base, step.key, http.MethodPut, step.path, step.body); err != nil {
			return err
		}
	}
	return nil
}

func decorationPath(id string) string {
	return "/apisix/admin/services/" + serviceID + "/graphql_cost_decorations/" + id
}

// limitedRoute is a route to the shop with the plugin on it. The shop answers at
// /graphql only, so other paths are rewritten; the plugin runs after that, where
// the path of the introspection is the upstream's.
func limitedRoute(uri string, conf map[string]any) map[string]any {
	value, err := json.Marshal(conf)
	if err != nil { // maps of numbers and texts always marshal
		panic(err)
	}
	return map[string]any{
		"uri": uri, "service_id": serviceID,
		"plugins": map[string]any{
			"proxy-rewrite":       map[string]any{"uri": "/graphql"},
			"ext-plugin-post-req": map[string]any{"conf": []any{map[string]any{"name": plugins.Name, "value": string(value)}}},
		},
	}
}

// admin sends one request to an admin endpoint and prints it.
func (s *session) admin(ctx context.Context, base, key, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the body for %s: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("configure %s: %w", path, err)
	}
	request.Header.Set("X-API-KEY", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("configure %s: %w", path, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("configure %s: %w", path, err)
	}
	fmt.Fprintf(s.out, "%s %s%s  %s  %d\n", method, base, path, text, response.StatusCode)
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("configure %s: status %d: %s", path, response.StatusCode, answer)
	}
	return nil
}

// send sends a sample, prints it and compares the answer with the documented one.
func (s *session) send(ctx context.Context, sample sample) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.front+sample.path, strings.NewReader(sample.body))
	if err != nil {
		return fmt.Errorf("send %q: %w", sample.title, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("send %q: %w", sample.title, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("send %q: %w", sample.title, err)
	}
	fmt.Fprintf(s.out, "\n# %s\nPOST %s%s\n%s\n  -> %s\n", sample.title, s.front, sample.path, sample.body, response.Status)
	s.printHeaders(response.Header)
	if response.StatusCode >= http.StatusBadRequest {
		fmt.Fprintf(s.out, "     %s\n", bytes.TrimSpace(body))
	}
	s.compare(sample, response)
	return nil
}

// printHeaders prints the headers that the plugin sets.
func (s *session) printHeaders(headers http.Header) {
	var lines []string
	for name, values := range headers {
		if strings.HasPrefix(strings.ToLower(name), "x-") || name == "Retry-After" {
			// As sent: Go's client changes the case.
			name = strings.Replace(name, "Ratelimit", "RateLimit", 1)
			lines = append(lines, fmt.Sprintf("     %s: %s", name, strings.Join(values, ", ")))
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(s.out, line)
	}
}

func (s *session) compare(sample sample, response *http.Response) {
	if response.StatusCode != sample.status {
		s.differs("status", fmt.Sprint(sample.status), fmt.Sprint(response.StatusCode))
	}
	for i := 0; i < len(sample.headers); i += 2 {
		name, want := sample.headers[i], sample.headers[i+1]
		if got := response.Header.Get(name); got != want {
			s.differs(name, want, got)
		}
	}
}

func (s *session) differs(what, want, got string) {
	s.unexpected++
	fmt.Fprintf(s.out, "     DIFFERS: %s should be %q, is %q\n", what, want, got)
}

// playground prints what to try next.
func (s *session) playground() {
	fmt.Fprintf(s.out, `
Everything stays up until Ctrl-C. To play with it:

  curl -i %[1]s/graphql -H 'Content-Type: application/json' -d '%[3]s'

  curl %[2]s%[4]s -X PATCH -H 'X-API-KEY: %[5]s' -d '{"add_value": 10}'
  curl %[2]s/apisix/admin/services/%[6]s/graphql_cost_decorations -H 'X-API-KEY: %[5]s'

  curl %[2]s/metrics
`, s.front, s.runnerAdmin, nestedQuery, decorationPath("reviews"), RunnerAdminKey, serviceID)
}
