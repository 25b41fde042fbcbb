package cost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// depthOf parses a document under the default limits and costs it by depth.
func depthOf(t *testing.T, document string) float64 {
	t.Helper()
	d, err := cost.Parse(document, cost.Limits{})
	require.NoError(t, err, "%s", document)
	plan, err := d.Compile(cost.Options{})
	require.NoError(t, err)
	return plan.Cost(nil)
}

func TestExecutableDocumentsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, document string
		depth          float64
	}{
		{"the shorthand is a query", `{ a }`, 1},
		{"every kind of operation", `query Q { a } mutation M { a { b } } subscription S { a }`, 2},
		{"an operation may be anonymous", `mutation { a }`, 1},
		{"names are letters, digits and underscores", `{ _ a1 __Z9_ }`, 1},
		{"keywords are names", `query query { query fragment on null true false type mutation { on } }`, 2},
		{"a fragment may be called like a keyword", `{ ...query ...null ...fragment } fragment query on on { a } fragment null on T { a } fragment fragment on T { a { b } }`, 2},
		{"an alias may be a keyword", `{ on: a null: on true: null query: query { b } }`, 2},
		{"a field after a spread", `{ ...F a } fragment F on T { a }`, 1},
		{"an inline fragment without a type", `{ ... { a { b } } }`, 2},
		{"an inline fragment on a type called on", `{ ... on on { a } }`, 1},
		{"directives everywhere", `query Q @a { f @b(x: 1) @c ... @d { g } ... on T @e(y: "z") { h } ...F @f } fragment F on T @g { i }`, 1},
		{"a directive's arguments hold variables", `query ($b: Boolean!) { a @include(if: $b) }`, 1},
		{"every kind of value", `{ a(i: 1, f: 1.5e-3, s: "x", b: true, n: null, e: RED, l: [], m: [1, "a", [null]], o: {}, p: {k: {l: [$v]}}, v: $v) }`, 1},
		{"a value may be called like a keyword", `{ a(on: on, query: query, fragment: fragment, null: true) }`, 1},
		{"variables with every kind of type and default", `query ($a: A, $b: B!, $c: [C!]! = [1], $d: [[D]] = null, $on: on = {a: null}) { a }`, 1},
		{"directives on variable definitions", `query ($a: A @x, $b: B = 1 @y(z: {k: [null, "]"]}) @w, $c: C) { a }`, 1},
		{"descriptions on operations", `"one" query { a } """two""" mutation M { a { b } }`, 2},
		{"descriptions on fragments and variables", `"f" fragment F on T { a } query ("v" $a: A """w""" $b: B = 1) { ...F }`, 1},
		{"a description called like a document", `"{ a { b { c } } }" query { a }`, 1},
		{"commas are white space", `,{,a,(,x:,1,),,b,},`, 1},
		{"a byte order mark anywhere", "\uFEFF{\uFEFF a \uFEFF}\uFEFF", 1},
		{"every line terminator ends a comment", "{ #{\n a #}\r b #\"\r\n c }#end", 1},
		{"a comment holds tabs and any text", "{ a # \t é 😀 \" \"\"\" { \n }", 1},
		{"text beyond ASCII in a comment before a name", "{ # é\n ab \uFEFF { cd } }", 2},
		{"no space between tokens", `query($a:[A!]!=[1"x"2]){a(b:$a,c:"d"e:1){...F...on T{a}}}fragment F on T{a}`, 2},
		{"numbers of every form", `{ a(x: [0 -0 10 -1 0.0 -0.5 1e5 1E+5 0e-1 1.5E5]) }`, 1},
		{"strings with every escape", `{ a(x: "\" \\ \/ \b \f \n \r \t \u00e9 \u{1F600}") }`, 1},
		{"an empty string beside others", `{ a(x: ["" "" """"""]) }`, 1},
		{"a block string over lines, with quotes", "{ a(x: \"\"\"\n one \"two\" \"\" \\\"\"\" \\n \t\r\n \"\"\") }", 1},
		{"a backslash before a block string's last character", `{ a(x: """\\ """) }`, 1},
		{"text beyond the basic plane", `{ a(x: "😀") }`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.depth, depthOf(t, c.document))
		})
	}
}

