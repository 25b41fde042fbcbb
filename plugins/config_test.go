package plugins

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const minimal = `{"count":10,"time_window":60}`

// parsed returns a configuration without encrypted texts.
func parsed(t testing.TB, raw string) *Config {
	t.Helper()
	cfg, err := ParseConfig([]byte(raw), nil)
	require.NoError(t, err)
	return cfg
}

func TestDefaultsAreFilledIn(t *testing.T) {
	cfg, err := ParseConfig([]byte(minimal), nil)
	require.NoError(t, err)
	count, fixed := cfg.Count.Fixed()
	require.True(t, fixed)
	require.Equal(t, int64(10), count)
	window, fixed := cfg.TimeWindow.Fixed()
	require.True(t, fixed)
	require.Equal(t, int64(60), window)

	want := &Config{
		Count: cfg.Count, TimeWindow: cfg.TimeWindow,
		WindowType: "fixed", ChargeRejected: true, KeyType: "var", Key: "remote_addr",
		RejectedCode: 503, ShowLimitQuotaHeader: true,
		LimitHeader: "X-RateLimit-Limit", RemainingHeader: "X-RateLimit-Remaining", ResetHeader: "X-RateLimit-Reset",
		Mode: "enforce", AllowedMethods: []string{"POST"},
		CostStrategy: "depth", ScoreFactor: 1, ResolveVariables: true, IntrospectionHeaders: map[string]string{},
		Policy: "local", SyncInterval: -1, RedisPort: 6379, RedisTimeout: 1000, RedisKeepaliveTimeout: 10000,
		RedisKeepalivePool: 100, RedisRole: "master", RedisConnectTimeout: 1000, RedisReadTimeout: 1000,
		KeySource: cfg.KeySource, Digest: cfg.Digest, GroupDigest: cfg.GroupDigest,
		groupIdentity: cfg.groupIdentity, canonical: cfg.canonical,
	}
	require.Equal(t, want, cfg)
}

func TestEveryFieldIsRead(t *testing.T) {
	cfg := parsed(t, `{
		"rules": [{"count": "${http_x ?? 5}", "time_window": 10, "key": "$http_a", "header_prefix": "a"},
		          {"count": 2, "time_window": 20, "key": "$http_b"}],
		"window_type": "leaky_bucket", "burst": 7, "charge_rejected": false, "key_type": "constant", "key": "k",
		"counter_scope": "service", "rejected_code": 429, "rejected_msg": "slow down", "allow_degradation": true,
		"show_limit_quota_header": false, "limit_header": "L", "remaining_header": "", "reset_header": "R",
		"standard_headers": true, "mode": "observe", "allowed_methods": ["POST", "GET"], "max_body_size": 1000,
		"max_batch": 3, "allow_multipart": true, "cost_strategy": "complexity", "max_cost": 2.5, "score_factor": 0.1,
		"resolve_variables": false, "introspection_endpoint": "http://x/", "introspection_headers": {"A": "b", "a:b": 1, "": 1},
		"introspection_ttl": 1.5, "policy": "redis-sentinel", "sync_interval": 0.5, "redis_host": "rh", "redis_port": 1,
		"redis_username": "u", "redis_password": "p", "redis_ssl": true, "redis_ssl_verify": true, "redis_database": 4,
		"redis_timeout": 5, "redis_keepalive_timeout": 6000, "redis_keepalive_pool": 8, "redis_cluster_nodes": ["a:1"],
		"redis_cluster_name": "c", "redis_cluster_ssl": true, "redis_cluster_ssl_verify": true,
		"redis_sentinels": [{"host": "sh", "port": 26379}], "redis_master_name": "m", "redis_role": "slave",
		"redis_connect_timeout": 9, "redis_read_timeout": 11, "sentinel_username": "su", "sentinel_password": "sp",
		"_meta": {"disable": false}}`)
	want := &Config{
		Rules: []Rule{
			{Count: cfg.Rules[0].Count, TimeWindow: Quantity{number: 10}, Key: "$http_a", HeaderPrefix: "a", KeyTemplate: cfg.Rules[0].KeyTemplate},
			{Count: Quantity{number: 2}, TimeWindow: Quantity{number: 20}, Key: "$http_b", HeaderPrefix: "2", KeyTemplate: cfg.Rules[1].KeyTemplate},
		},
		WindowType: "leaky_bucket", Burst: 7, KeyType: "constant", Key: "k", CounterScope: "service",
		RejectedCode: 429, RejectedMsg: "slow down", AllowDegradation: true,
		LimitHeader: "L", ResetHeader: "R", StandardHeaders: true, Mode: "observe",
		AllowedMethods: []string{"GET", "POST"}, MaxBodySize: 1000, MaxBatch: 3, AllowMultipart: true,
		CostStrategy: "complexity", MaxCost: 2.5, ScoreFactor: 0.1,
		IntrospectionEndpoint: "http://x/", IntrospectionHeaders: map[string]string{"A": "b"}, IntrospectionTTL: 1.5,
		Policy: "redis-sentinel", SyncInterval: 0.5, RedisHost: "rh", RedisPort: 1, RedisUsername: "u", RedisPassword: "p",
		RedisSSL: true, RedisSSLVerify: true, RedisDatabase: 4, RedisTimeout: 5, RedisKeepaliveTimeout: 6000, RedisKeepalivePool: 8,
		RedisClusterNodes: []string{"a:1"}, RedisClusterName: "c", RedisClusterSSL: true, RedisClusterSSLVerify: true,
		RedisSentinels: []Sentinel{{Host: "sh", Port: 26379}}, RedisMasterName: "m", RedisRole: "slave",
		RedisConnectTimeout: 9, RedisReadTimeout: 11, SentinelUsername: "su", SentinelPassword: "sp",
		KeySource: cfg.KeySource, Digest: cfg.Digest, GroupDigest: cfg.GroupDigest,
		groupIdentity: cfg.groupIdentity, canonical: cfg.canonical,
	}
	require.Equal(t, want, cfg)
	require.Equal(t, []string{"http_a", "http_b", "http_x"}, cfg.Variables())
}

