package plugins

import (
	"context"
	"weak"

	"github.com/maypok86/otter/v2"

	"graphql-limit-count/cost"
)

// DefaultPlanCacheBytes bounds the memory of compiled plans where Options sets none.
const DefaultPlanCacheBytes = 64 << 20

// planEntryBytes is what the cache itself needs for an entry, about.
const planEntryBytes = 256

// planKey is all that a plan depends on. Documents are compared byte by byte: two
// that share a hash must not share a cost.
type planKey struct {
	query     string
	operation string
	strategy  cost.Strategy
	// model and schema are what they were when the plan was made: another one is
	// another pointer. They do not keep what was replaced in memory.
	model  weak.Pointer[cost.Model]
	schema weak.Pointer[cost.Schema]
	// resolve is the configuration's resolve_variables.
	resolve bool
	// normalized: query is not a client's text but its normalised form.
	normalized bool
}

// plans keeps compiled plans: under the text that a client sent, which costs a hit no
// more than hashing it, and under the normalised document, which is the same for
// texts that differ in layout or in strings. What is asked for once does not drive
// out what is asked for often.
type plans struct {
	cache *otter.Cache[planKey, *cost.Plan]
}

// newPlans returns an empty cache of so many bytes.
func newPlans(bytes int64) *plans {
	if bytes <= 0 {
		bytes = DefaultPlanCacheBytes
	}
	return &plans{cache: otter.Must(&otter.Options[planKey, *cost.Plan]{
		MaximumWeight: uint64(bytes),
		Weigher: func(key planKey, plan *cost.Plan) uint32 {
			return uint32(planEntryBytes + len(key.query) + len(key.operation) + plan.Size())
		},
	})}
}

// plan returns the plan of a document, from memory where it is there. Documents that
// cannot be costed are not remembered. Errors are those of cost.Parse and
// Document.Compile.
func (p *plans) plan(query string, o cost.Options) (*cost.Plan, error) {
	key := planKey{
		query: query, operation: o.OperationName, strategy: o.Strategy,
		model: weak.Make(o.Model), schema: weak.Make(o.Schema), resolve: o.Variables,
	}
	if plan, ok := p.cache.GetIfPresent(key); ok {
		return plan, nil
	}
	n, err := cost.Normalize(query, cost.Limits{})
	if err != nil {
		return nil, err
	}
	if n.Overlong() {
		return compile(n, o)
	}
	text := key
	text.query, text.normalized = n.Text(), true
	// One of those who miss at the same time compiles for all.
	plan, err := p.cache.Get(context.Background(), text, otter.LoaderFunc[planKey, *cost.Plan](
		func(context.Context, planKey) (*cost.Plan, error) { return compile(n, o) }))
	if err != nil {
		return nil, err
	}
	p.cache.Set(key, plan)
	return plan, nil
}

func compile(n cost.Normalized, o cost.Options) (*cost.Plan, error) {
	document, err := n.Parse()
	if err != nil {
		return nil, err
	}
	return document.Compile(o)
}
