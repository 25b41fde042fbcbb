package limiter_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/limiter"
)

// benchQuota never refuses, so that every charge does the same work.
var benchQuota = limiter.Quota{Limit: limiter.MaxCount, Window: time.Hour}

func mustBench(b *testing.B, lim limiter.Limiter, key string, q limiter.Quota) {
	if _, err := lim.Charge(context.Background(), key, 1, q); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLocalCharge charges existing keys from 1 and 2 goroutines. The target is under
// 200 ns and no allocation.
func BenchmarkLocalCharge(b *testing.B) {
	const keys = 10_000
	names := make([]string, keys)
	for i := range names {
		names[i] = "/apisix/routes/orders:0123456789abcdef:10.20.30." + strconv.Itoa(i)
	}
	for _, goroutines := range []int{1, 2} {
		for _, spread := range []int{1, keys} {
			b.Run(fmt.Sprintf("goroutines=%d/keys=%d", goroutines, spread), func(b *testing.B) {
				l := limiter.NewLocal(limiter.LocalConfig{})
				defer l.Close()
				for _, name := range names[:spread] {
					mustBench(b, l, name, benchQuota)
				}
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(goroutines))
				var next atomic.Int64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					i := int(next.Add(keys / 2))
					for pb.Next() {
						i++
						mustBench(b, l, names[i%spread], benchQuota)
					}
				})
			})
		}
	}
}

// BenchmarkLocalFlood inserts keys that were never seen into a full limiter, and reports
// how long one charge of another client can take meanwhile. The target is under 10 ms.
func BenchmarkLocalFlood(b *testing.B) {
	l := limiter.NewLocal(limiter.LocalConfig{})
	defer l.Close()
	for i := range limiter.DefaultMaxKeys {
		mustBench(b, l, strconv.Itoa(i), benchQuota)
	}
	done, measured := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var took []time.Duration
		for {
			select {
			case <-done:
				measured <- took
				return
			case <-time.After(100 * time.Microsecond):
			}
			start := time.Now()
			mustBench(b, l, "client", benchQuota)
			took = append(took, time.Since(start))
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		mustBench(b, l, "flood"+strconv.Itoa(i), benchQuota)
	}
	b.StopTimer()
	close(done)
	if took := <-measured; len(took) > 0 {
		b.ReportMetric(float64(slices.Max(took).Microseconds()), "max-us")
	}
}

// BenchmarkRedisCharge is decisions per second from 64 goroutines at one real server, and
// their ratio to what redis-benchmark gets from the same server with as many connections
// and the same script.
func BenchmarkRedisCharge(b *testing.B) {
	const together = 64
	server, err := sharedRedis()
	if err != nil {
		b.Fatal(err)
	}
	l := limiter.NewRedis(redisConfig(server))
	defer l.Close()
	mustBench(b, l, "client", benchQuota)
	b.SetParallelism(max(together/runtime.GOMAXPROCS(0), 1))
	before := scriptRate(b, server, together)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mustBench(b, l, "client", benchQuota)
		}
	})
	b.StopTimer()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "decisions/s")
	// Measured on both sides of it, because what else the machine does changes.
	b.ReportMetric(rate/((before+scriptRate(b, server, together))/2), "of-redis-benchmark")
}

// BenchmarkDelayedCharge charges keys that are known, while they are settled every second.
// Compare it with BenchmarkLocalCharge and BenchmarkRedisCharge.
func BenchmarkDelayedCharge(b *testing.B) {
	const keys = 1000
	server, err := sharedRedis()
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = "/apisix/routes/orders:0123456789abcdef:10.20.30." + strconv.Itoa(i)
	}
	store := limiter.NewRedis(redisConfig(server))
	defer store.Close()
	d := limiter.NewDelayed(limiter.DelayedConfig{Store: store, Interval: time.Second})
	defer d.Close()
	q := limiter.Quota{Limit: limiter.MaxCount, Window: time.Hour}
	for _, name := range names {
		mustBench(b, d, name, q)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			mustBench(b, d, names[i%keys], q)
		}
	})
}

// scriptRate is what redis-benchmark gets for the script of a fixed window.
func scriptRate(b *testing.B, server *servers.Redis, connections int) float64 {
	const requests = "50000"
	out, err := exec.Command("redis-benchmark", "-h", server.Host, "-p", strconv.Itoa(server.Port),
		"-c", strconv.Itoa(connections), "-n", requests, "--csv",
		"EVALSHA", limiter.FixedScriptHash(), "1", "graphql-limit-count:fixed:client", "1", "3600000", "-1").Output()
	if err != nil {
		b.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 {
		b.Fatalf("redis-benchmark says %q: %v", out, err)
	}
	rate, err := strconv.ParseFloat(rows[1][1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}
