// Package cost computes what a GraphQL document costs.
//
// A request's document is parsed once (Parse) and compiled for a strategy, a
// cost model and a schema (Document.Compile) into a Plan, which is evaluated
// with the request's variables (Plan.Cost). Everything is pure: no I/O, no
// clock, no state shared between calls, and immutable results that may be used
// by any number of goroutines.
//
// Three strategies are offered, as in APISIX's graphql-limit-count: depth
// (nesting of selection sets), complexity (weighted number of nodes) and
// node_quantifier (how many records the paginating arguments ask for).
//
// Costing is linear in the size of the document times the number of live
// decoration paths, whatever the document expands to: a fragment is costed once
// for each context it is spread in.
package cost

import (
	"errors"
	"fmt"
	"math"
)

// Strategy names the way a document is costed.
type Strategy string

// The strategies, spelled as in the plugin's cost_strategy.
const (
	// Depth is the deepest nesting of selection sets; { foo { bar } } is 2.
	Depth Strategy = "depth"
	// Complexity adds up every node: (sum of children) * mul + add.
	Complexity Strategy = "complexity"
	// NodeQuantifier charges only fields that carry a paginating argument, as
	// often as their parents resolve them.
	NodeQuantifier Strategy = "node_quantifier"
)

// Valid reports whether s is one of the three strategies.
func (s Strategy) Valid() bool {
	return s == Depth || s == Complexity || s == NodeQuantifier
}

// MaxCost is the largest cost there is, 2^53-1: the largest integer up to which
// float64 is exact. Every step of the arithmetic saturates there.
const MaxCost = 1<<53 - 1

// rawOffset is added to raw costs before scaling, for the strategies that count
// nodes; it is what makes APISIX charge 52 for a raw 51.
const rawOffset = 0.01

// DefaultMaxSelections is the number of selections (fields, fragment spreads and
// inline fragments) that the costed operations may expand to.
const DefaultMaxSelections = 100_000

// The reasons for which a document is not costed. Their texts are what a client
// is shown after "Invalid graphql request: ".
var (
	// ErrSyntax: the document is no GraphQL, or exceeds the lexical Limits.
	ErrSyntax = errors.New("failed to parse graphql query")
	// ErrNoOperation: the document holds no operation: it is empty, or has only
	// comments, fragments or type definitions.
	ErrNoOperation = errors.New("empty graphql query")
	// ErrFragmentCycle: a fragment spreads itself, directly or through others
	// (GraphQL October 2021, section 5.5.2.2).
	ErrFragmentCycle = errors.New("fragment spreads must not form cycles")
	// ErrTooManySelections: the operations expand to more selections than
	// Options.MaxSelections.
	ErrTooManySelections = errors.New("the query expands too many selections")
)

// Options say how a document is costed.
type Options struct {
	// Strategy is the way of counting; the zero value is Depth.
	Strategy Strategy
	// Model holds the decorations; nil or empty: every weight is 1.
	Model *Model
	// Schema is what the model's paths are matched on; without one nothing matches.
	Schema *Schema
	// OperationName selects the operation. Empty, or naming none of the
	// document's, every operation is costed and the dearest counts.
	OperationName string
	// Variables lets arguments take their value from the request's variables.
	Variables bool
	// Defaults lets arguments fall back to the defaults that the operation
	// declares for a variable, then to those that the schema declares for an argument.
	Defaults bool
	// MaxSelections bounds the expanded selections of all costed operations
	// together (not under Depth); 0 means DefaultMaxSelections.
	MaxSelections int
}

// maxSelections is the budget in force.
func (o Options) maxSelections() int64 {
	if o.MaxSelections <= 0 {
		return DefaultMaxSelections
	}
	return int64(o.MaxSelections)
}

// decorated reports whether the options can weight any field.
func (o Options) decorated() bool {
	return !o.Model.Empty() && o.Schema != nil
}

// Charged is what a client pays for a raw cost: max(ceil(raw*factor), 1) under
// Depth, max(ceil((raw+0.01)*factor), 1) otherwise, at most MaxCost. factor is
// the configuration's score_factor, > 0.
func Charged(s Strategy, raw, factor float64) int64 {
	if s != Depth && s != "" {
		raw += rawOffset
	}
	charged := math.Ceil(raw * factor)
	switch {
	case charged >= MaxCost:
		return MaxCost
	case charged >= 1:
		return int64(charged)
	default: // also NaN, which no finite raw and factor give
		return 1
	}
}

// saturate bounds a sum or product of non-negative numbers to MaxCost.
func saturate(x float64) float64 {
	if x < MaxCost {
		return x
	}
	return MaxCost
}

// syntaxError makes an ErrSyntax that says where and why.
func syntaxError(offset int, reason string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrSyntax, reason, offset)
}
