package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// introspectedType is a member of __schema.types (GraphQL October 2021, section 4.2).
type introspectedType struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Fields []struct {
		Name string              `json:"name"`
		Args []introspectedInput `json:"args"`
		Type introspectedRef     `json:"type"`
	} `json:"fields"`
}

type introspectedInput struct {
	Name         string  `json:"name"`
	DefaultValue *string `json:"defaultValue"`
}

type introspectedRef struct {
	Name   string           `json:"name"`
	OfType *introspectedRef `json:"ofType"`
}

type introspectedRoot struct {
	Name string `json:"name"`
}

type introspectedSchema struct {
	QueryType        *introspectedRoot  `json:"queryType"`
	MutationType     *introspectedRoot  `json:"mutationType"`
	SubscriptionType *introspectedRoot  `json:"subscriptionType"`
	Types            []introspectedType `json:"types"`
}

// ParseIntrospection reads the answer to an introspection query, whole
// ({"data":{"__schema":...}}) or only its data. The error says what is missing.
func ParseIntrospection(text []byte) (*Schema, error) {
	text = bytes.TrimSpace(text)
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Schema json.RawMessage `json:"__schema"`
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", jsonFault(text))
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("the introspection response is not an object")
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", err)
	}
	data := answer.Data
	if data == nil && answer.Schema != nil {
		data = text
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("the introspection response has no data field")
	}
	var root struct {
		Schema *introspectedSchema `json:"__schema"`
	}
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", err)
	}
	if root.Schema == nil || len(root.Schema.Types) == 0 {
		return nil, errors.New("the introspection response has no __schema.types")
	}
	return root.Schema.index()
}

// jsonFault is what makes a text no JSON.
func jsonFault(text []byte) error {
	var any json.RawMessage
	return json.Unmarshal(text, &any)
}

func (in *introspectedSchema) index() (*Schema, error) {
	s := &Schema{types: make(map[string]*typeDefinition, len(in.Types))}
	for _, t := range in.Types {
		if t.Name == "" {
			continue
		}
		definition := s.define(t.Name)
		definition.concrete = t.Kind != "" && t.Kind != "INTERFACE" && t.Kind != "UNION"
		for _, f := range t.Fields {
			field := &fieldDefinition{returns: f.Type.named()}
			for _, argument := range f.Args {
				var fallback Value
				if argument.DefaultValue != nil {
					fallback = parseDefault(*argument.DefaultValue)
				}
				field.addArgument(argument.Name, fallback)
			}
			definition.addField(f.Name, field)
		}
	}
	s.query = s.rootType(in.QueryType)
	s.mutation = s.rootType(in.MutationType)
	s.subscription = s.rootType(in.SubscriptionType)
	if err := s.link(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Schema) rootType(root *introspectedRoot) *typeDefinition {
	if root == nil {
		return nil
	}
	return s.types[root.Name]
}

// named is the name inside any number of list and non-null wrappers.
func (r introspectedRef) named() string {
	for r.OfType != nil {
		r = *r.OfType
	}
	return r.Name
}
