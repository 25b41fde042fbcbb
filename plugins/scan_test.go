package plugins

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scanCases are JSON and texts that are nearly so.
var scanCases = []string{
	`{"query":"{a}"}`, `{"query":"query A {\n  a\n}","operationName":"A","variables":{"a":[1,{"b":"}"}]}}`,
	`{"query":"\u007Ba\u007D \ud83d\ude00 \ud83d \ude00\ud83d\u0041 \"\\\/\b\f\r\t","\u0071uery":1}`,
	`{"query":"{a}","query":"{b}"}`, `{"query":"{a}","variables":{},"variables":null}`, `{"query":"{a}","Query":"{b}"}`,
	`{"variables":" {\"n\":1}","query":"{a}"}`, `{"query":"{a}","variable` + "\u017f" + `":1}`, `{"query":1,"query[]":2,"query":"{a}"}`,
	`[{"query":"{a}"},{"query":"{b}","operationName":"B"}]`, `[{"query":"{a}"},{},{},{},{}]`, `[{"query":"{a}"},1`, `[]`, `[[]]`, `[,]`, `[1,]`,
	`{"query":"{a}","variables":{"n":1,"n":2}}`, `{"query":"{a}","variables":{"n":1,"\u006e":2},"query":1}`, `{"variables":{"":1,"":2,"n":3,"n":4},"query":1}`,
	`{"query":"{a}","variables":{"n":{"a":1,"a":2},"m":[{"a":1,"a":2}]}}`, `{"query":"{a}","variables":{"n":1,"n":2},"variables":{}}`,
	`{"query":"{a}","variables":{"n":1,"n":2},"x"}`, `{"query":"{a}","variables":{"n":1,"n"}}`, `{"query":"{a}","variables":{"n":1 "n":2}}`, `{"query":"{a}","variables":{"n":1,}}`,
	`{"query":"{a}","variables":{"n":1,"n":2},"variables":{"m":1,"m":2},"query":"{b}"}`, `[{"query":"{a}","variables":{"n":1}},{"query":"{a}","variables":{"n":1,"n":1}}]`,
	"{\"query\":\"{a}\",\"variables\":{\"\xff\":1,\"\\ufffd\":2}}", manyVariables(100, ""), manyVariables(100, `"v7":1,`), manyVariables(17, `"v16":1,`), manyVariables(16, `"\u00760":1,`),
	`{}`, `{,}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a"}`, `{"a":}`, `{1:2}`, `{"a":{"b":{"c":[[[[]]]]}}}`, `{"a" :1,"b": 2 } `, `{"":"","query":1}`,
	`{"query":"{a}"} x`, `{"query":"{a}"}{}`, "{\"query\":\"{a}\"}\x00", `{"query":"{a}"`, ` `, ``, "\uFEFF{}", "\uFEFF\uFEFF{}",
	"{\"query\":\"\xff\xc3(\"}", "{\"query\":\"\xe2\x82\\n\xac\"}", "{\"query\":\"a\x1fb\"}", "{\"query\":\"tab\there\"}", "{\"query\":\"long enough for two words\x01\"}",
	`{"a":-0,"b":-1.5e+3,"c":1E5,"d":0.1}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":0x1}`, `{"a":NaN}`,
	`{"a":true,"b":false,"c":null}`, `{"a":tru}`, `{"a":nulll}`, `{"a":True}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":"\u00`,
	`{"query":"aéé","operationName":"é"}`, `{"query":"0123456\\89abcde\"","x":"01234567"}`, "[\t\r\n ]", "{\"a\":\v1}", `"{a}"`, `1`, `null`, `nul`,
	strings.Repeat("[", 100) + strings.Repeat("]", 100),
	strings.Repeat("[", maxJSONNesting) + strings.Repeat("]", maxJSONNesting),
	strings.Repeat("[", maxJSONNesting+1) + strings.Repeat("]", maxJSONNesting+1),
	`{"variables":` + strings.Repeat(`{"a":`, maxJSONNesting-1) + `1` + strings.Repeat(`}`, maxJSONNesting) + ``,
	`{"variables":` + strings.Repeat(`{"a":`, maxJSONNesting) + `1` + strings.Repeat(`}`, maxJSONNesting) + `}`,
}