func TestVariablesAreThoseOfKeyAndQuota(t *testing.T) {
	for _, c := range []struct {
		rule, conf string
		want       []string
	}{
		{"the default key", minimal, []string{"remote_addr"}},
		{"a constant key needs none", `{"count":10,"time_window":60,"key_type":"constant"}`, nil},
		{"a key falls back to the address", `{"count":10,"time_window":60,"key":"http_X-User"}`, []string{"http_x_user", "remote_addr"}},
		{"quotas too, each once",
			`{"count":"$http_n","time_window":"${http_n ?? 5}","key_type":"var_combination","key":"$uri $remote_addr"}`,
			[]string{"http_n", "remote_addr", "uri"}},
		{"rules replace the key", `{"rules":[{"count":1,"time_window":1,"key":"$http_a"}]}`, []string{"http_a"}},
		{"no rules at all", `{"rules":[]}`, nil},
	} {
		t.Run(c.rule, func(t *testing.T) { require.Equal(t, c.want, parsed(t, c.conf).Variables()) })
	}
}

func TestEqualConfigurationsHaveEqualDigests(t *testing.T) {
	want := parsed(t, minimal).Digest
	require.Regexp(t, `^[0-9a-f]{32}$`, want)
	for rule, conf := range map[string]string{
		"order and white space":       " {\n\"time_window\": 60, \"count\": 10 } ",
		"escapes":                     `{"c\u006funt":10,"time_window":60}`,
		"numbers":                     `{"count":1e1,"time_window":60.0}`,
		"defaults written out":        `{"count":10,"time_window":60,"policy":"local","sync_interval":-1.0,"score_factor":1.00,"max_cost":-0.0,"allowed_methods":["POST"]}`,
		"meta":                        `{"count":10,"time_window":60,"_meta":{"priority":1}}`,
		"an empty array for headers":  `{"count":10,"time_window":60,"introspection_headers":[]}`,
		"members that are no headers": `{"count":10,"time_window":60,"introspection_headers":{"a:b":1,"":2}}`,
	} {
		t.Run(rule, func(t *testing.T) { require.Equal(t, want, parsed(t, conf).Digest) })
	}
	require.Equal(t,
		parsed(t, `{"count":10,"time_window":60,"allowed_methods":["GET","POST"]}`).Digest,
		parsed(t, `{"count":10,"time_window":60,"allowed_methods":["POST","GET"]}`).Digest)
}

