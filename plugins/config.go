package plugins

import (
	_ "embed"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Values of the enumerated fields.
const (
	ModeEnforce = "enforce"
	ModeObserve = "observe"

	WindowFixed       = "fixed"
	WindowSliding     = "sliding"
	WindowLeakyBucket = "leaky_bucket"

	KeyTypeVar            = "var"
	KeyTypeVarCombination = "var_combination"
	KeyTypeConstant       = "constant"

	PolicyLocal         = "local"
	PolicyRedis         = "redis"
	PolicyRedisCluster  = "redis-cluster"
	PolicyRedisSentinel = "redis-sentinel"

	StrategyDepth          = "depth"
	StrategyComplexity     = "complexity"
	StrategyNodeQuantifier = "node_quantifier"

	ScopeRoute   = "route"
	ScopeService = "service"
)

//go:embed config.schema.json
var configSchema []byte

// Config is a valid configuration of the plugin, with the defaults filled in. It is
// immutable, and shared by all requests that it applies to.
//
// "Default: none" means that the field's zero value stands for absence. Whole
// numbers are at most 9007199254740991 (2^53-1), the largest that every reader of
// JSON keeps exact.
type Config struct {
	// Count is the quota: how much cost a key may spend in one window. Integer > 0, or a
	// string with variables that gives one. Required unless Rules are given. Default: none.
	Count Quantity `json:"count"`
	// TimeWindow is the window's length in seconds. Integer > 0, or a string with
	// variables that gives one. Required unless Rules are given. Default: none.
	TimeWindow Quantity `json:"time_window"`
	// Rules are several quotas, each with its own key, instead of Count, TimeWindow and
	// Group. Array; keys must differ. nil when absent. Default: none.
	Rules []Rule `json:"rules"`
	// WindowType is "fixed", "sliding" or "leaky_bucket". Default: "fixed".
	WindowType string `json:"window_type"`
	// Burst is how much cost a leaky bucket lets through at once; only with WindowType
	// "leaky_bucket". Integer > 0. Default: none, which means Count.
	Burst int64 `json:"burst"`
	// ChargeRejected says whether a rejected request's cost is added to a fixed window in
	// full (true) or only as far as it fits (false). Boolean. Default: true.
	ChargeRejected bool `json:"charge_rejected"`
	// KeyType says what Key is: "var", the name of a request variable;
	// "var_combination", a template of variables; "constant", the key itself.
	// Default: "var".
	KeyType string `json:"key_type"`
	// Key is what is counted apart, see KeyType. String. Default: "remote_addr".
	Key string `json:"key"`
	// CounterScope is whose counter is charged, "route" or "service". Default: none,
	// which means the Service when the request's route is bound to one, else the Route.
	CounterScope string `json:"counter_scope"`
	// Group is the name under which routes share one counter. Non-empty string.
	// Default: none.
	Group string `json:"group"`

	// RejectedCode is the status of a request over the quota. Integer, 200 to 599.
	// Default: 503.
	RejectedCode int `json:"rejected_code"`
	// RejectedMsg is the error_msg in the body of a request over the quota. Non-empty
	// string. Default: none.
	RejectedMsg string `json:"rejected_msg"`
	// AllowDegradation lets requests pass when the counter store, a rule's variables or
	// the introspection cannot be reached. Boolean. Default: false.
	AllowDegradation bool `json:"allow_degradation"`
	// ShowLimitQuotaHeader says whether responses carry the cost and the quota headers.
	// Boolean. Default: true.
	ShowLimitQuotaHeader bool `json:"show_limit_quota_header"`
	// LimitHeader is the name of the header with the quota. Letters, digits and the
	// other characters of an HTTP token; empty leaves the header out.
	// Default: "X-RateLimit-Limit".
	LimitHeader string `json:"limit_header"`
	// RemainingHeader is the name of the header with what is left of the quota, as
	// LimitHeader. Default: "X-RateLimit-Remaining".
	RemainingHeader string `json:"remaining_header"`
	// ResetHeader is the name of the header with the seconds to the end of the window,
	// as LimitHeader. Default: "X-RateLimit-Reset".
	ResetHeader string `json:"reset_header"`
	// StandardHeaders adds the IETF draft's RateLimit and RateLimit-Policy. Boolean.
	// Default: false.
	StandardHeaders bool `json:"standard_headers"`

	// Mode is "enforce", or "observe": everything is computed, charged and reported, but
	// nothing is refused for its cost. Default: "enforce".
	Mode string `json:"mode"`
	// AllowedMethods are the HTTP methods that are costed: "POST", and possibly "GET".
	// Array, sorted. Default: ["POST"].
	AllowedMethods []string `json:"allowed_methods"`
	// MaxBodySize is the limit of a request's body in bytes. Integer > 0. Default: none,
	// which means the process's own limit (--graphql-max-size).
	MaxBodySize int64 `json:"max_body_size"`
	// MaxBatch is how many requests a JSON array may hold; 0 refuses arrays.
	// Integer >= 0. Default: 0.
	MaxBatch int64 `json:"max_batch"`
	// AllowMultipart says whether multipart/form-data uploads are costed. Boolean.
	// Default: false.
	AllowMultipart bool `json:"allow_multipart"`

	// CostStrategy is "depth", "complexity" or "node_quantifier". Default: "depth".
	CostStrategy string `json:"cost_strategy"`
	// MaxCost is the charged cost above which a request is answered 403; 0 turns that
	// off. Number >= 0. Default: 0.
	MaxCost float64 `json:"max_cost"`
	// ScoreFactor multiplies the raw cost. Number > 0. Default: 1.
	ScoreFactor float64 `json:"score_factor"`
	// ResolveVariables says whether variables and declared defaults count as
	// quantifiers. Boolean. Default: true.
	ResolveVariables bool `json:"resolve_variables"`
	// IntrospectionEndpoint is the URL that answers the introspection query, beginning
	// with http:// or https://. Default: none, which means derived from the upstream.
	IntrospectionEndpoint string `json:"introspection_endpoint"`
	// IntrospectionHeaders are the headers of the introspection request. Object of
	// strings; members whose name is empty or has a colon are not in the map. The values
	// may be secret references. Default: {}.
	IntrospectionHeaders map[string]string `json:"introspection_headers"`
	// IntrospectionTTL is after how many seconds the schema is fetched again in the
	// background; 0 turns that off. Number >= 0. Default: 0.
	IntrospectionTTL Seconds `json:"introspection_ttl"`

	// Policy is where counters are kept: "local", "redis", "redis-cluster" or
	// "redis-sentinel". Default: "local".
	Policy string `json:"policy"`
	// SyncInterval is the number of seconds between two settlements with Redis of what
	// was counted locally; -1 asks Redis for every request. Number, -1 or >= 0.1 and
	// smaller than the window; only the Redis policies look at it. Default: -1.
	SyncInterval Seconds `json:"sync_interval"`
	// RedisHost is a name or address of at least two characters. Required for policy
	// "redis". Default: none.
	RedisHost string `json:"redis_host"`
	// RedisPort is RedisHost's TCP port. Integer, 1 to 65535. Default: 6379.
	RedisPort int `json:"redis_port"`
	// RedisUsername is the ACL user. String. Default: none.
	RedisUsername string `json:"redis_username"`
	// RedisPassword is the password for every Redis policy. String, or a secret
	// reference. Default: none.
	RedisPassword string `json:"redis_password"`
	// RedisSSL turns TLS on for policies "redis" and "redis-sentinel". Boolean.
	// Default: false.
	RedisSSL bool `json:"redis_ssl"`
	// RedisSSLVerify says whether the certificate is verified. Boolean. Default: false.
	RedisSSLVerify bool `json:"redis_ssl_verify"`
	// RedisDatabase is the number of the database for policies "redis" and
	// "redis-sentinel". Integer >= 0. Default: 0.
	RedisDatabase int64 `json:"redis_database"`
	// RedisTimeout bounds each decision. Integer >= 1, milliseconds. Default: 1000.
	RedisTimeout Milliseconds `json:"redis_timeout"`
	// RedisKeepaliveTimeout is how long an idle connection is kept. Integer >= 1000,
	// milliseconds. Default: 10000.
	RedisKeepaliveTimeout Milliseconds `json:"redis_keepalive_timeout"`
	// RedisKeepalivePool is how many connections to a server are kept. Integer, 1 to
	// 65535: TCP has ports for no more. Default: 100.
	RedisKeepalivePool int `json:"redis_keepalive_pool"`
	// RedisClusterNodes are some nodes' host:port. Array of strings, at least one.
	// Required for policy "redis-cluster". Default: none.
	RedisClusterNodes []string `json:"redis_cluster_nodes"`
	// RedisClusterName tells clusters apart. String. Required for policy
	// "redis-cluster". Default: none.
	RedisClusterName string `json:"redis_cluster_name"`
	// RedisClusterSSL turns TLS on for policy "redis-cluster". Boolean. Default: false.
	RedisClusterSSL bool `json:"redis_cluster_ssl"`
	// RedisClusterSSLVerify says whether the certificates are verified. Boolean.
	// Default: false.
	RedisClusterSSLVerify bool `json:"redis_cluster_ssl_verify"`
	// RedisSentinels are the sentinels. Array, at least one. Required for policy
	// "redis-sentinel". Default: none.
	RedisSentinels []Sentinel `json:"redis_sentinels"`
	// RedisMasterName is the name of the master that the sentinels watch. Non-empty
	// string. Required for policy "redis-sentinel". Default: none.
	RedisMasterName string `json:"redis_master_name"`
	// RedisRole is which server the sentinels are asked for, "master" or "slave".
	// Default: "master".
	RedisRole string `json:"redis_role"`
	// RedisConnectTimeout bounds connecting for policy "redis-sentinel". Integer >= 1,
	// milliseconds. Default: 1000.
	RedisConnectTimeout Milliseconds `json:"redis_connect_timeout"`
	// RedisReadTimeout bounds reading for policy "redis-sentinel". Integer >= 1,
	// milliseconds. Default: 1000.
	RedisReadTimeout Milliseconds `json:"redis_read_timeout"`
	// SentinelUsername is the sentinels' ACL user. String. Default: none.
	SentinelUsername string `json:"sentinel_username"`
	// SentinelPassword is the sentinels' password. String, or a secret reference.
	// Default: none.
	SentinelPassword string `json:"sentinel_password"`

	// KeySource resolves the key that KeyType and Key describe. Never nil.
	KeySource *KeySource `json:"-"`
	// Digest identifies the configuration: 32 hexadecimal digits, the first half of the
	// SHA-256 of its canonical form (members sorted, numbers canonical, defaults filled
	// in, without _meta) as String shows it. Equal configurations have equal digests
	// however they are written; changing any field changes it, but not changing a
	// secret: the digest is part of keys in Redis, where a password could be guessed from
	// it, and a new password must not give every client a fresh quota.
	Digest string `json:"-"`
	// GroupDigest is the digest of the members that configurations of one Group must
	// have in common (see Groups), in the form of Digest.
	GroupDigest string `json:"-"`

	// groupIdentity is a digest of the same members with their secrets. It stays in the
	// process.
	groupIdentity string
	canonical     map[string]any
}

// Rule is one of several quotas of a configuration.
type Rule struct {
	// Count is the rule's quota, as Config.Count. Required.
	Count Quantity `json:"count"`
	// TimeWindow is the rule's window in seconds, as Config.TimeWindow. Required.
	TimeWindow Quantity `json:"time_window"`
	// Key is a template of request variables. String. Required.
	Key string `json:"key"`
	// HeaderPrefix goes into the names of the rule's headers. Non-empty HTTP token.
	// Default: the rule's position, from "1".
	HeaderPrefix string `json:"header_prefix"`

	// KeyTemplate is Key, compiled. A rule applies when it resolves at least one
	// variable.
	KeyTemplate *Template `json:"-"`
}

// Sentinel is the address of a Redis sentinel.
type Sentinel struct {
	// Host is a name or address of at least two characters. Required.
	Host string `json:"host"`
	// Port is the TCP port. Integer, 1 to 65535. Required.
	Port int `json:"port"`
}

// ParseConfig reads a configuration: one JSON object, nothing after it, no member
// twice. Texts that are references are replaced by what they stand for: $env://NAME is
// that variable of the process, $aes://... what secrets gives for it; nil means that
// there is no keyring. An error is a *ConfigError with a sentence for each fault; see
// AllowsDegradation for what to do then. APISIX's own member _meta is accepted and
// ignored.
func ParseConfig(raw []byte, secrets Secrets) (*Config, error) {
	cfg, err := parseConfig(raw, secrets)
	var invalid *ConfigError
	if errors.As(err, &invalid) {
		for i, fault := range invalid.Faults {
			invalid.Faults[i] = maskCredentials(fault)
		}
	}
	return cfg, err
}

// ConfigError says what is wrong with a configuration.
type ConfigError struct {
	// Faults are the sentences, at least one, each about one fault and naming the field.
	Faults []string

	// locked says that a secret cannot be read now, with the keyring as it is.
	locked bool
}

// Error returns all sentences in one line.
func (e *ConfigError) Error() string { return strings.Join(e.Faults, "; ") }

// ConfigSchema returns the JSON Schema (draft 2020-12) of a configuration. It is also
// the operators' reference: each property has a title, a description and, when there
// is one, its default. The caller may change the returned bytes.
func ConfigSchema() []byte { return slices.Clone(configSchema) }

// SecretFields returns the names of the fields that hold secrets, sorted. They are not
// shown and not part of digests, and only they may be encrypted texts (of
// introspection_headers: its members' values).
func SecretFields() []string {
	return []string{"introspection_headers", "redis_password", "sentinel_password"}
}

// urlCredentials are the user and password in a URL.
var urlCredentials = regexp.MustCompile(`//[^/@\s"]*@`)

// maskCredentials hides the user and password of URLs in a text.
func maskCredentials(text string) string {
	return urlCredentials.ReplaceAllString(text, "//"+redacted+"@")
}

// String returns the configuration as JSON, defaults filled in, with secrets
// replaced, so that logging a configuration is safe.
func (c *Config) String() string {
	text, err := c.MarshalJSON()
	if err != nil {
		return "{}"
	}
	return string(text)
}

// MarshalJSON returns what String returns.
func (c *Config) MarshalJSON() ([]byte, error) { return marshalCanonical(redact(c.canonical)) }

// Variables returns the names of all request variables that a decision may need,
// sorted, each once. They can be asked for together before the decision begins.
func (c *Config) Variables() []string {
	var names []string
	if c.Rules == nil {
		names = append(names, c.KeySource.Names()...)
	}
	names = append(names, c.Count.Names()...)
	names = append(names, c.TimeWindow.Names()...)
	for _, rule := range c.Rules {
		names = append(names, rule.KeyTemplate.Names()...)
		names = append(names, rule.Count.Names()...)
		names = append(names, rule.TimeWindow.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
