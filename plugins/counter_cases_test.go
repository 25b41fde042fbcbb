package plugins_test

// counterCase is a case of counter.json that is about whole requests.
type counterCase struct {
	ID           string           `json:"id"`
	Level        string           `json:"level"`
	Policy       string           `json:"policy"`
	Plugin       string           `json:"plugin"`
	Conf         map[string]any   `json:"conf"`
	Metadata     map[string]any   `json:"metadata"`
	Context      string           `json:"context"`
	Precondition string           `json:"precondition"`
	BackendDown  string           `json:"backend_down"`
	Requests     []counterRequest `json:"requests"`
	Expect       map[string]any   `json:"expect"`
}

type counterRequest struct {
	At      float64           `json:"at"`
	Cost    int64             `json:"cost"`
	Vars    map[string]string `json:"vars"`
	Route   string            `json:"route"`
	Path    string            `json:"path"`
	PutConf map[string]any    `json:"put_conf"`
	Labels  map[string]string `json:"put_route_labels"`
	Expect  counterExpect     `json:"expect"`
}

type counterExpect struct {
	Status         int                `json:"status"`
	Headers        map[string]string  `json:"headers"`
	HeadersAbsent  []string           `json:"headers_absent"`
	HeadersGT      map[string]float64 `json:"headers_gt"`
	HeadersLT      map[string]float64 `json:"headers_lt"`
	HeadersMatch   map[string]string  `json:"headers_match"`
	NoHeaders      bool               `json:"no_rate_limit_headers"`
	ResetLower     bool               `json:"reset_lower_than_previous"`
	Body           string             `json:"body"`
	BodyJSON       map[string]any     `json:"body_json"`
	LogContains    string             `json:"log_contains"`
	UnhandledError bool               `json:"unhandled_error"`
	Reused         *int               `json:"redis_connection_reused_times"`
	IsInteger      bool               `json:"remaining_is_integer"`
	Decimals       *int               `json:"reset_max_decimals"`
}

// counterContradictions are cases that say something else than the specification:
// why, and what the specification expects of each request.
var counterContradictions = map[string]struct {
	reason string
	want   []counterExpect
}{
	"cost-4-of-10-local": {harnessWithoutStore, cost4of10},
	"cost-4-of-10-redis": {harnessWithoutStore, cost4of10},
	"first-request-over-limit-redis": {harnessWithoutStore, []counterExpect{
		{Status: 503, Headers: quotaHeaders("10", "0", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
	}},
	"first-request-over-limit-cluster": {harnessWithoutStore, []counterExpect{
		{Status: 503, Headers: quotaHeaders("10", "0", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
	}},
	"redis-cost-1e15": {harnessWithoutStore + "; a large cost is a number like any other", []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "5", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
	}},
	"redis-cost-1e15-first": {harnessWithoutStore + "; a large cost is a number like any other", []counterExpect{
		{Status: 503, Headers: quotaHeaders("10", "0", "60")},
		{Status: 503, Headers: quotaHeaders("10", "0", "59")},
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
	}},
	"rules-later-rejection-keeps-earlier-charge": {"a refused first charge opens the window, so its Reset is not 0 (section 4)", []counterExpect{
		{Status: 503, Headers: map[string]string{
			"X-1-RateLimit-Limit": "10", "X-1-RateLimit-Remaining": "7", "X-1-RateLimit-Reset": "10",
			"X-2-RateLimit-Limit": "2", "X-2-RateLimit-Remaining": "0", "X-2-RateLimit-Reset": "20",
		}},
		{Status: 200, Headers: map[string]string{"X-1-RateLimit-Limit": "10", "X-1-RateLimit-Remaining": "4", "X-1-RateLimit-Reset": "9"}},
	}},
	"variable-count-max-safe": {"integers are printed as integers, never with an exponent (section 2)", []counterExpect{
		{Status: 200, Headers: quotaHeaders("9007199254740991", "9007199254740990", "60")},
	}},
	"sliding-costs-redis": {harnessWithoutStore, []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "6", "10")},
		{Status: 200, Headers: quotaHeaders("10", "2", "8")},
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "1", "6")},
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "1", "8")},
		{Status: 200, Headers: quotaHeaders("10", "3", "5")},
		{Status: 200, Headers: quotaHeaders("10", "9", "5")},
	}},
	"sliding-huge-first-cost": {"a charge that does not fit is refused and consumes nothing (section 4)", []counterExpect{
		{Status: 503, Headers: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"}},
		{Status: 200, Headers: quotaHeaders("10", "9", "9")},
		{Status: 200, Headers: quotaHeaders("10", "8", "10")},
		{Status: 200, Headers: quotaHeaders("10", "7", "9")},
		{Status: 200, Headers: quotaHeaders("10", "6", "5")},
	}},
	"reset-rounded-down": {"59.01 is 59.01 (section 4: two decimals), not what is left of it when floating point cuts it off at 59", []counterExpect{
		{Status: 200, Headers: quotaHeaders("10", "9", "60")},
		{Status: 200, Headers: quotaHeaders("10", "8", "59.99")},
		{Status: 200, Headers: quotaHeaders("10", "7", "59.99")},
		{Status: 200, Headers: quotaHeaders("10", "6", "59.01")},
		{Status: 200, Headers: quotaHeaders("10", "5", "30")},
		{Status: 200, Headers: quotaHeaders("10", "4", "0")},
	}},
}

const harnessWithoutStore = "recorded without a store, so every charge failed; section 4 says how charges are counted"

var cost4of10 = []counterExpect{
	{Status: 200, Headers: quotaHeaders("10", "6", "60")},
	{Status: 200, Headers: quotaHeaders("10", "2", "58.76")},
	{Status: 503, Headers: quotaHeaders("10", "0", "58")},
	{Status: 503, Headers: quotaHeaders("10", "0", "57")},
	{Status: 503, Headers: quotaHeaders("10", "0", "0")},
	{Status: 200, Headers: quotaHeaders("10", "6", "60")},
}

func quotaHeaders(limit, remaining, reset string) map[string]string {
	return map[string]string{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": reset}
}

// logTexts are what a log must say where the reference's log says it in other words.
var logTexts = map[string]string{
	"failed to get rate limit rules: nil":                                                                                              "no rule applies to the request",
	"failed to get rate limit rules: resolved value is not a number":                                                                   "resolved value is not a number",
	"failed to get rate limit rules: resolved value must be an integer, got: nan":                                                      "resolved value must be an integer",
	"failed to limit count: connection refused":                                                                                        "connection refused",
	"failed to limit count: redis connection failed, err: connection refused":                                                          "connection refused",
	"failed to limit count: redis connection failed, err: no hosts available, previous_errors: connection refused, connection refused": "connection refused",
	"failed to fetch limit.count object: connection refused":                                                                           "connection refused",
	"redis connection failed, err: NOAUTH Authentication required":                                                                     "NOAUTH Authentication required",
	"failed to change redis db, err: ERR DB index is out of range":                                                                     "ERR DB index is out of range",
	"failed to do ssl handshake":                                                                                                       "x509: certificate signed by unknown authority",
	"failed to get rate limit rules: resolved value exceeds safe integer range (2^53-1), got: 9.007199254741e+15":                      "resolved value exceeds safe integer range (2^53-1)",
}
