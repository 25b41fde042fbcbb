// Package decorations reads, writes and compares the decorations of a service's GraphQL cost
// model as documents: YAML or JSON files that people keep next to their code.
//
// A document is one service's whole set:
//
//	service_id: shop            # optional
//	decorations:
//	  - field_path: Query.products
//	    mul_arguments: [first]
//	  - id: reviews             # optional: the store makes one
//	    field_path: Product.reviews
//	    mul_arguments: [first]
//	    assumed_size: 20
//
// or only the list. The members of a decoration are those that the admin endpoint takes, and
// they are validated with the same schema (Schema).
//
// The format of others is read as well: SDL with @cost and @listSize (FromSDL) and the cost
// decorations of Kong's graphql-rate-limiting-advanced (FromKong). Suggest proposes a set for
// a schema. Everything here is pure: no I/O, no clock.
package decorations

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"sync"

	"graphql-limit-count/internal/validation"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxBytes is how long a document may be.
	MaxBytes = 2 << 20
	// MaxDecorations is how many decorations one service may have in a document.
	MaxDecorations = 20_000
)

// Set is the decorations of one service.
type Set struct {
	// ServiceID is the service; empty when the document does not say.
	ServiceID string
	// Decorations have different ids (those that have one) and different field paths.
	Decorations []Decoration
	// LeftOut are those that the admin endpoint left out; Parse does not fill it in.
	LeftOut []LeftOut
}

// Decoration is one of a set.
type Decoration struct {
	// ID is the decoration's id within its service. Empty: it keeps that of the present
	// decoration of its field path, else it gets a new one.
	ID string
	// FieldPath is Value's field_path.
	FieldPath string
	// Value is a JSON object with the members that were sent, in the order in which
	// documents are written; without id, service_id and the times.
	Value json.RawMessage
	// Comment is printed above the decoration in YAML, a line for each of its lines. Parse
	// does not fill it in.
	Comment string
	// Line is where the decoration stands in the document that was parsed, from 1; 0 when it
	// does not come from a document.
	Line int
}

// The members of a decoration and of a document that this package itself reads.
const (
	memberID          = "id"
	memberServiceID   = "service_id"
	memberFieldPath   = "field_path"
	memberAddValue    = "add_value"
	memberMulValue    = "mul_value"
	memberDecorations = "decorations"
)

// memberOrder is the order in which a decoration's members are written, after id.
var memberOrder = []string{
	memberFieldPath, memberAddValue, "add_arguments", memberMulValue, "mul_arguments",
	"assumed_size", "name", "desc", "labels",
}

// defaultWeight is what add_value and mul_value are when they are left out.
const defaultWeight = 1

//go:embed decoration.schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of one decoration, with all its members. It is compiled when
// it is first needed.
var Schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return validation.Compile("decoration.schema.json", schemaJSON)
})

// NewSet returns a service's decorations in the order of their field paths.
func NewSet(serviceID string, decorations []Decoration) Set {
	s := Set{ServiceID: serviceID, Decorations: slices.Clone(decorations)}
	slices.SortFunc(s.Decorations, func(a, b Decoration) int {
		return cmp.Or(cmp.Compare(a.FieldPath, b.FieldPath), cmp.Compare(a.ID, b.ID))
	})
	return s
}
