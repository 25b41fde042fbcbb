package plugins

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const (
	// floodQueries is a day's worth of documents that are never asked for again, at
	// more than a hundred a second; a usual run takes floodShort of them, and a cache
	// that they fill as well.
	floodQueries    = 10_000_000
	floodShort      = 10_000
	floodShortBytes = 4 << 20
	// maxFloodRSS is what the process may take meanwhile, in bytes.
	maxFloodRSS = 256 << 20
	// busyDocuments are asked for over and over during the flood, one to busyEvery
	// unique ones.
	busyDocuments = 50
	busyEvery     = 5
)

// TestADayOfUniqueQueriesFitsAndKeepsTheBusyOnes: a flood of documents that are asked
// for once neither drives out the ones that are asked for often nor makes the process
// grow. GRAPHQL_LIMIT_COUNT_LONG=1 makes it a day's worth.
func TestADayOfUniqueQueriesFitsAndKeepsTheBusyOnes(t *testing.T) {
	queries, size := floodShort, int64(floodShortBytes)
	if os.Getenv("GRAPHQL_LIMIT_COUNT_LONG") != "" {
		queries, size = floodQueries, DefaultPlanCacheBytes
	}
	p, o := newPlans(size, 0), planOptions(t, 1)
	busy := make([]*cost.Plan, busyDocuments)
	ask := func(query string) *cost.Plan {
		if plan := p.known([]byte(query), nil, &o); plan != nil {
			return plan
		}
		plan, err := p.plan(query, o)
		require.NoError(t, err)
		return plan
	}
	name := func(i int) string { return floodDocument("busy", i) }
	for range 5 {
		for i := range busy {
			busy[i] = ask(name(i))
		}
	}
	asked, kept, largest := 0, 0, 0
	for i := range queries {
		ask(floodDocument("unique", i))
		if i%busyEvery == 0 {
			b := i / busyEvery % busyDocuments
			plan := ask(name(b))
			asked++
			if plan == busy[b] {
				kept++
			}
			busy[b] = plan
		}
		if i%(queries/50) == 0 {
			largest = max(largest, residentBytes(t))
		}
	}
	p.cache.CleanUp()
	t.Logf("%d unique documents: %d of %d requests with a busy one found its plan; %d plans of %d bytes; at most %d MB resident",
		queries, kept, asked, p.cache.EstimatedSize(), p.cache.WeightedSize(), largest>>20)
	require.LessOrEqual(t, p.cache.WeightedSize(), uint64(size))
	require.GreaterOrEqual(t, kept*100, asked*99)
	if !underRace {
		require.Less(t, largest, maxFloodRSS)
	}
}

// floodDocument is a document of some 300 bytes, as generated clients send them.
func floodDocument(kind string, i int) string {
	return fmt.Sprintf(`query Listing%s%d($first: Int = 20) {
  products(first: $first) { id name price }
  shelf: products(first: %d) { id ...details }
  other%d: products(first: 3) { id related { id name } }
}
fragment details on Product { id name description price { amount currency } }`, kind, i, i%100, i)
}

// TestPlansWeighWhatTheyTake: what the cache counts is no less than what its entries
// take, and not far more.
func TestPlansWeighWhatTheyTake(t *testing.T) {
	const documents = 5_000
	p, o := newPlans(1<<30, 1<<22), planOptions(t, 1)
	before := liveBytes()
	for i := range documents {
		_, err := p.plan(floodDocument("weighed", i), o)
		require.NoError(t, err)
	}
	p.cache.CleanUp()
	takes, counted := float64(liveBytes()-before), float64(p.cache.WeightedSize())
	t.Logf("%d entries take %.0f bytes each and are counted as %.0f", 2*documents, takes/documents/2, counted/documents/2)
	require.Less(t, takes, counted*1.1)
	require.Greater(t, takes, counted/3)
	runtime.KeepAlive(p)
}

func liveBytes() int64 {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what the first found to be cleaned up
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// residentBytes is what the process takes of the machine's memory.
func residentBytes(tb testing.TB) int {
	tb.Helper()
	statm, err := os.ReadFile("/proc/self/statm") // pages: size, resident, ...
	require.NoError(tb, err)
	pages, err := strconv.Atoi(string(bytes.Fields(statm)[1]))
	require.NoError(tb, err)
	return pages * os.Getpagesize()
}
