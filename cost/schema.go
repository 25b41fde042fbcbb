package cost

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Schema is what costing needs of a GraphQL schema: the fields of its types,
// what they return and the defaults of their arguments. It is immutable; two
// schemas are the same if their pointers are.
type Schema struct {
	types                         map[string]*typeDefinition
	query, mutation, subscription *typeDefinition
	queryName                     string // of the query root type, also where it is not declared
	declared                      int    // types, fields and arguments, repeated ones too
}

// typeDefinition is one named type; only object and interface types have fields.
type typeDefinition struct {
	name string
	// concrete marks a type that is known to be neither an interface nor a union: its
	// values have no other type than this one.
	concrete bool
	fields   map[string]*fieldDefinition
}

// fieldDefinition is one field of a type.
type fieldDefinition struct {
	// returns names the field's type without list and non-null wrappers.
	returns string
	// result is the definition of that type, nil if the schema lacks it.
	result *typeDefinition
	// arguments are those that the field declares, by name.
	arguments []argumentDefinition
}

// argumentDefinition is one argument of a field.
type argumentDefinition struct {
	name string
	// fallback is the default; nothing where none is declared.
	fallback Value
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

// maxDeclared bounds the types, fields and arguments of a schema: thirty times what GitHub's,
// one of the largest that are public, has, and some 100 MB.
const maxDeclared = 500_000

// count notes a type, field or argument. The error says that there are too many.
func (s *Schema) count() error {
	if s == nil {
		return nil
	}
	if s.declared++; s.declared > maxDeclared {
		return fmt.Errorf("the schema declares more than %d types, fields and arguments", maxDeclared)
	}
	return nil
}

// add declares a type whose fields are known. What was declared before counts.
func (s *Schema) add(t *typeDefinition) error {
	if before := s.types[t.name]; before != nil {
		before.concrete = t.concrete
		for name, f := range t.fields {
			before.addField(name, f)
		}
	} else {
		s.types[t.name] = t
	}
	return s.count()
}

// link resolves what fields return, once all types are declared.
func (s *Schema) link() error {
	if len(s.types) == 0 {
		return fmt.Errorf("the schema declares no types")
	}
	for _, t := range s.types {
		for _, f := range t.fields {
			f.result = s.types[f.returns]
			f.sortArguments()
		}
	}
	return nil
}

// setConcrete notes that the type is neither an interface nor a union. A nil type keeps
// nothing.
func (t *typeDefinition) setConcrete() {
	if t != nil {
		t.concrete = true
	}
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

// addArgument declares an argument and its default, nothing where it has none.
func (f *fieldDefinition) addArgument(name string, fallback Value) {
	f.arguments = append(f.arguments, argumentDefinition{name: name, fallback: fallback})
}

// sortArguments orders the arguments by name, for looking them up. Of two declarations of one
// argument the last default counts.
func (f *fieldDefinition) sortArguments() {
	slices.SortStableFunc(f.arguments, func(a, b argumentDefinition) int { return strings.Compare(a.name, b.name) })
	kept := f.arguments[:0]
	for _, a := range f.arguments {
		if last := len(kept) - 1; last < 0 || kept[last].name != a.name {
			kept = append(kept, a)
		} else if a.fallback.Set() {
			kept[last].fallback = a.fallback
		}
	}
	f.arguments = slices.Clip(kept)
}

// argument returns an argument's definition, nil when the field declares none of that name.
func (f *fieldDefinition) argument(name string) *argumentDefinition {
	i, found := slices.BinarySearchFunc(f.arguments, name, func(a argumentDefinition, name string) int {
		return strings.Compare(a.name, name)
	})
	if !found {
		return nil
	}
	return &f.arguments[i]
}

// fallback is the default that the field declares for an argument.
func (f *fieldDefinition) fallback(argument string) Value {
	if a := f.argument(argument); a != nil {
		return a.fallback
	}
	return Value{}
}
