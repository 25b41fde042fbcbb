package plugins_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/plugins"
)

// costCase is a case of cost.json that is about a whole request.
type costCase struct {
	ID            string                    `json:"id"`
	Level         string                    `json:"level"`
	Schema        string                    `json:"schema"`
	Decorations   []map[string]any          `json:"decorations"`
	ServiceBound  bool                      `json:"service_bound"`
	Conf          map[string]any            `json:"conf"`
	Static        map[string]any            `json:"static_conf"`
	ContentType   *string                   `json:"content_type"`
	Method        string                    `json:"method"`
	Body          string                    `json:"body"`
	BodyGen       *generated                `json:"body_gen"`
	Headers       map[string]string         `json:"request_headers"`
	RouteURI      string                    `json:"route_uri"`
	RequestPath   string                    `json:"request_path"`
	Services      map[string]map[string]any `json:"services"`
	Introspection *struct {
		Status int    `json:"status"`
		Body   string `json:"body"`
	} `json:"upstream_introspection"`
	Behaviour string     `json:"upstream_behaviour"`
	Steps     []costStep `json:"steps"`
	Expect    costExpect `json:"expect"`
}

// costStep is one of several requests against one counter.
type costStep struct {
	Service string `json:"service"`
	Body    string `json:"body"`
	Admin   *struct {
		Method       string         `json:"method"`
		DecorationID string         `json:"decoration_id"`
		Body         map[string]any `json:"body"`
	} `json:"admin"`
	Expect costExpect `json:"expect"`
}

// costExpect is what a case says of the response.
type costExpect struct {
	Status         *int               `json:"status"`
	StatusBelow    int                `json:"status_below"`
	ChargedCost    any                `json:"charged_cost"`
	Headers        map[string]*string `json:"headers"`
	HeadersAbsent  []string           `json:"headers_absent"`
	BodyContains   string             `json:"body_contains"`
	BodyMember     string             `json:"body_member"`
	LogContains    string             `json:"log_contains"`
	Introspections *int               `json:"introspection_requests"`
	URL            string             `json:"introspection_url"`
}

// generated is a long text.
type generated struct {
	Prefix       string `json:"prefix"`
	Unit         string `json:"unit"`
	NumberedUnit string `json:"numbered_unit"`
	From         int    `json:"from"`
	Count        int    `json:"count"`
	Middle       string `json:"middle"`
	CloseUnit    string `json:"close_unit"`
	Suffix       string `json:"suffix"`
}

func (g *generated) text() string {
	var b strings.Builder
	b.WriteString(g.Prefix)
	last := g.From + g.Count - 1
	for i := g.From; i <= last; i++ {
		if g.NumberedUnit == "" {
			b.WriteString(g.Unit)
			continue
		}
		b.WriteString(strings.NewReplacer("{i}", strconv.Itoa(i), "{p}", strconv.Itoa(i-1)).Replace(g.NumberedUnit))
	}
	b.WriteString(g.Middle)
	b.WriteString(strings.Repeat(g.CloseUnit, g.Count))
	b.WriteString(strings.ReplaceAll(g.Suffix, "{last}", strconv.Itoa(last)))
	return b.String()
}

// costContradiction is a case that says something else than the specification.
type costContradiction struct {
	reason string
	// want is what the specification expects; members that it leaves out are the case's.
	want func(*costExpect)
}

var costContradictions = map[string]costContradiction{
	"variable-json-string-hex-over-operation-default": {
		reason: "a hexadecimal text is no decimal string, so it is absent (section 2): products(first) is not quantified",
		want: func(e *costExpect) {
			e.ChargedCost = 5.0
			e.Headers["X-Graphql-Query-Cost"], e.Headers["X-RateLimit-Remaining"] = ptr("5"), ptr("999995")
		},
	},
	"variable-json-1e308":                          costOverQuota,
	"variable-json-1e308-over-operation-default":   costOverQuota,
	"content-type-json-mixed-case-graphql-body":    malformedJSON,
	"content-type-json-upper-subtype-graphql-body": malformedJSON,
	"request-path-control-chars-in-introspection": {
		reason: "path bytes that could break out of the request line are escaped (section 3), a space as well: the upstream then answers",
		want:   func(e *costExpect) { e.Status, e.ChargedCost = ptr(200), 2.0 },
	},
}

