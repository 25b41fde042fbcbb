package cost_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

const (
	// largestBody is the default size limit of a request.
	largestBody = 1 << 20
	// hostileCeiling bounds a costing on a loaded machine under the race
	// detector; 60 ms is what it should take, and up to 40 ms is what it does.
	hostileCeiling = 5 * time.Second
)

// timed runs a costing with a ceiling on its duration, and logs that.
func timed(t *testing.T, r request) (float64, error) {
	t.Helper()
	require.LessOrEqual(t, len(r.document), largestBody)
	model, err := cost.NewModel(r.decorations)
	require.NoError(t, err)
	o := r.options
	o.Model = model
	if r.schema != "" {
		o.Schema, err = cost.ParseSDL([]byte(r.schema))
		require.NoError(t, err)
	}
	start := time.Now()
	raw := 0.0
	d, err := cost.Parse(r.document, cost.Limits{})
	if err == nil {
		var plan *cost.Plan
		if plan, err = d.Compile(o); err == nil {
			raw = plan.Cost(nil)
		}
	}
	took := time.Since(start)
	t.Logf("%d KB, %v: %v, %v", len(r.document)>>10, took, raw, err)
	require.Less(t, took, hostileCeiling)
	return raw, err
}

// filled repeats a text up to the largest body.
func filled(prefix, unit, suffix string) string {
	return prefix + strings.Repeat(unit, (largestBody-len(prefix)-len(suffix))/len(unit)) + suffix
}

// numbered repeats a text, with {i} as the number of the repetition and {p} as
// the one before.
func numbered(unit string, from, count int) string {
	return generator{NumberedUnit: unit, From: from, Count: count}.text()
}

func TestHostileTextIsRefusedInTime(t *testing.T) {
	for name, document := range map[string]string{
		"open selection sets":                      filled("", "{a", ""),
		"open lists":                               filled("", "[", ""),
		"open lists in an argument":                filled("{a(x:", "[", ""),
		"open lists in a type":                     filled("query($a:", "[", ""),
		"open objects in an argument":              filled("{a(x:", "{a:", ""),
		"open objects":                             filled("", "{a:", ""),
		"open inline fragments":                    filled("{", "...{", ""),
		"open lists in a type definition":          filled("type A{a(x:B=", "[", ""),
		"open objects in a type definition":        filled("type A{a(x:B=", "{a:", ""),
		"open list types in a type definition":     filled("type A{a:", "[", ""),
		"closing brackets":                         filled("", "}", ""),
		"one long line with an error at its end":   filled("{", "a ", "!"),
		"spaces before an error":                   filled("", " ", "!"),
		"newlines before an error":                 filled("{a", "\n", "!"),
		"lines before an error":                    filled("{", "a\n", "!"),
		"comments before an error":                 filled("{", "#\n", "!"),
		"commas before an error":                   filled("{", ",", "!"),
		"byte order marks before an error":         filled("{", "\uFEFF", "!"),
		"long names before an error":               filled("{", strings.Repeat("a", 1000)+" ", "!"),
		"an open string":                           filled(`{a(x:"`, "x", ""),
		"an open string of escapes":                filled(`{a(x:"`, `\"`, ""),
		"an open block string":                     filled(`{a(x:"""`, `"" `, ""),
		"an open block string of escapes":          filled(`{a(x:"""`, `\"""`, ""),
		"one name":                                 filled("{", "a", "}"),
		"one number":                               filled("{a(x:", "1", ")}"),
		"type definitions before an error":         filled("{a}", "scalar A ", "!"),
		"type definitions of many names":           filled("{a}type A{", "a:A ", "!}"),
		"a null in a type definition after fields": "{" + strings.Repeat("a ", 80_000) + "}type A{a(b:C=null):",
		"a document of commas":                     filled("", ",", ""),
		"invalid UTF-8 at the end":                 filled("{a(x:\"", "x", "\xff\")}"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := timed(t, request{document: document})
			require.ErrorIs(t, err, cost.ErrSyntax)
		})
	}
	t.Run("a document of comments", func(t *testing.T) {
		_, err := timed(t, request{document: filled("", "#{}\n", "")})
		require.ErrorIs(t, err, cost.ErrNoOperation)
	})
	t.Run("a document of type definitions", func(t *testing.T) {
		_, err := timed(t, request{document: numbered("scalar A{i} ", 0, 40_000)})
		require.ErrorIs(t, err, cost.ErrNoOperation)
	})
}

