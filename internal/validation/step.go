package validation

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// stepKind says by which schema keyword a value was reached from its parent,
// because the sentences differ ("property", "item", a property that only a
// pattern knows).
type stepKind int

const (
	stepProperty stepKind = iota
	stepItem
	stepPattern
	stepAdditional
)

// step is one element of the way from the document to a value.
type step struct {
	kind    stepKind
	name    string // the property's name
	index   int    // zero-based, for stepItem
	pattern string // the regular expression, for stepPattern
}

func compareSteps(a, b step) int {
	if a.kind == stepItem && b.kind == stepItem {
		return a.index - b.index
	}
	return strings.Compare(a.name, b.name)
}

// render returns the sentence's part that leads to the value.
func render(steps []step) string {
	var where strings.Builder
	for _, s := range steps {
		switch s.kind {
		case stepProperty:
			fmt.Fprintf(&where, "property %q validation failed: ", s.name)
		case stepItem:
			fmt.Fprintf(&where, "failed to validate item %d: ", s.index+1)
		case stepPattern:
			fmt.Fprintf(&where, "failed to validate %s (matching %q): ", s.name, s.pattern)
		case stepAdditional:
			fmt.Fprintf(&where, "failed to validate additional property %q: ", s.name)
		}
	}
	return where.String()
}

// advance returns the steps to the value of e. The library records for each error
// the value's path and the schema's location. The location, read from base (the
// location that the known steps belong to), says which keyword each new element of
// the path went through: "/properties/rules/items/oneOf/0" is two steps.
func advance(steps []step, base string, e *jsonschema.ValidationError) []step {
	path := e.InstanceLocation
	if len(path) <= len(steps) {
		return steps
	}
	// A full slice expression, so that siblings never share what they append.
	out := steps[:len(steps):len(steps)]
	tokens := locationTokens(strings.TrimPrefix(e.SchemaURL, base))
	for i := 0; i < len(tokens) && len(out) < len(path); i++ {
		at := path[len(out)]
		switch tokens[i] {
		case "properties":
			out = append(out, step{kind: stepProperty, name: at})
			i++
		case "patternProperties":
			s := step{kind: stepPattern, name: at}
			if i++; i < len(tokens) {
				s.pattern = tokens[i]
			}
			out = append(out, s)
		case "additionalProperties", "unevaluatedProperties":
			out = append(out, step{kind: stepAdditional, name: at})
		case "items", "prefixItems", "contains", "unevaluatedItems":
			out = append(out, itemStep(at))
		case "$defs", "dependentSchemas":
			i++
		}
	}
	// What the location does not tell (a reference in an unusual place) is still
	// named, as a property.
	for len(out) < len(path) {
		out = append(out, step{kind: stepProperty, name: path[len(out)]})
	}
	return out
}

func itemStep(at string) step {
	index, err := strconv.Atoi(at)
	if err != nil {
		return step{kind: stepProperty, name: at}
	}
	return step{kind: stepItem, name: at, index: index}
}

// locationTokens splits the fragment of a schema location, a URL-encoded JSON
// pointer.
func locationTokens(location string) []string {
	if _, fragment, found := strings.Cut(location, "#"); found {
		location = fragment
	}
	tokens := strings.Split(strings.TrimPrefix(location, "/"), "/")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i, token := range tokens {
		if decoded, err := url.PathUnescape(token); err == nil {
			token = decoded
		}
		tokens[i] = unescape.Replace(token)
	}
	return tokens
}