// manyVariables is a request with variables v0, v1 and so on, the last ones first, and
// with more in front.
func manyVariables(n int, more string) string {
	var b strings.Builder
	b.WriteString(`{"query":"{a}","variables":{` + more)
	for i := n - 1; i >= 0; i-- {
		fmt.Fprintf(&b, `"v%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",") + "}}"
}

// TestRequestsAreReadAsByEncodingJSON: what is read in one pass is what the walk over
// the checked text reads, and what is refused is refused in the same words.
func TestRequestsAreReadAsByEncodingJSON(t *testing.T) {
	for _, text := range scanCases {
		for _, maxBatch := range []int64{0, 3} {
			requireReadAlike(t, []byte(text), maxBatch)
		}
	}
}

// FuzzRequestsAreReadAsByEncodingJSON is that test for any text.
func FuzzRequestsAreReadAsByEncodingJSON(f *testing.F) {
	for _, text := range scanCases {
		f.Add([]byte(text), uint8(0))
		f.Add([]byte(text), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, maxBatch uint8) { requireReadAlike(t, text, int64(maxBatch)) })
}

func requireReadAlike(t *testing.T, text []byte, maxBatch int64) {
	t.Helper()
	head := fmt.Sprintf("%.200q", text)
	want, wantErr := oracleOperations(text, maxBatch)
	d := decision{route: &route{Config: &Config{MaxBatch: maxBatch}}}
	for range 2 { // the second time in the room of the first
		got, err := d.operationsInJSON(text)
		if wantErr != nil {
			require.EqualError(t, err, wantErr.Error(), head)
			continue
		}
		require.NoError(t, err, head)
		require.Len(t, got, len(want), head)
		for i := range want {
			require.Equal(t, string(want[i].query), string(got[i].query), head)
			require.Equal(t, string(want[i].name), string(got[i].name), head)
			require.Equal(t, string(want[i].variables), string(got[i].variables), head)
			require.Equal(t, want[i].variables == nil, got[i].variables == nil, head)
		}
		requireMembersScanAlike(t, got)
	}
}

// requireMembersScanAlike walks over the variables with the scanner and with the walk.
func requireMembersScanAlike(t *testing.T, operations []operation) {
	for i := range operations {
		if operations[i].variables == nil {
			continue
		}
		var s jsonScanner
		var text []byte
		s.start(operations[i].variables)
		require.True(t, s.take('{'))
		err := eachMember(operations[i].variables, func(key string, value []byte) error {
			s.take(',')
			name, ok := s.key()
			require.True(t, ok)
			require.Equal(t, key, string(name.bytes(&text)))
			found, ok := s.value()
			require.True(t, ok)
			require.Equal(t, string(value), string(found))
			return nil
		})
		require.NoError(t, err)
		require.True(t, s.take('}'))
		require.True(t, s.ended())
	}
}

// FuzzStrings: a string is taken if encoding/json takes it, and read as it reads it.
func FuzzStrings(f *testing.F) {
	for _, text := range []string{
		``, `a`, `\n`, `0123456\u0041\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83d\n`, "\xff", "é\\u00e9\xe9", "\x00", `\u`, `\`, `\\\"`, strings.Repeat("x", 40) + `\t`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text := append(append([]byte{'"'}, body...), '"')
		var s jsonScanner
		s.start(text)
		found, ok := s.described()
		require.Equal(t, json.Valid(text), ok && s.ended(), "%q", text)
		if ok && s.ended() {
			room := []byte("before")
			require.Equal(t, unquote(text), string(found.in.bytes(&room)), "%q", text)
			require.Equal(t, "before", string(room[:len("before")]))
		}
	})
}

// TestReadingAUsualRequestAllocatesNothing: strings without escapes are not copied, and
// those with escapes are decoded into room that is there already.
func TestReadingAUsualRequestAllocatesNothing(t *testing.T) {
	d := decision{route: &route{Config: &Config{}}}
	for _, text := range []string{
		`{"query":"query A($n: Int) { products(first: $n) { id } }","operationName":"A","variables":{"n":[1,2,{"x":"y"}]},"extensions":{"a":1}}`,
		`{"query":"query A {\n  products(text: \"é\") {\n    id\n  }\n}","operationName":"A"}`,
	} {
		body := []byte(text)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := d.operationsInJSON(body); err != nil {
				t.Error(err)
			}
		}))
	}
}
