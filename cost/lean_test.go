package cost

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheParserIsNotGivenWhatNoCostDependsOn: what it is given instead.
func TestTheParserIsNotGivenWhatNoCostDependsOn(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"nothing to leave out", "query Q($a:A=1) { b(x: $a) { ...F ... on T { c } } }", "query Q($a:T=1){b(x:$a){... F ... on T{c}}}"},
		{"aliases", "{ a: b c d: e(x: 1) { f: g } }", "{ b c e(x:1){ g}}"},
		{"directives", "query Q @a { b @c(x: {y: [1]}) @d { e @f } ...G @h ... @i { j } }", "query Q {b  {e }... G  ... {j}}"},
		{"a directive before a word", "{ a @b(c: 1) d }", "{a d}"},
		{"types of variables", "query($a: [A!]! = 1, $b: B! = \"x\") { c }", `query($a:T=1$b:T=""){c}`},
		{"variables without a default", "query($a: A, $b: [B] = 2 @x(y: [1]), $c: C @z) { d }", "query($b:T=2){d}"},
		{"all variables, without a default", "query Q($a: A, $b: [[B!]!]! @x(y: [{z: 1}])) { c }", "query Q {c}"},
		{"variables of one operation", "query A($a: A) { a } query B($a: A = 1) { a }", "query A {a}query B($a:T=1){a}"},
		{"lists", "{ a(x: [1 [2 3] {y: [4]} $v] z: []) }", "{a(x: 4 z: 0 )}"},
		{"objects", "{ a(x: {y: {z: [1]}} w: {}) }", "{a(x:{}w:{})}"},
		{"defaults that are lists and objects", "query($a: A = [1 2] $b: B = {c: [1]}) { a }", "query($a:T= 2 $b:T={}){a}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := Normalize(c.document, Limits{})
			require.NoError(t, err)
			require.Equal(t, c.want, string(n.lean.apply(n.text)))
			_, err = n.Parse()
			require.NoError(t, err)
		})
	}
}
