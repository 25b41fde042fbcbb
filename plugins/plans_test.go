package plugins

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const planSchema = `type Query { products(first: Int): [Product] } type Product { id: ID }`

func planModel(tb testing.TB, add float64) *cost.Model {
	tb.Helper()
	m, err := cost.NewModel([]cost.Decoration{{FieldPath: "Query.products", AddValue: &add, MulArguments: []string{"first"}}})
	require.NoError(tb, err)
	return m
}

func planOptions(tb testing.TB, add float64) cost.Options {
	tb.Helper()
	s, err := cost.ParseSDL([]byte(planSchema))
	require.NoError(tb, err)
	return cost.Options{Strategy: cost.Complexity, Model: planModel(tb, add), Schema: s, Variables: true, Defaults: true}
}

func TestAPlanIsMadeOnce(t *testing.T) {
	p, o := newPlans(0, 0), planOptions(t, 1)
	first, err := p.plan(`{ products(first: 3) { id } }`, o)
	require.NoError(t, err)
	require.Equal(t, 5.0, first.Cost(nil))
	again, err := p.plan(`{ products(first: 3) { id } }`, o)
	require.NoError(t, err)
	require.Same(t, first, again)
	layout, err := p.plan("{products(first:3){\n  id # the identity\n}}", o)
	require.NoError(t, err)
	require.Same(t, first, layout, "documents that differ in layout share a plan")
}

func TestAPlanBelongsToAllThatItDependsOn(t *testing.T) {
	p, o := newPlans(0, 0), planOptions(t, 1)
	const query = `query A($n: Int = 3) { products(first: $n) { id } } query B { products(first: 9) { id } }`
	raw := func(change func(*cost.Options)) float64 {
		t.Helper()
		with := o
		change(&with)
		plan, err := p.plan(query, with)
		require.NoError(t, err)
		return plan.Cost(nil)
	}
	require.Equal(t, 11.0, raw(func(*cost.Options) {}), "the dearest: 1*9+1+1")
	require.Equal(t, 5.0, raw(func(o *cost.Options) { o.OperationName = "A" }))
	require.Equal(t, 11.0, raw(func(o *cost.Options) { o.OperationName = "B" }))
	require.Equal(t, 3.0, raw(func(o *cost.Options) { o.OperationName, o.Variables, o.Defaults = "A", false, false }))
	require.Equal(t, 17.0, raw(func(o *cost.Options) { o.Model = planModel(t, 7) }), "a changed model")
	require.Equal(t, 3.0, raw(func(o *cost.Options) { o.Model, o.Schema = nil, nil }))
	require.Equal(t, 2.0, raw(func(o *cost.Options) { o.Strategy = cost.Depth }))
	require.Equal(t, 1.0, raw(func(o *cost.Options) { o.Strategy = cost.NodeQuantifier }))
}

func TestWhatCannotBeCostedIsNotRemembered(t *testing.T) {
	p := newPlans(0, 0)
	for range 2 {
		_, err := p.plan("{a", cost.Options{})
		require.ErrorIs(t, err, cost.ErrSyntax)
		_, err = p.plan("{...A} fragment A on T { ...A }", cost.Options{})
		require.ErrorIs(t, err, cost.ErrFragmentCycle)
		_, err = p.plan("{"+strings.Repeat("a ", cost.DefaultMaxTokens)+"}", cost.Options{Strategy: cost.Complexity})
		require.ErrorIs(t, err, cost.ErrSyntax)
	}
	require.Zero(t, p.cache.EstimatedSize())
}

func TestAFloodOfUniqueQueriesStaysInBoundsAndKeepsTheBusyOnes(t *testing.T) {
	const bytes = 1 << 20
	p, o := newPlans(bytes, 0), planOptions(t, 1)
	busy := func(i int) string { return fmt.Sprintf("{ products(first: %d) { id } }", i) }
	ask := func(query string) *cost.Plan {
		plan, err := p.plan(query, o)
		require.NoError(t, err)
		return plan
	}
	plans := map[int]*cost.Plan{}
	for range 20 {
		for i := range 50 {
			plans[i] = ask(busy(i))
		}
	}
	kept, asked := 0, 0
	for i := range 30_000 {
		ask(fmt.Sprintf("{ a%d: products { id } }", i))
		if i%20 > 0 {
			continue
		}
		b := i / 20 % 50
		plan := ask(busy(b))
		if plan == plans[b] {
			kept++
		}
		asked++
		plans[b] = plan
	}
	p.cache.CleanUp()
	require.LessOrEqual(t, p.cache.WeightedSize(), uint64(bytes))
	require.Greater(t, kept, asked*9/10, "of %d requests with a busy query among 30000 unique ones", asked)
}

func TestPlansAreBoundedByTheirNumberToo(t *testing.T) {
	const bytes, entries = 64 << 20, 100
	p, o := newPlans(bytes, entries), planOptions(t, 1)
	for i := range 10 * entries {
		_, err := p.plan(fmt.Sprintf("{ a%d: products { id } }", i), o)
		require.NoError(t, err)
	}
	p.cache.CleanUp()
	require.LessOrEqual(t, p.cache.EstimatedSize(), entries)
	require.Greater(t, p.cache.EstimatedSize(), entries/2)
	require.LessOrEqual(t, p.cache.WeightedSize(), uint64(bytes))
}

func TestTheMetricsOfThePlans(t *testing.T) {
	p, o := newPlans(10_000, 10), planOptions(t, 1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.collectors()...)
	for _, query := range []string{"{ products { id } }", "{products{id}}", "{ products { id } }", "{ other: products { id } }"} {
		_, err := p.plan(query, o)
		require.NoError(t, err)
	}
	p.cache.CleanUp()
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range families {
		m := family.GetMetric()[0]
		got[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	require.Equal(t, map[string]float64{
		"graphql_limit_count_plans_compiled_total": 2,
		"graphql_limit_count_plan_cache_entries":   5,
		"graphql_limit_count_plan_cache_bytes":     5 * 1000,
	}, got, "two plans, and the three texts that have one")
}

func TestThoseWhoMissTogetherShareOnePlan(t *testing.T) {
	p, o := newPlans(0, 0), planOptions(t, 1)
	query := "{ " + strings.Repeat("products(first: 3) { id } ", 2000) + "}"
	got := make([]*cost.Plan, 20)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			plan, err := p.plan(query, o)
			if err == nil {
				got[i] = plan
			}
		})
	}
	wg.Wait()
	for _, plan := range got {
		require.NotNil(t, plan)
		require.Same(t, got[0], plan)
	}
}
