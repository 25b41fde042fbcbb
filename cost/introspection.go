package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// introspectedRoot is a reference to a type by its name.
type introspectedRoot struct {
	Name string `json:"name"`
}

// ParseIntrospection reads the answer to an introspection query, whole
// ({"data":{"__schema":...}}) or only its data. The error says what is missing.
func ParseIntrospection(text []byte) (*Schema, error) {
	text = bytes.TrimSpace(text)
	if !json.Valid(text) {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", jsonFault(text))
	}
	if text[0] != '{' {
		return nil, errors.New("the introspection response is not an object")
	}
	data, schema := members(text, "data", "__schema")
	switch {
	case data == nil && schema != nil: // only the data
	case len(data) == 0 || data[0] != '{':
		return nil, errors.New("the introspection response has no data field")
	default:
		_, schema = members(data, "", "__schema")
	}
	in := introspectionReader{json: newJSONReader(schema), schema: &Schema{types: map[string]*typeDefinition{}}}
	if err := in.read(); err != nil {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", err)
	}
	if in.types == 0 {
		return nil, errors.New("the introspection response has no __schema.types")
	}
	if err := in.schema.link(); err != nil {
		return nil, err
	}
	in.linkRoots()
	return in.schema, nil
}

// jsonFault is what makes a text no JSON.
func jsonFault(text []byte) error {
	var any json.RawMessage
	return json.Unmarshal(text, &any)
}

// members are the texts of two members of an object, of each the last one of that name; nil
// without one.
func members(object []byte, first, second string) (a, b []byte) {
	r := newJSONReader(object)
	_ = r.object("", func(name []byte) error { // it is an object
		r.next()
		start := r.pos
		r.skip()
		switch string(name) {
		case first:
			a = r.text[start:r.pos]
		case second:
			b = r.text[start:r.pos]
		}
		return nil
	})
	return a, b
}

// introspectionReader reads __schema (GraphQL October 2021, section 4.2), whose members may
// come in any order.
type introspectionReader struct {
	json   *jsonReader
	schema *Schema
	types  int // elements of types
	// query, mutation and subscription are the names of the root types.
	query, mutation, subscription string
}

func (in *introspectionReader) linkRoots() {
	in.schema.queryName = in.query
	in.schema.query = in.schema.types[in.query]
	in.schema.mutation = in.schema.types[in.mutation]
	in.schema.subscription = in.schema.types[in.subscription]
}

func (in *introspectionReader) read() error {
	if len(in.json.text) == 0 {
		return nil
	}
	return in.json.object("__schema", func(name []byte) (err error) {
		switch string(name) {
		case "queryType":
			in.query, err = in.reference("__schema.queryType")
		case "mutationType":
			in.mutation, err = in.reference("__schema.mutationType")
		case "subscriptionType":
			in.subscription, err = in.reference("__schema.subscriptionType")
		case "types":
			err = in.json.array("__schema.types", in.definition)
		default:
			in.json.skip()
		}
		return err
	})
}

// reference reads the name of the type inside any number of list and non-null wrappers.
func (in *introspectionReader) reference(into string) (string, error) {
	var outer, inner string
	wraps := false
	err := in.json.object(into, func(name []byte) (err error) {
		switch string(name) {
		case "name":
			outer, err = in.json.str(into + ".name")
		case "ofType":
			wraps = in.json.next() != 'n'
			inner, err = in.reference("ofType")
		default:
			in.json.skip()
		}
		return err
	})
	if wraps {
		return inner, err
	}
	return outer, err
}

// definition reads an element of types. One without a name is nothing.
func (in *introspectionReader) definition() error {
	in.types++
	t := &typeDefinition{}
	var kind string
	err := in.json.object("__schema.types", func(name []byte) (err error) {
		switch string(name) {
		case "kind":
			kind, err = in.json.str("types.kind")
		case "name":
			t.name, err = in.json.str("types.name")
		case "fields":
			err = in.json.array("types.fields", func() error { return in.field(t) })
		default:
			in.json.skip()
		}
		return err
	})
	if err != nil || t.name == "" {
		return err
	}
	t.concrete = kind != "" && kind != "INTERFACE" && kind != "UNION"
	return in.schema.add(t)
}

func (in *introspectionReader) field(t *typeDefinition) error {
	f := &fieldDefinition{}
	var field string
	err := in.json.object("types.fields", func(name []byte) (err error) {
		switch string(name) {
		case "name":
			field, err = in.json.str("fields.name")
		case "args":
			err = in.json.array("fields.args", func() error { return in.argument(f) })
		case "type":
			f.returns, err = in.reference("fields.type")
		default:
			in.json.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	t.addField(field, f)
	return in.schema.count()
}

func (in *introspectionReader) argument(f *fieldDefinition) error {
	var argument string
	var fallback Value
	err := in.json.object("fields.args", func(name []byte) (err error) {
		switch string(name) {
		case "name":
			argument, err = in.json.str("args.name")
		case "defaultValue":
			fallback = in.defaultValue()
		default:
			in.json.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	f.addArgument(argument, fallback)
	return in.schema.count()
}

// defaultValue reads the default of an argument, a GraphQL literal in a string. One wrong
// default must not block every request of a route: a number or a boolean of JSON counts as
// the literal of that spelling, an array or an object as no default, which null is.
func (in *introspectionReader) defaultValue() Value {
	switch c := in.json.next(); c {
	case '"':
		return parseDefault(string(in.json.stringBytes()))
	case '{', '[', 'n':
		in.json.skip()
		return Value{}
	default:
		return parseDefault(string(in.json.word()))
	}
}
