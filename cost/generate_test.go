package cost_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"

	"graphql-limit-count/cost"
)

// The vocabulary is small, so that names meet; some of it is keywords.
var (
	objectTypes  = []string{"Query", "Write", "Events", "A", "B", "C", "type"}
	leafTypes    = []string{"Int", "Date", "Missing"}
	fieldNames   = []string{"a", "b", "c", "d", "on", "null", "true", "query"}
	ghostNames   = []string{"ghost", "__typename"}
	argNames     = []string{"n", "m", "null"}
	varNames     = []string{"v", "w", "on", "null"}
	fragNames    = []string{"F", "G", "query", "null", "true", "fragment", "type"}
	conditions   = []string{"Query", "A", "B", "C", "type", "Unknown", "Date"}
	operations   = []string{"X", "Y", "mutation", "query"}
	literals     = []string{"0", "1", "2", "3", "7", "-1", "2.0", "1e2", "1e400", "90071992547409930", "1e300", "true", "false", "TEN", "nan", "NULL", "{}", "{n:3}", "[]", "[1 2]", "[[1 2]{n:1}NULL]"}
	stringsGiven = []string{`"10"`, `" 3 "`, `"1e1"`, `"+2"`, `"text"`, `""`, `"-1"`, `"0x10"`, `"inf"`, `"""4"""`, `"""a "quoted" text"""`, `"#{"`}
	supplied     = []string{"9007199254740992", "0", "1", "2", "5", "-3", "1e400", `"4"`, `" 2 "`, `"x"`, `"1e1"`, "null", "true", "[]", "[1,[2,3]]", `[{"a":[1,2]},"],"]`, `{"n":3}`}
)

// maxSketchDepth bounds the nesting of random documents.
const maxSketchDepth = 4

// randomCase is a random case; everything follows from its seed.
type randomCase struct {
	rnd         *rand.Rand
	schema      *sketch
	decorations []cost.Decoration
	plain       []string // the document's tokens, as graphql-go's parser reads them
	noisy       []string // the same with what the parser cannot read
	variables   map[string]json.RawMessage
	fragments   []string
	fractions   bool // weights are no whole numbers, so that sums are rounded
}

func (g *randomCase) chance(percent int) bool { return g.rnd.IntN(100) < percent }

func (g *randomCase) pick(of []string) string { return of[g.rnd.IntN(len(of))] }

func newCase(seed uint64) *randomCase {
	g := &randomCase{rnd: rand.New(rand.NewPCG(seed, 1))}
	g.fractions = g.chance(20)
	g.newSchema()
	g.newDecorations()
	g.document()
	g.variables = map[string]json.RawMessage{}
	for _, name := range varNames {
		if g.chance(50) {
			g.variables[name] = json.RawMessage(g.pick(supplied))
		}
	}
	return g
}

func (g *randomCase) newSchema() {
	s := &sketch{types: map[string]map[string]*sketchField{}, roots: map[string]string{"query": "Query"}}
	if g.chance(80) {
		s.roots["mutation"] = "Write"
	}
	if g.chance(80) {
		s.roots["subscription"] = "Events"
	}
	for _, name := range objectTypes {
		fields := map[string]*sketchField{}
		for _, f := range fieldNames {
			if g.chance(60) {
				fields[f] = g.newField()
			}
		}
		fields["a"] = g.newField()
		s.types[name] = fields
	}
	s.types["Int"], s.types["Date"] = map[string]*sketchField{}, map[string]*sketchField{}
	s.order = append(append(s.order, objectTypes...), "Int", "Date")
	g.schema = s
}

func (g *randomCase) newField() *sketchField {
	f := &sketchField{returns: g.pick(objectTypes), wrapping: g.pick([]string{"%s", "%s!", "[%s!]!", "[[%s]]"}), defaults: map[string]string{}}
	if g.chance(20) {
		f.returns = g.pick(leafTypes)
	}
	for _, name := range argNames {
		if g.chance(30) {
			f.defaults[name] = g.pick([]string{"0", "3", "5", "-1", "1e1", `"4"`, "null", "TEN", "true", "{n: 1}", "[1 2 3]", "[]"})
		}
	}
	return f
}

