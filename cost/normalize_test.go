package cost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

func TestNormalizedSpelling(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"one space between words, none elsewhere", " query  Q ( $a : [ A ! ] ) { a ( x : $a ) b }", "query Q($a:[A!]){a(x:$a)b}"},
		{"a spread stands apart from its name", "{...F ...on T{a}...{b}}", "{... F ... on T{a}...{b}}"},
		{"text is the empty string", `{a(x:"text" y:"""block""")}`, `{a(x:"" y:"")}`},
		{"a decimal string in one spelling", `{a(x:" 1e1 " y:"""10""" z:"+10.0" w:"010")}`, `{a(x:"10" y:"10" z:"10" w:"10")}`},
		{"a number is written as it is", `{a(x:1e1 y:-0 z:10.0)}`, `{a(x:1e1 y:-0 z:10.0)}`},
		{"strings inside of lists and objects do not matter", `{a(x:["10" {k:"5"}])}`, `{a(x:[""{k:""}])}`},
		{"an escape makes no number", `{a(x:"\u0031")}`, `{a(x:"")}`},
		{"a negative or infinite string is no count", `{a(x:"-1" y:"1e400" z:"-0")}`, `{a(x:"" y:"" z:"0")}`},
		{"null is an enum value", `query($a:A=null){a(x:null y:[null])}`, `query($a:A=NULL){a(x:NULL y:[NULL])}`},
		{"names called null stay", `{null(null:null){null:null@null(null:null)}}`, `{null(null:NULL){null:null@null(null:NULL)}}`},
		{"directives on variables are left out", `query($a:A@x $b:B=1@y(k:[null])@z){a@d(k:1)}`, `query($a:A$b:B=1){a@d(k:1)}`},
		{"descriptions are left out", `"d" query("d" $a:A){a}"d" fragment F on T{a}`, `query($a:A){a}fragment F on T{a}`},
		{"type definitions are left out", `type A{a:B}{a}scalar S`, `{a}`},
		{"a variable in a constant gives nothing", `query($a:A=$b $c:C=[$d]){a}`, `query($a:A={}$c:C=[{}]){a}`},
		{"comments and commas are left out", "#c\n{a,#c\nb}#c", "{a b}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, normalized(t, c.document))
			require.Equal(t, c.want, normalized(t, c.want), "again")
		})
	}
}

func TestDocumentsOfOneCostShareTheirSpelling(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"layout", "query Q{a(x:1){b}}", "query Q {\n  a(x: 1,) {\r\n\tb\n  }\n}\n"},
		{"comments", "{a}", "# who\n{ # what\n a # why\n} #"},
		{"string values", `{a(id:"4f2a")}`, `{a(id:"""other""")}`},
		{"descriptions", "query{a}", `"""about""" query{a}`},
		{"directives on variables", "query($a:A){a}", `query($a:A@deprecated(reason:"x")){a}`},
		{"byte order marks", "{a}", "\uFEFF{a}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, normalized(t, c.a), normalized(t, c.b))
		})
	}
}

func TestDocumentsOfOtherCostDoNotShareTheirSpelling(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"numbers", "{a(x:1)}", "{a(x:2)}"},
		{"numbers in strings", `{a(x:"1")}`, `{a(x:"2")}`},
		{"a string and a number", `{a(x:"10")}`, `{a(x:"ten")}`},
		{"names that would run together", "{a b}", "{ab}"},
		{"values that would run together", "{a(x:[1 2])}", "{a(x:[12])}"},
		{"a name and a spread", "{a ...b}", "{...a b}"},
		{"list lengths", `{a(x:["p"])}`, `{a(x:["p","q"])}`},
		{"aliases", "{a:b}", "{a b}"},
		{"defaults", "query($a:A){a}", "query($a:A=1){a}"},
		{"objects and null", "{a(x:{})}", "{a(x:null)}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NotEqual(t, normalized(t, c.a), normalized(t, c.b))
		})
	}
}

func TestNoLineOfTheNormalizedDocumentIsLong(t *testing.T) {
	// The longest token, a name of 1 KB, may follow a line that is nearly full.
	const longest = 1024 + 2*120
	name := strings.Repeat("n", 1024)
	for _, document := range []string{
		"{" + strings.Repeat("a ", 40_000) + "}",
		"{" + strings.Repeat(name+" ", 500) + "}",
		"{a(x:" + strings.Repeat("[", 490) + strings.Repeat("]", 490) + ")}",
		"{a(x:\"" + strings.Repeat("1", 50_000) + "\")}",
	} {
		for line := range strings.SplitSeq(normalized(t, document), "\n") {
			require.LessOrEqual(t, len(line), longest)
		}
	}
}

func TestNormalizeIsTheFirstHalfOfParse(t *testing.T) {
	n, err := cost.Normalize("query { a, b } # c", cost.Limits{Tokens: 5})
	require.NoError(t, err)
	require.Equal(t, "query{a b}", n.Text())
	require.False(t, n.Overlong())
	_, err = n.Parse()
	require.NoError(t, err)

	n, err = cost.Normalize("query { a, b } # c", cost.Limits{Tokens: 4})
	require.NoError(t, err)
	require.True(t, n.Overlong())
	d, err := n.Parse()
	require.NoError(t, err)
	_, err = d.Compile(cost.Options{})
	require.ErrorIs(t, err, cost.ErrSyntax)

	for document, want := range map[string]error{"": cost.ErrNoOperation, "{a": cost.ErrSyntax} {
		_, err = cost.Normalize(document, cost.Limits{})
		require.ErrorIs(t, err, want)
	}
	n, err = cost.Normalize("fragment F on T{a}", cost.Limits{})
	require.NoError(t, err)
	_, err = n.Parse()
	require.ErrorIs(t, err, cost.ErrNoOperation)
}
