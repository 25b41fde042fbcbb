package plugins

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"
	"weak"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"

	"graphql-limit-count/cost"
)

// What bounds the memory and the number of compiled plans where Options sets nothing. Beside
// as much again for the garbage collector, it leaves a runner under 256 MB.
const (
	DefaultPlanCacheBytes   = 48 << 20
	DefaultPlanCacheEntries = 100_000
)

// planEntryBytes is what the cache itself needs for an entry, about.
const planEntryBytes = 256

// planned is a plan and all that it depends on. The cache finds it by a hash of that,
// but what is found counts only if all of it is the same, documents byte by byte: two
// that share a hash must not share a cost.
type planned struct {
	plan *cost.Plan
	// text is the document: as a client sent it or, if normalized, in the spelling that
	// documents of one cost share.
	text      string
	operation string
	strategy  cost.Strategy
	// model and schema are what they were when the plan was made: another one is
	// another pointer. They do not keep what was replaced in memory.
	model  weak.Pointer[cost.Model]
	schema weak.Pointer[cost.Schema]
	// resolve is the configuration's resolve_variables.
	resolve, normalized bool
}

func newPlanned(plan *cost.Plan, text string, o *cost.Options, normalized bool) *planned {
	return &planned{
		plan: plan, text: text, operation: o.OperationName, strategy: o.Strategy,
		model: weak.Make(o.Model), schema: weak.Make(o.Schema),
		resolve: o.Variables, normalized: normalized,
	}
}

// bytes is about what the cache needs for the entry.
func (e *planned) bytes() int {
	return planEntryBytes + len(e.text) + len(e.operation) + e.plan.Size()
}

// isFor reports whether the entry is for the document and the operation under the
// options; their OperationName is not looked at.
func isFor[T string | []byte](e *planned, text, operation T, o *cost.Options, normalized bool) bool {
	return e.normalized == normalized && e.resolve == o.Variables && e.strategy == o.Strategy &&
		e.text == string(text) && e.operation == string(operation) &&
		still(e.model, o.Model) && still(e.schema, o.Schema)
}

// still reports whether a weak pointer was made of p, which may be nil.
func still[T any](made weak.Pointer[T], p *T) bool {
	if p == nil {
		return made == weak.Pointer[T]{}
	}
	return made.Value() == p
}

// plans keeps compiled plans: under the text that a client sent, which costs a hit no
// more than hashing and comparing it, and under the normalised document, which is the
// same for texts that differ in layout or in strings. What is asked for once does not
// drive out what is asked for often.
type plans struct {
	seed     maphash.Seed
	cache    *otter.Cache[uint64, *planned]
	compiled atomic.Uint64
}

// newPlans returns an empty cache of at most so many bytes and entries, each 0 or less for
// the default.
func newPlans(bytes int64, entries int) *plans {
	if bytes <= 0 {
		bytes = DefaultPlanCacheBytes
	}
	if entries <= 0 {
		entries = DefaultPlanCacheEntries
	}
	// The cache has one bound. Where all entries weigh their part of it at least, there are
	// no more than so many.
	least := (bytes + int64(entries) - 1) / int64(entries)
	return &plans{
		seed: maphash.MakeSeed(),
		cache: otter.Must(&otter.Options[uint64, *planned]{
			MaximumWeight: uint64(bytes),
			Weigher:       func(_ uint64, e *planned) uint32 { return uint32(min(max(int64(e.bytes()), least), math.MaxUint32)) },
		}),
	}
}

// collectors are the metrics of the cache. Where most requests compile, clients put their
// values into the texts of queries, or the cache is too small.
func (p *plans) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "graphql_limit_count_plans_compiled_total", Help: "Documents compiled because no plan for them was in memory.",
		}, func() float64 { return float64(p.compiled.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "graphql_limit_count_plan_cache_entries", Help: "Plans, and texts that have one, in memory.",
		}, func() float64 { return float64(p.cache.EstimatedSize()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "graphql_limit_count_plan_cache_bytes", Help: "What they take of --plan-cache-bytes.",
		}, func() float64 { return float64(p.cache.WeightedSize()) }),
	}
}

// key is the hash of all that a plan depends on; text and operation are hashes.
func (p *plans) key(text, operation uint64, o *cost.Options, normalized bool) uint64 {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: spreads small numbers
	flags := uint64(len(o.Strategy))  // differs from strategy to strategy
	for _, flag := range [...]bool{o.Variables, normalized} {
		flags <<= 1
		if flag {
			flags |= 1
		}
	}
	key := text ^ bits.RotateLeft64(operation, 1) ^ flags*golden
	if o.Model != nil {
		key ^= bits.RotateLeft64(maphash.Comparable(p.seed, o.Model), 2)
	}
	if o.Schema != nil {
		key ^= bits.RotateLeft64(maphash.Comparable(p.seed, o.Schema), 3)
	}
	return key
}

// known returns the plan of a document if it is in memory under the text that the
// client sent, else nil. It copies nothing. The operation replaces the options' name.
func (p *plans) known(query, operation []byte, o *cost.Options) *cost.Plan {
	key := p.key(maphash.Bytes(p.seed, query), maphash.Bytes(p.seed, operation), o, false)
	if e, ok := p.cache.GetIfPresent(key); ok && isFor(e, query, operation, o, false) {
		return e.plan
	}
	return nil
}

// plan returns the plan of a document, from memory where it is there. Documents that
// cannot be costed are not remembered. Errors are those of cost.Parse and
// Document.Compile.
func (p *plans) plan(query string, o cost.Options) (*cost.Plan, error) {
	operation := maphash.String(p.seed, o.OperationName)
	sent := p.key(maphash.String(p.seed, query), operation, &o, false)
	if e, ok := p.cache.GetIfPresent(sent); ok && isFor(e, query, o.OperationName, &o, false) {
		return e.plan, nil
	}
	n, err := cost.Normalize(query, cost.Limits{})
	if err != nil {
		return nil, err
	}
	if n.Overlong() {
		return p.compile(n, o)
	}
	// One of those who miss at the same time compiles for all.
	key := p.key(maphash.String(p.seed, n.Text()), operation, &o, true)
	e, err := p.cache.Get(context.Background(), key, otter.LoaderFunc[uint64, *planned](
		func(context.Context, uint64) (*planned, error) {
			plan, err := p.compile(n, o)
			if err != nil {
				return nil, err
			}
			return newPlanned(plan, n.Text(), &o, true), nil
		}))
	if err != nil {
		return nil, err
	}
	if !isFor(e, n.Text(), o.OperationName, &o, true) {
		return p.compile(n, o) // another document has the same hash
	}
	p.cache.Set(sent, newPlanned(e.plan, query, &o, false))
	return e.plan, nil
}

func (p *plans) compile(n cost.Normalized, o cost.Options) (*cost.Plan, error) {
	document, err := n.Parse()
	if err != nil {
		return nil, err
	}
	plan, err := document.Compile(o)
	if err == nil {
		p.compiled.Add(1)
	}
	return plan, err
}
