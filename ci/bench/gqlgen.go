package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// gqlgenSchema is the shop as gqlgen's generated code would be, as far as complexity
// goes: one switch over type and field, arguments decoded where a field has a function.
// It does less than generated code, which makes an execution context for each field.
type gqlgenSchema struct{ schema *ast.Schema }

var _ graphql.ExecutableSchema = gqlgenSchema{}

// Schema returns the shop's schema.
func (s gqlgenSchema) Schema() *ast.Schema { return s.schema }

// Exec is never called: nothing is executed here.
func (s gqlgenSchema) Exec(context.Context) graphql.ResponseHandler { return nil }

// Complexity weights the lists, as the decorations do.
func (s gqlgenSchema) Complexity(_ context.Context, typeName, field string, below int, args map[string]any) (int, bool) {
	switch typeName + "." + field {
	case "Query.products":
		return listComplexity(args, below, 1)
	case "Product.reviews":
		return listComplexity(args, below, 2)
	default:
		return 0, false
	}
}

func listComplexity(args map[string]any, below, add int) (int, bool) {
	first, err := graphql.UnmarshalInt(args["first"])
	if err != nil {
		return 0, false
	}
	return first*below + add, true
}

// gqlgenCalculate is the operation that gqlgen does for each request, and its result: the
// query is parsed and validated, and its variables are decoded and coerced, before it.
func gqlgenCalculate(query, variables string) (calculate func() error, result int, err error) {
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "shop.graphql", Input: shopSchema})
	if err != nil {
		return nil, 0, fmt.Errorf("reading the shop's schema with gqlparser: %w", err)
	}
	document, err := loadQuery(schema, query)
	if err != nil {
		return nil, 0, err
	}
	operation := document.Operations[0]
	coerced, err := coerce(schema, operation, variables)
	if err != nil {
		return nil, 0, err
	}
	executable, ctx := gqlgenSchema{schema}, context.Background()
	result = complexity.Calculate(ctx, executable, operation, coerced)
	return func() error {
		if got := complexity.Calculate(ctx, executable, operation, coerced); got != result {
			return fmt.Errorf("gqlgen computes a complexity of %d, not %d", got, result)
		}
		return nil
	}, result, nil
}

// coerce decodes variables as gqlgen's transports do, and coerces them.
func coerce(schema *ast.Schema, operation *ast.OperationDefinition, variables string) (map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(variables))
	decoder.UseNumber()
	var decoded map[string]any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("reading the variables: %w", err)
	}
	coerced, err := validator.VariableValues(schema, operation, decoded)
	if err != nil {
		return nil, fmt.Errorf("coercing the variables: %w", err)
	}
	return coerced, nil
}

// loadQuery is gqlparser's LoadQuery with the default rules: parse and validate.
func loadQuery(schema *ast.Schema, query string) (*ast.QueryDocument, error) {
	document, faults := gqlparser.LoadQueryWithRules(schema, query, validationRules)
	if len(faults) > 0 {
		return nil, fmt.Errorf("validating the query with gqlparser: %w", faults)
	}
	return document, nil
}

// validationRules are gqlparser's default rules, made once as its LoadQuery does.
var validationRules = rules.NewDefaultRules()
