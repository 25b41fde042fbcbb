package cost

import (
	"fmt"
	"unicode/utf8"
)

// ParseSDL reads a schema in GraphQL's schema definition language (October 2021,
// section 3, with its extensions). Only what bears on cost is kept; validity
// beyond the grammar is not checked. Without a schema definition the root types
// are Query, Mutation and Subscription.
func ParseSDL(sdl []byte) (*Schema, error) {
	if !utf8.Valid(sdl) {
		return nil, fmt.Errorf("parse schema: not valid UTF-8")
	}
	p := sdlParser{
		scan:   scanner{src: string(sdl)},
		schema: &Schema{types: map[string]*typeDefinition{}},
		roots:  map[string]string{},
	}
	if err := p.document(); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	s := p.schema
	if err := s.link(); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	p.linkRoots()
	return s, nil
}

// linkRoots resolves the root types. A schema definition names that of queries;
// without one, extensions of the schema add to the default names.
func (p *sdlParser) linkRoots() {
	root := func(operation, byDefault string) string {
		if name := p.roots[operation]; name != "" || p.roots["query"] != "" {
			return name
		}
		return byDefault
	}
	s := p.schema
	s.queryName = root("query", "Query")
	s.query = s.types[s.queryName]
	s.mutation = s.types[root("mutation", "Mutation")]
	s.subscription = s.types[root("subscription", "Subscription")]
}

// sdlParser is a recursive descent parser with one token of lookahead.
type sdlParser struct {
	scan   scanner
	token  token
	schema *Schema           // nil: nothing is kept
	roots  map[string]string // operation -> type name, as schema definitions say; nil without schema
	record *recorder         // nil: no outline is made
	end    int               // of the token before the current one
}

func (p *sdlParser) advance() (err error) {
	p.end = p.token.end
	p.token, err = p.scan.next()
	return err
}

// fault is an error at the current token.
func (p *sdlParser) fault(expected string) error {
	line := 1
	for i := range p.token.start {
		if p.scan.src[i] == '\n' {
			line++
		}
	}
	found := p.scan.text(p.token)
	if p.token.kind == tokenEOF {
		found = "the end"
	}
	return fmt.Errorf("line %d: expected %s, found %.40q", line, expected, found)
}

func (p *sdlParser) is(kind tokenKind) bool { return p.token.kind == kind }

// keyword reports whether the current token is that name.
func (p *sdlParser) keyword(word string) bool {
	return p.token.kind == tokenName && p.scan.text(p.token) == word
}

// skip passes over a token of that kind if it is the current one.
func (p *sdlParser) skip(kind tokenKind) (bool, error) {
	if p.token.kind != kind {
		return false, nil
	}
	return true, p.advance()
}

func (p *sdlParser) expect(kind tokenKind) error {
	if p.token.kind != kind {
		return p.fault(fmt.Sprintf("%q", string(rune(kind))))
	}
	return p.advance()
}

func (p *sdlParser) name() (string, error) {
	if p.token.kind != tokenName {
		return "", p.fault("a name")
	}
	name := p.scan.text(p.token)
	return name, p.advance()
}

func (p *sdlParser) document() error {
	if err := p.advance(); err != nil {
		return err
	}
	for !p.is(tokenEOF) {
		if err := p.definition(); err != nil {
			return err
		}
	}
	return nil
}

func (p *sdlParser) description() error {
	if p.is(tokenString) || p.is(tokenBlockString) {
		return p.advance()
	}
	return nil
}

func (p *sdlParser) definition() error {
	if err := p.description(); err != nil {
		return err
	}
	if p.keyword("extend") {
		if err := p.advance(); err != nil {
			return err
		}
	}
	if !p.is(tokenName) {
		return p.fault("a type definition")
	}
	parse := p.definitionParser(p.scan.text(p.token))
	if parse == nil {
		return p.fault("a type definition")
	}
	if err := p.advance(); err != nil {
		return err
	}
	return parse()
}

// definitionParser reads what follows a definition's keyword; nil for any other word.
func (p *sdlParser) definitionParser(keyword string) func() error {
	switch keyword {
	case "schema":
		return p.schemaDefinition
	case "directive":
		return p.directiveDefinition
	case "type":
		return func() error { return p.fieldsType(KindObject) }
	case "interface":
		return func() error { return p.fieldsType(KindInterface) }
	case "scalar":
		return p.scalar
	case "union":
		return p.union
	case "enum":
		return p.enum
	case "input":
		return p.input
	default:
		return nil
	}
}

func (p *sdlParser) schemaDefinition() error {
	if err := p.directives(); err != nil {
		return err
	}
	p.record.drop()
	return p.block('{', '}', func() error {
		operation, err := p.name()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		root, err := p.name()
		if err == nil && p.roots != nil {
			p.roots[operation] = root
		}
		return err
	})
}

// block reads bracketed items, if the opening bracket is there.
func (p *sdlParser) block(open, end tokenKind, item func() error) error {
	opened, err := p.skip(open)
	if err != nil || !opened {
		return err
	}
	for !p.is(end) {
		if p.is(tokenEOF) {
			return p.fault(fmt.Sprintf("%q", string(rune(end))))
		}
		if err := item(); err != nil {
			return err
		}
	}
	return p.advance()
}
