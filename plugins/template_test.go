package plugins

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lookupIn returns the lookup of a request whose variables are the map's.
func lookupIn(vars map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, present := vars[name]
		return value, present
	}
}

func TestTemplateVectors(t *testing.T) {
	var file struct {
		ResolveVar struct {
			Cases []struct {
				Template string
				Vars     map[string]string
				Expect   struct {
					Value     string
					NResolved int `json:"n_resolved"`
				}
			}
		} `json:"resolve_var"`
	}
	readVectors(t, "counter.json", &file)
	require.NotEmpty(t, file.ResolveVar.Cases)
	for i, c := range file.ResolveVar.Cases {
		t.Run(strconv.Itoa(i)+" "+c.Template, func(t *testing.T) {
			value, resolved := ParseTemplate(c.Template).Resolve(lookupIn(c.Vars))
			require.Equal(t, c.Expect.Value, value)
			require.Equal(t, c.Expect.NResolved, resolved)
		})
	}
}

func TestTemplateGrammar(t *testing.T) {
	vars := map[string]string{
		"a": "1", "b.c": "2", "http_x_user": "u", "http_a": "h", "a-b": "dash", "a b": "space", "": "never", "empty": "", "HTTP_A": "upper",
	}
	for _, c := range []struct {
		rule, template, value string
		resolved              int
		names                 []string
	}{
		{"a bare name ends where its letters end", "$a-b", "1-b", 1, []string{"a"}},
		{"a bare name may have dots", "$b.c", "2", 1, []string{"b.c"}},
		{"a braced name may have anything", "${a-b}${a b}", "dashspace", 2, []string{"a-b", "a b"}},
		{"header names are lower-cased", "$http_X_User", "u", 1, []string{"http_x_user"}},
		{"hyphens in header names are underscores", "${http_X-User}", "u", 1, []string{"http_x_user"}},
		{"only a lower-case prefix makes a header", "$HTTP_A", "upper", 1, []string{"HTTP_A"}},
		{"white space of all ASCII kinds is ignored in braces", "${\t\n\v\f\r a \t??\n5 }", "1", 1, []string{"a"}},
		{"other white space is part of the name", "${\u00a0a}", "", 0, []string{"\u00a0a"}},
		{"an escape is kept, with what follows", `\$a $a`, `\$a 1`, 1, []string{"a"}},
		{"two backslashes escape as well", `\\$a`, `\\$a`, 0, nil},
		{"an escaped dollar does not escape the next", `\$$a`, `\$1`, 1, []string{"a"}},
		{"a name is listed once", "$a$a", "11", 2, []string{"a"}},
		{"a reference without a name is never looked up", "${ }x${ ?? d}", "xd", 1, nil},
		{"the first ?? splits", "${missing????5}", "", 0, []string{"missing"}},
		{"three question marks leave one", "${missing???5}", "?5", 1, []string{"missing"}},
		{"a single question mark is part of the name", "${missing ? 5}", "", 0, []string{"missing ? 5"}},
		{"an empty value beats the default", "x${empty ?? 5}", "x", 1, []string{"empty"}},
		{"braces may hold line breaks", "${missing ?? a\nb}", "a\nb", 1, []string{"missing"}},
		{"a dollar at the end is text", "$a$", "1$", 1, []string{"a"}},
		{"a dollar before other text is text", "$ä$a", "$ä1", 1, []string{"a"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			template := ParseTemplate(c.template)
			value, resolved := template.Resolve(lookupIn(vars))
			require.Equal(t, c.value, value)
			require.Equal(t, c.resolved, resolved)
			require.Equal(t, c.names, template.Names())
		})
	}
}

func TestSimpleTemplatesDoNotAllocate(t *testing.T) {
	lookup := lookupIn(map[string]string{"remote_addr": "127.0.0.1"})
	for rule, template := range map[string]*Template{
		"nothing":          ParseTemplate(""),
		"plain text":       ParseTemplate("everyone"),
		"one variable":     ParseTemplate("$remote_addr"),
		"one with default": ParseTemplate("${http_missing ?? 10}"),
	} {
		t.Run(rule, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, func() { template.Resolve(lookup) }))
		})
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		ParseTemplate("$remote_addr").Names()
	}), 10.0)
}

func TestQuotaNumbers(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		err  string
	}{
		{"1", 1, ""},
		{" 42\t", 42, ""},
		{"+7", 7, ""},
		{"007", 7, ""},
		{"1e3", 1000, ""},
		{"5.0", 5, ""},
		{"9007199254740991", 9007199254740991, ""},
		{"9007199254740992", 0, "exceeds safe integer range"},
		{"9999999999999999", 0, "exceeds safe integer range"},
		{"1e400", 0, "exceeds safe integer range"},
		{"0", 0, "must be a positive number"},
		{"-0", 0, "must be a positive number"},
		{"-1", 0, "must be a positive number"},
		{"-1.5", 0, "must be a positive number"},
		{"-1e400", 0, "must be a positive number"},
		{"1e-400", 0, "must be a positive number"},
		{"1.5", 0, "must be an integer"},
		{"", 0, "is not a number"},
		{"abc", 0, "is not a number"},
		{"0x10", 16, ""},
		{"0x1.8p4", 24, ""},
		{"0x1.8", 0, "must be an integer"},
		{"0b101", 5, ""},
		{"-0b101", 0, "must be a positive number"},
		{"0b" + strings.Repeat("0", 100) + "101", 5, ""},
		{"0b" + strings.Repeat("1", 64), 0, "exceeds safe integer range"},
		{"0b" + strings.Repeat("1", 65), 0, "is not a number"},
		{"nan", 0, "must be an integer"},
		{"inf", 0, "exceeds safe integer range"},
		{"-inf", 0, "must be a positive number"},
		{"1_000", 0, "is not a number"},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := parseQuotaNumber(c.text)
			require.Equal(t, c.want, got)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "resolved value "+c.err)
			}
		})
	}
	_, err := parseQuotaNumber("Bearer token")
	require.EqualError(t, err, "resolved value is not a number")
	_, err = parseQuotaNumber("-" + strings.Repeat("1", 1000))
	require.EqualError(t, err, `resolved value must be a positive number, got "-`+strings.Repeat("1", 63)+`"`)
}

