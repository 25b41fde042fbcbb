package cost

// fieldsType reads an object or interface type after its keyword.
func (p *sdlParser) fieldsType(kind TypeKind) error {
	start := p.token
	name, err := p.name()
	if err != nil {
		return err
	}
	t := p.schema.define(name)
	if err := p.schema.count(); err != nil {
		return err
	}
	if kind == KindObject {
		t.setConcrete()
	}
	var interfaces []string
	if p.keyword("implements") {
		if err := p.advance(); err != nil {
			return err
		}
		if err := p.nameList('&', func(name string) { interfaces = append(interfaces, name) }); err != nil {
			return err
		}
	}
	if err := p.directives(); err != nil {
		return err
	}
	p.record.define(p, kind, name, start)
	p.record.implement(interfaces)
	return p.block('{', '}', func() error { return p.field(t) })
}

// nameList reads names with a separator between them, and perhaps before the first, and hands
// them to take, if any.
func (p *sdlParser) nameList(separator tokenKind, take func(name string)) error {
	for first := true; ; first = false {
		separated, err := p.skip(separator)
		if err != nil {
			return err
		}
		if !first && !separated {
			return nil
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		if take != nil {
			take(name)
		}
	}
}

// described reads what a field, an argument or an enum value begins with: its name, after a
// description if there is one. start is the name's token.
func (p *sdlParser) described() (start token, name string, err error) {
	if err := p.description(); err != nil {
		return token{}, "", err
	}
	start = p.token
	name, err = p.name()
	return start, name, err
}

func (p *sdlParser) field(t *typeDefinition) error {
	start, name, err := p.described()
	if err != nil {
		return err
	}
	f := &fieldDefinition{}
	if err := p.block('(', ')', func() error { return p.inputValue(f) }); err != nil {
		return err
	}
	if err := p.expect(':'); err != nil {
		return err
	}
	from := p.token.start
	if f.returns, err = p.typeReference(0); err != nil {
		return err
	}
	t.addField(name, f)
	if err := p.schema.count(); err != nil {
		return err
	}
	returns := p.record.text(p, from)
	if err := p.directives(); err != nil {
		return err
	}
	p.record.field(p, name, returns, start)
	return nil
}

// inputValue reads an argument or input field; its default goes to f, if any.
func (p *sdlParser) inputValue(f *fieldDefinition) error {
	start, name, err := p.described()
	if err != nil {
		return err
	}
	if err := p.expect(':'); err != nil {
		return err
	}
	from := p.token.start
	if _, err := p.typeReference(0); err != nil {
		return err
	}
	input := p.record.input(p, name, from, start)
	assigned, err := p.skip('=')
	if err != nil {
		return err
	}
	var fallback Value
	if assigned {
		from = p.token.start
		if fallback, err = p.value(0); err != nil {
			return err
		}
		input.Default = p.record.text(p, from)
	}
	if f != nil {
		f.addArgument(name, fallback)
		if err := p.schema.count(); err != nil {
			return err
		}
	}
	if err := p.directives(); err != nil {
		return err
	}
	p.record.inputValue(input)
	return nil
}

// typeReference reads a type and returns the name inside its wrappers.
func (p *sdlParser) typeReference(depth int) (string, error) {
	if depth > maxValueDepth {
		return "", p.fault("a type that is nested less deeply")
	}
	list, err := p.skip('[')
	if err != nil {
		return "", err
	}
	var name string
	if list {
		if name, err = p.typeReference(depth + 1); err != nil {
			return "", err
		}
		err = p.expect(']')
	} else {
		name, err = p.name()
	}
	if err != nil {
		return "", err
	}
	_, err = p.skip('!')
	return name, err
}

// directives passes over the directives on a definition.
func (p *sdlParser) directives() error {
	for p.is('@') {
		start := p.token
		if err := p.advance(); err != nil {
			return err
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		if err := p.block('(', ')', func() error { return p.member(0) }); err != nil {
			return err
		}
		p.record.directive(p, name, start)
	}
	return nil
}

// named reads a definition's name and directives.
func (p *sdlParser) named(kind TypeKind) (*typeDefinition, error) {
	start := p.token
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	t := p.schema.define(name)
	if err := p.schema.count(); err != nil {
		return nil, err
	}
	if err := p.directives(); err != nil {
		return nil, err
	}
	p.record.define(p, kind, name, start)
	return t, nil
}

func (p *sdlParser) scalar() error {
	t, err := p.named(KindScalar)
	t.setConcrete()
	return err
}

func (p *sdlParser) union() error {
	if _, err := p.named(KindUnion); err != nil {
		return err
	}
	assigned, err := p.skip('=')
	if err != nil || !assigned {
		return err
	}
	return p.nameList('|', p.record.member)
}

func (p *sdlParser) enum() error {
	t, err := p.named(KindEnum)
	if err != nil {
		return err
	}
	t.setConcrete()
	return p.block('{', '}', func() error {
		start, name, err := p.described()
		if err != nil {
			return err
		}
		if err := p.directives(); err != nil {
			return err
		}
		p.record.enumValue(p, name, start)
		return nil
	})
}

func (p *sdlParser) input() error {
	t, err := p.named(KindInput)
	if err != nil {
		return err
	}
	t.setConcrete()
	return p.block('{', '}', func() error {
		if err := p.inputValue(nil); err != nil {
			return err
		}
		p.record.inputField()
		return nil
	})
}

func (p *sdlParser) directiveDefinition() error {
	if err := p.expect('@'); err != nil {
		return err
	}
	if _, err := p.name(); err != nil {
		return err
	}
	if err := p.block('(', ')', func() error { return p.inputValue(nil) }); err != nil {
		return err
	}
	p.record.drop()
	for _, word := range []string{"repeatable", "on"} {
		if !p.keyword(word) {
			continue
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
	return p.nameList('|', nil)
}
