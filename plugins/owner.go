package plugins

import "graphql-limit-count/internal/apisix"

// Owner is the object of APISIX that a configuration stands on, by which its counters
// are told apart: a route, a service, a plugin_config, a consumer or a consumer group.
// The zero Owner says that it is not known.
type Owner = apisix.Owner

// Place is what is known of where a request's configuration may stand.
type Place = apisix.Place

// OwnerSource tells what configurations stand on. *apisix.Mirror and *apisix.Owners are
// sources.
type OwnerSource interface {
	// Owner returns the owner of the configuration of a place, zero if it is not known. It
	// is asked for every request whose configuration says nothing of its counter's scope;
	// it may wait a little where a place is seen for the first time.
	Owner(at Place) Owner
}

// attached is a request whose runner knows from which attachment it came, and whose
// plugins APISIX merged. An empty attachment is that of a configuration which is no
// route's.
type attached interface {
	Attachment() (attachment, consumer, consumerGroup, versions string)
}

// owner returns whose counters the request is charged to.
func (d *decision) owner() Owner {
	if d.ownedBy == (Owner{}) {
		d.ownedBy = d.findOwner()
	}
	return d.ownedBy
}

// findOwner goes by counter_scope, else by what APISIX knows, else by the rule: the
// Service's where the route is bound to one.
func (d *decision) findOwner() Owner {
	if d.route.CounterScope == "" {
		if owner := d.askOwner(); owner != (Owner{}) {
			return owner
		}
	}
	if d.serviceID != "" && d.route.CounterScope != ScopeRoute {
		return Owner{Kind: apisix.OwnerService, ID: d.serviceID}
	}
	return Owner{Kind: apisix.OwnerRoute, ID: d.routeID}
}

func (d *decision) askOwner() Owner {
	if d.plugin.options.Owners == nil {
		return Owner{}
	}
	at := Place{Route: d.routeID, Service: d.serviceID}
	if r, ok := d.request.Request.(attached); ok {
		attachment, consumer, group, versions := r.Attachment()
		if attachment == "" {
			return Owner{}
		}
		at.Attachment, at.Versions = apisix.Attachment(attachment), versions
		at.Consumer, at.ConsumerGroup = consumer, group
	}
	return d.plugin.options.Owners.Owner(at)
}
