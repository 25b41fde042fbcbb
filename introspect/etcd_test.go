package introspect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/apisix"
	"graphql-limit-count/internal/etcd"
)

// TestVectorsFromEtcd: what is derived from etcd is what is derived from the Admin API.
func TestVectorsFromEtcd(t *testing.T) {
	raw, err := os.ReadFile(vectorFile)
	require.NoError(t, err)
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &all))
	server := servers.RunEtcd(t)
	ran := 0
	for _, text := range all {
		var v vector
		if json.Unmarshal(text, &v) != nil || v.Level != "introspection" || v.Calls == nil {
			continue
		}
		ran++
		t.Run(v.ID, func(t *testing.T) { runCalls(t, v.Calls, etcdAt(server, fmt.Sprintf("/vector%d", ran))) })
	}
	require.NotZero(t, ran)
}

// etcdAt keeps objects in etcd under a prefix, and answers by a mirror of it.
func etcdAt(server *servers.Etcd, prefix string) objects {
	return func(t *testing.T, _ *clock) (UpstreamResolver, func(vectorCall)) {
		client, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint()}, Prefix: prefix, Logger: zap.NewNop()})
		require.NoError(t, err)
		mirror := apisix.NewMirror(apisix.MirrorConfig{Etcd: client, Logger: zap.NewNop(), FirstWait: time.Minute})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mirror.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			require.NoError(t, client.Close())
		})
		changes := 0
		return mirror, func(call vectorCall) {
			changes++
			replaceObjects(t, client, mirror, call, fmt.Sprintf("change-%d", changes))
		}
	}
}

// replaceObjects makes etcd hold exactly a call's objects, and waits until the mirror
// has them: what is stored last, under the mark, is told last.
func replaceObjects(t *testing.T, client *etcd.Client, mirror *apisix.Mirror, call vectorCall, mark string) {
	_, err := client.Delete(t.Context(), client.Prefix()+"/", clientv3.WithPrefix())
	require.NoError(t, err)
	for kind, values := range map[string]map[string]json.RawMessage{
		"services": call.Services, "upstreams": call.Upstreams, "routes": {"r": call.Route},
	} {
		for id, value := range values {
			if value != nil {
				_, err := client.Put(t.Context(), client.Prefix()+"/"+kind+"/"+id, string(value))
				require.NoError(t, err)
			}
		}
		_, err := client.Put(t.Context(), client.Prefix()+"/"+kind+"/"+mark, "{}")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		_, err1 := mirror.Service(t.Context(), mark)
		_, err2 := mirror.Upstream(t.Context(), mark)
		_, err3 := mirror.Route(t.Context(), mark)
		return err1 == nil && err2 == nil && err3 == nil
	}, time.Minute, time.Millisecond)
}
