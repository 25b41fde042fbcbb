package plugins

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// groupFields are the fields that configurations of one group must have in common:
// those that decide which counter is charged, how, where it is kept, and how a
// rejection looks. Fields that decide what a request costs, which requests are
// accepted and how headers are called may differ, as in APISIX, so that one quota can
// be spent on endpoints of different kinds.
var groupFields = []string{
	"count", "time_window", "window_type", "burst", "charge_rejected",
	"key_type", "key", "group", "rejected_code", "rejected_msg",
	"policy", "allow_degradation", "show_limit_quota_header", "sync_interval",
}

// groupFieldPrefixes add the fields of the counter stores to groupFields.
var groupFieldPrefixes = []string{"redis_", "sentinel_"}

// groupMembers returns the members that a group compares.
func groupMembers(canonical map[string]any) map[string]any {
	shared := map[string]any{}
	for name, value := range canonical {
		if isGroupField(name) {
			shared[name] = value
		}
	}
	return shared
}

func isGroupField(name string) bool {
	return slices.Contains(groupFields, name) ||
		slices.ContainsFunc(groupFieldPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// groupHold is for how long a configuration keeps its group after its last request.
// Routes that share a group are edited one after the other; the last edit is in force
// this long after the old configuration was last used.
const groupHold = 10 * time.Second

// Groups knows which configuration each group has, so that two that name one group
// and differ in what the counter depends on are noticed. The zero value is ready to
// use, by several goroutines at once.
//
// A group belongs to the configuration that is used: the first keeps it for as long
// as requests come in, and one that differs is an error meanwhile. It is asked for
// each request, because nobody tells when a route has got another configuration.
type Groups struct {
	claims sync.Map // group name -> *groupClaim
}

// groupClaim is the configuration that a group has.
type groupClaim struct {
	identity string
	members  map[string]any
	used     atomic.Int64 // Unix nanoseconds
}

// Use notes that a configuration decides on a request now. It returns a *ConfigError
// that names the group and the first field that differs when another configuration
// has the group; nil for a configuration without a group.
func (g *Groups) Use(cfg *Config, now time.Time) error {
	if cfg.Group == "" {
		return nil
	}
	for {
		held, found := g.claims.Load(cfg.Group)
		if !found {
			g.forget(now)
			held, found = g.claims.LoadOrStore(cfg.Group, newGroupClaim(cfg, now))
			if !found {
				return nil
			}
		}
		claim := held.(*groupClaim)
		switch {
		case claim.identity == cfg.groupIdentity:
			claim.used.Store(now.UnixNano())
			return nil
		case now.UnixNano()-claim.used.Load() < int64(groupHold):
			return mismatch(cfg, claim)
		case g.claims.CompareAndSwap(cfg.Group, held, newGroupClaim(cfg, now)):
			return nil
		}
	}
}

// forget drops the claims that anybody may take, whenever a group is new.
func (g *Groups) forget(now time.Time) {
	g.claims.Range(func(name, held any) bool {
		if now.UnixNano()-held.(*groupClaim).used.Load() >= int64(groupHold) {
			g.claims.CompareAndDelete(name, held)
		}
		return true
	})
}

func newGroupClaim(cfg *Config, now time.Time) *groupClaim {
	claim := &groupClaim{identity: cfg.groupIdentity, members: groupMembers(cfg.canonical)}
	claim.used.Store(now.UnixNano())
	return claim
}

func mismatch(cfg *Config, claim *groupClaim) error {
	field := firstDifference(claim.members, groupMembers(cfg.canonical))
	return &ConfigError{Faults: []string{fmt.Sprintf(
		"group conf mismatched: field %q differs from that of another configuration of group %q", field, cfg.Group)}}
}

// firstDifference returns the first field, by name, whose values differ.
func firstDifference(a, b map[string]any) string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range names {
		if !reflect.DeepEqual(a[name], b[name]) {
			return name
		}
	}
	return ""
}