// costOverQuota: the configuration sets no max_cost, so the quota of 1000000 refuses.
var costOverQuota = costContradiction{
	reason: "the text is about a max_cost that the configuration does not set",
	want:   func(e *costExpect) { e.BodyContains = "rate limit exceeded" },
}

// malformedJSON: media types are compared without case (section 1), so this is JSON.
var malformedJSON = costContradiction{
	reason: "the media type is compared without case (section 1), so the body is malformed JSON",
	want: func(e *costExpect) {
		e.BodyContains = "invalid graphql request, Expected object key string but found invalid token at character 2"
	},
}

func ptr[T any](v T) *T { return &v }

// readVectors reads a file of cases.
func readVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	text, err := os.ReadFile("../testdata/vectors/" + name)
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(text, into))
}

// httpCases is how many cases there are; fewer mean that the file is not read.
const httpCases = 184

// TestCostVectors sends every request of cost.json through the gateway.
func TestCostVectors(t *testing.T) {
	var all []json.RawMessage
	readVectors(t, "cost.json", &all)
	sites := map[int64]*site{}
	siteFor := func(maxBodySize int64) *site {
		if sites[maxBodySize] == nil {
			sites[maxBodySize] = startSite(t, maxBodySize)
		}
		return sites[maxBodySize]
	}
	redis := servers.RunRedis(t)
	ran, contradicted := 0, maps.Clone(costContradictions)
	for _, text := range all {
		var level struct{ Level string }
		require.NoError(t, json.Unmarshal(text, &level))
		if level.Level != "http" {
			continue
		}
		var c costCase
		require.NoError(t, json.Unmarshal(text, &c))
		ran++
		delete(contradicted, c.ID)
		t.Run(c.ID, func(t *testing.T) {
			r := &costRun{costCase: c, site: siteFor(c.maxBodySize()), redis: redis}
			r.run(t)
		})
	}
	require.Equal(t, httpCases, ran)
	require.Empty(t, contradicted, "contradictions of cases that do not exist")
}

