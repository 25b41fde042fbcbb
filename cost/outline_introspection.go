package cost

import (
	"encoding/json"
	"errors"
	"fmt"
)

// outlinedSchema is what an outline needs of __schema. ParseIntrospection reads less, for it
// reads while requests wait.
type outlinedSchema struct {
	QueryType        *introspectedRoot `json:"queryType"`
	MutationType     *introspectedRoot `json:"mutationType"`
	SubscriptionType *introspectedRoot `json:"subscriptionType"`
	Types            []struct {
		Kind          TypeKind           `json:"kind"`
		Name          string             `json:"name"`
		Fields        []outlinedField    `json:"fields"`
		InputFields   []outlinedInput    `json:"inputFields"`
		EnumValues    []introspectedRoot `json:"enumValues"`
		Interfaces    []introspectedRoot `json:"interfaces"`
		PossibleTypes []introspectedRoot `json:"possibleTypes"`
	} `json:"types"`
}

type outlinedField struct {
	Name string          `json:"name"`
	Args []outlinedInput `json:"args"`
	Type outlinedRef     `json:"type"`
}

type outlinedInput struct {
	Name         string          `json:"name"`
	Type         outlinedRef     `json:"type"`
	DefaultValue outlinedDefault `json:"defaultValue"`
}

// outlinedDefault is a default as a GraphQL literal, empty for none.
type outlinedDefault string

// UnmarshalJSON takes what ParseIntrospection takes: a literal in a string, a number or a
// boolean as the literal of that spelling, and an array, an object or null as none.
func (d *outlinedDefault) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '"':
		return json.Unmarshal(text, (*string)(d))
	case '{', '[', 'n':
		*d = ""
	default:
		*d = outlinedDefault(text)
	}
	return nil
}

type outlinedRef struct {
	Kind   string       `json:"kind"`
	Name   string       `json:"name"`
	OfType *outlinedRef `json:"ofType"`
}

// text writes a reference as SDL does. Wrappers whose kind was not asked for are left out.
func (r outlinedRef) text() TypeText {
	if r.OfType == nil {
		return TypeText(r.Name)
	}
	inner := r.OfType.text()
	switch r.Kind {
	case "LIST":
		return "[" + inner + "]"
	case "NON_NULL":
		return inner + "!"
	default:
		return inner
	}
}

func (in outlinedInput) input() OutlineInput {
	return OutlineInput{Name: in.Name, Type: in.Type.text(), Default: string(in.DefaultValue)}
}

func outlineIntrospection(text []byte) (*Outline, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", jsonFault(text))
	}
	var answer struct {
		Data *struct {
			Schema *outlinedSchema `json:"__schema"`
		} `json:"data"`
		Schema *outlinedSchema `json:"__schema"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("failed to decode the introspection response: %w", err)
	}
	schema := answer.Schema
	if answer.Data != nil {
		schema = answer.Data.Schema
	}
	if schema == nil || len(schema.Types) == 0 {
		return nil, errors.New("the introspection response has no __schema.types")
	}
	return schema.outline(), nil
}

func (in *outlinedSchema) outline() *Outline {
	o := &Outline{Query: in.QueryType.name(), Mutation: in.MutationType.name(), Subscription: in.SubscriptionType.name()}
	for _, declared := range in.Types {
		t := &OutlineType{Kind: declared.Kind, Name: declared.Name, Interfaces: names(declared.Interfaces)}
		if t.Kind == KindUnion {
			t.Members = names(declared.PossibleTypes)
		}
		for _, f := range declared.Fields {
			field := OutlineField{Name: f.Name, Type: f.Type.text()}
			for _, argument := range f.Args {
				field.Arguments = append(field.Arguments, argument.input())
			}
			t.Fields = append(t.Fields, field)
		}
		for _, f := range declared.InputFields {
			input := f.input()
			t.Fields = append(t.Fields, OutlineField{Name: input.Name, Type: input.Type, Default: input.Default})
		}
		for _, v := range declared.EnumValues {
			t.Fields = append(t.Fields, OutlineField{Name: v.Name})
		}
		o.Types = append(o.Types, t)
	}
	return o
}

func (r *introspectedRoot) name() string {
	if r == nil {
		return ""
	}
	return r.Name
}

func names(list []introspectedRoot) []string {
	var out []string
	for _, item := range list {
		out = append(out, item.Name)
	}
	return out
}
