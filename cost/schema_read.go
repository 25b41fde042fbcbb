package cost

import (
	"fmt"
	"strings"
)

// RootType returns the name of the type of an operation, which is "query", "mutation" or
// "subscription"; empty when the schema has no such operation.
func (s *Schema) RootType(operation string) string {
	if root := s.root(operation); root != nil {
		return root.name
	}
	return ""
}

// HasArgument reports whether a field of a type declares an argument.
func (s *Schema) HasArgument(typeName, field, argument string) bool {
	t := s.types[typeName]
	return t != nil && t.fields[field] != nil && t.fields[field].argument(argument) != nil
}

// Missing says what a decoration names that the schema does not have, a sentence each: the
// type its path begins with, a field that no selection can reach there, an argument. Such a
// decoration is without effect, at least in part. What may stand below an interface or a
// union, where a fragment can name any type, is given the benefit of the doubt.
func (s *Schema) Missing(d Decoration) []string {
	first, rest, pinned := strings.Cut(d.FieldPath, ".")
	t := s.types[first]
	if t == nil {
		return []string{fmt.Sprintf("%s: the schema has no type %s", d.FieldPath, first)}
	}
	if !pinned {
		return s.missingOfType(d, t)
	}
	var f *fieldDefinition
	for i, name := range strings.Split(rest, ".") {
		f = nil
		if t != nil {
			f = t.fields[name]
		}
		switch {
		case f != nil:
			t = f.result
		case isMeta(name):
			return nil
		case t != nil && (i == 0 || t.concrete):
			return []string{fmt.Sprintf("%s: type %s has no field %s", d.FieldPath, t.name, name)}
		case !s.anyField(name):
			return []string{fmt.Sprintf("%s: no type of the schema has a field %s", d.FieldPath, name)}
		default:
			t = nil // below an interface, a union or a type that is not declared
		}
	}
	return missingArguments(d, func(argument string) bool { return f == nil || f.argument(argument) != nil })
}

// isMeta reports whether a field belongs to every type or root (GraphQL October 2021, section
// 4.1) and is declared by none.
func isMeta(field string) bool { return strings.HasPrefix(field, "__") }

func (s *Schema) anyField(name string) bool {
	for _, t := range s.types {
		if t.fields[name] != nil {
			return true
		}
	}
	return false
}

// missingOfType is Missing for the rule of a type: some field that returns the type must
// have the argument.
func (s *Schema) missingOfType(d Decoration, result *typeDefinition) []string {
	return missingArguments(d, func(argument string) bool {
		for _, t := range s.types {
			for _, f := range t.fields {
				if f.result == result && f.argument(argument) != nil {
					return true
				}
			}
		}
		return false
	})
}

func missingArguments(d Decoration, has func(argument string) bool) []string {
	var missing []string
	for _, list := range []struct {
		member    string
		arguments []string
	}{{"add_arguments", d.AddArguments}, {"mul_arguments", d.MulArguments}} {
		for _, argument := range list.arguments {
			if !has(argument) {
				missing = append(missing, fmt.Sprintf("%s: %s names %s, which is no argument there", d.FieldPath, list.member, argument))
			}
		}
	}
	return missing
}
