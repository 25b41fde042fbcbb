package apisix

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/etcd"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// fleetRoutes is how many routes a large fleet has.
const fleetRoutes = 100_000

// fleet is a snapshot of that many routes, each with an upstream of its own and some
// plugins besides ours, as APISIX stores them.
func fleet() etcd.Change {
	change := etcd.Change{Snapshot: true, Puts: make([]etcd.KV, 0, fleetRoutes)}
	for i := range fleetRoutes {
		change.Puts = append(change.Puts, etcd.KV{
			Key: fmt.Sprintf("/routes/%020d", i), CreateRevision: int64(i + 1), ModRevision: int64(i + 1),
			Value: fmt.Appendf(nil, `{"id":"%020d","create_time":1700000000,"update_time":1700000000,"status":1,"priority":0,`+
				`"uri":"/graphql/%d","hosts":["api-%d.example.com"],"service_id":"service-%d",`+
				`"plugins":{"cors":{"allow_origins":"*"},"proxy-rewrite":{"uri":"/graphql"},"ext-plugin-pre-req":{"conf":[{"name":"graphql-limit-count",`+
				`"value":"{\"count\":10000,\"time_window\":60,\"cost_strategy\":\"node_quantifier\"}"}]}},`+
				`"upstream":{"type":"roundrobin","hash_on":"vars","scheme":"http","pass_host":"pass","nodes":{"10.0.%d.%d:8080":1}}}`,
				i, i, i, i%1000, i/250%250, i%250),
		})
	}
	return change
}

func newTestMirror() *Mirror {
	m := NewMirror(MirrorConfig{Logger: zap.NewNop()})
	for range kinds {
		m.oneRead()
	}
	return m
}

// BenchmarkMirrorMemory reports what a route costs in memory and how long the first
// reading of a fleet takes, without etcd's part.
func BenchmarkMirrorMemory(b *testing.B) {
	change := fleet()
	for b.Loop() {
		m := newTestMirror()
		before := heap()
		m.apply(routes, "/routes/", change)
		b.ReportMetric(float64(heap()-before)/fleetRoutes, "B/route")
		require.Equal(b, fleetRoutes, m.tables[routes].len())
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkOwner measures what a request pays to know whose its counter is.
func BenchmarkOwner(b *testing.B) {
	m := newTestMirror()
	m.apply(routes, "/routes/", fleet())
	m.apply(services, "/services/", etcd.Change{Puts: []etcd.KV{{Key: "/services/s",
		Value: []byte(`{"plugins":{"ext-plugin-post-req":{"conf":[{"name":"graphql-limit-count"}]}}}`)}}})
	for _, bench := range []struct {
		name string
		at   Place
		want Owner
	}{
		{"on the route", Place{Route: "00000000000000070000", Service: "s", Attachment: PreReq}, Owner{OwnerRoute, "00000000000000070000"}},
		{"on the service", Place{Route: "00000000000000070000", Service: "s", Attachment: PostReq}, Owner{OwnerService, "s"}},
		{"on the service, after authentication", Place{Route: "00000000000000070000", Service: "s", Consumer: "jack", Attachment: PostReq}, Owner{OwnerService, "s"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if m.Owner(bench.at) != bench.want {
					b.Fatal("another owner")
				}
			}
		})
	}
}

// BenchmarkMirrorReads measures the first reading of a fleet from a real etcd.
func BenchmarkMirrorReads(b *testing.B) {
	s := openEtcd(b, servers.RunEtcd(b), "")
	const perWrite = 100
	puts := fleet().Puts
	for from := 0; from < len(puts); from += perWrite {
		var writes []clientv3.Op
		for _, kv := range puts[from : from+perWrite] {
			writes = append(writes, clientv3.OpPut(s.client.Prefix()+kv.Key, string(kv.Value)))
		}
		_, err := s.client.Txn(b.Context()).Then(writes...).Commit()
		require.NoError(b, err)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		m := NewMirror(MirrorConfig{Etcd: s.client, Logger: zap.NewNop()})
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		<-m.Read()
		cancel()
		<-ended
		require.Equal(b, fleetRoutes, m.tables[routes].len())
	}
}

// BenchmarkOwners measures the same by the Admin API's answers: those remembered, and
// the wait of a route's first request, with an Admin API on the same host.
func BenchmarkOwners(b *testing.B) {
	objects := stored{"services/s": oursPre}
	for i := range 100_000 {
		objects["routes/"+strconv.Itoa(i)] = bare
	}
	a := startStored(b, objects)
	o := newTestOwners(b, OwnersConfig{Client: a.Client})
	b.Run("remembered", func(b *testing.B) {
		at := Place{Route: "0", Service: "s", Attachment: PreReq, Versions: "9&9"}
		b.ReportAllocs()
		for b.Loop() {
			o.Owner(at)
		}
	})
	next := 1
	b.Run("first sight", func(b *testing.B) {
		for b.Loop() {
			require.Equal(b, Owner{OwnerService, "s"}, o.Owner(Place{Route: strconv.Itoa(next % 100_000), Service: "s", Attachment: PreReq, Versions: "9&9"}))
			next++
		}
	})
}

// BenchmarkDecodeObject measures reading one route of a fleet.
func BenchmarkDecodeObject(b *testing.B) {
	value := fleet().Puts[0].Value
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		decodeObject(routes, value, 1, 1)
	}
}
