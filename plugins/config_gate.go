package plugins

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// gate refuses a field, or some of its values, that this version understands but does
// not act upon: ignoring it would silently switch a limit off.
type gate struct {
	field string
	// refuses reports whether the field's value, after defaults, is not supported.
	refuses func(value any) bool
}

// gated lists what is not supported. An entry is removed with the change that makes
// its field work.
var gated = []gate{
	{"redis_host", isReference},
	{"redis_password", isReference},
	{"redis_cluster_nodes", isReference},
	{"redis_sentinels", isReference},
	{"sentinel_password", isReference},
	{"introspection_headers", isReference},
}

// unsupported returns a sentence for each gate that the configuration runs into.
func unsupported(cfg *Config) []string {
	var faults []string
	for _, g := range gated {
		value, given := cfg.canonical[g.field]
		if !given || !g.refuses(value) {
			continue
		}
		faults = append(faults, fmt.Sprintf("field %q%s is not supported by this version", g.field, shownValue(g.field, value)))
	}
	return faults
}

// shownValue returns what explains a refusal beside the field's name: a short value,
// never a secret.
func shownValue(field string, value any) string {
	if isReference(value) {
		return " with a secret reference"
	}
	if slices.Contains(SecretFields(), field) {
		return ""
	}
	switch v := value.(type) {
	case string:
		return fmt.Sprintf(" with the value %q", v)
	case bool, json.Number:
		return fmt.Sprintf(" with the value %v", v)
	default:
		return ""
	}
}

// secretSchemes are how references to a secret kept elsewhere begin.
var secretSchemes = []string{"$aes://", "$secret://"}

// isReference reports whether the value, or a member of it, refers to a secret.
func isReference(value any) bool {
	switch v := value.(type) {
	case string:
		return slices.ContainsFunc(secretSchemes, func(scheme string) bool { return strings.HasPrefix(v, scheme) })
	case []any:
		return slices.ContainsFunc(v, isReference)
	case map[string]any:
		for _, item := range v {
			if isReference(item) {
				return true
			}
		}
	}
	return false
}
