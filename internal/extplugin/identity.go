package extplugin

import "strings"

// preReqAttachment is the APISIX plugin that calls before anything has rewritten
// the request.
const preReqAttachment = "ext-plugin-pre-req"

// identity is what the key of a PrepareConf says about who its configuration
// belongs to. The zero value knows nothing.
type identity struct {
	route, service, consumer, consumerGroup string

	// noService says that the route is known to be bound to no service.
	noService bool

	// preReq says that the filter runs before any plugin that rewrites.
	preReq bool

	// attachment is the APISIX plugin that the configuration stands in, versions those
	// of the objects that are named, joined by "&". Empty where the route is.
	attachment, versions string
}

// parseKey reads a PrepareConf key: types, ids, attachment and versions separated
// by "#", the types and the ids by "&" among themselves, as in
//
//	route&service#k1&svc1#ext-plugin-pre-req#22&21
//
// A key of any other form, an empty one and a global rule's tell nothing of the
// route; then APISIX has to be asked. It allocates nothing.
func parseKey(key string) identity {
	types, rest, ok := strings.Cut(key, "#")
	if !ok {
		return identity{}
	}
	ids, rest, ok := strings.Cut(rest, "#")
	if !ok {
		return identity{}
	}
	attachment, versions, ok := strings.Cut(rest, "#")
	if !ok || versions == "" {
		return identity{}
	}
	owner, ok := parseOwner(types, ids)
	if !ok {
		owner = identity{}
	}
	if ok {
		owner.attachment, owner.versions = attachment, versions
	}
	owner.preReq = attachment == preReqAttachment
	return owner
}

// Attachment returns what the key of the request's configuration says about where it
// stands: the APISIX plugin that it is in, the consumer and the consumer group whose
// plugins were merged, and the versions of route, service, consumer and consumer group,
// those that there are, joined by "&". All are empty for a configuration that is no
// route's, such as a global rule's.
func (r *request) Attachment() (attachment, consumer, consumerGroup, versions string) {
	return r.who.attachment, r.who.consumer, r.who.consumerGroup, r.who.versions
}

// parseOwner pairs types with ids. Nothing is believed unless all of it is
// understood: a type that is not known might be a second way to a service.
func parseOwner(types, ids string) (identity, bool) {
	var owner identity
	for more := true; more; {
		var kind, id string
		var moreIDs bool
		kind, types, more = strings.Cut(types, "&")
		id, ids, moreIDs = strings.Cut(ids, "&")
		if more != moreIDs || !validID(id) {
			return identity{}, false
		}
		var field *string
		switch kind {
		case "route":
			field = &owner.route
		case "service":
			field = &owner.service
		case "consumer":
			field = &owner.consumer
		case "consumer_group":
			field = &owner.consumerGroup
		}
		if field == nil || *field != "" {
			return identity{}, false
		}
		*field = id
	}
	owner.noService = owner.service == ""
	return owner, owner.route != ""
}

// validID reports whether id could be one of APISIX's ids and names.
func validID(id string) bool {
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return id != ""
}
