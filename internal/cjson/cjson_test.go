package cjson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultsReadAsAPISIXTellsThem(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"an object that ends", `{`, "Expected object key string but found T_END at character 2"},
		{"an object that ends after white space", "{ \n", "Expected object key string but found T_END at character 4"},
		{"a value that is missing", `{ "unexpected eof": `, "Expected value but found T_END at character 21"},
		{"more than one value", `{ "extra data": true }, false`, "Expected the end but found T_COMMA at character 23"},
		{"an escape that is none", ` { "bad escape \q code" } `, "Expected object key string but found invalid escape code at character 16"},
		{"a unicode escape that is none", ` { "bad unicode \u0f6 escape" } `, "Expected object key string but found invalid unicode escape code at character 17"},
		{"a word that is none", ` [ "bad barewood", test ] `, "Expected value but found invalid token at character 20"},
		{"a number that is none", `[ -+12 ]`, "Expected value but found invalid number at character 3"},
		{"white space only", "  ", "Expected value but found T_END at character 3"},
		{"a member without a colon", `{"a" 1}`, "Expected colon but found T_NUMBER at character 6"},
		{"a member without a comma", `{"a":1 "b":2}`, "Expected comma or object end but found T_STRING at character 8"},
		{"an item without a comma", `[1 true]`, "Expected comma or array end but found T_BOOLEAN at character 4"},
		{"a comma before the end of an object", `{"a":1,}`, "Expected object key string but found T_OBJ_END at character 8"},
		{"a comma before the end of an array", `[1,]`, "Expected value but found T_ARR_END at character 4"},
		{"the wrong bracket", `[{]`, "Expected object key string but found T_ARR_END at character 3"},
		{"a bracket too many", `{}}`, "Expected the end but found T_OBJ_END at character 3"},
		{"a key that is null", `{null:1}`, "Expected object key string but found T_NULL at character 2"},
		{"a string that ends", `"abc`, "Expected value but found unexpected end of string at character 5"},
		{"an escape that ends", `"abc\`, "Expected value but found unexpected end of string at character 6"},
		{"half of a surrogate pair", `"\ud800"`, "Expected value but found invalid unicode escape code at character 2"},
		{"the other half", `"\udc00"`, "Expected value but found invalid unicode escape code at character 2"},
		{"a line break in a string", "\"a\nb\"", "Expected value but found invalid control character at character 3"},
		{"bytes that are no UTF-8", "\"a\xff\"", "Expected value but found invalid UTF-8 at character 3"},
		{"a leading zero", `01`, "Expected value but found invalid number at character 1"},
		{"a point without digits", `1.`, "Expected value but found invalid number at character 1"},
		{"an exponent without digits", `1e+`, "Expected value but found invalid number at character 1"},
		{"nesting without end", strings.Repeat("[", 5000), "Found too many nested data structures (1001) at character 1001"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, Fault([]byte(c.text)))
		})
	}
}

func TestGoodSyntaxHasNoFault(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` null `, `true`, `-0.5e+10`, `0`, `""`, `"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00ä"`,
		`{"a":[1,{"b":[]}],"c":{}}`, "\t[\r\n]", strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	} {
		require.Empty(t, Fault([]byte(text)), text)
	}
}

// FuzzFault checks that a text without a fault is JSON for encoding/json too.
func FuzzFault(f *testing.F) {
	for _, seed := range []string{``, `{`, `[[[[`, `"\ud800\udc00"`, `{"a":1,"a":2}`, "\"\xff\"", `1e1000000000`, `-`, `nul`, `{"id":1e-300}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if Fault(text) == "" {
			require.True(t, json.Valid(text))
		}
	})
}