func TestWideDocumentsAreCostedInTime(t *testing.T) {
	r := strings.Repeat
	for _, c := range []struct {
		name, document string
		depth          float64
		complexity     float64
	}{
		{"fields", "{" + r("a ", 99_998) + "}", 1, 99_999},
		{"fields with long names", filled("{", r("a", 1000)+" ", "}"), 1, 1048},
		{"selection sets", "{" + r("a{a}", 24_999) + "}", 2, 49_999},
		{"selection sets at the deepest level", r("{a", 490) + r(" a", 90_000) + r("}", 490), 490, 90_491},
		{"arguments", "{" + r("a(a:1)", 16_666) + "}", 1, 16_667},
		{"arguments of one field", "{a(" + r("a:1 ", 33_331) + ")}", 1, 2},
		{"directives", "{a" + r("@a", 49_998) + "}", 1, 2},
		{"a list", "{a(a:[" + r("1 ", 99_991) + "])}", 1, 2},
		{"a list of strings", "{a(a:[" + r(`"9007199254740993"`, 57_000) + "])}", 1, 2},
		{"a list of objects", "{a(a:[" + r("{}", 49_995) + "])}", 1, 2},
		{"an object", "{a(a:{" + r("a:1 ", 33_330) + "})}", 1, 2},
		{"inline fragments", "{" + r("...{a}", 24_999) + "}", 1, 25_000},
		{"spreads of nothing", "{a " + r("...F ", 49_998) + "}", 1, 2},
		{"variables", "query(" + r("$a:[A!]=1 ", 9_999) + "){a}", 1, 2},
		{"variables with directives", "query($a:A" + r("@d(a:1)", 14_200) + "){a}", 1, 2},
		{"operations", r("{a}", 33_333), 1, 2},
		{"named operations", numbered("query Q{i}{a}", 0, 19_999), 1, 2},
		{"fragments", "{a}" + numbered("fragment F{i} on T{a}", 0, 14_000), 1, 2},
		{"doubling that stays within the budget", "{...f14}fragment f0 on T{a}" + numbered("fragment f{i} on T{...f{p} ...f{p}}", 1, 14), 1, 1<<14 + 1},
		{"a chain of fragments", "{...f9999}fragment f0 on T{a}" + numbered("fragment f{i} on T{...f{p}}", 1, 9_999), 1, 2},
		{"a chain of fragments, in the other order", "{...f9999}" + numbered("fragment f{i} on T{...f{p}}", 1, 9_999) + "fragment f0 on T{a}", 1, 2},
		{"type definitions", "{a}type A{" + r("a:A ", 33_000) + "}", 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for s, want := range map[cost.Strategy]float64{cost.Depth: c.depth, cost.Complexity: c.complexity, cost.NodeQuantifier: 0} {
				raw, err := timed(t, request{document: c.document, options: cost.Options{Strategy: s}})
				require.NoError(t, err)
				require.Equal(t, want, raw, s)
			}
		})
	}
}

func TestExpansionIsNeverWalked(t *testing.T) {
	doubling := func(links int) string {
		return fmt.Sprintf("{...f%d}fragment f0 on T{a{b}}", links) + numbered("fragment f{i} on T{...f{p} ...f{p}}", 1, links)
	}
	for _, links := range []int{34, 5000} {
		raw, err := timed(t, request{document: doubling(links)})
		require.NoError(t, err)
		require.Equal(t, 2.0, raw)
		for _, s := range []cost.Strategy{cost.Complexity, cost.NodeQuantifier} {
			_, err = timed(t, request{document: doubling(links), options: cost.Options{Strategy: s}})
			require.ErrorIs(t, err, cost.ErrTooManySelections)
		}
	}
}

// loop is a schema in which every field of every type leads to the next type.
func loop(types int) string {
	return numbered("type T{i} { a(x: Int = 3, y: Int): T{i} b: Query } ", 0, types) +
		"type Query { a(x: Int = 3, y: Int): Query b(x: Int): Query " + numbered("t{i}: T{i} ", 0, types) + "}"
}

