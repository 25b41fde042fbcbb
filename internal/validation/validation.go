// Package validation says what is wrong with a JSON document in sentences an
// operator can act on.
//
// It compiles JSON Schemas (draft 2020-12), reads documents more strictly than
// encoding/json does (see Decode) and turns the error tree of the schema library
// into one sentence per fault that names the property at fault (see Faults). The
// sentences follow the wording of the validator inside APISIX, so that whoever
// knows its Admin API recognises them:
//
//	property "rejected_code" validation failed: expected 199 to be at least 200
//	property "rules" validation failed: failed to validate item 1: property "key" is required
//
// Results never depend on the order of a map: the same document and schema give
// the same faults in the same order.
package validation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Keywords whose faults callers may want to treat in a way of their own.
const (
	// KeywordRequired marks a fault about a missing property; Names holds it.
	KeywordRequired = "required"
	// KeywordAdditionalProperties marks a fault about properties that the schema
	// does not know; Names holds them.
	KeywordAdditionalProperties = "additionalProperties"
)

// Fault is one thing wrong with a document.
type Fault struct {
	// Path leads from the document's root to the value at fault: property names,
	// and the zero-based decimal index of array items.
	Path []string
	// Keyword is the JSON Schema keyword that failed ("type", "required", ...).
	Keyword string
	// Names are the property names that a "required" or "additionalProperties"
	// fault is about, sorted; nil for other keywords.
	Names []string
	// Where is the first part of the sentence, the way to the value at fault; it
	// is empty for the document itself.
	Where string
	// What is the second part of the sentence: the fault.
	What string
	// Location is the JSON pointer, in the schema's document, of the schema that the
	// value does not match; it tells faults of one value ("/properties/a") from those
	// of a combination ("/allOf/0/then").
	Location string

	steps []step
}

// String returns the whole sentence.
func (f Fault) String() string { return f.Where + f.What }

// Compile compiles a JSON Schema document of draft 2020-12. The name stands for
// the document in the library's own errors. The schema must not refer to other
// documents: nothing is ever loaded. It should not use propertyNames: the library
// reports a wrong place for it (the location shares memory with its neighbours').
//
// It must validate only values that Decode returned: the library panics on some of the
// numbers that Decode refuses.
func Compile(name string, schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("read json schema %s: %w", name, err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("add json schema %s: %w", name, err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("compile json schema %s: %w", name, err)
	}
	return compiled, nil
}

// noLoader refuses references to other documents: a schema is one embedded file.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema %q is not embedded", url)
}

// Message returns the sentence for the first fault in err, which is what
// (*jsonschema.Schema).Validate returned. An error of another kind is returned as
// its own text, and a nil error as "".
func Message(err error) string {
	if err == nil {
		return ""
	}
	faults := Faults(err)
	if len(faults) == 0 {
		return err.Error()
	}
	return faults[0].String()
}

// Faults returns every fault in err, which is what (*jsonschema.Schema).Validate
// returned: at most one per value, and one for each missing property. They are
// sorted by path, a value before what it contains; unknown properties of an
// object come before its other faults, because a misspelt property is usually why
// another one is missing. An error of another kind has no faults.
func Faults(err error) []Fault {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	faults := collect(nil, invalid, nil, invalid.SchemaURL)
	slices.SortStableFunc(faults, compareFaults)
	return slices.CompactFunc(faults, sameFault)
}

func compareFaults(a, b Fault) int {
	if c := slices.CompareFunc(a.steps, b.steps, compareSteps); c != 0 {
		return c
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	if c := slices.Compare(a.Names, b.Names); c != 0 {
		return c
	}
	// A value's own schema comes before a condition on it, which lies deeper. Keywords
	// of one schema keep the order in which the library looks at them.
	return cmp.Or(len(a.Location)-len(b.Location), strings.Compare(a.Location, b.Location))
}

// rank orders the faults of one value.
func rank(f Fault) int {
	switch f.Keyword {
	case KeywordAdditionalProperties:
		return 0
	case KeywordRequired:
		return 1
	default:
		return 2
	}
}

// sameFault reports whether b only repeats that the value of a is wrong.
func sameFault(a, b Fault) bool {
	return slices.Equal(a.Path, b.Path) && rank(a) == rank(b) && slices.Equal(a.Names, b.Names)
}
