package apisix

import (
	"encoding/json"
	"strconv"
	"unique"
)

// object is what is kept of one of APISIX's objects, whatever its kind.
type object struct {
	created, modified int64 // etcd's revisions, the Admin API's indexes
	createTime        int64 // seconds since 1970, by the object's own account
	serviceID         string
	upstreamID        string
	pluginConfigID    string
	upstream          *Upstream // of an upstream object the object itself
	err               error     // why it cannot be read
	plugins           Attachments
	gone              bool // APISIX says that there is none
}

// decodeObject reads the stored value of an object. One that cannot be read is an
// object too: it exists.
func decodeObject(of kind, value []byte, created, modified int64) *object {
	o := &object{created: created, modified: modified}
	var wire wireObject
	if err := json.Unmarshal(value, &wire); err != nil {
		o.err = err
		return o
	}
	o.plugins, o.createTime = wire.Plugins, wire.CreateTime.seconds()
	o.serviceID, o.upstreamID = shared(wire.ServiceID), shared(wire.UpstreamID)
	o.pluginConfigID = shared(wire.PluginConfigID)
	inline := wire.Upstream
	if of == upstreams {
		inline = new(wireUpstream)
		o.err = json.Unmarshal(value, inline)
	}
	if o.err == nil {
		o.upstream, o.err = inline.upstream()
	}
	return o
}

// shared is an id as one string for all objects that hold it.
func shared(id scalar) string {
	if id == "" {
		return ""
	}
	return unique.Make(string(id)).Value()
}

// incarnation tells one life of the object's id from the next.
func (o *object) incarnation() string { return strconv.FormatInt(o.created, 10) }

func (o *object) service(id string) Service {
	return Service{ID: id, Incarnation: o.incarnation(), CreateTime: o.createTime,
		Upstream: o.upstream, UpstreamID: o.upstreamID, Plugins: o.plugins}
}

func (o *object) route(id string) Route {
	return Route{ID: id, Incarnation: o.incarnation(), ServiceID: o.serviceID, PluginConfigID: o.pluginConfigID,
		Upstream: o.upstream, UpstreamID: o.upstreamID, Plugins: o.plugins}
}

func (o *object) upstreamObject(id string) Upstream {
	u := *o.upstream
	u.ID, u.Incarnation = id, o.incarnation()
	return u
}
