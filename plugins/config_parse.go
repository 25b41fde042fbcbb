package plugins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"graphql-limit-count/internal/validation"
)

// metaField is the object that APISIX adds to the configuration of any plugin.
const metaField = "_meta"

// digestSize is how many bytes of a SHA-256 make a digest.
const digestSize = 16

// schemaFacts is what is read out of the JSON Schema, so that nothing is written down
// twice.
type schemaFacts struct {
	schema   *jsonschema.Schema
	defaults map[string]any
	// fields are the known properties, by the path of the object: "", "rules" for the
	// items of rules, and so on.
	fields map[string][]string
}

// loadSchema compiles the embedded schema at its first use.
var loadSchema = sync.OnceValues(func() (schemaFacts, error) {
	schema, err := validation.Compile("config.schema.json", configSchema)
	if err != nil {
		return schemaFacts{}, err
	}
	document, err := validation.Decode(configSchema)
	if err != nil {
		return schemaFacts{}, fmt.Errorf("read the configuration's json schema: %w", err)
	}
	facts := schemaFacts{schema: schema, defaults: map[string]any{}, fields: map[string][]string{}}
	facts.read("", document)
	return facts, nil
})

// read collects the properties of an object's schema, and their defaults at the top.
func (f schemaFacts) read(path string, schema any) {
	properties, _ := member(schema, "properties").(map[string]any)
	f.fields[path] = slices.Sorted(maps.Keys(properties))
	for name, property := range properties {
		if value := member(property, "default"); value != nil && path == "" {
			f.defaults[name] = value
		}
		if items := member(property, "items"); items != nil {
			f.read(name, items)
		}
	}
}

func member(object any, name string) any {
	members, _ := object.(map[string]any)
	return members[name]
}

// parseConfig is ParseConfig before credentials in URLs are masked in its error.
func parseConfig(raw []byte, secrets Secrets) (*Config, error) {
	facts, err := loadSchema()
	if err != nil {
		return nil, err
	}
	document, err := validation.Decode(raw)
	if err != nil {
		return nil, &ConfigError{Faults: []string{err.Error()}}
	}
	members, isObject := document.(map[string]any)
	references := newResolver(secrets)
	if isObject {
		if members = references.resolve(members); len(references.faults) > 0 {
			return nil, &ConfigError{Faults: references.faults, locked: references.locked}
		}
		members = normalised(members)
		document = members
	}
	if faults := facts.check(document, members, references.resolved); len(faults) > 0 {
		return nil, &ConfigError{Faults: faults}
	}
	return facts.build(members)
}

// normalised returns a copy of the members in which what has two spellings has one,
// and what is ignored is left out.
func normalised(members map[string]any) map[string]any {
	members = maps.Clone(members)
	// The encoder of Lua, in which dashboards of APISIX are written, cannot tell an
	// empty object from an empty array.
	switch headers := members["introspection_headers"].(type) {
	case []any:
		if len(headers) == 0 {
			members["introspection_headers"] = map[string]any{}
		}
	case map[string]any:
		headers = maps.Clone(headers)
		maps.DeleteFunc(headers, func(name string, _ any) bool { return !isHeaderName(name) })
		members["introspection_headers"] = headers
	}
	if methods, ok := members["allowed_methods"].([]any); ok {
		members["allowed_methods"] = sortedTexts(methods)
	}
	return members
}

// sortedTexts returns the items in order when all are strings.
func sortedTexts(items []any) []any {
	items = slices.Clone(items)
	for _, item := range items {
		if _, ok := item.(string); !ok {
			return items
		}
	}
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return items
}

// build makes the configuration from members that the schema and the rules allow.
func (f schemaFacts) build(members map[string]any) (*Config, error) {
	canonical := maps.Clone(f.defaults)
	maps.Copy(canonical, members)
	delete(canonical, metaField)
	for name, value := range canonical {
		canonical[name] = canonicalValue(value)
	}
	text, err := marshalCanonical(canonical)
	if err != nil {
		return nil, fmt.Errorf("write the canonical configuration: %w", err)
	}
	cfg := &Config{canonical: canonical}
	if err := json.Unmarshal(text, cfg); err != nil {
		return nil, fmt.Errorf("read the canonical configuration: %w", err)
	}
	shared := groupMembers(canonical)
	for _, d := range []struct {
		into    *string
		members map[string]any
	}{
		{&cfg.Digest, redact(canonical)}, {&cfg.GroupDigest, redact(shared)}, {&cfg.groupIdentity, shared},
	} {
		text, err := marshalCanonical(d.members)
		if err != nil {
			return nil, fmt.Errorf("write the canonical configuration: %w", err)
		}
		*d.into = digest(text)
	}
	cfg.KeySource = NewKeySource(cfg.KeyType, cfg.Key)
	for i := range cfg.Rules {
		rule := &cfg.Rules[i]
		rule.KeyTemplate = ParseTemplate(rule.Key)
		if rule.HeaderPrefix == "" {
			rule.HeaderPrefix = strconv.Itoa(i + 1)
		}
	}
	return cfg, nil
}

// isHeaderName reports whether a member of introspection_headers is a header at all,
// as the schema's pattern has it. Others are ignored, as in APISIX.
func isHeaderName(name string) bool { return name != "" && !strings.Contains(name, ":") }

// canonicalValue returns the value with every number in one spelling: whole ones in
// full, others as the shortest text that float64 reads back.
func canonicalValue(value any) any {
	switch v := value.(type) {
	case json.Number:
		return canonicalNumber(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = canonicalValue(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = canonicalValue(item)
		}
		return out
	default:
		return v
	}
}

func canonicalNumber(n json.Number) json.Number {
	if whole, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return json.Number(strconv.FormatInt(whole, 10))
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		return n
	case f == float64(int64(f)) && f >= -MaxQuantity && f <= MaxQuantity:
		return json.Number(strconv.FormatInt(int64(f), 10))
	default:
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
	}
}

// marshalCanonical writes the members sorted by name, without escaping more than JSON
// asks for.
func marshalCanonical(members map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestSize])
}

// redacted replaces a secret where a configuration is shown.
const redacted = "***"

// redact returns a copy of the members without secrets.
func redact(members map[string]any) map[string]any {
	out := maps.Clone(members)
	if endpoint, ok := out["introspection_endpoint"].(string); ok {
		out["introspection_endpoint"] = maskCredentials(endpoint)
	}
	for _, name := range SecretFields() {
		switch secret := out[name].(type) {
		case nil:
		case map[string]any:
			hidden := make(map[string]any, len(secret))
			for header := range secret {
				hidden[header] = redacted
			}
			out[name] = hidden
		default:
			out[name] = redacted
		}
	}
	return out
}

// AllowsDegradation reports whether a configuration that ParseConfig refuses says all
// the same that requests may pass: the text must be one JSON object with the member
// "allow_degradation": true. Of text that is no JSON, and of a member that occurs
// twice with different values, nothing can be trusted, and it reports false.
func AllowsDegradation(raw []byte) bool {
	if !json.Valid(raw) {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return false
	}
	allows := false
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return false
		}
		if name == "allow_degradation" {
			if string(value) != "true" {
				return false
			}
			allows = true
		}
	}
	_, err := decoder.Token()
	return allows && (err == nil || err == io.EOF)
}
