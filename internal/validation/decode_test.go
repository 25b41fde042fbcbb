package validation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodeKeepsValuesAsWritten(t *testing.T) {
	got, err := Decode([]byte(` {"a": [1.50, true, null, "x"], "b": {}, "": 9007199254740993} `))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": []any{json.Number("1.50"), true, nil, "x"},
		"b": map[string]any{},
		"":  json.Number("9007199254740993"),
	}, got)
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ rule, document, want string }{
		{"nothing", "", "invalid JSON: the document is empty"},
		{"only white space", " \n", "invalid JSON: the document is empty"},
		{"an unfinished document", `{"a":`, "invalid JSON: the document ends too early"},
		{"text after the document", "{}\n x", "invalid JSON: invalid character 'x' after top-level value (line 2, column 2)"},
		{"a second document", "{} {}", "invalid JSON: invalid character '{' after top-level value (line 1, column 4)"},
		{"a trailing comma", `{"a":1,}`, "invalid JSON: invalid character '}' looking for beginning of object key string (line 1, column 8)"},
		{"a comma before a bracket", `[1,]`, "invalid JSON: invalid character ']' looking for beginning of value (line 1, column 4)"},
		{"a comment", "{\n  // x\n}", "invalid JSON: invalid character '/' looking for beginning of object key string (line 2, column 3)"},
		{"a byte order mark", "\ufeff{}", "invalid JSON: the document begins with a byte order mark"},
		{"bytes that are not UTF-8", "{\"a\":\"\xff\"}", "invalid JSON: the document is not UTF-8"},
		{"a member that occurs twice", `{"a":1,"a":1}`, `property "a" occurs more than once`},
		{"a member that occurs twice under an escape", `{"a":1,"\u0061":1}`, `property "a" occurs more than once`},
		{"a member that occurs twice inside", `{"r":[{},{"k":1,"k":2}]}`,
			`property "r" validation failed: failed to validate item 2: property "k" occurs more than once`},
		{"a number beyond float64", `{"a":1e400}`, `property "a" validation failed: number 1e400 is out of range`},
		{"a number that would become zero", `{"a":1e-400}`, `property "a" validation failed: number 1e-400 is out of range`},
		{"an exponent longer than any use", `[0e99999999999999999999999999]`,
			`failed to validate item 1: number 0e99999999999999999999999999 is out of range`},
		{"a number longer than any use", "[0." + strings.Repeat("0", 512) + "]",
			"failed to validate item 1: number 0." + strings.Repeat("0", 254) + "... is out of range"},
		{"an exponent that exact arithmetic cannot afford", `[1e999999999]`, `failed to validate item 1: number 1e999999999 is out of range`},
		{"too deep nesting", strings.Repeat("[", 65) + strings.Repeat("]", 65), "objects and arrays are nested more than 64 deep"},
		{"very deep nesting", strings.Repeat("[", 100000), "invalid JSON: invalid character '[' exceeded max depth (line 1, column 10001)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := Decode([]byte(c.document))
			require.EqualError(t, err, c.want)
		})
	}
}

func TestDecodeAcceptsTheLimits(t *testing.T) {
	for rule, document := range map[string]string{
		"the deepest nesting":       strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"zero with any exponent":    `[0e99, -0.0e-9999999]`,
		"the largest float64":       `1.7976931348623157e308`,
		"equal names elsewhere":     `{"a":{"a":1},"b":{"a":1}}`,
		"names that differ by case": `{"a":1,"A":2}`,
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := Decode([]byte(document))
			require.NoError(t, err)
		})
	}
}

// FuzzDecode checks that what Decode accepts is JSON and reads as encoding/json
// reads it.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,]`, `{"a":[1,{"b":null}]}`, `1e400`, `"\ud800"`, `{"a":1,"a":2}`, `[1 2]`, `{"a" 1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Decode(raw)
		if err != nil {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.UseNumber()
		var want any
		require.NoError(t, decoder.Decode(&want))
		require.Equal(t, want, got)
	})
}