// Each field, changed alone, must change the digest: a counter then starts afresh.
func TestEveryFieldIsPartOfTheDigest(t *testing.T) {
	changes := map[string]string{
		"count": "11", "time_window": "61", "rules": "", "window_type": `"sliding"`, "burst": "",
		"charge_rejected": "false", "key_type": `"constant"`, "key": `"uri"`, "counter_scope": `"route"`, "group": `"g"`,
		"rejected_code": "429", "rejected_msg": `"x"`, "policy": "", "allow_degradation": "true",
		"show_limit_quota_header": "false", "limit_header": `"L"`, "remaining_header": `"L"`, "reset_header": `"L"`,
		"standard_headers": "true", "mode": `"observe"`, "allowed_methods": `["GET","POST"]`, "max_body_size": "5",
		"max_batch": "5", "allow_multipart": "true", "cost_strategy": `"complexity"`, "max_cost": "0.5", "score_factor": "2",
		"resolve_variables": "false", "introspection_endpoint": `"http://x"`, "introspection_headers": `{"A":"b"}`,
		"introspection_ttl": "5", "sync_interval": "1", "redis_host": `"aa"`, "redis_port": "1", "redis_username": `"u"`,
		"redis_password": `"p"`, "redis_ssl": "true", "redis_ssl_verify": "true", "redis_database": "1",
		"redis_timeout": "1", "redis_keepalive_timeout": "1000", "redis_keepalive_pool": "1",
		"redis_cluster_nodes": `["a:1"]`, "redis_cluster_name": `"c"`, "redis_cluster_ssl": "true",
		"redis_cluster_ssl_verify": "true", "redis_sentinels": `[{"host":"aa","port":1}]`, "redis_master_name": `"m"`,
		"redis_role": `"slave"`, "redis_connect_timeout": "1", "redis_read_timeout": "1", "sentinel_username": `"u"`,
		"sentinel_password": `"p"`,
	}
	// Fields that need others beside them.
	whole := map[string]string{
		"rules":  `{"rules":[{"count":1,"time_window":1,"key":"k"}]}`,
		"burst":  `{"count":10,"time_window":60,"window_type":"leaky_bucket","burst":5}`,
		"policy": `{"count":10,"time_window":60,"policy":"redis","redis_host":"hh"}`,
	}
	facts, err := loadSchema()
	require.NoError(t, err)
	seen := map[string]string{parsed(t, minimal).Digest: "the minimal configuration"}
	for _, field := range facts.fields[""] {
		if field == metaField {
			continue
		}
		conf, special := whole[field]
		if !special {
			require.Contains(t, changes, field)
			members := map[string]json.RawMessage{"count": json.RawMessage("10"), "time_window": json.RawMessage("60")}
			members[field] = json.RawMessage(changes[field])
			raw, err := json.Marshal(members)
			require.NoError(t, err)
			conf = string(raw)
		}
		digest := parsed(t, conf).Digest
		require.Empty(t, seen[digest], "changing %s gives the digest of %s", field, seen[digest])
		seen[digest] = field
	}
}

