package apisix

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// stored is what APISIX holds: values by collection and id.
type stored map[string]string

// Plugins of an object: ours in an attachment, another runner's plugin in it, none.
const (
	oursPre   = `{"plugins":{"ext-plugin-pre-req":{"conf":[{"name":"other","value":""},{"name":"graphql-limit-count","value":"{}"}]}}}`
	oursPost  = `{"plugins":{"ext-plugin-post-req":{"conf":[{"name":"graphql-limit-count","value":"{}"}]}}}`
	oursBoth  = `{"plugins":{"ext-plugin-pre-req":{"conf":[{"name":"graphql-limit-count"}]},"ext-plugin-post-req":{"conf":[{"name":"graphql-limit-count"}]}}}`
	otherPre  = `{"plugins":{"ext-plugin-pre-req":{"conf":[{"name":"other","value":""}]}}}`
	otherPost = `{"plugins":{"ext-plugin-post-req":{}}}`
	unrelated = `{"plugins":{"cors":{},"ext-plugin-post-resp":{"conf":[{"name":"graphql-limit-count"}]}}}`
	bare      = `{}`
)

// ownerCases are APISIX's merges, and what limit-count there calls the parent.
var ownerCases = []struct {
	name   string
	stored stored
	at     Place
	want   Owner
}{
	{"what stands on the route is the route's",
		stored{"routes/r": oursPre, "services/s": bare}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerRoute, "r"}},
	{"a route's hides its service's",
		stored{"routes/r": oursPre, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerRoute, "r"}},
	{"what stands on the service alone is the service's",
		stored{"routes/r": unrelated, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerService, "s"}},
	{"a route without a service has its own",
		stored{"routes/r": oursPost}, Place{Route: "r", Attachment: PostReq}, Owner{OwnerRoute, "r"}},
	{"the attachments are apart",
		stored{"routes/r": oursPost, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerService, "s"}},
	{"a plugin_config's is the plugin_config's, for all routes that name it",
		stored{"routes/r": `{"plugin_config_id":"p"}`, "plugin_configs/p": oursPre, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerPluginConfig, "p"}},
	{"a route's hides its plugin_config's",
		stored{"routes/r": `{"plugin_config_id":"p",` + oursPre[1:], "plugin_configs/p": oursPre}, Place{Route: "r", Attachment: PreReq}, Owner{OwnerRoute, "r"}},
	{"a plugin_config without it leaves the service's",
		stored{"routes/r": `{"plugin_config_id":7}`, "plugin_configs/7": unrelated, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerService, "s"}},
	{"a plugin_config that is gone leaves the service's",
		stored{"routes/r": `{"plugin_config_id":"p"}`, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerService, "s"}},
	{"a consumer's is the consumer's",
		stored{"routes/r": oursPost, "services/s": oursPost, "consumers/jack": oursPost}, Place{Route: "r", Service: "s", Consumer: "jack", Attachment: PostReq}, Owner{OwnerConsumer, "jack"}},
	{"a consumer's hides its group's",
		stored{"routes/r": bare, "consumers/jack": oursPost, "consumer_groups/g": oursPost}, Place{Route: "r", Consumer: "jack", ConsumerGroup: "g", Attachment: PostReq}, Owner{OwnerConsumer, "jack"}},
	{"a group's is the group's",
		stored{"routes/r": oursPost, "consumers/jack": unrelated, "consumer_groups/g": oursPost}, Place{Route: "r", Consumer: "jack", ConsumerGroup: "g", Attachment: PostReq}, Owner{OwnerConsumerGroup, "g"}},
	{"a consumer without any plugin is not merged, nor is its group",
		stored{"routes/r": oursPost, "consumers/jack": bare, "consumer_groups/g": oursPost}, Place{Route: "r", Consumer: "jack", ConsumerGroup: "g", Attachment: PostReq}, Owner{OwnerRoute, "r"}},
	{"before authentication no consumer counts",
		stored{"routes/r": oursPre, "consumers/jack": oursPre}, Place{Route: "r", Attachment: PreReq}, Owner{OwnerRoute, "r"}},
	{"a consumer without it leaves the route's",
		stored{"routes/r": oursPost, "consumers/jack": unrelated}, Place{Route: "r", Consumer: "jack", Attachment: PostReq}, Owner{OwnerRoute, "r"}},
	{"an attachment without graphql-limit-count cannot be what called: nothing is known",
		stored{"routes/r": otherPre, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{}},
	{"nor can one without any configuration",
		stored{"routes/r": otherPost, "services/s": oursPost}, Place{Route: "r", Service: "s", Attachment: PostReq}, Owner{}},
	{"where it stands nowhere nothing is known",
		stored{"routes/r": bare, "services/s": unrelated}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{}},
	{"of a route that is gone nothing is known",
		stored{"services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{}},
	{"without a route nothing is known",
		stored{"services/s": oursPre}, Place{Service: "s", Attachment: PreReq}, Owner{}},
	{"plugins that cannot be read are none",
		stored{"routes/r": `{"plugins":[]}`, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{OwnerService, "s"}},
	{"an attachment that cannot be read hides all the same",
		stored{"routes/r": `{"plugins":{"ext-plugin-pre-req":{"conf":{}}}}`, "services/s": oursPre}, Place{Route: "r", Service: "s", Attachment: PreReq}, Owner{}},
	{"of an unknown attachment the one that has it counts",
		stored{"routes/r": oursPost, "services/s": bare}, Place{Route: "r", Service: "s"}, Owner{OwnerRoute, "r"}},
	{"both count where they are one owner's",
		stored{"routes/r": bare, "services/s": oursBoth}, Place{Route: "r", Service: "s"}, Owner{OwnerService, "s"}},
	{"of two owners nothing is said",
		stored{"routes/r": oursPost, "services/s": oursPre}, Place{Route: "r", Service: "s"}, Owner{}},
}

func TestOwnerByTheAdminAPI(t *testing.T) {
	for _, tt := range ownerCases {
		t.Run(tt.name, func(t *testing.T) {
			a := startStored(t, tt.stored)
			o := newTestOwners(t, OwnersConfig{Client: a.Client, Wait: time.Minute})
			require.Equal(t, tt.want, o.Owner(tt.at))
			calls := a.calls.Load()
			require.Equal(t, tt.want, o.Owner(tt.at), "from memory")
			require.Equal(t, calls, a.calls.Load())
		})
	}
}

func TestOwnerByEtcd(t *testing.T) {
	server := servers.RunEtcd(t)
	for i, tt := range ownerCases {
		t.Run(tt.name, func(t *testing.T) {
			s := openEtcd(t, server, fmt.Sprintf("/case%d", i))
			s.store(t, tt.stored)
			m := s.mirror(t)
			require.Equal(t, tt.want, m.Owner(tt.at))
		})
	}
}

// startStored serves objects as the Admin API does.
func startStored(tb testing.TB, objects stored) *admin {
	return startAdmin(tb, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/apisix/admin/")
		value, ok := objects[path]
		if !ok {
			replies(http.StatusNotFound, `{"message":"Key not found"}`)(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"key": "/apisix/" + path, "value": json.RawMessage(value), "createdIndex": 7, "modifiedIndex": 9})
	})
}

func newTestOwners(tb testing.TB, cfg OwnersConfig) *Owners {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	o := NewOwners(cfg)
	tb.Cleanup(o.Close)
	return o
}

func TestVersions(t *testing.T) {
	bound := Place{Service: "s", Versions: "22#5&21&3&4"}
	unbound := Place{Versions: "22&3&4"}
	tests := []struct {
		name string
		at   Place
		of   kind
		want int64
	}{
		{"a route's is the first", bound, routes, 22},
		{"its plugin_config's follows it", bound, pluginConfigs, 5},
		{"a service's is the second", bound, services, 21},
		{"a consumer's is the next", bound, consumers, 3},
		{"a group's is the last", bound, consumerGroups, 4},
		{"without a service the consumer's is the second", unbound, consumers, 3},
		{"and the group's the third", unbound, consumerGroups, 4},
		{"a plugin_config that is not there has none", unbound, pluginConfigs, 0},
		{"no versions", Place{}, routes, 0},
		{"a version that is no number", Place{Versions: "a"}, routes, 0},
		{"fewer versions than objects", Place{Service: "s", Versions: "1"}, services, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, tt.at.version(tt.of).number()) })
	}
}
