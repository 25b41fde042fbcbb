package shop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/graphql-go/graphql"
	"github.com/graphql-go/graphql/gqlerrors"
	"github.com/graphql-go/graphql/language/ast"
	"github.com/graphql-go/graphql/language/parser"
	"github.com/graphql-go/graphql/language/source"
)

// maxNesting bounds the brackets that a document opens and does not close: graphql-go's
// parser is recursive, and the stack overflow that deep nesting ends in cannot be
// recovered from.
const maxNesting = 500

// executor runs documents against the schema.
type executor struct{ schema graphql.Schema }

func newExecutor() (*executor, error) {
	schema, err := newSchema()
	return &executor{schema: schema}, err
}

// parse returns the document, or the result that says why there is none. Nothing has
// been validated yet.
func (e *executor) parse(req request) (*ast.Document, *graphql.Result) {
	if nestsTooDeep(req.Query) {
		return nil, failed(fmt.Errorf("the document nests deeper than %d levels", maxNesting))
	}
	doc, err := parser.Parse(parser.ParseParams{Source: source.NewSource(&source.Source{Body: []byte(req.Query), Name: "request"})})
	if err != nil {
		return nil, failed(err)
	}
	return doc, nil
}

// run validates and executes the document.
func (e *executor) run(ctx context.Context, doc *ast.Document, req request) *graphql.Result {
	if checked := graphql.ValidateDocument(&e.schema, doc, nil); !checked.IsValid {
		return &graphql.Result{Errors: checked.Errors}
	}
	return graphql.Execute(graphql.ExecuteParams{
		Schema:        e.schema,
		AST:           doc,
		OperationName: req.OperationName,
		Args:          req.Variables,
		Context:       withBudget(ctx),
	})
}

func failed(err error) *graphql.Result {
	return &graphql.Result{Errors: gqlerrors.FormatErrors(err)}
}

// nestsTooDeep counts the brackets of every kind that are open at once, outside strings
// and comments.
func nestsTooDeep(document string) bool {
	depth := 0
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '{', '[', '(':
			if depth++; depth > maxNesting {
				return true
			}
		case '}', ']', ')':
			depth--
		case '#':
			i += max(strings.IndexAny(document[i:], "\r\n"), 0)
			if document[i] == '#' {
				return false // the comment is the rest
			}
		case '"':
			i = stringEnd(document, i)
		}
	}
	return false
}

// stringEnd is where the string or block string that begins at start ends: its last
// quote, or the end of the document or of the line where it has none.
func stringEnd(document string, start int) int {
	const block = `"""`
	if strings.HasPrefix(document[start:], block) {
		for i := start + len(block); i < len(document); i++ {
			if strings.HasPrefix(document[i:], block) {
				return i + len(block) - 1
			}
			if strings.HasPrefix(document[i:], `\`+block) {
				i += len(block)
			}
		}
		return len(document)
	}
	for i := start + 1; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"', '\n', '\r':
			return i
		}
	}
	return len(document)
}

// asksForSchema says whether a field of the document is __schema or __type.
func asksForSchema(doc *ast.Document) bool {
	return slices.ContainsFunc(doc.Definitions, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.OperationDefinition:
			return selectsSchema(d.SelectionSet)
		case *ast.FragmentDefinition:
			return selectsSchema(d.SelectionSet)
		}
		return false
	})
}

// selectsSchema recurses no deeper than maxNesting: the document was checked.
func selectsSchema(set *ast.SelectionSet) bool {
	if set == nil {
		return false
	}
	return slices.ContainsFunc(set.Selections, func(n ast.Selection) bool {
		switch s := n.(type) {
		case *ast.Field:
			return s.Name.Value == "__schema" || s.Name.Value == "__type" || selectsSchema(s.SelectionSet)
		case *ast.InlineFragment:
			return selectsSchema(s.SelectionSet)
		}
		return false
	})
}
