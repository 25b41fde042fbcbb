package plugins

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1000, 0)

func TestGroupsRefuseAnotherConfiguration(t *testing.T) {
	const first = `{"count":10,"time_window":60,"group":"g"}`
	for _, c := range []struct{ rule, conf, field string }{
		{"the same", first, ""},
		{"the same, written differently", `{"group":"g","time_window":60,"count":1e1,"policy":"local"}`, ""},
		{"another way to cost", `{"count":10,"time_window":60,"group":"g","cost_strategy":"complexity","max_cost":5,"score_factor":2}`, ""},
		{"another mode and other header names", `{"count":10,"time_window":60,"group":"g","mode":"observe","limit_header":"L"}`, ""},
		{"another count", `{"count":11,"time_window":60,"group":"g"}`, "count"},
		{"another key", `{"count":10,"time_window":60,"group":"g","key":"uri"}`, "key"},
		{"another text", `{"count":10,"time_window":60,"group":"g","rejected_msg":"x"}`, "rejected_msg"},
		{"another server", `{"count":10,"time_window":60,"group":"g","redis_host":"hh"}`, "redis_host"},
		{"another count in another group", `{"count":11,"time_window":60,"group":"h"}`, ""},
		{"another count in no group", `{"count":11,"time_window":60}`, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			groups := &Groups{}
			a, b := parsed(t, first), parsed(t, c.conf)
			require.NoError(t, groups.Use(a, start))
			err := groups.Use(b, start.Add(groupHold-1))
			if c.field == "" {
				require.NoError(t, err)
				require.Equal(t, b.Group == "g", a.GroupDigest == b.GroupDigest)
			} else {
				require.EqualError(t, err, fmt.Sprintf(
					`group conf mismatched: field %q differs from that of another configuration of group "g"`, c.field))
				require.NotEqual(t, a.GroupDigest, b.GroupDigest)
			}
		})
	}
}

func TestAGroupChangesHandsWhenItsConfigurationIsNoLongerUsed(t *testing.T) {
	groups := &Groups{}
	old, edited := parsed(t, `{"count":1,"time_window":60,"group":"g"}`), parsed(t, `{"count":2,"time_window":60,"group":"g"}`)
	require.NoError(t, groups.Use(old, start))
	require.NoError(t, groups.Use(old, start.Add(5*time.Second)))
	require.Error(t, groups.Use(edited, start.Add(14*time.Second)), "used 9 s ago")
	require.NoError(t, groups.Use(edited, start.Add(15*time.Second)), "used 10 s ago")
	require.Error(t, groups.Use(old, start.Add(16*time.Second)), "now the other one is the stranger")
}

func TestOneOfManyConfigurationsGetsAGroup(t *testing.T) {
	groups := &Groups{}
	var got atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		cfg := parsed(t, fmt.Sprintf(`{"count":%d,"time_window":60,"group":"g"}`, i+1))
		wg.Go(func() {
			if groups.Use(cfg, start) == nil {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, got.Load())
}