func TestNumberVectors(t *testing.T) {
	var file struct {
		ToNumber struct {
			Cases []struct {
				Text   string
				Number any
			}
		}
	}
	readVectors(t, "counter.json", &file)
	require.NotEmpty(t, file.ToNumber.Cases)
	for _, c := range file.ToNumber.Cases {
		t.Run(strconv.Quote(c.Text), func(t *testing.T) {
			got, ok := parseNumber(c.Text)
			require.Equal(t, c.Number != nil, ok)
			if !ok {
				return
			}
			if want := vectorNumber(t, c.Number); math.IsNaN(want) {
				require.True(t, math.IsNaN(got))
			} else {
				require.Equal(t, want, got)
			}
		})
	}
}

// vectorNumber reads a number that JSON may not be able to write.
func vectorNumber(t *testing.T, value any) float64 {
	t.Helper()
	text, isText := value.(string)
	if !isText {
		return value.(float64)
	}
	number, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return number
}

func TestKeySource(t *testing.T) {
	vars := map[string]string{
		"remote_addr": "127.0.0.1", "consumer_name": "jack", "http_a": "1", "http_x_user": "u", "arg_empty": "",
	}
	for _, c := range []struct {
		rule, keyType, key, want string
		names                    []string
	}{
		{"var: the variable's value", "var", "consumer_name", "jack", []string{"consumer_name", "remote_addr"}},
		{"var: the default key", "var", "remote_addr", "127.0.0.1", []string{"remote_addr"}},
		{"var: absent, the address", "var", "http_b", "127.0.0.1", []string{"http_b", "remote_addr"}},
		{"var: an empty value is a value", "var", "arg_empty", "", []string{"arg_empty", "remote_addr"}},
		{"var: no name, the address", "var", "", "127.0.0.1", []string{"remote_addr"}},
		{"var: header names are normalised", "var", "http_X-User", "u", []string{"http_x_user", "remote_addr"}},
		{"var: no template", "var", "$http_a", "127.0.0.1", []string{"$http_a", "remote_addr"}},
		{"combination: all present", "var_combination", "$remote_addr $consumer_name", "127.0.0.1 jack", []string{"remote_addr", "consumer_name"}},
		{"combination: some present", "var_combination", "$http_a $http_b", "1 ", []string{"http_a", "http_b", "remote_addr"}},
		{"combination: none present, the address", "var_combination", "$http_b $http_c", "127.0.0.1", []string{"http_b", "http_c", "remote_addr"}},
		{"combination: no variable at all, the address", "var_combination", "everyone", "127.0.0.1", []string{"remote_addr"}},
		{"combination: a default counts", "var_combination", "${http_b ?? anonymous}", "anonymous", []string{"http_b", "remote_addr"}},
		{"combination: an empty value counts", "var_combination", "$arg_empty", "", []string{"arg_empty", "remote_addr"}},
		{"constant: the text itself", "constant", "$http_a", "$http_a", nil},
		{"constant: also when empty", "constant", "", "", nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			source := NewKeySource(c.keyType, c.key)
			require.Equal(t, c.want, source.Resolve(lookupIn(vars)))
			require.Equal(t, c.names, source.Names())
		})
	}
	require.Empty(t, NewKeySource("var", "http_b").Resolve(lookupIn(nil)), "no address either")
}

func BenchmarkKeySource(b *testing.B) {
	lookup := lookupIn(map[string]string{"remote_addr": "127.0.0.1", "consumer_name": "jack"})
	for name, source := range map[string]*KeySource{
		"var":             NewKeySource("var", "remote_addr"),
		"var_combination": NewKeySource("var_combination", "$remote_addr $consumer_name"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				source.Resolve(lookup)
			}
		})
	}
}

// FuzzParseTemplate checks that any text is a template, that only names it lists are
// looked up, and that text without a dollar sign stays as it is.
func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{
		"", "$", "$$a", "${a}", "${ a ?? b ?? c }", `\$a`, "${}", "${ }", "${a", "$a.b-$http_X", "${a ?? }}", "$ä", "\xff$a\xff",
	} {
		f.Add(seed, "v")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		template := ParseTemplate(text)
		names := template.Names()
		absent, _ := template.Resolve(func(name string) (string, bool) {
			require.Contains(t, names, name)
			return "", false
		})
		present, resolved := template.Resolve(func(string) (string, bool) { return value, true })
		require.GreaterOrEqual(t, resolved, len(names))
		if !strings.Contains(text, "$") {
			require.Equal(t, text, absent)
			require.Equal(t, text, present)
			require.Zero(t, resolved)
		}
		if number, err := parseQuotaNumber(present); err == nil {
			require.Positive(t, number)
			require.LessOrEqual(t, number, int64(MaxQuantity))
		}
	})
}
