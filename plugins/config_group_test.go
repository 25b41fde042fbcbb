package plugins

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			require.NoError(t, groups.Join(a))
			require.NoError(t, groups.Join(a), "joining twice is joining once")
			err := groups.Join(b)
			if c.field == "" {
				require.NoError(t, err)
				require.Equal(t, b.Group == "g", a.GroupDigest == b.GroupDigest)
			} else {
				require.EqualError(t, err, fmt.Sprintf(
					`group conf mismatched: field %q differs from that of another configuration of group "g"`, c.field))
				require.NotEqual(t, a.GroupDigest, b.GroupDigest)
			}
			runtime.KeepAlive(a)
		})
	}
}

func TestGroupsForgetWhenTheLastConfigurationLeaves(t *testing.T) {
	groups := &Groups{}
	a, b := parsed(t, `{"count":1,"time_window":60,"group":"g"}`), parsed(t, `{"count":1,"time_window":60,"group":"g"}`)
	other := parsed(t, `{"count":2,"time_window":60,"group":"g"}`)
	require.NoError(t, groups.Join(a))
	require.NoError(t, groups.Join(b))
	groups.Leave(a)
	groups.Leave(a)
	groups.Leave(other)
	require.Error(t, groups.Join(other))
	groups.Leave(b)
	require.NoError(t, groups.Join(other))
	groups.Leave(other)
	require.Empty(t, groups.groups)
}

func TestGroupsForgetConfigurationsThatNothingRefersTo(t *testing.T) {
	groups := &Groups{}
	for range 1000 {
		require.NoError(t, groups.Join(parsed(t, `{"count":1,"time_window":60,"group":"g"}`)))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		groups.mu.Lock()
		defer groups.mu.Unlock()
		return len(groups.groups) == 0
	}, 10*time.Second, time.Millisecond)
}