func TestTypeSystemDefinitionsCarryNoWeight(t *testing.T) {
	for _, definition := range []string{
		`type A`, `type A { a: B }`, `type A implements I & J @d { "doc" a("doc" x: [Int!]! = [{k: null}] @d): [B!]! @d }`,
		`"""doc""" type A implements & I { a: B }`, `interface I implements J { a: B }`,
		`scalar S @specifiedBy(url: "x")`, `union U`, `union U = | A | B`, `enum E { A @d B }`, `input I { a: Int = 1 }`,
		`schema @d { query: Q mutation: M }`, `directive @d(a: Int = null) repeatable on | FIELD | QUERY`,
		`extend type A { a: B }`, `extend schema @link(url: "u")`, `extend scalar S @d`, `extend union U = C`,
		`extend enum E { C }`, `extend input I { b: Int }`, `extend interface I @d`, `type query { query: mutation }`,
	} {
		t.Run(definition, func(t *testing.T) {
			plain := normalized(t, `{ a { b } }`)
			require.Equal(t, plain, normalized(t, definition+` query { a { b } }`)[len("query"):])
			require.Equal(t, plain, normalized(t, `{ a { b } } `+definition))
			_, err := cost.Parse(definition, cost.Limits{})
			require.ErrorIs(t, err, cost.ErrNoOperation)
		})
	}
}

func parse(t *testing.T, document string) *cost.Document {
	t.Helper()
	d, err := cost.Parse(document, cost.Limits{})
	require.NoError(t, err, "%s", document)
	return d
}

// normalized is a document in the spelling that all documents of the same cost share.
func normalized(t *testing.T, document string) string {
	t.Helper()
	n, err := cost.Normalize(document, cost.Limits{})
	require.NoError(t, err, "%s", document)
	_, err = n.Parse()
	require.NoError(t, err, "%s", document)
	return n.Text()
}