// pinned decorates every chain of a's from Query, 2 to so many names long.
func pinned(names int) (decorations []cost.Decoration) {
	for n := 1; n < names; n++ {
		decorations = append(decorations, cost.Decoration{FieldPath: "Query" + strings.Repeat(".a", n), MulArguments: []string{"x"}})
	}
	return decorations
}

// ghosts decorates an a below an undeclared field at the end of the chains that pinned decorates.
func ghosts(names int) (decorations []cost.Decoration) {
	for n := range names - 1 {
		decorations = append(decorations, cost.Decoration{FieldPath: "Query" + strings.Repeat(".a", n) + ".ghost.a", MulArguments: []string{"x"}})
	}
	return decorations
}

// chains decorates so many chains of a's and b's, 20 names each.
func chains(count int) (decorations []cost.Decoration) {
	for i := range count {
		path := "Query"
		for bit := range 19 {
			path += "." + string("ab"[i>>bit&1])
		}
		decorations = append(decorations, cost.Decoration{FieldPath: path, AddValue: number(2)})
	}
	return decorations
}

func TestDecoratedDocumentsAreCostedInTime(t *testing.T) {
	r := strings.Repeat
	fractions := []cost.Decoration{{FieldPath: "Query.a", MulArguments: []string{"x"}}, {FieldPath: "Query.b", AddValue: number(0.1)}}
	quantified := []cost.Decoration{{FieldPath: "Query.a", MulArguments: []string{"x", "y", "z", "u"}, AddArguments: []string{"y"}}}
	for _, c := range []struct {
		name, document string
		decorations    []cost.Decoration
	}{
		{"arguments", "{" + r("a(x:1)", 16_666) + "}", quantified},
		{"fractions behind a variable", "{a(x:$v)" + r(" b", 99_900) + "}", fractions},
		{"fractions behind variables", "{" + r("a(x:$v) b ", 12_000) + "}", fractions},
		{"a variable", "{" + r("a(x:$v)", 14_284) + "}", quantified},
		{"14 000 variables", "{" + numbered("a(x:$v{i})", 0, 14_000) + "}", quantified},
		{"20 000 variables that are read", "{" + numbered("a(x:$v{i} y:$w{i} z:$x{i} u:$y{i})", 0, 5_000) + "}", quantified},
		{"variables that are declared with defaults", "query(" + numbered("$v{i}:A=2 ", 0, 7_000) + "){" + numbered("a(x:$v{i})", 0, 7_000) + "}", quantified},
		{"numbers at the edge of float64", "{" + r("a(x:1.7976931348623158079e308)", 16_666) + "}", quantified},
		{"numbers below those that float64 holds", "{" + r("a(x:2.4703282292062327208e-324)", 16_666) + "}", quantified},
		{"numbers half way between two", "{" + r("a(x:4503599627370496.50000000000000000000000001)", 16_666) + "}", quantified},
		{"numbers of 1 KB", filled("{", "a(x:1."+r("7", 1000)+")", "}"), quantified},
		{"many live chains", r("{a", 20) + r(" a", 90_000) + r("}", 20), pinned(20)},
		{"many live chains with arguments", r("{a", 20) + r(" a(x:$v)", 14_000) + r("}", 20), pinned(20)},
		{"as many live chains as levels", r("{a", 490) + r(" a", 90_000) + r("}", 490), pinned(490)},
		{"10 000 chains", r("{a b", 19) + r(" a", 90_000) + r("}", 19), chains(10_000)},
		{"10 000 chains, walked", "{" + r(r("a{b{", 9)+"a"+r("}}", 9)+" ", 1_800) + "}", chains(10_000)},
		{"chains among fields that they do not name", r("{a", 19) + numbered(" n{i}", 0, 70_000) + r("}", 19), chains(10_000)},
		{"a fragment in 50 types", "{" + numbered("...on T{i}{...F}", 0, 50) + "}fragment F on Unknown{" + r("a{b{a}}", 450) + "}", quantified},
		{"a fragment under many chains", "{" + numbered("t{i}{...F}", 0, 50) + r("a{...F ", 20) + r("}", 20) + "}fragment F on Unknown{" + r("a{b{a}}", 300) + "}", pinned(20)},
		{"fragments of fragments in many types", "{" + numbered("...on T{i}{...f40}", 0, 50) + "}fragment f0 on U{a}" + numbered("fragment f{i} on U{a{...f{p}}}", 1, 40), pinned(20)},
		{"chains below an undeclared field", r("{a", 480) + "{ghost{...on T0{" + r("a ", 90_000) + "}}}" + r("}", 480), ghosts(490)},
		{"a fragment below undeclared fields at every level", r("{ghost{...F} a", 480) + r("}", 480) + "fragment F on T0{" + r("a(x:1) ", 200) + "}", ghosts(490)},
		{"a fragment without a type below undeclared fields at every level", r("{ghost{...F} a", 480) + r("}", 480) + "fragment F on Unknown{" + r("a{a}", 50) + "...on T0{" + r("a ", 100) + "}}", ghosts(490)},
		{"spreads at every level", r("{...F a", 400) + r("}", 400) + "fragment F on Unknown{" + r("a{a{a}}", 70) + "}", pinned(20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range []cost.Strategy{cost.Complexity, cost.NodeQuantifier} {
				o := cost.Options{Strategy: s, Variables: true, Defaults: true}
				_, err := timed(t, request{document: c.document, schema: loop(50), decorations: c.decorations, options: o})
				if err != nil {
					require.ErrorIs(t, err, cost.ErrTooManySelections)
				}
			}
		})
	}
}

