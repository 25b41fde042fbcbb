package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// kind is one resource of the Admin API.
type kind struct {
	plural, singular string
	// named kinds (consumers) take their id from `username` and know no POST.
	named bool
	// directly is the word that APISIX's refusal to delete a service has and that of
	// an upstream has not.
	directly string
	// parse checks a value against APISIX's schema, as far as this gateway knows it,
	// and the objects it refers to.
	parse func(all tables, id string, value map[string]any) (any, error)
	// user names an object that uses this one, or is empty. nil: nothing can.
	user func(all tables, id string) string
}

// kinds is every resource by the segment of its path.
var kinds = map[string]*kind{
	"routes":    {plural: "routes", singular: "route", parse: parseRoute},
	"services":  {plural: "services", singular: "service", directly: " directly", parse: parseService, user: serviceUser},
	"upstreams": {plural: "upstreams", singular: "upstream", parse: parseUpstream, user: upstreamUser},
	"consumers": {plural: "consumers", singular: "consumer", named: true, parse: parseConsumer},
}

// key is the etcd key that APISIX keeps the object under.
func (k *kind) key(id string) string { return keyPrefix + k.plural + "/" + id }

// idPattern is what APISIX takes as an id; a number is an id too.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identifier is an id or a reference: a string or a positive integer in JSON.
type identifier string

// UnmarshalJSON takes both forms.
func (i *identifier) UnmarshalJSON(text []byte) error {
	s := string(text)
	if bytes.HasPrefix(text, []byte{'"'}) {
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	} else if !positiveInteger.MatchString(s) {
		return errors.New("object matches none of the required")
	}
	if !idPattern.MatchString(s) {
		return errors.New("object matches none of the required")
	}
	*i = identifier(s)
	return nil
}

var positiveInteger = regexp.MustCompile(`^[1-9][0-9]*$`)

// identify returns the id of a PUT, from the path or the body, which must agree, and
// leaves it in value.
func (k *kind) identify(pathID string, value map[string]any) (string, error) {
	member := "id"
	if k.named {
		member = "username"
	}
	bodyID := ""
	if given, ok := value[member]; ok {
		switch v := given.(type) {
		case string:
			bodyID = v
		case json.Number:
			bodyID = v.String()
		default:
			return "", invalid(member, "object matches none of the required")
		}
	}
	switch {
	case k.named && bodyID == "":
		return "", badRequest("invalid configuration: property \"username\" is required")
	case pathID == "" && bodyID == "":
		return "", badRequest("missing %s id", k.singular)
	case pathID != "" && bodyID != "" && pathID != bodyID:
		return "", badRequest("wrong %s %s", k.singular, member)
	case pathID == "":
		pathID = bodyID
	case bodyID == "":
		value[member] = pathID
	}
	if !idPattern.MatchString(pathID) {
		return "", invalid(member, "object matches none of the required")
	}
	return pathID, nil
}

// invalid is APISIX's sentence for a member that its schema refuses.
func invalid(property, why string) error {
	return badRequest(invalidPrefix+"property %q validation failed: %s", property, why)
}

// invalidPrefix begins every sentence about a value that the schema refuses.
const invalidPrefix = "invalid configuration: "

// decode reads value into the struct to. Members that are not in known are refused,
// and so are those in known that are false: APISIX has them, but here they would
// silently change which requests match or where they go.
func decode(value map[string]any, known map[string]bool, to any) error {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		supported, ok := known[name]
		if !ok {
			return badRequest("invalid configuration: additional properties forbidden, found %s", name)
		}
		if !supported {
			return invalid(name, "the development gateway does not support it")
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return badRequest("invalid configuration: %v", err)
	}
	err = json.Unmarshal(text, to)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return invalid(wrong.Field, fmt.Sprintf("wrong type: expected %s, got %s", wrong.Type, wrong.Value))
	}
	var refusal *apiError
	if errors.As(err, &refusal) {
		return refusal
	}
	if err != nil {
		return badRequest("invalid configuration: %v", err)
	}
	return nil
}

// members builds decode's map: the members this gateway takes, then those of APISIX
// that it refuses.
func members(supported, refused string) map[string]bool {
	known := map[string]bool{"id": true, "name": true, "desc": true, "labels": true, "create_time": true, "update_time": true}
	for _, name := range strings.Fields(supported) {
		known[name] = true
	}
	for _, name := range strings.Fields(refused) {
		known[name] = false
	}
	return known
}

// serviceUser names a route bound to the service, the first by id.
func serviceUser(all tables, id string) string {
	for _, rec := range sorted(all["routes"]) {
		if string(rec.parsed.(*route).ServiceID) == id {
			return "route [" + rec.id + "]"
		}
	}
	return ""
}

// upstreamUser names a route or a service that takes its nodes from the upstream.
func upstreamUser(all tables, id string) string {
	for _, rec := range sorted(all["routes"]) {
		if string(rec.parsed.(*route).UpstreamID) == id {
			return "route [" + rec.id + "]"
		}
	}
	for _, rec := range sorted(all["services"]) {
		if string(rec.parsed.(*service).UpstreamID) == id {
			return "service [" + rec.id + "]"
		}
	}
	return ""
}

// sorted is a table's records by id.
func sorted(t table) []*record {
	return slices.SortedFunc(maps.Values(t), func(a, b *record) int { return strings.Compare(a.id, b.id) })
}

// exists refuses a reference to an object that is not there.
func exists(all tables, plural, singular string, id identifier) error {
	if id == "" || all[plural][string(id)] != nil {
		return nil
	}
	return badRequest("failed to fetch %s info by %s id [%s], response code: 404", singular, singular, id)
}
