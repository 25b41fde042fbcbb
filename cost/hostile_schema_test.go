package cost_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// TestAHostileSchemaIsBounded: encoding/json alone would make 64 bytes of each of these.
func TestAHostileSchemaIsBounded(t *testing.T) {
	if underRace {
		t.Skip("the race detector takes seconds for each half million of names, and this is pure computing")
	}
	const many = 500_002
	const dropped, kept = 96 << 20, 192 << 20 // bytes allocated in all, so the peak is less
	equal := func(item string) string { return strings.Repeat(item+",", many) + item }
	distinct := func(before, separator string) string {
		var b strings.Builder
		for i := range many {
			fmt.Fprintf(&b, before, i)
			if i < many-1 {
				b.WriteString(separator)
			}
		}
		return b.String()
	}
	const tooMany = "declares more than 500000 types, fields and arguments"
	tests := []struct {
		name, text, err string
		bound           uint64
	}{
		{"types without names", `{"__schema":{"types":[` + equal(`{}`) + `]}}`, "declares no types", dropped},
		{"types that are null", `{"__schema":{"types":[` + equal(`null`) + `]}}`, "declares no types", dropped},
		{"fields without names", `{"__schema":{"types":[{"name":"A","fields":[` + equal(`{}`) + `]}]}}`, tooMany, dropped},
		{"arguments without names", `{"__schema":{"types":[{"name":"A","fields":[{"args":[` + equal(`{}`) + `]}]}]}}`, tooMany, dropped},
		{"numbers for fields", `{"__schema":{"types":[{"name":"A","fields":[` + equal(`0`) + `]}]}}`, "cannot unmarshal number", dropped},
		{"many types", `{"__schema":{"types":[` + distinct(`{"name":"T%d"}`, ",") + `]}}`, tooMany, kept},
		{"wrappers, as many as JSON may be nested", `{"__schema":{"types":[{"name":"A","fields":[{"name":"a","type":` + strings.Repeat(`{"ofType":`, 9990) + `null` + strings.Repeat("}", 9990) + `}]}]}}`, "", dropped},
		{"more nested", `{"__schema":` + strings.Repeat("[", 1<<20), "exceeded max depth", dropped},
		{"SDL with many fields", "type A {" + distinct("f%d:A", ",") + "}", tooMany, kept},
		{"SDL with many arguments", "type A {a(" + distinct("f%d:A", ",") + "):A}", tooMany, kept},
		{"SDL with many scalars", distinct("scalar f%d", " "), tooMany, kept},
		{"SDL with many types", distinct("type f%d", " "), tooMany, kept},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := []byte(tt.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := cost.ParseSchema(text)
			runtime.ReadMemStats(&after)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, tt.bound)
		})
	}
}