func (g *randomCase) newDecorations() {
	taken := map[string]bool{}
	for range g.rnd.IntN(8) {
		for _, path := range g.paths() {
			if taken[path] {
				continue
			}
			taken[path] = true
			g.decorations = append(g.decorations, cost.Decoration{
				FieldPath: path, AddValue: g.weight(), MulValue: g.weight(), AssumedSize: g.weight(),
				AddArguments: g.arguments(25), MulArguments: g.arguments(60),
			})
		}
	}
}

// paths are some of the paths that name the last field of a walk through the
// schema: its type, and the chains to it from every type on the way. The walk goes on
// below fields that the schema does not declare.
func (g *randomCase) paths() (paths []string) {
	typ := g.pick(objectTypes)
	if g.chance(60) {
		typ = "Query"
	}
	var chains []string
	for range 1 + g.rnd.IntN(4) {
		field := g.pick(fieldNames)
		if g.chance(60) {
			field = "a"
		}
		if g.chance(5) {
			field = g.pick(ghostNames)
		}
		chains = append(chains, typ)
		for i := range chains {
			chains[i] += "." + field
		}
		if typ = g.returns(typ, field); typ == "" {
			if g.chance(50) {
				break
			}
			typ = g.pick(objectTypes) // as if a fragment named it
		}
	}
	for _, path := range append(chains, typ) {
		if path != "" && g.chance(60) {
			paths = append(paths, path)
		}
	}
	if g.chance(5) {
		paths = append(paths, g.pick(objectTypes)+"."+g.pick(ghostNames))
	}
	return paths
}

// returns is the type of a field, "" where the schema has no such field.
func (g *randomCase) returns(typ, field string) string {
	if f := g.schema.types[typ][field]; f != nil {
		return f.returns
	}
	return ""
}

func (g *randomCase) weight() *float64 {
	if g.chance(70) {
		return nil
	}
	w := float64(g.rnd.IntN(6))
	if g.fractions {
		w += float64(g.rnd.IntN(100)) / 100
	}
	return &w
}

func (g *randomCase) arguments(percent int) []string {
	if !g.chance(percent) {
		return nil
	}
	args := []string{}
	for range g.rnd.IntN(4) {
		args = append(args, g.pick(argNames))
	}
	return args
}

// both emits tokens of the document; noise only where the parser is ours.
func (g *randomCase) both(tokens ...string) {
	g.plain = append(g.plain, tokens...)
	g.noisy = append(g.noisy, tokens...)
}

func (g *randomCase) noise(percent int, tokens ...string) {
	if g.chance(percent) {
		g.noisy = append(g.noisy, tokens...)
	}
}

func (g *randomCase) document() {
	for range g.rnd.IntN(5) {
		g.fragments = append(g.fragments, g.pick(fragNames))
	}
	var parts []func()
	for i := range 1 + g.rnd.IntN(2)*g.rnd.IntN(3) {
		parts = append(parts, func() { g.operation(i) })
	}
	for i, name := range g.fragments {
		parts = append(parts, func() { g.fragment(i, name) })
	}
	g.rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, part := range parts {
		g.noise(8, `"""a { type } """`, "type", "query", "{", "a", "(", "b", ":", "C", "=", "{", "}", ")", ":", "[", "D", "!", "]", "@", "e", "}")
		g.noise(4, "scalar", "fragment")
		g.noise(4, "extend", "union", "on", "=", "|", "A", "|", "B")
		part()
	}
}

func (g *randomCase) operation(i int) {
	if g.chance(25) {
		g.set(0, len(g.fragments)) // the shorthand takes no description
		return
	}
	g.noise(15, `"described"`)
	g.both([]string{"query", "query", "mutation", "subscription"}[g.rnd.IntN(4)])
	if g.chance(70) {
		g.both(operations[(i+g.rnd.IntN(2))%len(operations)])
	}
	if g.chance(60) {
		g.both("(")
		for range 1 + g.rnd.IntN(4) {
			g.variable()
		}
		g.both(")")
	}
	g.directives()
	g.set(0, len(g.fragments))
}