// maxBodySize is graphql.max_size as the process is given it: what is no number above
// 0 is the default.
func (c *costCase) maxBodySize() int64 {
	n, err := strconv.ParseInt(fmt.Sprint(c.Static["graphql.max_size"]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// costRun is a case on its way.
type costRun struct {
	costCase
	site      *site
	redis     *servers.Redis
	segment   string // the first segment of the case's paths
	behaviour *behaviour
}

func (r *costRun) run(t *testing.T) {
	r.segment = r.ID
	if r.RouteURI != "" {
		r.segment = strings.Split(r.RouteURI, "/")[1]
	}
	r.setUpstream(t)
	contradiction, contradicted := costContradictions[r.ID]
	if contradicted {
		t.Log("the case contradicts the specification: " + contradiction.reason)
		contradiction.want(&r.Expect)
	}
	r.setRoutes(t)
	r.site.logs.TakeAll()
	if r.Steps == nil {
		body := r.Body
		if r.BodyGen != nil {
			body = r.BodyGen.text()
		}
		r.request(t, "", body, r.Expect)
		return
	}
	for _, step := range r.Steps {
		if step.Admin != nil {
			r.site.decorate(t, step.Admin.Method, r.ID, step.Admin.DecorationID, step.Admin.Body)
			continue
		}
		r.request(t, step.Service, step.Body, step.Expect)
	}
}

// setUpstream makes the upstream do what the case says, in its words.
func (r *costRun) setUpstream(t *testing.T) {
	t.Helper()
	r.behaviour = &behaviour{schema: r.Schema}
	if reply := r.Introspection; reply != nil {
		r.behaviour.introspection = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(reply.Status)
			_, _ = io.WriteString(w, reply.Body)
		}
	}
	switch {
	case r.Behaviour == "":
	case strings.Contains(r.Behaviour, "answers 401 unless Authorization is 'Bearer operator-token'"):
		r.behaviour.guardedBy("Bearer operator-token")
	case strings.Contains(r.Behaviour, "only the explicit endpoint answers introspection"):
		failing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
		r.behaviour.queries = failing
		r.behaviour.introspection = func(w http.ResponseWriter, q *http.Request) {
			if !strings.HasSuffix(q.URL.Path, "/graphql-alt") {
				failing(w, q)
				return
			}
			r.behaviour.answerSchema(w)
		}
	default:
		t.Fatalf("a behaviour that this test does not know: %s", r.Behaviour)
	}
	r.site.upstream.set(r.segment, r.behaviour)
}

// conf is a configuration with the addresses of this test.
func (r *costRun) conf(t *testing.T, conf map[string]any) map[string]any {
	t.Helper()
	conf = maps.Clone(conf)
	if endpoint, ok := conf["introspection_endpoint"].(string); ok {
		given, err := url.Parse(endpoint)
		require.NoError(t, err)
		conf["introspection_endpoint"] = r.site.upstream.URL + "/" + r.segment + given.Path
	}
	if conf["policy"] == plugins.PolicyRedis {
		conf["redis_host"], conf["redis_port"] = r.redis.Host, r.redis.Port
	}
	return conf
}

// setRoutes makes the case's services and routes, each with a path of its own.
func (r *costRun) setRoutes(t *testing.T) {
	t.Helper()
	if r.Services == nil {
		r.setRoute(t, "", r.Conf)
	}
	for name, service := range r.Services {
		r.setRoute(t, name, service["conf"].(map[string]any))
	}
}

func (r *costRun) setRoute(t *testing.T, service string, conf map[string]any) {
	t.Helper()
	id := r.ID
	if service != "" {
		id = service
	}
	r.site.put(t, "services/"+id, map[string]any{"upstream": r.site.upstreamNode()})
	for _, d := range r.Decorations {
		d = maps.Clone(d)
		decoration, _ := d["id"].(string)
		method := http.MethodPut
		if decoration == "" {
			method = http.MethodPost
		}
		delete(d, "id")
		r.site.decorate(t, method, id, decoration, d)
	}
	route := map[string]any{
		"uri": "/" + r.segment + "/" + service, "plugins": limited(t, "ext-plugin-pre-req", r.conf(t, conf)),
		"upstream": r.site.upstreamNode(),
	}
	if r.RouteURI != "" {
		route["uri"] = r.RouteURI
	}
	if r.ServiceBound {
		route["service_id"] = id
	}
	r.site.put(t, "routes/"+id, route)
}

// request sends one request and looks at everything that the case says of it.
func (r *costRun) request(t *testing.T, service, body string, want costExpect) {
	t.Helper()
	path := "/" + r.segment + "/" + service
	if r.RequestPath != "" {
		path = r.RequestPath
	}
	headers := maps.Clone(r.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	if r.ContentType != nil {
		headers["Content-Type"] = *r.ContentType
	}
	method := http.MethodPost
	if r.Method != "" {
		method = r.Method
	}
	got := r.site.do(t, method, r.site.gateway.FrontURL()+path, body, headers)
	require.Less(t, got.status, 600)
	if want.Status != nil {
		require.Equal(t, *want.Status, got.status, got.body)
	}
	if charged, isNumber := want.ChargedCost.(float64); isNumber {
		require.Equal(t, strconv.FormatFloat(charged, 'f', -1, 64), got.header.Get("X-Graphql-Query-Cost"))
	}
	for name, value := range want.Headers {
		if value == nil {
			require.NotContains(t, got.header, http.CanonicalHeaderKey(name))
			continue
		}
		require.Equal(t, *value, got.header.Get(name), name)
	}
	for _, name := range want.HeadersAbsent {
		require.NotContains(t, got.header, http.CanonicalHeaderKey(name))
	}
	requireText(t, got.body, want.BodyMember, want.BodyContains)
	if want.LogContains != "" {
		require.Contains(t, r.site.logged(t), want.LogContains)
	}
	if want.Introspections != nil {
		require.Len(t, r.behaviour.introspections(), *want.Introspections)
	}
	if want.URL != "" {
		given, err := url.Parse(strings.ReplaceAll(want.URL, " ", "%20"))
		require.NoError(t, err)
		require.Equal(t, []string{given.EscapedPath()}, r.behaviour.introspections())
	}
}

// requireText requires the text in a member of the body, or anywhere in it.
func requireText(t *testing.T, body, member, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if member == "" {
		require.Contains(t, body, text)
		return
	}
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &members), body)
	require.Contains(t, members[member], text)
}
