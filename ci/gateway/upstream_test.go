package gateway

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodesAreSortedWhateverTheirForm(t *testing.T) {
	for name, text := range map[string]string{
		"map":  `{"b:2":1,"a:10":1,"a:9":1,"a":3,"[::1]:80":1,"[::2]":1}`,
		"list": `[{"host":"b","port":2,"weight":1},{"host":"a","port":10,"weight":1},{"host":"::2","weight":1},{"host":"a","port":9,"weight":1},{"host":"::1","port":80,"weight":1},{"host":"a","weight":3}]`,
	} {
		t.Run(name, func(t *testing.T) {
			var got nodes
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			require.Equal(t, nodes{{"::1", 80, 1}, {"::2", 0, 1}, {"a", 0, 3}, {"a", 9, 1}, {"a", 10, 1}, {"b", 2, 1}}, got)
		})
	}
}

func TestAddressesAndHosts(t *testing.T) {
	for _, c := range []struct {
		name             string
		upstream         *upstream
		node             node
		address, hostFor string
	}{
		{"http's own port", &upstream{Scheme: "http", PassHost: "node"}, node{Host: "a"}, "a:80", "a"},
		{"https's own port", &upstream{Scheme: "https", PassHost: "node"}, node{Host: "a"}, "a:443", "a"},
		{"the scheme's port written out", &upstream{Scheme: "https", PassHost: "node"}, node{Host: "a", Port: 443}, "a:443", "a"},
		{"another port", &upstream{Scheme: "https", PassHost: "node"}, node{Host: "::1", Port: 80}, "[::1]:80", "[::1]:80"},
		{"the client's host", &upstream{Scheme: "http", PassHost: "pass"}, node{Host: "a", Port: 1}, "a:1", "client"},
		{"a host of its own", &upstream{Scheme: "http", PassHost: "rewrite", UpstreamHost: "h"}, node{Host: "a", Port: 1}, "a:1", "h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.address, c.upstream.address(c.node))
			require.Equal(t, c.hostFor, c.upstream.host(c.node, "client"))
		})
	}
}

func FuzzNodes(f *testing.F) {
	for _, seed := range []string{`{"a:1":1}`, `[{"host":"a"}]`, `null`, `{"[":1}`, `{":":1}`, `{"a:99999":1}`, `{"a:-1":1}`, `[null]`, `{"":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got nodes
		if json.Unmarshal(text, &got) != nil {
			return
		}
		for _, n := range got {
			require.NotEmpty(t, n.Host)
			require.GreaterOrEqual(t, n.Weight, 0)
			require.LessOrEqual(t, n.Port, maxPort)
			require.GreaterOrEqual(t, n.Port, 0)
		}
	})
}
