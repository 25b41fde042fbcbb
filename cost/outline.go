package cost

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Outline is a schema as its author wrote it: everything in its order, with list and non-null
// wrappers, arguments, defaults and directives. Costing needs none of that, and Schema keeps
// none of it; tools that propose or translate decorations do.
type Outline struct {
	// Query, Mutation and Subscription name the root types; empty where there is none.
	Query, Mutation, Subscription string
	// Types are in the order in which they are first declared, with what extensions add.
	Types []*OutlineType
}

// TypeKind is what kind of type a definition declares.
type TypeKind string

// The kinds of types, spelled as in introspection.
const (
	KindObject    TypeKind = "OBJECT"
	KindInterface TypeKind = "INTERFACE"
	KindUnion     TypeKind = "UNION"
	KindEnum      TypeKind = "ENUM"
	KindScalar    TypeKind = "SCALAR"
	KindInput     TypeKind = "INPUT_OBJECT"
)

// OutlineType is one named type.
type OutlineType struct {
	Kind TypeKind // empty when introspection did not ask for it
	Name string
	// Fields are those of an object, interface or input type, and the values of an enum (which
	// have no type).
	Fields []OutlineField
	// Interfaces are those that an object or interface type implements.
	Interfaces []string
	// Members are the types of a union.
	Members    []string
	Directives []Directive
	Line       int // of the first declaration in SDL, from 1; 0 in introspection
}

// OutlineField is one field of a type.
type OutlineField struct {
	Name       string
	Type       TypeText
	Arguments  []OutlineInput
	Default    string // of an input type's field, as in OutlineInput
	Directives []Directive
	Line       int // as in OutlineType
}

// OutlineInput is an argument of a field.
type OutlineInput struct {
	Name       string
	Type       TypeText
	Default    string // a GraphQL literal, empty when none is declared
	Directives []Directive
	Line       int // as in OutlineType
}

// TypeText is a reference to a type as SDL writes it, without white space: [User!]!.
type TypeText string

// Named is the type inside the wrappers.
func (t TypeText) Named() string { return strings.Trim(string(t), "[]!") }

// List reports whether the type is a list.
func (t TypeText) List() bool { return strings.HasPrefix(string(t), "[") }

// Directive is a directive on a definition.
type Directive struct {
	Name      string
	Arguments []DirectiveArgument
	Line      int // in SDL, from 1
}

// DirectiveArgument is one argument of a directive; Value is a GraphQL literal.
type DirectiveArgument struct{ Name, Value string }

