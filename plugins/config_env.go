package plugins

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// environmentSchemes begin a reference to an environment variable, as APISIX spells it.
var environmentSchemes = []string{"$env://", "$ENV://"}

// resolveEnvironment returns the members with the values of the environment variables
// that they refer to, and a sentence for each that is not set. Credentials need not
// stand in APISIX's store then.
func resolveEnvironment(members map[string]any) (resolved map[string]any, faults []string) {
	resolved = make(map[string]any, len(members))
	for name, member := range members {
		resolved[name] = mapTexts(member, func(text string) string {
			value, missing := environmentValue(text)
			if missing != "" {
				faults = append(faults, fmt.Sprintf("property %q refers to the environment variable %q, which is not set", name, missing))
			}
			return value
		})
	}
	slices.Sort(faults)
	return resolved, faults
}

// environmentValue returns what a text stands for: itself, unless it is a reference;
// missing names the variable that is not set or empty.
func environmentValue(text string) (value, missing string) {
	for _, scheme := range environmentSchemes {
		if variable, ok := strings.CutPrefix(text, scheme); ok {
			if value = os.Getenv(variable); value == "" {
				return "", variable
			}
			return value, ""
		}
	}
	return text, ""
}

// mapTexts applies change to all texts in a decoded JSON value, names apart.
func mapTexts(value any, change func(string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = mapTexts(item, change)
		}
		return items
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			members[name] = mapTexts(member, change)
		}
		return members
	default:
		return value
	}
}
