package cost

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNamed is how many undeclared types an error names.
const maxNamed = 5

// builtIn are the scalars that SDL need not declare (GraphQL October 2021, section 3.5).
var builtIn = []string{"Int", "Float", "String", "Boolean", "ID"}

// CheckComplete tells whether queries can be costed by the schema: its query root type must be
// an object type with fields, and every type that a field returns must be declared. By a
// schema that is not complete what is selected below its gaps costs next to nothing. The error
// names what is missing. Parsing does not ask for it: what an upstream answers to an
// introspection query is taken as it is.
func (s *Schema) CheckComplete() error {
	switch root := s.query; {
	case s.queryName == "":
		return errors.New("the schema names no query root type")
	case root == nil:
		return fmt.Errorf("the query root type %.80s is not declared", s.queryName)
	case !root.concrete || len(root.fields) == 0:
		return fmt.Errorf("the query root type %.80s is no object type with fields", s.queryName)
	}
	if missing := s.undeclared(); len(missing) > 0 {
		more := ""
		if n := len(missing) - maxNamed; n > 0 {
			missing, more = missing[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		return fmt.Errorf("fields return types that are not declared: %s%s", strings.Join(missing, ", "), more)
	}
	return nil
}

// undeclared says of each type that a field returns and that is not declared which field that
// is, the first one in the order of names.
func (s *Schema) undeclared() []string {
	by := map[string]string{}
	for name, t := range s.types {
		for field, f := range t.fields {
			if f.result != nil || slices.Contains(builtIn, f.returns) {
				continue
			}
			path := name + "." + field
			if first, ok := by[f.returns]; !ok || path < first {
				by[f.returns] = path
			}
		}
	}
	missing := make([]string, 0, len(by))
	for name, path := range by {
		missing = append(missing, fmt.Sprintf("%.80s (%.160s)", name, path))
	}
	slices.Sort(missing)
	return missing
}