// Argument returns an argument's literal; ok is false when it is not given.
func (d Directive) Argument(name string) (value string, ok bool) {
	for _, a := range d.Arguments {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Type returns the type of that name, nil when the schema has none.
func (o *Outline) Type(name string) *OutlineType {
	for _, t := range o.Types {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Field returns the field of that name, nil when the type has none.
func (t *OutlineType) Field(name string) *OutlineField {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// Argument returns the argument of that name, nil when the field has none.
func (f *OutlineField) Argument(name string) *OutlineInput {
	for i := range f.Arguments {
		if f.Arguments[i].Name == name {
			return &f.Arguments[i]
		}
	}
	return nil
}

// ReadOutline reads a schema given as introspection JSON or as SDL, as ParseSchema does.
func ReadOutline(text []byte) (*Outline, error) {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(text, []byte(byteOrderMark)), " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '{' {
		return outlineIntrospection(trimmed)
	}
	return outlineSDL(text)
}

func outlineSDL(sdl []byte) (*Outline, error) {
	if !utf8.Valid(sdl) {
		return nil, fmt.Errorf("parse schema: not valid UTF-8")
	}
	p := sdlParser{
		scan:   scanner{src: string(sdl)},
		schema: &Schema{types: map[string]*typeDefinition{}},
		roots:  map[string]string{},
		record: &recorder{types: map[string]*OutlineType{}, outline: &Outline{}, line: 1},
	}
	if err := p.document(); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	if err := p.schema.link(); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	p.linkRoots()
	o := p.record.outline
	o.Query, o.Mutation, o.Subscription = p.schema.RootType("query"), p.schema.RootType("mutation"), p.schema.RootType("subscription")
	return o, nil
}

// recorder makes an outline of what an sdlParser reads. A nil recorder makes none. Arguments
// and directives are read before what they belong to is complete, so that they wait.
type recorder struct {
	outline    *Outline
	types      map[string]*OutlineType
	current    *OutlineType
	inputs     []OutlineInput
	directives []Directive

	counted, line int // the line of an offset, from which lines are counted on
}

// at is the line of a token. Tokens are asked for about in their order.
func (r *recorder) at(p *sdlParser, t token) int {
	if t.start < r.counted {
		return r.line - strings.Count(p.scan.src[t.start:r.counted], "\n")
	}
	r.line += strings.Count(p.scan.src[r.counted:t.start], "\n")
	r.counted = t.start
	return r.line
}

// text is the source from an offset to the end of the token before the current one, without
// what the grammar ignores.
func (r *recorder) text(p *sdlParser, from int) string {
	if r == nil {
		return ""
	}
	source := p.scan.src[from:p.end]
	if !strings.ContainsAny(source, " \t\r\n,#") && !strings.Contains(source, byteOrderMark) {
		return source
	}
	scan := scanner{src: source}
	var text strings.Builder
	word := false
	for {
		t, err := scan.next()
		if err != nil || t.kind == tokenEOF { // no error: the parser has read the same tokens
			return text.String()
		}
		punctuator := t.kind < 'A' || t.kind == '[' || t.kind == ']' || t.kind == '{' || t.kind == '}'
		if word && !punctuator {
			text.WriteByte(' ')
		}
		text.WriteString(scan.text(t))
		word = !punctuator
	}
}

func (r *recorder) takeDirectives() []Directive {
	taken := r.directives
	r.directives = nil
	return taken
}

// drop forgets what waits: it belongs to nothing that an outline has.
func (r *recorder) drop() {
	if r != nil {
		r.inputs, r.directives = nil, nil
	}
}

func (r *recorder) directive(p *sdlParser, name string, start token) {
	if r == nil {
		return
	}
	d := Directive{Name: name, Line: r.at(p, start)}
	arguments := sdlParser{scan: scanner{src: p.scan.src[start.end:p.end]}}
	// No error: the parser has read the same tokens.
	_ = arguments.advance()
	_, _ = arguments.name()
	_ = arguments.block('(', ')', func() error {
		name, err := arguments.name()
		if err != nil {
			return err
		}
		if err := arguments.expect(':'); err != nil {
			return err
		}
		from := arguments.token.start
		_, err = arguments.value(0)
		d.Arguments = append(d.Arguments, DirectiveArgument{Name: name, Value: r.text(&arguments, from)})
		return err
	})
	r.directives = append(r.directives, d)
}

// define begins a type, or goes on with one that is extended.
func (r *recorder) define(p *sdlParser, kind TypeKind, name string, start token) {
	if r == nil {
		return
	}
	r.inputs = nil
	t := r.types[name]
	if t == nil {
		t = &OutlineType{Kind: kind, Name: name, Line: r.at(p, start)}
		r.types[name] = t
		r.outline.Types = append(r.outline.Types, t)
	}
	t.Directives = append(t.Directives, r.takeDirectives()...)
	r.current = t
}

func (r *recorder) implement(interfaces []string) {
	if r != nil {
		r.current.Interfaces = append(r.current.Interfaces, interfaces...)
	}
}

func (r *recorder) member(name string) {
	if r != nil {
		r.current.Members = append(r.current.Members, name)
	}
}

func (r *recorder) field(p *sdlParser, name, returns string, start token) {
	if r == nil {
		return
	}
	r.current.Fields = append(r.current.Fields, OutlineField{
		Name: name, Type: TypeText(returns), Arguments: r.inputs, Directives: r.takeDirectives(), Line: r.at(p, start),
	})
	r.inputs = nil
}

func (r *recorder) enumValue(p *sdlParser, name string, start token) {
	if r != nil {
		r.field(p, name, "", start)
	}
}

// input begins an argument or an input type's field, whose type begins at an offset.
func (r *recorder) input(p *sdlParser, name string, from int, start token) OutlineInput {
	if r == nil {
		return OutlineInput{}
	}
	return OutlineInput{Name: name, Type: TypeText(r.text(p, from)), Line: r.at(p, start)}
}

func (r *recorder) inputValue(input OutlineInput) {
	if r != nil {
		input.Directives = r.takeDirectives()
		r.inputs = append(r.inputs, input)
	}
}

// inputField makes what inputValue read a field of an input type.
func (r *recorder) inputField() {
	if r == nil {
		return
	}
	for _, in := range r.inputs {
		r.current.Fields = append(r.current.Fields, OutlineField{
			Name: in.Name, Type: in.Type, Default: in.Default, Directives: in.Directives, Line: in.Line,
		})
	}
	r.inputs = nil
}
