package apisix

import (
	"encoding/json"
	"testing"
)

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"key":"/apisix/services/s","value":{"id":"s","upstream":{"nodes":{"[::1]:80":1}}},"createdIndex":27}`,
		`{"node":{"value":{"upstream":{"nodes":[{"host":"a","port":80}]}}}}`,
		`{"total":1,"list":[{"key":"/a","value":{}}]}`,
		`{"node":{"nodes":{}}}`,
		`{"value":{"nodes":{"a:b:c":1,"[":2,"]:1":3}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, _ = decodeList(body)
		rec, err := decodeRecord(body)
		if err != nil {
			return
		}
		var obj wireObject
		if json.Unmarshal(rec.Value, &obj) != nil {
			return
		}
		u, err := obj.Upstream.upstream()
		if err != nil || u == nil {
			return
		}
		for _, n := range u.Nodes {
			if n.Host == "" || n.Port < 0 || n.Port > maxPort {
				t.Fatalf("accepted %+v from %q", n, body)
			}
		}
	})
}
