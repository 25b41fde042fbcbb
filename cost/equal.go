package cost

import (
	"maps"
	"slices"
)

// Equal reports whether two schemas declare the same as far as this package can tell: root
// types, types, fields, what they return, arguments and their defaults, in whatever order.
func (s *Schema) Equal(other *Schema) bool {
	if s == other {
		return true
	}
	if s == nil || other == nil {
		return false
	}
	return s.query.named() == other.query.named() &&
		s.mutation.named() == other.mutation.named() &&
		s.subscription.named() == other.subscription.named() &&
		maps.EqualFunc(s.types, other.types, (*typeDefinition).equal)
}

// named is the type's name, empty for none.
func (t *typeDefinition) named() string {
	if t == nil {
		return ""
	}
	return t.name
}

func (t *typeDefinition) equal(other *typeDefinition) bool {
	return t.concrete == other.concrete && maps.EqualFunc(t.fields, other.fields, func(a, b *fieldDefinition) bool {
		return a.returns == b.returns && slices.Equal(a.arguments, b.arguments)
	})
}
