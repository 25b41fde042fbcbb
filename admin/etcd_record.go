package admin

import (
	"encoding/json"
	"fmt"
	"strconv"

	"graphql-limit-count/internal/etcd"
)

// endedService is the incarnation of a decoration or schema whose service was deleted.
const endedService = "ended"

// life is the present life of a service as etcd shows it.
//
// What belongs to a service belongs to one life of it: a service created again under the same
// id starts with none. Something last written at a revision before the service's key came into
// being is of an earlier life. Revisions say nothing once content was copied from one cluster
// to another, key by key; the times inside the values are copied with it. So when both are
// known, the times must agree that it was written no later than the service was created.
//
// That a service's key is missing does not say that its life has ended: content may be copied
// in any order, or the services be kept elsewhere. It has ended when the key was there after
// the thing was written. What is not known to be anybody's has no incarnation.
type life struct {
	revision int64 // at which the service's key was created; 0: there is none
	created  int64 // the service's create_time, seconds since 1970; 0: it has none
	ended    bool  // there is no key, but there was one
}

// lifeOf reads a service's key.
func lifeOf(kv etcd.KV) life {
	var value struct {
		CreateTime json.Number `json:"create_time"`
	}
	// A service without a readable time is one whose time is not known.
	_ = json.Unmarshal(kv.Value, &value)
	return life{revision: kv.CreateRevision, created: seconds(value.CreateTime)}
}

// incarnation is whose life something belongs to that was last written at a revision and, by
// its own account, at a time. The decimal revision of a service's key is what the Admin API
// calls its createdIndex.
func (l life) incarnation(written, at int64) string {
	switch {
	case l.ended:
		return endedService
	case l.revision == 0:
		return ""
	case written >= l.revision || (l.created > 0 && at > l.created):
		return strconv.FormatInt(l.revision, 10)
	}
	return noService
}

// current is the incarnation of what is written now.
func (l life) current() string { return l.incarnation(l.revision, 0) }

// seconds reads a time; what is no number is 0, which means that it is not known.
func seconds(value any) int64 {
	number, ok := value.(json.Number)
	if !ok {
		return 0
	}
	if whole, err := number.Int64(); err == nil {
		return whole
	}
	fraction, err := number.Float64()
	const furthest = 1 << 53 // beyond, floating point has no whole seconds
	if err != nil || fraction < 0 || fraction > furthest {
		return 0
	}
	return int64(fraction)
}

// decodeRecord reads a stored decoration. Its key says what it is; the id and service_id in
// the value are only for APISIX. A value that is no object, which only another program can
// have written, is shown as an empty one: it must not hide the others.
func decodeRecord(serviceID, id string, kv etcd.KV, owner life) Record {
	record := Record{
		Draft:        Draft{ServiceID: serviceID, ID: id, Value: []byte("{}")},
		CreatedIndex: kv.CreateRevision, ModifiedIndex: kv.ModRevision,
	}
	if object, err := decodeObject(kv.Value); err == nil {
		record.CreateTime, record.UpdateTime = seconds(object[memberCreateTime]), seconds(object[memberUpdateTime])
		if draft, err := draft(serviceID, id, object); err == nil {
			record.Draft = draft
		}
	}
	record.Incarnation = owner.incarnation(record.ModifiedIndex, max(record.CreateTime, record.UpdateTime))
	return record
}

// encodeRecord is the value that APISIX would store.
func encodeRecord(r Record) (string, error) {
	object, err := decodeObject(r.Value)
	if err != nil {
		return "", fmt.Errorf("decoration %s: %w", r.ID, err)
	}
	object[memberID], object[memberServiceID] = r.ID, r.ServiceID
	object[memberCreateTime], object[memberUpdateTime] = r.CreateTime, r.UpdateTime
	text, err := encode(object)
	return string(text), err
}
