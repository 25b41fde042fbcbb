package extplugin

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  string
		want identity
	}{
		{"a route of its own has no service", "route#k4#ext-plugin-pre-req#27#26",
			identity{route: "k4", noService: true, preReq: true, attachment: "ext-plugin-pre-req", versions: "27#26"}},
		{"a route bound to a service names both", "route&service#k1&svc1#ext-plugin-pre-req#22&21",
			identity{route: "k1", service: "svc1", preReq: true, attachment: "ext-plugin-pre-req", versions: "22&21"}},
		{"a consumer is named after authentication", "route&consumer#k5&jack#ext-plugin-post-req#29&2",
			identity{route: "k5", consumer: "jack", noService: true, attachment: "ext-plugin-post-req", versions: "29&2"}},
		{"all of them can be named", "route&service&consumer&consumer_group#r.1&s_2&c-3&g#ext-plugin-post-req#1&2&3&4",
			identity{route: "r.1", service: "s_2", consumer: "c-3", consumerGroup: "g", attachment: "ext-plugin-post-req", versions: "1&2&3&4"}},
		{"a global rule does not name the route", "global_rule#1#ext-plugin-pre-req#1",
			identity{preReq: true}},
		{"an empty key tells nothing", "", identity{}},
		{"a key without versions tells nothing", "route#k4#ext-plugin-pre-req", identity{}},
		{"a key with empty versions tells nothing", "route#k4#ext-plugin-pre-req#", identity{}},
		{"fewer ids than types tell nothing", "route&service#k1#ext-plugin-post-req#1", identity{}},
		{"more ids than types tell nothing", "route#k1&k2#ext-plugin-post-req#1", identity{}},
		{"an empty id tells nothing", "route&service#k1&#ext-plugin-post-req#1", identity{}},
		{"an id of strange characters tells nothing", "route#k 1#ext-plugin-post-req#1", identity{}},
		{"a type that is not known tells nothing", "route&realm#k1&r#ext-plugin-post-req#1", identity{}},
		{"a type that comes twice tells nothing", "route&route#k1&k2#ext-plugin-post-req#1", identity{}},
		{"a service without a route tells nothing", "service#s1#ext-plugin-post-req#1", identity{}},
		{"another form tells nothing", "k4", identity{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, parseKey(tc.key))
		})
	}
}

func TestParseKeyAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		parseKey("route&service&consumer#k1&svc1&jack#ext-plugin-post-req#22&21&2")
	}))
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "#", "###", "&#&#&#&", "route#k4#ext-plugin-pre-req#27#26", "route&service#k1&svc1#x#1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		who := parseKey(key)
		if who.route == "" {
			require.Equal(t, identity{preReq: who.preReq}, who)
			return
		}
		require.True(t, validID(who.route))
		require.Equal(t, who.service == "", who.noService)
	})
}