func TestAllowsDegradation(t *testing.T) {
	for _, c := range []struct {
		rule, raw string
		want      bool
	}{
		{"a configuration that says so", `{"count":10,"time_window":60,"allow_degradation":true}`, true},
		{"an invalid configuration that says so", ` {"cuont":10, "allow_degradation" : true, "x":[{}]} `, true},
		{"one that does not", `{"cuont":10}`, false},
		{"one that says no", `{"allow_degradation":false}`, false},
		{"text is not true", `{"allow_degradation":"true"}`, false},
		{"one is not true", `{"allow_degradation":1}`, false},
		{"names are compared exactly", `{"Allow_Degradation":true}`, false},
		{"an escaped name is the name", `{"allow_\u0064egradation":true}`, true},
		{"an inner member says nothing", `{"_meta":{"allow_degradation":true}}`, false},
		{"a contradiction", `{"allow_degradation":true,"allow_degradation":false}`, false},
		{"the same contradiction", `{"allow_degradation":false,"allow_degradation":true}`, false},
		{"a repetition", `{"allow_degradation":true,"allow_degradation":true}`, true},
		{"malformed JSON", `{"allow_degradation":true`, false},
		{"text after it", `{"allow_degradation":true} x`, false},
		{"an array", `[{"allow_degradation":true}]`, false},
		{"a word", `true`, false},
		{"nothing", ``, false},
	} {
		t.Run(c.rule, func(t *testing.T) { require.Equal(t, c.want, AllowsDegradation([]byte(c.raw))) })
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	cfg := parsed(t, `{"count":10,"time_window":60,"introspection_headers":{"Authorization":"hunter1"},
		"redis_password":"hunter2","sentinel_password":"hunter3","redis_username":"someone"}`)
	for rule, shown := range map[string]string{
		"String": cfg.String(), "print": fmt.Sprintf("%v %+v %s", cfg, cfg, cfg),
	} {
		t.Run(rule, func(t *testing.T) {
			require.NotContains(t, shown, "hunter")
			require.Contains(t, shown, `"introspection_headers":{"Authorization":"***"}`)
			require.Contains(t, shown, `"redis_password":"***"`)
			require.Contains(t, shown, "someone")
		})
	}
	require.Equal(t, "hunter2", cfg.RedisPassword)
	require.NotContains(t, parsed(t, minimal).String(), "redis_password")
}

func TestConfigSchemaIsACopy(t *testing.T) {
	schema := ConfigSchema()
	require.True(t, json.Valid(schema))
	schema[0] = 'x'
	require.True(t, json.Valid(ConfigSchema()))
}

// The schema is the operators' reference, the struct the programmers'.
func TestSchemaAndStructDocumentTheSameFields(t *testing.T) {
	var schema struct{ Properties map[string]map[string]any }
	require.NoError(t, json.Unmarshal(ConfigSchema(), &schema))
	comments := fieldComments(t)
	typ := reflect.TypeFor[Config]()
	var fields []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		name := field.Tag.Get("json")
		if !field.IsExported() || name == "-" {
			continue
		}
		fields = append(fields, name)
		property := schema.Properties[name]
		require.NotNil(t, property, "%s is not in the schema", name)
		require.NotEmpty(t, property["title"], name)
		require.NotEmpty(t, property["description"], name)
		want := "Default: none"
		if value, found := property["default"]; found {
			text, err := json.Marshal(value)
			require.NoError(t, err)
			want = "Default: " + string(text)
		}
		require.Contains(t, comments[field.Name], want, "comment of %s", field.Name)
	}
	delete(schema.Properties, metaField)
	require.Len(t, fields, len(schema.Properties))
}

// fieldComments returns the doc comments of Config's fields, each on one line.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range field.Names {
				comments[name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
		return false
	})
	return comments
}

// What the schema says about combinations of fields must be what the rules in Go say,
// because other programs know only the schema.
func TestSchemaAndRulesAgreeOnCombinations(t *testing.T) {
	facts, err := loadSchema()
	require.NoError(t, err)
	const rules = `"rules":[{"count":1,"time_window":10,"key":"a"}]`
	for _, c := range []struct {
		conf  string
		valid bool
	}{
		{`{"count":1,"time_window":1}`, true},
		{`{` + rules + `}`, true},
		{`{}`, false},
		{`{"count":1}`, false},
		{`{"time_window":1}`, false},
		{`{"count":1,` + rules + `}`, false},
		{`{"time_window":1,` + rules + `}`, false},
		{`{"group":"g",` + rules + `}`, false},
		{`{"burst":1,` + rules + `}`, false},
		{`{"burst":1,"window_type":"fixed",` + rules + `}`, false},
		{`{"burst":1,"window_type":"leaky_bucket",` + rules + `}`, true},
		{`{"allowed_methods":["GET"],` + rules + `}`, false},
		{`{"allowed_methods":[],` + rules + `}`, false},
		{`{"policy":"redis",` + rules + `}`, false},
		{`{"policy":"redis","redis_host":"hh",` + rules + `}`, true},
		{`{"policy":"redis-cluster","redis_cluster_name":"c",` + rules + `}`, false},
		{`{"policy":"redis-cluster","redis_cluster_nodes":["a:1"],` + rules + `}`, false},
		{`{"policy":"redis-cluster","redis_cluster_nodes":["a:1"],"redis_cluster_name":"c",` + rules + `}`, true},
		{`{"policy":"redis-sentinel","redis_master_name":"m",` + rules + `}`, false},
		{`{"policy":"redis-sentinel","redis_sentinels":[{"host":"aa","port":1}],` + rules + `}`, false},
		{`{"policy":"redis-sentinel","redis_sentinels":[{"host":"aa","port":1}],"redis_master_name":"m",` + rules + `}`, true},
		{`{"policy":"redis","redis_host":"hh","sync_interval":0.05,` + rules + `}`, false},
		{`{"policy":"redis","redis_host":"hh","sync_interval":0.1,` + rules + `}`, true},
		{`{"sync_interval":0.05,` + rules + `}`, true},
		{`{"policy":"redis","redis_host":"hh","sync_interval":3600,` + rules + `}`, true},
	} {
		t.Run(c.conf, func(t *testing.T) {
			var document any
			decoder := json.NewDecoder(strings.NewReader(c.conf))
			decoder.UseNumber()
			require.NoError(t, decoder.Decode(&document))
			schemaErr := facts.schema.Validate(document)
			require.Equal(t, c.valid, schemaErr == nil, "schema: %v", schemaErr)
			faults := checkCombinations(document.(map[string]any))
			require.Equal(t, c.valid, len(faults) == 0, "rules: %v", faults)
		})
	}
}

