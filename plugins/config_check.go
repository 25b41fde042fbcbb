package plugins

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"graphql-limit-count/internal/validation"
)

// minSyncInterval is the shortest time between two settlements with Redis, in seconds.
const minSyncInterval = 0.1

// syncOff is the sync_interval that asks Redis for every request.
const syncOff = -1

// keywordPattern is the JSON Schema keyword of regular expressions.
const keywordPattern = "pattern"

// conditionKeywords are the schema's combinations of fields. What they say is checked
// by rules written in Go, whose sentences are better; the schema keeps them for other
// programs, and as a second check.
var conditionKeywords = []string{"/allOf/", "/anyOf/", "/dependentSchemas/"}

// check returns what is wrong with the document, in a fixed order: first each unknown
// field and each wrong value; when there is none, the combinations of fields. A fault
// so hides those that only follow from it. What stands in hidden members came from a
// reference, and is not shown.
func (f schemaFacts) check(document any, members map[string]any, hidden map[string]bool) []string {
	var values, conditions []string
	for _, fault := range validation.Faults(f.schema.Validate(document)) {
		if isCondition(fault) {
			conditions = append(conditions, fault.String())
			continue
		}
		values = append(values, f.sentences(fault, hidden)...)
	}
	if len(values) > 0 {
		return values
	}
	if faults := checkCombinations(members); len(faults) > 0 {
		return faults
	}
	return conditions
}

func isCondition(fault validation.Fault) bool {
	if fault.Keyword == "contains" || fault.Keyword == "anyOf" && len(fault.Path) == 0 {
		return true
	}
	return slices.ContainsFunc(conditionKeywords, func(keyword string) bool {
		return strings.HasPrefix(fault.Location, keyword)
	})
}

// sentences returns the sentences for a fault; one for each unknown field.
func (f schemaFacts) sentences(fault validation.Fault, hidden map[string]bool) []string {
	switch {
	case fault.Keyword == validation.KeywordAdditionalProperties:
	case fault.Keyword == keywordPattern && fault.Path[0] == "redis_cluster_nodes":
		return []string{fault.Where + "expected host:port, with a port from 1 to 65535"}
	case fault.Keyword != validation.KeywordRequired && len(fault.Path) > 0 && hidden[fault.Path[0]]:
		return []string{fault.Where + fmt.Sprintf("what its reference stands for does not pass %q", fault.Keyword)}
	default:
		return []string{fault.String()}
	}
	object := ""
	if len(fault.Path) > 0 {
		object = fault.Path[0]
	}
	var out []string
	for _, name := range fault.Names {
		sentence := fmt.Sprintf("%sunknown field %q", fault.Where, name)
		if known, found := closestField(name, f.fields[object]); found {
			sentence += fmt.Sprintf(": did you mean %q?", known)
		}
		out = append(out, sentence)
	}
	return out
}

// checkCombinations applies the rules that join several fields.
func checkCombinations(members map[string]any) []string {
	var faults []string
	for _, rule := range []func(map[string]any) []string{
		checkQuota, checkRules, checkBurst, checkMethods, checkPolicy, checkSyncInterval,
	} {
		faults = append(faults, rule(members)...)
	}
	return faults
}

func has(members map[string]any, name string) bool {
	_, found := members[name]
	return found
}

func checkQuota(members map[string]any) []string {
	const sentence = "value should match only one schema, but matches none: "
	count, window := has(members, "count"), has(members, "time_window")
	switch {
	case has(members, "rules") && (count || window):
		return []string{"count/time_window and rules cannot be specified at the same time"}
	case has(members, "rules"), count && window:
		return nil
	case count:
		return []string{sentence + `property "time_window" is required`}
	case window:
		return []string{sentence + `property "count" is required`}
	default:
		return []string{sentence + `properties "count" and "time_window", or property "rules", are required`}
	}
}

func checkRules(members map[string]any) []string {
	var faults []string
	if has(members, "rules") && has(members, "group") {
		faults = append(faults, "group and rules cannot be specified at the same time")
	}
	rules, _ := members["rules"].([]any)
	seen := map[string]int{}
	for _, rule := range rules {
		key, _ := member(rule, "key").(string)
		if seen[key]++; seen[key] == 2 {
			faults = append(faults, fmt.Sprintf("duplicate key '%s' in rules", key))
		}
	}
	return faults
}

func checkBurst(members map[string]any) []string {
	if !has(members, "burst") || members["window_type"] == WindowLeakyBucket {
		return nil
	}
	return []string{fmt.Sprintf(`property "burst" is allowed only when window_type is %q`, WindowLeakyBucket)}
}

func checkMethods(members map[string]any) []string {
	methods, given := members["allowed_methods"].([]any)
	if !given || slices.Contains(methods, any("POST")) {
		return nil
	}
	return []string{`property "allowed_methods" validation failed: "POST" must be among the methods`}
}

// requiredByPolicy are the fields without which a policy knows no server.
var requiredByPolicy = map[string][]string{
	PolicyRedis:         {"redis_host"},
	PolicyRedisCluster:  {"redis_cluster_nodes", "redis_cluster_name"},
	PolicyRedisSentinel: {"redis_sentinels", "redis_master_name"},
}

func checkPolicy(members map[string]any) []string {
	policy, _ := members["policy"].(string)
	var faults []string
	for _, name := range requiredByPolicy[policy] {
		if !has(members, name) {
			faults = append(faults, fmt.Sprintf("property %q is required when policy is %q", name, policy))
		}
	}
	return faults
}

// checkSyncInterval looks at the interval only where it is used, with Redis, as APISIX
// does. Windows of rules and those that are templates are compared when they are charged:
// a short one then asks Redis each time.
func checkSyncInterval(members map[string]any) []string {
	const sentence = `property "sync_interval" validation failed: sync_interval should `
	policy, _ := members["policy"].(string)
	interval, given := numberOf(members["sync_interval"])
	if !given || interval == syncOff || len(requiredByPolicy[policy]) == 0 {
		return nil
	}
	if interval < minSyncInterval {
		return []string{sentence + fmt.Sprintf("not be smaller than %v", minSyncInterval)}
	}
	if seconds, fixed := numberOf(members["time_window"]); fixed && interval >= seconds {
		return []string{sentence + "be smaller than time_window"}
	}
	return nil
}

// numberOf returns the value when it is a number.
func numberOf(value any) (float64, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
