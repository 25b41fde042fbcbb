package plugins_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTiers: a consumer's configuration counts instead of the route's, and its group
// makes one quota on all routes.
func TestTiers(t *testing.T) {
	s := startSite(t, 0)
	tier := func(conf map[string]any, more map[string]any) map[string]any {
		attached := limited(t, "ext-plugin-post-req", conf)
		maps.Copy(attached, more)
		return attached
	}
	anonymous := map[string]any{"count": 1000, "time_window": 60}
	consumer := map[string]any{"count": 5000, "time_window": 3600, "key": "consumer_name", "group": "consumer"}
	gold := map[string]any{"count": 50000, "time_window": 3600, "key": "consumer_name", "group": "gold"}
	keyed := map[string]any{"key-auth": map[string]any{}}
	for path, attached := range map[string]map[string]any{
		"open": tier(anonymous, nil), "a": tier(anonymous, keyed), "b": tier(anonymous, keyed),
	} {
		s.put(t, "routes/"+path, map[string]any{"uri": "/" + path, "upstream": s.upstreamNode(), "plugins": attached})
	}
	for name, conf := range map[string]map[string]any{"jack": consumer, "jim": consumer, "jill": gold} {
		key := map[string]any{"key-auth": map[string]any{"key": name}}
		s.put(t, "consumers/"+name, map[string]any{"username": name, "plugins": tier(conf, key)})
	}
	for _, c := range []struct{ path, key, limit, left string }{
		{"/open", "", "1000", "999"},
		{"/a", "jack", "5000", "4999"},
		{"/b", "jack", "5000", "4998"},
		{"/b", "jim", "5000", "4999"},
		{"/a", "jill", "50000", "49999"},
		{"/b", "jill", "50000", "49998"},
		{"/open", "", "1000", "998"},
	} {
		headers := map[string]string{"Content-Type": "application/graphql"}
		if c.key != "" {
			headers["apikey"] = c.key
		}
		got := s.do(t, http.MethodPost, s.gateway.FrontURL()+c.path, "{a}", headers)
		require.Equal(t, 200, got.status, got.body)
		require.Equal(t, c.limit, got.header.Get("X-RateLimit-Limit"), "%s %s", c.path, c.key)
		require.Equal(t, c.left, got.header.Get("X-RateLimit-Remaining"), "%s %s", c.path, c.key)
	}
}
