package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"graphql-limit-count/cost"
	"graphql-limit-count/limiter"
)

// growthPart is how much shorter than a comparison the measurement of one point is.
const growthPart = 8

// point is a time at a size.
type point struct {
	size int
	took spread // nanoseconds
}

// exponent fits time = c * size^e by least squares over the logarithms, and returns e.
func exponent(points []point) float64 {
	var sumX, sumY, sumXX, sumXY float64
	for _, p := range points {
		x, y := math.Log(float64(p.size)), math.Log(p.took.median)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	n := float64(len(points))
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}

// largerHalf leaves out the smaller sizes, where what does not grow takes most of the
// time and hides what does.
func largerHalf(points []point) []point { return points[(len(points)-1)/2:] }

// curve is one growth: the sides that measure it at each size.
type curve struct {
	name, what string
	sizes      []int
	// at makes a side ready for a size, and says how to let go of it.
	at func(size int) (s side, release func(), err error)
}

func noRelease() {}

// growth measures how time grows with what clients and operators choose.
func (b *bench) growth(ctx context.Context) error {
	b.growthHeading("Growth: time against size")
	for _, c := range []curve{
		{"document_bytes", "a new document of so many bytes", []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}, documentOfSize},
		{"fragments", "a new document of so many fragments in a row", []int{10, 100, 1000, 10_000}, documentOfFragments},
		{"decorations", "a new document against so many decorations", []int{10, 100, 1000, 10_000}, documentAgainstDecorations},
		{"decorations_model", "making a cost model of so many decorations", []int{10, 100, 1000, 10_000}, modelOfDecorations},
		{"path_length", "a new document, 400 levels deep, against a path of so many names", []int{2, 4, 16, 64, 256, 400}, documentAgainstPath},
		{"live_paths", "the same against so many paths that are live at once", []int{2, 4, 16, 64, 256, 400}, documentAgainstPaths},
		{"live_keys", "a charge among so many counters", []int{1000, 10_000, 100_000, 1_000_000}, chargeAmong},
	} {
		if err := b.curve(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (b *bench) growthHeading(title string) {
	b.heading(title, "growth", "size: time", "exponent", "of the larger half", "target")
}

// curve measures one growth and prints a row of it.
func (b *bench) curve(ctx context.Context, c curve) error {
	s := schedule{budget: b.schedule.budget / growthPart, turn: b.schedule.turn}
	var points []point
	var cells []string
	for _, size := range c.sizes {
		of, release, err := c.at(size)
		if err != nil {
			return err
		}
		took, err := alone(ctx, s, of)
		release()
		if err != nil {
			return err
		}
		points = append(points, point{size, took})
		cells = append(cells, fmt.Sprintf("%d: %s", size, perOperation(took.median)))
	}
	all, larger := b.add(growth, c.name, exponent(points)), b.add(growth, c.name+"_larger_half", exponent(largerHalf(points)))
	steeper := all
	if larger.value > all.value {
		steeper = larger
	}
	b.row(c.name, strings.Join(cells, ", "), fmt.Sprintf("%.2f", all.value), fmt.Sprintf("%.2f", larger.value), steeper.verdict())
	return nil
}

// miss is the side that costs a new document.
func miss(query, schema string, decorations []cost.Decoration) (side, func(), error) {
	model, err := cost.NewModel(decorations)
	if err != nil {
		return nil, nil, fmt.Errorf("making a cost model: %w", err)
	}
	parsed, err := cost.ParseSDL([]byte(schema))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a schema: %w", err)
	}
	options := cost.Options{Strategy: cost.NodeQuantifier, Model: model, Schema: parsed, Variables: true, Defaults: true}
	return repeat(func() error { return costOnce(query, options, nil) }), noRelease, nil
}

// documentOfSize is a query of the shop with long names and texts: a document of the
// largest size must stay below the limit of tokens.
func documentOfSize(size int) (side, func(), error) {
	var query strings.Builder
	query.WriteString("query Wide($first: Int = 20) {\n")
	for i := 0; query.Len() < size-len("}\n"); i++ {
		fmt.Fprintf(&query, "  recommendations_for_customer_%06d: products(first: $first, text: \"%s\") { nodes { id } } # %s\n",
			i, strings.Repeat("shelf ", 20), strings.Repeat("-", 40))
	}
	query.WriteString("}\n")
	return miss(query.String(), shopSchema, shopDecorations())
}

// documentOfFragments spreads each fragment in the next one.
func documentOfFragments(count int) (side, func(), error) {
	query := fmt.Sprintf("{products{nodes{...f%d}}}fragment f0 on Product{id}", count-1)
	return miss(query+numbered("fragment f{i} on Product{id ...f{p}}", 1, count-1), shopSchema, shopDecorations())
}

// growthLevels is how deep the documents are that paths are matched against.
const growthLevels = 400

// documentAgainstDecorations is a document that walks chains, of which so many are decorated.
func documentAgainstDecorations(count int) (side, func(), error) {
	return miss(strings.Repeat("{a b", chainLength-1)+strings.Repeat(" a", 100)+strings.Repeat("}", chainLength-1), loopSchema(1), chains(count))
}

func modelOfDecorations(count int) (side, func(), error) {
	decorations := chains(count)
	return repeat(func() error {
		_, err := cost.NewModel(decorations)
		return err
	}), noRelease, nil
}

// deep is a document of so many levels.
var deep = strings.Repeat("{a", growthLevels) + strings.Repeat("}", growthLevels)

// chainSchema lets the chains of a's begin at the operation only.
const chainSchema = "type Query { a(x: Int = 3): T } type T { a(x: Int = 3): T }"

func documentAgainstPath(length int) (side, func(), error) {
	paths := pinned(length)
	return miss(deep, chainSchema, paths[len(paths)-1:])
}

// documentAgainstPaths decorates chains that begin anew at every level, up to so many.
func documentAgainstPaths(count int) (side, func(), error) {
	return miss(deep, loopSchema(1), pinned(count))
}

// chargeAmong charges counters in an order that no cache foresees.
func chargeAmong(count int) (side, func(), error) {
	local := limiter.NewLocal(limiter.LocalConfig{MaxKeys: count})
	names := counterNames(count)
	charge := chargeLocal(local)
	if err := chargeEach(names, count, 0, charge); err != nil {
		local.Close()
		return nil, nil, err
	}
	// Coprime to the counts, so that every counter has its turn, and far apart.
	const stride = 618_033
	at := 0
	return repeat(func() error {
		at = (at + stride) % count
		return charge(names[at])
	}), local.Close, nil
}

// growConnections measures requests over a unix socket against the number of connections.
// It needs a runner, and so is a part of the section on the wire.
func (b *bench) growConnections(ctx context.Context, to endpoint) error {
	b.growthHeading("Growth: the time between two answers against connections")
	return b.curve(ctx, curve{
		name: "connections", sizes: []int{1, 4, 16, 64, 256, 1024},
		at: func(size int) (side, func(), error) {
			l, err := to.connect(ctx, size)
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context, n int) (time.Duration, error) {
				calls := max(n, size) // fewer would leave connections idle
				took, err := l.run(ctx, calls)
				return took * time.Duration(n) / time.Duration(calls), err
			}, l.close, nil
		},
	})
}
