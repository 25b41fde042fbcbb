package apisix

import (
	"strconv"
	"strings"
)

// OwnerKind is what kind of object a plugin configuration stands on.
type OwnerKind string

// The kinds, in the order in which APISIX lets one hide the next (docs: Plugin,
// merging precedence).
const (
	OwnerConsumer      OwnerKind = "consumer"
	OwnerConsumerGroup OwnerKind = "consumer_group"
	OwnerRoute         OwnerKind = "route"
	OwnerPluginConfig  OwnerKind = "plugin_config"
	OwnerService       OwnerKind = "service"
)

// Owner is the object of APISIX that a plugin configuration stands on: what APISIX's
// own limit-count calls the parent and counts by. The zero value says that it is not
// known.
type Owner struct {
	Kind OwnerKind
	ID   string
}

// Place is what is known of a request's configuration before anybody is asked.
type Place struct {
	// Route is the id of the request's route, Service that of the service which it is
	// bound to, empty when there is none.
	Route, Service string
	// Consumer and ConsumerGroup name whose plugins APISIX merged after
	// authentication, empty when it did not, or where it is not known.
	Consumer, ConsumerGroup string
	// Attachment is the plugin that the configuration stands in, empty when that is
	// not known: then both are looked at.
	Attachment Attachment
	// Versions are those of route, service, consumer and consumer group, the ones that
	// there are, joined by "&", as the key of a PrepareConf ends. Empty when unknown.
	Versions string
}

// kind is a collection of objects, by the order of their versions in a Place.
type kind uint8

const (
	routes kind = iota
	services
	consumers
	consumerGroups
	pluginConfigs
	upstreams
	kinds
	noKind = kinds
)

// collections are the kinds' names in APISIX's keys and paths.
var collections = [kinds]string{
	routes: "routes", services: "services", consumers: "consumers",
	consumerGroups: "consumer_groups", pluginConfigs: "plugin_configs", upstreams: "upstreams",
}

// ref names an object.
type ref struct {
	kind kind
	id   string
}

// version is where an object's version stands among those of a Place.
type version struct {
	all   string
	index int  // of the part between "&"
	after bool // whether it is the part's second number, after "#"
}

// version returns where the version of the place's object of a kind stands. A
// plugin_config's follows its route's.
func (at *Place) version(of kind) version {
	v := version{all: at.Versions, after: of == pluginConfigs}
	if of == routes || v.after {
		return v
	}
	if v.index = 1; of != services && at.Service != "" {
		v.index++
	}
	if of == consumerGroups {
		v.index++
	}
	return v
}

// number is the version, 0 if it is not known.
func (v version) number() int64 {
	part, more := v.all, ""
	for range v.index {
		if _, part, _ = strings.Cut(part, "&"); part == "" {
			return 0
		}
	}
	part, _, _ = strings.Cut(part, "&")
	if part, more, _ = strings.Cut(part, "#"); v.after {
		part = more
	}
	if part == "" {
		return 0
	}
	n, err := strconv.ParseInt(part, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// knower knows objects of APISIX.
type knower interface {
	// find returns an object, nil if nothing is known of it yet. seen is the version of
	// it that APISIX went by.
	find(of ref, seen version) *object
}

// resolve says who owns the configuration of a place. If that cannot be said before
// an object is known which is not, missing is that object.
func resolve(k knower, at Place) (owner Owner, missing ref) {
	if at.Attachment != "" {
		return resolveAttachment(k, at)
	}
	at.Attachment = PreReq
	pre, missing := resolveAttachment(k, at)
	if missing.kind != noKind {
		return Owner{}, missing
	}
	at.Attachment = PostReq
	post, missing := resolveAttachment(k, at)
	switch {
	case missing.kind != noKind:
		return Owner{}, missing
	case pre == post || post == Owner{}:
		return pre, missing
	case pre == Owner{}:
		return post, missing
	}
	return Owner{}, missing // which of the two calls is not known
}

// resolveAttachment follows APISIX's merge (plugin.lua and plugin_config.lua): the
// most specific object that has the attachment gives all of it.
func resolveAttachment(k knower, at Place) (Owner, ref) {
	s := search{k: k, at: at, missing: ref{kind: noKind}}
	s.follow()
	return s.owner, s.missing
}

// search is the way from a place to the owner of what stands there.
type search struct {
	k       knower
	at      Place
	owner   Owner
	missing ref
}

func (s *search) follow() {
	if s.at.Route == "" {
		return
	}
	if s.at.Consumer != "" {
		consumer, more := s.look(ref{consumers, s.at.Consumer}, OwnerConsumer)
		if !more {
			return
		}
		// APISIX leaves a consumer without any plugin out of the merge, and with it
		// its group.
		if s.at.ConsumerGroup != "" && consumer.plugins.Any() {
			if _, more = s.look(ref{consumerGroups, s.at.ConsumerGroup}, OwnerConsumerGroup); !more {
				return
			}
		}
	}
	route, more := s.look(ref{routes, s.at.Route}, OwnerRoute)
	if !more || route.gone {
		return
	}
	if route.pluginConfigID != "" {
		if _, more = s.look(ref{pluginConfigs, route.pluginConfigID}, OwnerPluginConfig); !more {
			return
		}
	}
	if s.at.Service != "" {
		s.look(ref{services, s.at.Service}, OwnerService)
	}
}

// look looks at one object, and says whether a less specific one is to be looked at.
// An object that has the attachment without graphql-limit-count cannot be where a
// request's configuration comes from: what is known is then not what APISIX went by,
// and nothing is said.
func (s *search) look(of ref, as OwnerKind) (o *object, more bool) {
	o = s.k.find(of, s.at.version(of.kind))
	switch {
	case o == nil:
		s.missing = of
		return nil, false
	case o.plugins.Runs(s.at.Attachment):
		s.owner = Owner{as, of.id}
		return o, false
	}
	return o, !o.plugins.Has(s.at.Attachment)
}
