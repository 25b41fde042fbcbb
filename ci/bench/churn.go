package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/ci/subprocess"
)

// churnChild sends queries that were never seen through the plan cache, in a process of its
// own whose memory is nobody else's: its argument is how many.
const churnChild = "churn"

const (
	// churnWorkers is how many requests are decided on at once.
	churnWorkers = 2
	// churnHot is how often a query comes that is always the same: one in so many.
	churnHot = 10
	// churnSample is the time between two looks at the memory.
	churnSample = 100 * time.Millisecond
	megabyte    = 1 << 20
)

// churnPlans measures the memory of the process while queries are all different.
func (b *bench) churnPlans(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	command := exec.CommandContext(ctx, self, churnChild, strconv.Itoa(b.churn))
	command.Stderr = os.Stderr
	subprocess.EndWithParent(command)
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("running the churn: %w", err)
	}
	var c churned
	if _, err := fmt.Sscan(string(out), &c.seconds, &c.meanMB, &c.maxMB, &c.hotNS, &c.missNS); err != nil {
		return fmt.Errorf("reading what the churn says, %q: %w", out, err)
	}
	b.heading(fmt.Sprintf("%d unique queries through the plan cache", b.churn), "what", "value", "target")
	rss := b.add(number, "churn_rss_mb", c.maxMB)
	b.row("resident memory, largest of all samples", fmt.Sprintf("%.0f MB", c.maxMB), rss.verdict())
	b.row("resident memory, mean of the second half", fmt.Sprintf("%.0f MB", c.meanMB), "")
	b.row("a unique query, median", perOperation(c.missNS), "")
	b.row("the one that keeps coming, median", perOperation(c.hotNS), "")
	b.row("duration", fmt.Sprintf("%.0f s, %.0f queries a second", c.seconds, float64(b.churn)/c.seconds), "")
	return nil
}

// churned is what the child found.
type churned struct{ seconds, meanMB, maxMB, hotNS, missNS float64 }

// churnAlone is the child.
func churnAlone(args []string) error {
	if len(args) != 1 {
		return errors.New("the churn takes a number")
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("reading the number of queries: %w", err)
	}
	f, err := newFilter(quantifierConf)
	if err != nil {
		return err
	}
	defer f.close()
	done, sampled := make(chan struct{}), make(chan []float64)
	go func() { sampled <- sampleMemory(done) }()
	start := time.Now()
	hot, missed, err := f.churn(count)
	took := time.Since(start)
	close(done)
	samples := <-sampled
	if err != nil {
		return err
	}
	settled := samples[len(samples)/2:]
	sum := 0.0
	for _, s := range settled {
		sum += s
	}
	fmt.Println(took.Seconds(), sum/float64(len(settled)), slices.Max(samples), newSpread(hot).median, newSpread(missed).median)
	return nil
}

// churn decides on so many queries that were never seen, and now and then on one that is
// always the same. It returns the times of the latter and of a part of the former, in
// nanoseconds.
func (f *filter) churn(count int) (hot, missed []float64, err error) {
	var next atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	usual := requestBody(listing(lists2KB), listingVariables)
	for range churnWorkers {
		all.Go(func() {
			var hotTook, missTook []float64
			var failed error
			for i := int(next.Add(1)); i <= count && failed == nil; i = int(next.Add(1)) {
				var took time.Duration
				took, failed = f.timed(uniqueBody(i))
				if i%churnHot != 0 || failed != nil {
					continue
				}
				missTook = append(missTook, float64(took))
				took, failed = f.timed(usual)
				hotTook = append(hotTook, float64(took))
			}
			mu.Lock()
			defer mu.Unlock()
			hot, missed, err = append(hot, hotTook...), append(missed, missTook...), errors.Join(err, failed)
		})
	}
	all.Wait()
	return hot, missed, err
}

// timed decides on a body and says how long that took.
func (f *filter) timed(body []byte) (time.Duration, error) {
	decide := f.operation(newRequest(body, mediaJSON))
	start := time.Now()
	err := decide()
	return time.Since(start), err
}

// uniqueBody is a query that differs from all others in a name: most are small, some of
// 2 KB, a few of 5 KB.
func uniqueBody(i int) []byte {
	const small, medium, large = 1, lists2KB, 20
	lists := small
	switch i % 20 {
	case 0:
		lists = large
	case 1, 2, 3, 4:
		lists = medium
	}
	name := "Unique" + strconv.Itoa(i)
	return requestBody(strings.Replace(listing(lists), "query Listing", "query "+name, 1), listingVariables)
}

// sampleMemory looks at the process's resident memory until done; in megabytes.
func sampleMemory(done <-chan struct{}) (samples []float64) {
	tick := time.NewTicker(churnSample)
	defer tick.Stop()
	for {
		samples = append(samples, residentMB())
		select {
		case <-done:
			return append(samples, residentMB())
		case <-tick.C:
		}
	}
}

// residentMB is the resident memory of this process as Linux counts it, 0 elsewhere.
func residentMB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return float64(resident*os.Getpagesize()) / megabyte
}