func TestOtherTextIsRefused(t *testing.T) {
	for name, document := range map[string]string{
		"a bare word":                          `a`,
		"text":                                 `hello world`,
		"JSON":                                 `{"query": "{ a }"}`,
		"an empty document":                    `{}`,
		"commas alone":                         `,,`,
		"an empty selection set":               `{ a {} }`,
		"an empty fragment":                    `{ ... {} }`,
		"empty arguments":                      `{ a() }`,
		"empty arguments of a directive":       `{ a @d() }`,
		"no variables":                         `query () { a }`,
		"an open selection set":                `{ a `,
		"a selection set too many closed":      `{ a } }`,
		"brackets that do not match":           `{ a(x: [1) ] }`,
		"an object closed as arguments":        `{ a(x: {k: 1)} }`,
		"a list closed as an object":           `{ a(x: [1}) }`,
		"an alias without a field":             `{ a: }`,
		"an alias of an alias":                 `{ a: b: c }`,
		"an alias of a spread":                 `{ a: ...F }`,
		"arguments twice":                      `{ a(x: 1)(y: 2) }`,
		"arguments after directives":           `{ a @d (x: 1)(y: 2) }`,
		"a selection set twice":                `{ a { b } { c } }`,
		"a selection set before arguments":     `{ a { b } (x: 1) }`,
		"an argument without a value":          `{ a(x:) }`,
		"an argument without a colon":          `{ a(x 1) }`,
		"an argument without a name":           `{ a(1) }`,
		"a member without a name":              `{ a(x: {1: 2}) }`,
		"a variable without a name":            `{ a(x: $) }`,
		"a variable called by a number":        `{ a(x: $1) }`,
		"a directive without a name":           `{ a @ }`,
		"a spread without a name":              `{ ... }`,
		"a spread of a string":                 `{ ..."F" }`,
		"a type condition without a type":      `{ ... on { a } }`,
		"a type condition without selections":  `{ ... on T }`,
		"a fragment called on":                 `{ a } fragment on on T { a }`,
		"a fragment without a type condition":  `{ a } fragment F { a }`,
		"a fragment without a type":            `{ a } fragment F on { a }`,
		"a fragment with another word":         `{ a } fragment F of T { a }`,
		"a fragment without selections":        `{ a } fragment F on T`,
		"a fragment without a name":            `{ a } fragment { a }`,
		"a fragment with variables":            `{ a } fragment F($x: Int) on T { a }`,
		"an operation without selections":      `query Q`,
		"an operation with two names":          `query Q R { a }`,
		"variables twice":                      `query ($a: A)($b: B) { a }`,
		"variables after directives":           `query @d ($a: A)($b: B) { a }`,
		"a variable definition without a type": `query ($a) { a }`,
		"a variable definition without a name": `query ($: A) { a }`,
		"a variable definition without $":      `query (a: A) { a }`,
		"an open list type":                    `query ($a: [A) { a }`,
		"an empty list type":                   `query ($a: []) { a }`,
		"a list type of two":                   `query ($a: [A B]) { a }`,
		"a default inside of a list type":      `query ($a: [A = 1]) { a }`,
		"a type that is not null twice":        `query ($a: A!!) { a }`,
		"a default without a value":            `query ($a: A =) { a }`,
		"two defaults":                         `query ($a: A = 1 = 2) { a }`,
		"a default after directives":           `query ($a: A @d = 1) { a }`,
		"a variable without a name as default": `query ($a: A = $) { a }`,
		"a description of nothing":             `{ a } "doc"`,
		"a description of the shorthand":       `"doc" { a }`,
		"two descriptions":                     `"doc" "doc" query { a }`,
		"a description of no variable":         `query ($a: A "doc") { a }`,
		"a description of a selection":         `{ "doc" a }`,
		"a description of an argument":         `{ a("doc" x: 1) }`,
		"an unknown definition":                `{ a } struct A { a: B }`,
		"a malformed definition":               `{ a } type A { a }`,
		"a malformed token in a definition":    `{ a } type A { ^ }`,
		"a definition left open":               `{ a } type A { a: B`,
		"a punctuator on its own":              `!`,
		"a union's bar in a selection":         `{ a | b }`,
		"two points":                           `{ ..a }`,
		"one point":                            `{ a.b }`,
		"four points":                          `{ ....a }`,
		"a character that is no token":         `{ a ^ }`,
		"a letter beyond ASCII":                `{ é }`,
		"a control character":                  "{ a \x00 }",
		"a control character in a comment":     "{ a # \x07\n }",
		"a vertical tab":                       "{ a \v b }",
		"a no-break space":                     "{ a\u00a0b }",
		"half of a byte order mark":            "{ a \xef\xbb }",
		"invalid UTF-8 in a string":            "{ a(x: \"\xff\") }",
		"a comment that ends in graphql-java":  "{ a # \u2028 b\n }",
		"another that ends there":              "{ a # \u2029 b\n }",
		"invalid UTF-8 in a comment":           "{ a } # \xff",
		"a surrogate in UTF-8":                 "{ a(x: \"\xed\xa0\x80\") }",
		"an open string":                       `{ a(x: "abc) }`,
		"a string over two lines":              "{ a(x: \"a\nb\") }",
		"a control character in a string":      "{ a(x: \"\x01\") }",
		"an unknown escape":                    `{ a(x: "\x41") }`,
		"an escape cut short":                  `{ a(x: "\`,
		"a unicode escape cut short":           `{ a(x: "\u00`,
		"a unicode escape of no digits":        `{ a(x: "\uZZZZ") }`,
		"a braced escape of nothing":           `{ a(x: "\u{}") }`,
		"a braced escape left open":            `{ a(x: "\u{41") }`,
		"an open block string":                 `{ a(x: """abc"") }`,
		"a control character in a block":       "{ a(x: \"\"\"\x02\"\"\") }",
		"an escaped end of a block":            `{ a(x: """abc\""") }`,
		"a backslash escapes no backslash":     `{ a(x: """abc\\""") }`,
		"a leading zero":                       `{ a(x: 01) }`,
		"a negative leading zero":              `{ a(x: -01) }`,
		"a plus sign":                          `{ a(x: +1) }`,
		"a minus alone":                        `{ a(x: -) }`,
		"a number without a fraction":          `{ a(x: 1.) }`,
		"a number without a whole part":        `{ a(x: .5) }`,
		"a number without an exponent":         `{ a(x: 1e) }`,
		"a number with a signed no exponent":   `{ a(x: 1e+) }`,
		"a number with two fractions":          `{ a(x: 1.2.3) }`,
		"a number that runs into a name":       `{ a(x: 1a) }`,
		"a float that runs into a name":        `{ a(x: 1.5e3x) }`,
		"a hexadecimal number":                 `{ a(x: 0x1F) }`,
		"a number that runs into a spread":     `{ a(x: [1...]) }`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cost.Parse(document, cost.Limits{})
			require.ErrorIs(t, err, cost.ErrSyntax, "%s", document)
			require.ErrorContains(t, err, "failed to parse graphql query")
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestADocumentWithoutOperationsIsEmpty(t *testing.T) {
	for name, document := range map[string]string{
		"nothing":                ``,
		"white space":            " \t\r\n",
		"comments":               "# { a }\n#",
		"a byte order mark":      "\uFEFF",
		"fragments":              `fragment F on T { a }`,
		"type definitions":       `type A { a: B } extend type A { c: D }`,
		"fragments and types":    `fragment F on T { a } scalar S`,
		"a schema":               `schema { query: Q }`,
		"a described definition": `"doc" scalar S`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cost.Parse(document, cost.Limits{})
			require.ErrorIs(t, err, cost.ErrNoOperation)
		})
	}
}

func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	nest := func(prefix, open, inside, closed, suffix string, levels int) string {
		return prefix + repeat(open, levels) + inside + repeat(closed, levels) + suffix
	}
	for _, c := range []struct {
		name, allowed, refused string
	}{
		{"500 selection sets", nest("", "{a", "", "}", "", 500), nest("", "{a", "", "}", "", 501)},
		{"500 brackets with lists", nest("{a(x:", "[", "", "]", ")}", 498), nest("{a(x:", "[", "", "]", ")}", 499)},
		{"500 brackets with objects", nest("{a(x:", "{k:", "1", "}", ")}", 498), nest("{a(x:", "{k:", "1", "}", ")}", 499)},
		{"500 brackets with types", nest("query($a:", "[", "A", "]", "){a}", 499), nest("query($a:", "[", "A", "]", "){a}", 500)},
		{"500 brackets with inline fragments", nest("", "{...", "{a}", "}", "", 499), nest("", "{...", "{a}", "}", "", 500)},
		{"names of 1 KB", "{" + repeat("a", 1024) + "}", "{" + repeat("a", 1025) + "}"},
		{"integers of 1 KB", "{a(x:" + repeat("1", 1024) + ")}", "{a(x:" + repeat("1", 1025) + ")}"},
		{"floats of 1 KB", "{a(x:1." + repeat("1", 1022) + ")}", "{a(x:1." + repeat("1", 1023) + ")}"},
		{"names of 1 KB in definitions", "{a} scalar " + repeat("a", 1024), "{a} scalar " + repeat("a", 1025)},
		{"500 lists in definitions", nest("{a} type A{a(b:", "[", "B", "]", "):C}", 500), nest("{a} type A{a(b:", "[", "B", "]", "):C}", 501)},
		{"500 lists in defaults of definitions", nest("{a} type A{a(b:B=", "[", "1", "]", "):C}", 500), nest("{a} type A{a(b:B=", "[", "1", "]", "):C}", 501)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := cost.Parse(c.allowed, cost.Limits{})
			require.NoError(t, err)
			_, err = cost.Parse(c.refused, cost.Limits{})
			require.ErrorIs(t, err, cost.ErrSyntax)
		})
	}
}

