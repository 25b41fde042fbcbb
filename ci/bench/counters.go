package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"graphql-limit-count/limiter"
)

const (
	// counterKeys is how many clients are counted.
	counterKeys = 10_000
	// counterWindow is longer than a measurement.
	counterWindow = time.Hour
	// plenty is a quota that no measurement exhausts and that every rival can hold.
	plenty = 1 << 40
)

// charger charges one to a key. It must not be refused.
type charger func(key string) error

// counters compares local counters with two libraries, from one goroutine and from two.
func (b *bench) counters(ctx context.Context) error {
	b.heading("Charging a local counter: "+strconv.Itoa(counterKeys)+" keys", comparisonColumns...)
	local := limiter.NewLocal(limiter.LocalConfig{})
	defer local.Close()
	ours := chargeLocal(local)
	throttledMap, err := chargeThrottled(0)
	if err != nil {
		return err
	}
	throttledBounded, err := chargeThrottled(limiter.DefaultMaxKeys)
	if err != nil {
		return err
	}
	goLimiter, closeGoLimiter, err := chargeGoLimiter()
	if err != nil {
		return err
	}
	defer closeGoLimiter()
	keys := counterNames(counterKeys)
	for _, goroutines := range []int{1, 2} {
		suffix := ""
		if goroutines > 1 {
			suffix = "_" + strconv.Itoa(goroutines)
		}
		for _, rival := range []struct {
			name  string
			peers charger
		}{
			{"limiter_vs_throttled", throttledMap},
			{"limiter_vs_throttled_bounded", throttledBounded},
			{"limiter_vs_golimiter", goLimiter},
		} {
			c, err := compare(ctx, b.schedule, together(goroutines, keys, ours), together(goroutines, keys, rival.peers))
			if err != nil {
				return fmt.Errorf("%s: %w", rival.name, err)
			}
			b.comparison(rival.name+suffix, c)
		}
	}
	return nil
}

// counterNames are so many keys, as the plugin makes them.
func counterNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "service:shop:0123456789abcdef:10." + strconv.Itoa(i>>16) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255)
	}
	return names
}

// together is a side that charges the keys in turn, from so many goroutines at once, which
// begin at different keys. Every key was charged before.
func together(goroutines int, keys []string, charge charger) side {
	var known sync.Once
	return func(ctx context.Context, n int) (time.Duration, error) {
		var failed error
		known.Do(func() { failed = chargeEach(keys, len(keys), 0, charge) })
		if failed != nil {
			return 0, failed
		}
		if goroutines == 1 {
			return repeat(func() error { return chargeEach(keys, n, 0, charge) })(ctx, 1)
		}
		failures := make([]error, goroutines)
		start := time.Now()
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() { failures[i] = chargeEach(keys, n/goroutines, i*len(keys)/goroutines, charge) })
		}
		all.Wait()
		took := time.Since(start)
		for _, err := range failures {
			if err != nil {
				return 0, err
			}
		}
		return took, nil
	}
}

// chargeEach charges n times, to one key after another.
func chargeEach(keys []string, n, from int, charge charger) error {
	for at := from; n > 0; n-- {
		if at == len(keys) {
			at = 0
		}
		if err := charge(keys[at]); err != nil {
			return err
		}
		at++
	}
	return nil
}

func chargeLocal(l *limiter.Local) charger {
	ctx, quota := context.Background(), limiter.Quota{Limit: limiter.MaxCount, Window: counterWindow}
	return func(key string) error {
		result, err := l.Charge(ctx, key, 1, quota)
		if err == nil && !result.Allowed {
			err = errRefused
		}
		return err
	}
}

var errRefused = fmt.Errorf("a charge was refused")

// chargeThrottled charges throttled's memstore, which drops the least recently used of so
// many keys; 0 is any number of keys, in a plain map.
func chargeThrottled(maxKeys int) (charger, error) {
	store, err := memstore.NewCtx(maxKeys)
	if err != nil {
		return nil, fmt.Errorf("making throttled's store: %w", err)
	}
	// A nanosecond for each unit: a bucket that measurements leave nearly empty.
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(counterWindow), counterWindow), MaxBurst: math.MaxInt32}
	rate, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, fmt.Errorf("making throttled's limiter: %w", err)
	}
	ctx := context.Background()
	return func(key string) error {
		limited, _, err := rate.RateLimitCtx(ctx, key, 1)
		if err == nil && limited {
			err = errRefused
		}
		return err
	}, nil
}

// chargeGoLimiter charges go-limiter's memorystore, to be closed.
func chargeGoLimiter() (charge charger, closeStore func(), err error) {
	var store golimiter.Store
	store, err = memorystore.New(&memorystore.Config{Tokens: plenty, Interval: counterWindow})
	if err != nil {
		return nil, nil, fmt.Errorf("making go-limiter's store: %w", err)
	}
	ctx := context.Background()
	charge = func(key string) error {
		_, _, _, ok, err := store.Take(ctx, key)
		if err == nil && !ok {
			err = errRefused
		}
		return err
	}
	return charge, func() { _ = store.Close(ctx) }, nil // it has nothing to fail on
}