func (g *randomCase) variable() {
	g.noise(10, `"""described"""`)
	g.both("$", g.pick(varNames), ":")
	g.both([][]string{{"Int"}, {"Int", "!"}, {"[", "Int", "!", "]", "!"}, {"[", "[", "on", "]", "]"}}[g.rnd.IntN(4)]...)
	if g.chance(50) {
		g.both("=")
		g.literal()
	}
	g.noise(15, "@", "d")
	g.noise(15, "@", "on", "(", "a", ":", "{", "b", ":", "[", "null", "]", "}", ")")
}

// fragment i may spread those after it; seldom any, which may close a cycle.
func (g *randomCase) fragment(i int, name string) {
	g.noise(10, `"""described"""`)
	g.both("fragment", name, "on", g.pick(conditions))
	g.directives()
	from := i + 1
	if g.chance(4) {
		from = 0
	}
	g.set(2, len(g.fragments)-from)
}

func (g *randomCase) directives() {
	for g.chance(10) {
		g.both("@", g.pick([]string{"skip", "on", "query"}))
		if g.chance(50) {
			g.both("(", "n", ":")
			g.value()
			g.both(")")
		}
	}
}

// set emits a selection set; the last so many fragments may be spread in it.
func (g *randomCase) set(depth, fragments int) {
	g.both("{")
	most := 3
	if g.fractions && depth < 2 {
		most = 8 // enough for runs of constants around those of a set below
	}
	for range 1 + g.rnd.IntN(most) {
		switch n := g.rnd.IntN(10); {
		case n < 6:
			g.field(depth, fragments)
		case n < 8 && depth < maxSketchDepth:
			g.both("...")
			if g.chance(75) {
				g.both("on", g.pick(conditions))
			}
			g.directives()
			g.set(depth+1, fragments)
		case fragments > 0 && g.chance(90):
			g.both("...", g.fragments[len(g.fragments)-1-g.rnd.IntN(fragments)])
			g.directives()
		default:
			g.both("...", "Undefined")
		}
	}
	g.both("}")
}

func (g *randomCase) field(depth, fragments int) {
	if g.chance(20) {
		g.both(g.pick(fieldNames), ":")
	}
	switch {
	case g.chance(6):
		g.both(g.pick(ghostNames))
	case g.chance(50):
		g.both("a")
	default:
		g.both(g.pick(fieldNames))
	}
	if g.chance(60) {
		g.both("(")
		for range 1 + g.rnd.IntN(3) {
			g.both(g.pick(argNames), ":")
			g.value()
		}
		g.both(")")
	}
	g.directives()
	if depth < maxSketchDepth && g.chance(60) {
		g.set(depth+1, fragments)
	}
}

func (g *randomCase) value() {
	if g.chance(35) {
		g.both("$", g.pick(varNames))
		return
	}
	g.literal()
}

// literal emits a constant: as it is to the parser; in the noisy document null
// is itself, and one string without a number is as good as another.
func (g *randomCase) literal() {
	if g.chance(30) {
		text := g.pick(stringsGiven)
		g.plain = append(g.plain, text)
		if _, number := textNumber(strings.Trim(text, `"`)); !number {
			text = g.pick([]string{`"other"`, `"""\""" } null"""`, `"é\n\u00e9\"😀"`, text})
		}
		g.noisy = append(g.noisy, text)
		return
	}
	text := g.pick(literals)
	g.plain = append(g.plain, text)
	g.noisy = append(g.noisy, strings.ReplaceAll(text, "NULL", "null"))
}

// layout joins the noisy tokens with anything that the grammar ignores.
func (g *randomCase) layout() string {
	var b strings.Builder
	for _, token := range g.noisy {
		b.WriteString(g.pick([]string{" ", ",", "\n", "\r\n", "\t,", " # a { comment \"\n", "\uFEFF ", "#\r"}))
		b.WriteString(token)
	}
	return b.String()
}
