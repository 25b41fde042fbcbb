package cost_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/graphql-go/graphql/language/ast"

	"graphql-limit-count/cost"
)

// literalNumber is the count that a constant of the document gives.
func literalNumber(v ast.Value) (float64, bool) {
	switch v := v.(type) {
	case *ast.IntValue:
		return textNumber(v.Value)
	case *ast.FloatValue:
		return textNumber(v.Value)
	case *ast.StringValue:
		return textNumber(v.Value)
	case *ast.ListValue:
		return float64(len(v.Values)), true
	default:
		return 0, false
	}
}

func suppliedNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, v >= 0
	case string:
		return textNumber(v)
	case []any:
		return float64(len(v)), true
	default:
		return 0, false
	}
}

var decimalText = regexp.MustCompile(`^[ \t\n\v\f\r]*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[ \t\n\v\f\r]*$`)

// textNumber is a decimal number that is finite and not negative.
func textNumber(text string) (float64, bool) {
	m := decimalText.FindStringSubmatch(text)
	if m == nil || m[1][0] == '-' && strings.ContainsAny(m[2], "123456789") {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	return n, err == nil && n >= 0
}

func capped(n float64) float64 { return math.Min(n, cost.MaxCost) }
