package cost

// maxValueDepth bounds the nesting of default values and types in SDL.
const maxValueDepth = 500

// member passes over an argument or an object's field.
func (p *sdlParser) member(depth int) error {
	if _, err := p.name(); err != nil {
		return err
	}
	if err := p.expect(':'); err != nil {
		return err
	}
	_, err := p.value(depth)
	return err
}

// value reads a constant as the default of an argument. Text, also a numeric
// one, is no count: APISIX compares the literal with its quotes. An object gives
// nothing, a list its length.
func (p *sdlParser) value(depth int) (Value, error) {
	if depth > maxValueDepth {
		return Value{}, p.fault("a value that is nested less deeply")
	}
	text := p.scan.text(p.token)
	switch p.token.kind {
	case tokenInt, tokenFloat:
		return textValue(text), p.advance()
	case tokenString, tokenBlockString, tokenName:
		return Value{kind: unusable}, p.advance()
	case '[':
		length := 0
		err := p.block('[', ']', func() error {
			length++
			_, err := p.value(depth + 1)
			return err
		})
		return Number(float64(length)), err
	case '{':
		return Value{}, p.block('{', '}', func() error { return p.member(depth + 1) })
	default:
		return Value{}, p.fault("a value")
	}
}

// parseDefault reads the default of an argument as introspection gives it: a
// GraphQL literal in a string. Text that is no literal is unusable.
func parseDefault(text string) Value {
	p := sdlParser{scan: scanner{src: text}}
	if err := p.advance(); err != nil {
		return Value{kind: unusable}
	}
	v, err := p.value(0)
	if err != nil || p.token.kind != tokenEOF {
		return Value{kind: unusable}
	}
	return v
}
