package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// targets are what the results are held against, by name: ratios must not be less, the
// numbers not more.
var targets = map[string]float64{
	"plan_hit_vs_gqlgen":          3,
	"miss_vs_graphqlgo_parse":     0.75,
	"hit_vs_npm_query_complexity": 20,
	"rpc_vs_stock_runner":         1.5,
	"rpc_vs_pingpong":             0.7,
	"limiter_vs_throttled":        1,
	"limiter_vs_throttled_2":      1,
	"limiter_vs_golimiter":        1,
	"limiter_vs_golimiter_2":      1,

	"filter_hit_ns":     3000,
	"filter_hit_allocs": 15,
	"hostile_max_ms":    60,
	"churn_rss_mb":      256,
}

// linear is the largest exponent that counts as linear growth: one and some noise.
const linear = 1.15

// kind says what a result is, as its machine-readable line begins.
type kind string

const (
	ratio  kind = "RATIO"  // peer's time over ours
	growth kind = "GROWTH" // exponent of time over size
	number kind = "NUMBER" // anything else
)

// result is one of the numbers that a run ends with.
type result struct {
	kind  kind
	name  string
	value float64
}

// verdict says whether the target is met, "" where there is none.
func (r result) verdict() string {
	target, has := targets[r.name]
	switch {
	case r.kind == growth:
		return verdict(r.value <= linear, fmt.Sprintf("<= %.2f", linear))
	case !has:
		return ""
	case r.kind == ratio:
		return verdict(r.value >= target, fmt.Sprintf(">= %v", target))
	default:
		return verdict(r.value <= target, fmt.Sprintf("<= %v", target))
	}
}

func verdict(met bool, target string) string {
	if met {
		return "met, " + target
	}
	return "MISSED, " + target
}

// report prints results as they come, and again for machines at the end.
type report struct {
	to      io.Writer
	table   *tabwriter.Writer
	results []result
}

func newReport(to io.Writer) *report { return &report{to: to} }

// heading begins a table.
func (r *report) heading(title string, columns ...string) {
	r.flush()
	fmt.Fprintf(r.to, "\n%s\n\n", title)
	const padding = 3
	r.table = tabwriter.NewWriter(r.to, 0, 0, padding, ' ', 0)
	r.row(columns...)
	underlined := make([]string, len(columns))
	for i, column := range columns {
		underlined[i] = strings.Repeat("-", len(column))
	}
	r.row(underlined...)
}

// row prints a row of the table.
func (r *report) row(cells ...string) { fmt.Fprintln(r.table, strings.Join(cells, "\t")) }

// note prints a line below the table.
func (r *report) note(format string, args ...any) {
	r.flush()
	fmt.Fprintf(r.to, format+"\n", args...)
}

func (r *report) flush() {
	if r.table != nil {
		_ = r.table.Flush() // standard output fails at the end as well
		r.table = nil
	}
}

// add keeps a result for the end.
func (r *report) add(k kind, name string, value float64) result {
	one := result{k, name, value}
	r.results = append(r.results, one)
	return one
}

// comparisonColumns head a table of comparisons.
var comparisonColumns = []string{"ratio", "ours", "peer", "times faster", "quartiles", "rounds", "target"}

// comparison prints a row of a table of comparisons and keeps its ratio.
func (r *report) comparison(name string, c comparison) {
	one := r.add(ratio, name, c.ratio.median)
	r.row(name, perOperation(c.ours.median), perOperation(c.peer.median), fmt.Sprintf("%.2f", c.ratio.median),
		fmt.Sprintf("%.2f..%.2f", c.ratio.low, c.ratio.high), fmt.Sprint(c.rounds), one.verdict())
}

// perOperation prints a time in the unit that suits it.
func perOperation(ns float64) string {
	switch d := time.Duration(ns); {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.0f ns", ns)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f us", ns/float64(time.Microsecond))
	default:
		return fmt.Sprintf("%.1f ms", ns/float64(time.Millisecond))
	}
}

// end prints the machine-readable lines: numbers, growth and, last, ratios.
func (r *report) end() {
	r.flush()
	fmt.Fprintln(r.to)
	for _, k := range []kind{number, growth, ratio} {
		for _, one := range r.results {
			if one.kind == k {
				fmt.Fprintf(r.to, "%s %s %s\n", one.kind, one.name, significant(one.value))
			}
		}
	}
}

// significant prints three digits, or all of a whole number.
func significant(x float64) string {
	switch {
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}
