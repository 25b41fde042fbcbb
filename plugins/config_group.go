package plugins

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// Groups remembers the configurations of groups, so that two that name one group and
// differ in what the counter depends on are noticed. The zero value is ready to use,
// by several goroutines at once.
//
// A group lives as long as one of its configurations: each is counted from Join until
// Leave, or until the garbage collector finds that nothing refers to it any more. So a
// group's configuration can be changed when no route uses the old one; while both are
// in use, the new one is an error.
type Groups struct {
	mu     sync.Mutex
	groups map[string]*sharedGroup
}

// sharedGroup is what the configurations of a group have in common.
type sharedGroup struct {
	members map[string]any
	users   int
}

// membership is a configuration's place in a group.
type membership struct {
	groups  *Groups
	cleanup runtime.Cleanup
}

// Join adds a configuration to the group that it names; one without a group is left
// alone, and so is one that is in its group already. An error is a *ConfigError that
// names the group and the first field that differs; the configuration is then not
// usable. A configuration joins one Groups only.
func (g *Groups) Join(cfg *Config) error {
	if cfg.Group == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if cfg.membership.groups == g {
		return nil
	}
	members := groupMembers(cfg.canonical)
	group := g.groups[cfg.Group]
	if group == nil {
		if g.groups == nil {
			g.groups = map[string]*sharedGroup{}
		}
		group = &sharedGroup{members: members}
		g.groups[cfg.Group] = group
	} else if field := firstDifference(group.members, members); field != "" {
		return &ConfigError{Faults: []string{fmt.Sprintf(
			"group conf mismatched: field %q differs from that of another configuration of group %q", field, cfg.Group)}}
	}
	group.users++
	cfg.membership = membership{groups: g, cleanup: runtime.AddCleanup(cfg, g.leave, cfg.Group)}
	return nil
}

// Leave takes a configuration out of its group, at once instead of when the garbage
// collector notices. It does nothing for one that is in no group of g.
func (g *Groups) Leave(cfg *Config) {
	g.mu.Lock()
	joined := cfg.membership.groups == g
	if joined {
		cfg.membership.cleanup.Stop()
		cfg.membership = membership{}
	}
	g.mu.Unlock()
	if joined {
		g.leave(cfg.Group)
	}
}

func (g *Groups) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.groups[name]
	if group == nil {
		return
	}
	if group.users--; group.users == 0 {
		delete(g.groups, name)
	}
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