func TestHostileVariablesAreReadInTime(t *testing.T) {
	for name, text := range map[string]string{
		"a long list":             filled("[", "1,", "1]"),
		"a deep list":             filled("", "[", "") + strings.Repeat("]", largestBody),
		"a long string":           filled(`"`, " ", `"`),
		"a long string of digits": filled(`"`, "1", `"`),
		"a long number":           filled("", "1", ""),
		"a long fraction":         filled("0.", "0", "1e1000000"),
		"a long exponent":         filled("1e", "9", ""),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			v := cost.JSONValue([]byte(text))
			t.Log(time.Since(start), v)
			require.Less(t, time.Since(start), hostileCeiling)
			require.True(t, v.Set())
		})
	}
}

func TestHostileSchemasAreReadInTime(t *testing.T) {
	for name, text := range map[string]string{
		"open lists":                      filled("type A{a:", "[", ""),
		"an error after a lot":            filled("", "scalar A\n", "!"),
		"an error on a long line":         filled("", "scalar A ", "!"),
		"open JSON":                       filled("", `{"data":`, ""),
		"deep types in JSON":              filled(`{"__schema":{"types":[{"fields":[{"type":`, `{"ofType":`, ""),
		"a default that is deep":          `{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"name":"x","defaultValue":"` + strings.Repeat("[", 900_000) + `"}]}]}]}}`,
		"a default that is a long array":  filled(`{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"name":"x","defaultValue":[`, "1,", `1]}]}]}]}}`),
		"a default that is a long number": filled(`{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"name":"x","defaultValue":`, "1", `}]}]}]}}`),
		"a default that is a deep array":  filled(`{"__schema":{"types":[{"name":"A","fields":[{"name":"a","args":[{"name":"x","defaultValue":`, "[", ""),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := cost.ParseSchema([]byte(text))
			t.Log(time.Since(start), errorHead(err))
			require.Less(t, time.Since(start), hostileCeiling)
		})
	}
}

func errorHead(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strconv.Quote(text[:min(len(text), 80)])
}

// TestFragmentChainOfTheVectors costs the vectors' longest chain, which its
// reference does not survive, under every strategy.
func TestFragmentChainOfTheVectors(t *testing.T) {
	chain := generator{Prefix: "fragment f0 on T{a}", NumberedUnit: "\nfragment f{i} on T{...f{p}}", From: 1, Count: 10_000, Suffix: "\n{...f{last}}"}
	for s, want := range map[cost.Strategy]float64{cost.Depth: 1, cost.Complexity: 2, cost.NodeQuantifier: 0} {
		raw, err := timed(t, request{document: chain.text(), options: cost.Options{Strategy: s}})
		require.NoError(t, err)
		require.Equal(t, want, raw)
	}
	cycle := chain
	cycle.Prefix = "fragment f0 on T{...f10000}"
	for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
		_, err := timed(t, request{document: cycle.text(), options: cost.Options{Strategy: s}})
		require.True(t, errors.Is(err, cost.ErrFragmentCycle))
	}
}