func TestClosestField(t *testing.T) {
	facts, err := loadSchema()
	require.NoError(t, err)
	for _, c := range []struct{ name, want string }{
		{"max_costs", "max_cost"}, {"Max-Cost", "max_cost"}, {"maxCost", "max_cost"}, {"cuont", "count"},
		{"timewindow", "time_window"}, {"time_windows", "time_window"}, {"limit", ""}, {"redis_pasword", "redis_password"},
		{"show_limit_header", "show_limit_quota_header"}, {"x", ""}, {"", ""}, {"cost_decorations", ""},
		{strings.Repeat("count", 100), ""}, {"ключ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, found := closestField(c.name, facts.fields[""])
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != "", found)
		})
	}
}

func TestSpansSaturate(t *testing.T) {
	require.Equal(t, 1500*time.Millisecond, Milliseconds(1500).Duration())
	require.Equal(t, time.Duration(math.MaxInt64), Milliseconds(MaxQuantity).Duration())
	require.Equal(t, 100*time.Millisecond, Seconds(0.1).Duration())
	require.Equal(t, time.Duration(0), Seconds(-1).Duration())
}

func TestQuantityReadsNumbersAndTemplates(t *testing.T) {
	cfg := parsed(t, `{"count":"${http_n ?? 5}","time_window":7}`)
	none := func(string) (string, bool) { return "", false }
	count, err := cfg.Count.Resolve(none)
	require.NoError(t, err)
	require.Equal(t, int64(5), count)
	_, fixed := cfg.Count.Fixed()
	require.False(t, fixed)
	require.True(t, cfg.Count.IsSet())
	window, err := cfg.TimeWindow.Resolve(none)
	require.NoError(t, err)
	require.Equal(t, int64(7), window)
	require.Empty(t, cfg.TimeWindow.Names())
	require.False(t, Quantity{}.IsSet())
	_, err = cfg.Count.Resolve(func(string) (string, bool) { return "many", true })
	require.EqualError(t, err, "resolved value is not a number")
	require.Error(t, new(Quantity).UnmarshalJSON([]byte(`true`)))
	require.Error(t, new(Quantity).UnmarshalJSON([]byte(`"`)))
}

func BenchmarkParseConfig(b *testing.B) {
	raw := []byte(`{"count":10000,"time_window":60,"cost_strategy":"node_quantifier","policy":"redis","redis_host":"127.0.0.1","rejected_code":429}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseConfig(raw, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParseConfig checks that any text is either refused with a sentence or accepted,
// and that what is accepted has the same digest when it is written in canonical form.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		minimal, ``, `{}`, `null`, `{"count":1e400}`, `{"count":1,"time_window":1.0e2,"max_cost":0.10,"introspection_headers":[]}`,
		`{"rules":[{"count":"$a","time_window":1,"key":"k"}],"score_factor":1e-7}`,
		`{"count":1,"time_window":1,"introspection_headers":{"a":"<&>","b:":1},"rejected_msg":"\u2028"}`,
		`{"count":1,"time_window":1,"introspection_headers":{"a":null}}`,
		`{"count":1,"time_window":60,"policy":"redis","redis_host":"aa","sync_interval":0.1,"_meta":{"x":[1,null]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		AllowsDegradation(raw)
		cfg, err := ParseConfig(raw, nil)
		if err != nil {
			require.NotEmpty(t, err.Error())
			var invalid *ConfigError
			require.ErrorAs(t, err, &invalid)
			require.False(t, slices.Contains(invalid.Faults, ""))
			return
		}
		canonical, err := marshalCanonical(cfg.canonical)
		require.NoError(t, err)
		again, err := ParseConfig(canonical, nil)
		require.NoError(t, err)
		require.Equal(t, cfg.Digest, again.Digest)
		require.Equal(t, cfg.String(), again.String())
		require.Equal(t, cfg.AllowDegradation, AllowsDegradation(raw))
	})
}
