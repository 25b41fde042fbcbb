package cost

import (
	"bytes"
	"fmt"
)

// Schema is what costing needs of a GraphQL schema: the fields of its types,
// what they return and the defaults of their arguments. It is immutable; two
// schemas are the same if their pointers are.
type Schema struct {
	types                         map[string]*typeDefinition
	query, mutation, subscription *typeDefinition
}

// typeDefinition is one named type; only object and interface types have fields.
type typeDefinition struct {
	name   string
	fields map[string]*fieldDefinition
}

// fieldDefinition is one field of a type.
type fieldDefinition struct {
	// returns names the field's type without list and non-null wrappers.
	returns string
	// result is the definition of that type, nil if the schema lacks it.
	result *typeDefinition
	// defaults holds the arguments that declare a default.
	defaults map[string]Value
}

// ParseSchema reads a schema given as introspection JSON or as SDL, told apart
// by the first character.
func ParseSchema(text []byte) (*Schema, error) {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(text, []byte(byteOrderMark)), " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '{' {
		return ParseIntrospection(trimmed)
	}
	return ParseSDL(text)
}

// FieldType returns the name of the type that a field returns, without list and
// non-null wrappers; ok is false when the schema has no such type or field.
func (s *Schema) FieldType(typeName, field string) (name string, ok bool) {
	t := s.types[typeName]
	if t == nil || t.fields[field] == nil {
		return "", false
	}
	return t.fields[field].returns, true
}

// HasType reports whether the schema declares a type of that name.
func (s *Schema) HasType(name string) bool { return s.types[name] != nil }

// root is the type of an operation: "query", "mutation" or "subscription".
func (s *Schema) root(operation string) *typeDefinition {
	switch operation {
	case "mutation":
		return s.mutation
	case "subscription":
		return s.subscription
	default:
		return s.query
	}
}

// define returns the type of that name, declaring it when it is new. A nil schema
// keeps nothing and has no type.
func (s *Schema) define(name string) *typeDefinition {
	if s == nil {
		return nil
	}
	t := s.types[name]
	if t == nil {
		t = &typeDefinition{name: name}
		s.types[name] = t
	}
	return t
}

// link resolves what fields return, once all types are declared.
func (s *Schema) link() error {
	if len(s.types) == 0 {
		return fmt.Errorf("the schema declares no types")
	}
	for _, t := range s.types {
		for _, f := range t.fields {
			f.result = s.types[f.returns]
		}
	}
	return nil
}

// addField declares a field; of two declarations the first counts. A nil type
// keeps nothing.
func (t *typeDefinition) addField(name string, f *fieldDefinition) {
	if t == nil {
		return
	}
	if t.fields == nil {
		t.fields = map[string]*fieldDefinition{}
	}
	if t.fields[name] == nil {
		t.fields[name] = f
	}
}

// setDefault declares an argument's default, if it has one.
func (f *fieldDefinition) setDefault(argument string, v Value) {
	if !v.Set() {
		return
	}
	if f.defaults == nil {
		f.defaults = map[string]Value{}
	}
	f.defaults[argument] = v
}
