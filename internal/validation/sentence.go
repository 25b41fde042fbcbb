package validation

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	// maxExactDigits is how many digits of a whole number are printed before the
	// exponent form is used.
	maxExactDigits = 21
	// maxQuoted is how many bytes of a value or name a sentence repeats: it is the
	// client's and may be as long as a body may be.
	maxQuoted = 256
)

// collect appends the faults of the error tree e. The steps lead to the parent's
// value and base is the schema location that they belong to.
func collect(faults []Fault, e *jsonschema.ValidationError, steps []step, base string) []Fault {
	steps = advance(steps, base, e)
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf:
		return collectCauses(faults, e, steps, e.SchemaURL)
	case *kind.Reference:
		return collectCauses(faults, e, steps, k.URL)
	case *kind.Required:
		for _, name := range k.Missing {
			what := fmt.Sprintf("property %q is required", name)
			faults = append(faults, newFault(e, steps, what, name))
		}
		return faults
	case *kind.AdditionalProperties:
		names := slices.Sorted(slices.Values(k.Properties))
		what := "additional properties forbidden, found " + shorten(strings.Join(names, ", "))
		return append(faults, newFault(e, steps, what, names...))
	case *kind.AnyOf:
		return append(faults, newFault(e, steps, "object matches none of the required"+closest(e, steps)))
	case *kind.OneOf:
		return append(faults, newFault(e, steps, oneOf(k, e, steps)))
	default:
		return append(faults, newFault(e, steps, leaf(e)))
	}
}

func collectCauses(faults []Fault, e *jsonschema.ValidationError, steps []step, base string) []Fault {
	for _, cause := range e.Causes {
		faults = collect(faults, cause, steps, base)
	}
	return faults
}

func newFault(e *jsonschema.ValidationError, steps []step, what string, names ...string) Fault {
	keyword := ""
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[0]
	}
	return Fault{
		Path: slices.Clone(e.InstanceLocation), Keyword: keyword, Names: names,
		Where: render(steps), What: what,
		Location: "/" + strings.Join(locationTokens(e.SchemaURL), "/"),
		steps:    steps,
	}
}

func oneOf(k *kind.OneOf, e *jsonschema.ValidationError, steps []step) string {
	const sentence = "value should match only one schema, but matches "
	if len(k.Subschemas) == 2 {
		return fmt.Sprintf("%sboth schemas %d and %d", sentence, k.Subschemas[0]+1, k.Subschemas[1]+1)
	}
	return sentence + "none" + closest(e, steps)
}

// closest returns what separates a value from the alternative it was probably
// meant for (": expected 0 to be greater than 0"): the only one that takes values
// of its type. When all of them want another type it names the types. It is empty
// when the alternatives are too many to choose from.
func closest(e *jsonschema.ValidationError, steps []step) string {
	var wanted []string
	var candidates []Fault
	got := ""
	for _, cause := range e.Causes {
		typeKind, isType := cause.ErrorKind.(*kind.Type)
		if isType && len(cause.InstanceLocation) == len(e.InstanceLocation) {
			wanted = append(wanted, typeKind.Want...)
			got = typeKind.Got
			continue
		}
		faults := collect(nil, cause, steps, e.SchemaURL)
		slices.SortStableFunc(faults, compareFaults)
		if len(faults) > 0 {
			candidates = append(candidates, faults[0])
		}
	}
	switch {
	case len(candidates) == 1:
		return ": " + render(candidates[0].steps[len(steps):]) + candidates[0].What
	case len(candidates) == 0 && len(wanted) > 0:
		return ": " + wrongType(wanted, got)
	default:
		return ""
	}
}

func wrongType(want []string, got string) string {
	if got == "number" && slices.Contains(want, "integer") {
		got = "number with a fraction"
	}
	return fmt.Sprintf("wrong type: expected %s, got %s", strings.Join(want, " or "), got)
}

// leaf returns the sentence of an error that stands for itself.
func leaf(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return wrongType(k.Want, k.Got)
	case *kind.Enum:
		return "matches none of the enum values" + listed(k.Want)
	case *kind.Const:
		return "expected " + literal(k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("failed to match pattern %q with %q", k.Want, shorten(k.Got))
	case *kind.Format:
		return fmt.Sprintf("expected valid %s, got %s", k.Want, literal(k.Got))
	case *kind.FalseSchema:
		return "no value is allowed here"
	case *kind.Not:
		return "value should not match the schema"
	case *kind.DependentRequired:
		return fmt.Sprintf("property %q is required when property %q is set", slices.Min(k.Missing), k.Prop)
	default:
		return measure(e)
	}
}

// measure returns the sentence of an error about a size, a number or an array.
func measure(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("string too short, expected at least %d, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("string too long, expected at most %d, got %d", k.Want, k.Got)
	case *kind.Minimum:
		return fmt.Sprintf("expected %s to be at least %s", number(k.Got), number(k.Want))
	case *kind.Maximum:
		return fmt.Sprintf("expected %s to be at most %s", number(k.Got), number(k.Want))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("expected %s to be greater than %s", number(k.Got), number(k.Want))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("expected %s to be smaller than %s", number(k.Got), number(k.Want))
	case *kind.MultipleOf:
		return fmt.Sprintf("expected %s to be a multiple of %s", number(k.Got), number(k.Want))
	case *kind.MinItems:
		return fmt.Sprintf("expected at least %s, got %d", counted(k.Want, "item", "items"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("expected at most %s, got %d", counted(k.Want, "item", "items"), k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0]+1, k.Duplicates[1]+1)
	case *kind.Contains:
		return "no item is as required" + firstCause(e)
	case *kind.MinProperties:
		return fmt.Sprintf("expected at least %s, got %d", counted(k.Want, "property", "properties"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("expected at most %s, got %d", counted(k.Want, "property", "properties"), k.Got)
	default:
		return fmt.Sprintf("keyword %q failed", strings.Join(e.ErrorKind.KeywordPath(), "/"))
	}
}

// counted returns a number of things ("1 item", "2 items").
func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// firstCause returns the sentence of the first cause without its place, after a
// colon.
func firstCause(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return ""
	}
	return ": " + leaf(e.Causes[0])
}

// listed returns the values of an enum (`: expected "a", "b" or "c"`).
func listed(values []any) string {
	if len(values) == 0 {
		return ""
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = literal(v)
	}
	last := len(texts) - 1
	if last == 0 {
		return ": expected " + texts[0]
	}
	return ": expected " + strings.Join(texts[:last], ", ") + " or " + texts[last]
}

// literal prints a value as JSON.
func literal(v any) string {
	if text, ok := v.(string); ok {
		return strconv.Quote(shorten(text))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shorten(string(text))
}

// number prints a number as a person would write it: whole numbers in full unless
// they are astronomical, others in the shortest form that is exact in float64.
func number(n *big.Rat) string {
	if n.IsInt() {
		if text := n.RatString(); len(text) <= maxExactDigits {
			return text
		}
	}
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// shorten bounds a text that a sentence repeats.
func shorten(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "..."
}
