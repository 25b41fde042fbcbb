package cost_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// sketch is a schema as the generator makes it: types, their fields, the roots.
type sketch struct {
	types map[string]map[string]*sketchField
	order []string
	roots map[string]string
}

type sketchField struct {
	returns  string
	wrapping string // "%s", "[%s!]!", ...
	defaults map[string]string
}

// sdl spells the schema out in its definition language.
func (s *sketch) sdl() string {
	var b strings.Builder
	fmt.Fprint(&b, "schema {")
	for operation, name := range s.roots {
		fmt.Fprintf(&b, " %s: %s", operation, name)
	}
	fmt.Fprint(&b, " }\n")
	for _, name := range s.order {
		if len(s.types[name]) == 0 {
			fmt.Fprintf(&b, "scalar %s\n", name)
			continue
		}
		fmt.Fprintf(&b, "type %s {\n", name)
		for field, f := range s.types[name] {
			fmt.Fprintf(&b, "  %s", field)
			var args []string
			for _, a := range argNames {
				if text, ok := f.defaults[a]; ok {
					args = append(args, a+": X = "+text)
				} else {
					args = append(args, a+": X")
				}
			}
			fmt.Fprintf(&b, "(%s): "+f.wrapping+"\n", strings.Join(args, ", "), f.returns)
		}
		fmt.Fprint(&b, "}\n")
	}
	return b.String()
}

// introspection is the schema as an upstream answers.
func (s *sketch) introspection() []byte {
	type m = map[string]any
	var types []m
	for _, name := range s.order {
		var fields []m
		for field, f := range s.types[name] {
			var args []m
			for _, a := range argNames {
				arg := m{"name": a, "defaultValue": nil}
				if text, ok := f.defaults[a]; ok {
					arg["defaultValue"] = text
				}
				args = append(args, arg)
			}
			var of any = m{"kind": "OBJECT", "name": f.returns, "ofType": nil}
			for range strings.Count(f.wrapping, "[") + strings.Count(f.wrapping, "!") {
				of = m{"kind": "LIST", "name": nil, "ofType": of}
			}
			fields = append(fields, m{"name": field, "args": args, "type": of})
		}
		types = append(types, m{"kind": "OBJECT", "name": name, "fields": fields})
	}
	schema := m{"types": types}
	for operation, name := range s.roots {
		schema[operation+"Type"] = m{"name": name}
	}
	text, err := json.Marshal(m{"data": m{"__schema": schema}})
	if err != nil {
		panic(err)
	}
	return text
}