func TestStringsAndCommentsAreOfAnyLength(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	require.Equal(t, 1.0, depthOf(t, `{a(x:"`+long+`",y:"""`+long+`""")}#`+long))
}

func TestLimitsCanBeSet(t *testing.T) {
	limits := cost.Limits{Depth: 2, Tokens: 6}
	_, err := cost.Parse("{a{b}}", limits)
	require.NoError(t, err)
	_, err = cost.Parse("{a{b{c}}}", limits)
	require.ErrorIs(t, err, cost.ErrSyntax)
}

func TestTokens(t *testing.T) {
	// Braces are tokens too: 99 998 fields make 100 000.
	document := func(fields int) string { return "{" + strings.Repeat("a ", fields) + "}" }
	plan := func(d *cost.Document, s cost.Strategy) error {
		_, err := d.Compile(cost.Options{Strategy: s})
		return err
	}
	t.Run("as many as the limit are costed", func(t *testing.T) {
		d := parse(t, document(99_998))
		for _, s := range []cost.Strategy{cost.Depth, cost.Complexity, cost.NodeQuantifier} {
			require.NoError(t, plan(d, s))
		}
	})
	t.Run("one more is refused", func(t *testing.T) {
		d := parse(t, document(99_999))
		for _, s := range []cost.Strategy{"", cost.Depth, cost.Complexity, cost.NodeQuantifier} {
			require.ErrorIs(t, plan(d, s), cost.ErrSyntax)
		}
	})
	t.Run("beyond the selections that are allowed, the reason is these", func(t *testing.T) {
		d := parse(t, document(100_001))
		require.ErrorIs(t, plan(d, cost.Depth), cost.ErrSyntax)
		require.ErrorIs(t, plan(d, cost.Complexity), cost.ErrTooManySelections)
		require.ErrorIs(t, plan(d, cost.NodeQuantifier), cost.ErrTooManySelections)
	})
	t.Run("those of type definitions count", func(t *testing.T) {
		d, err := cost.Parse("{a} scalar S", cost.Limits{Tokens: 5})
		require.NoError(t, err)
		require.NoError(t, plan(d, cost.Depth))
		d, err = cost.Parse("{a} scalar S scalar T", cost.Limits{Tokens: 6})
		require.NoError(t, err)
		require.ErrorIs(t, plan(d, cost.Depth), cost.ErrSyntax)
	})
	t.Run("what follows the last allowed token must still be GraphQL", func(t *testing.T) {
		_, err := cost.Parse(document(100_000)+"!", cost.Limits{})
		require.ErrorIs(t, err, cost.ErrSyntax)
	})
}
