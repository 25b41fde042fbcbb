package cost

import (
	"errors"
	"strconv"
)

// state is where in the grammar the lexical pass stands: what may come next.
type state uint8

const (
	inDocument  state = iota // a definition
	inDescribed              // a definition, after its description

	inOperation      // after its keyword: name, variables, directives, selections
	inOperationNamed // variables, directives, selections
	inDefinitionTail // directives, selections
	inFragment       // the fragment's name
	inFragmentNamed  // "on"
	inTypeCondition  // the type of a fragment definition

	inSelections // the first selection of a set
	inSelection  // another selection, or the end of the set
	inAlias      // after a field's name or alias
	inAliased    // the field's name, after its alias
	inField      // after the field's name: arguments ...
	inFieldTail  // ... directives, selections
	inSpread     // after "..."
	inSpreadTail // after the fragment's name: directives
	inInlineType // the type of an inline fragment
	inInlineTail // directives, selections

	inDirective      // the directive's name
	inDirectiveNamed // arguments

	inArguments    // the first argument's name
	inArgument     // another argument's name, or the end
	inMember       // an object field's name, or the end
	inColon        // the colon before a value
	inValue        // a value
	inElement      // a list's element, or the end
	inVariableName // the name of a variable that is a value
	inDroppedName  // ... of one that is left out

	inVariables         // the first variable definition
	inVariable          // another variable definition, or the end
	inVariableDescribed // the variable, after its description
	inDefinedName       // the defined variable's name
	inDefinedColon      // the colon before its type
	inType              // a type
	inTypeEnd           // after a type: "!"
	inTypeDone          // after a type and its "!"
	inDefaultTail       // after the default value: directives
)

// step takes the current token.
func (n *normalizer) step() error {
	switch {
	case n.state <= inDescribed:
		return n.document()
	case n.state <= inTypeCondition:
		return n.definition()
	case n.state <= inFieldTail:
		return n.selection()
	case n.state <= inInlineTail:
		return n.fragment()
	case n.state <= inDirectiveNamed:
		return n.directive()
	case n.state <= inDroppedName:
		return n.value()
	default:
		return n.variable()
	}
}

// document takes the start of a definition.
func (n *normalizer) document() error {
	switch kind := n.token.kind; {
	case kind == '{' && n.state != inDescribed:
		return n.enter(selections, inSelections, inDocument)
	case (kind == tokenString || kind == tokenBlockString) && n.state == inDocument:
		n.state = inDescribed
		return nil
	case kind != tokenName:
		return n.unexpected("a definition")
	}
	switch n.text() {
	case "query", "mutation", "subscription":
		return n.keep(inOperation)
	case "fragment":
		return n.keep(inFragment)
	default:
		return n.typeSystem()
	}
}

// typeSystem passes over a type system definition, which is left out: no server
// executes one, and the parser knows those of an older specification only.
func (n *normalizer) typeSystem() error {
	p := sdlParser{scan: n.scan, token: n.token}
	if err := p.definition(); errors.Is(err, ErrSyntax) {
		return err
	} else if err != nil {
		return syntaxError(p.token.start, "malformed type definition")
	}
	n.scan = p.scan
	n.scan.unread(p.token)
	n.state = inDocument
	return nil
}

// definition takes the head of an operation or fragment definition.
func (n *normalizer) definition() error {
	kind := n.token.kind
	switch n.state {
	case inFragment:
		if n.text() == "on" {
			return n.unexpected("a fragment's name")
		}
		return n.expect(tokenName, "a fragment's name", inFragmentNamed)
	case inFragmentNamed:
		if n.text() != "on" {
			return n.unexpected("a type condition")
		}
		return n.keep(inTypeCondition)
	case inTypeCondition:
		return n.expect(tokenName, "a type", inDefinitionTail)
	case inOperation:
		if kind == tokenName {
			return n.keep(inOperationNamed)
		}
	}
	switch {
	case kind == '(' && n.state != inDefinitionTail:
		return n.enter(variables, inVariables, inDefinitionTail)
	case kind == '@':
		return n.directives(inDefinitionTail)
	case kind == '{':
		return n.enter(selections, inSelections, inDocument)
	default:
		return n.unexpected("a selection set")
	}
}

// selection takes a token of a selection set, outside of fragments.
func (n *normalizer) selection() error {
	kind := n.token.kind
	switch {
	case n.state == inAliased:
		return n.expect(tokenName, "a field's name", inField)
	case kind == ':' && n.state == inAlias:
		err := n.keep(inAliased)
		n.result.lean.end(n.result.lean.selection, len(n.out), " ")
		return err
	case kind == '(' && (n.state == inAlias || n.state == inField):
		return n.enter(arguments, inArguments, inFieldTail)
	case kind == '@' && n.state >= inAlias:
		return n.directives(inFieldTail)
	case kind == '{' && n.state >= inAlias:
		return n.enter(selections, inSelections, inSelection)
	default:
		return n.nextSelection()
	}
}

// nextSelection takes the start of a selection, or the end of the set.
func (n *normalizer) nextSelection() error {
	switch {
	case n.token.kind == tokenName:
		n.result.selections++
		n.result.lean.selection = len(n.out)
		return n.keep(inAlias)
	case n.token.kind == tokenSpread:
		n.result.selections++
		return n.keep(inSpread)
	case n.token.kind == '}' && n.state != inSelections:
		return n.leave()
	default:
		return n.unexpected("a selection")
	}
}

// fragment takes a token of a fragment spread or an inline fragment.
func (n *normalizer) fragment() error {
	kind := n.token.kind
	switch {
	case n.state == inInlineType:
		return n.expect(tokenName, "a type", inInlineTail)
	case n.state == inSpread && kind == tokenName && n.text() == "on":
		return n.keep(inInlineType)
	case n.state == inSpread && kind == tokenName:
		return n.keep(inSpreadTail)
	case kind == '@' && n.state == inSpreadTail:
		return n.directives(inSpreadTail)
	case n.state == inSpreadTail:
		return n.nextSelection()
	case kind == '@':
		return n.directives(inInlineTail)
	case kind == '{':
		return n.enter(selections, inSelections, inSelection)
	default:
		return n.unexpected("a fragment")
	}
}

// directives keeps the '@' of a directive; tail is the state behind it.
func (n *normalizer) directives(tail state) error {
	n.tail = tail
	if n.directiveCut = !n.silent && n.result.lean.begin(); n.directiveCut {
		n.directiveFrom = len(n.out)
	}
	return n.keep(inDirective)
}

// endDirective ends one that the parser need not be given.
func (n *normalizer) endDirective() {
	n.result.lean.end(n.directiveFrom, len(n.out), " ")
}

// directive takes a directive's name and what follows it.
func (n *normalizer) directive() error {
	if n.state == inDirective {
		return n.expect(tokenName, "a directive's name", inDirectiveNamed)
	}
	if n.token.kind == '(' {
		err := n.enter(arguments, inArguments, n.tail)
		if err == nil {
			n.inner().speak = n.silent
			n.inner().cut = n.directiveCut
		}
		return err
	}
	if n.silent = false; n.directiveCut {
		n.endDirective()
	}
	n.state = n.tail
	return n.step()
}

// value takes a token of arguments or of a value.
func (n *normalizer) value() error {
	kind := n.token.kind
	switch n.state {
	case inArguments:
		return n.expect(tokenName, "an argument", inColon)
	case inArgument, inMember:
		if kind == ')' || kind == '}' {
			return n.leave()
		}
		return n.expect(tokenName, "a name", inColon)
	case inColon:
		return n.expect(':', "a colon", inValue)
	case inVariableName:
		return n.expect(tokenName, "a variable's name", n.afterValue())
	case inDroppedName:
		n.state = n.afterValue()
		if kind != tokenName {
			return n.unexpected("a variable's name")
		}
		return nil
	case inElement:
		if kind == ']' {
			return n.leave()
		}
		n.inner().elements++
	}
	return n.startValue()
}

// startValue takes the first token of a value.
func (n *normalizer) startValue() error {
	after := n.afterValue()
	switch n.token.kind {
	case '[':
		return n.enter(list, inElement, after)
	case '{':
		return n.enter(object, inMember, after)
	case '$':
		return n.variableValue()
	case tokenString, tokenBlockString:
		n.write(tokenString, n.stringValue())
		n.state = after
		return nil
	case tokenName:
		// The parser knows no null. An enum value costs the same: both are no
		// count and end the search for one.
		if n.text() == "null" {
			n.write(tokenName, "NULL")
			n.state = after
			return nil
		}
		return n.keep(after)
	case tokenInt, tokenFloat:
		return n.keep(after)
	default:
		return n.unexpected("a value")
	}
}

// afterValue is the state behind a value, as the bracket around it says.
func (n *normalizer) afterValue() state {
	switch n.inner().container {
	case arguments:
		return inArgument
	case object:
		return inMember
	case list:
		return inElement
	default:
		return inDefaultTail
	}
}

// variableValue takes the '$' of a variable that is a value. In a constant, which
// is no GraphQL, it gives nothing, as an empty object does, which the parser reads.
func (n *normalizer) variableValue() error {
	if n.open[0].container != variables {
		return n.keep(inVariableName)
	}
	n.write('}', "{}")
	n.state = inDroppedName
	return nil
}

// stringValue is how a string is written: a decimal number in one spelling, any
// other text, and all text inside of lists and objects, as the empty string.
func (n *normalizer) stringValue() string {
	const empty = `""`
	if c := n.inner().container; c == list || c == object || n.token.escaped {
		return empty
	}
	v := textValue(n.scan.stringBody(n.token))
	if v.kind != count {
		return empty
	}
	return `"` + strconv.FormatFloat(v.num, 'g', -1, 64) + `"`
}

// variable takes a token of variable definitions.
func (n *normalizer) variable() error {
	kind := n.token.kind
	switch n.state {
	case inDefinedName:
		return n.expect(tokenName, "a variable's name", inDefinedColon)
	case inDefinedColon:
		err := n.expect(':', "a colon", inType)
		n.result.lean.typed = len(n.out)
		return err
	case inType:
		if kind == '[' {
			return n.enter(listType, inType, inTypeEnd)
		}
		return n.expect(tokenName, "a type", inTypeEnd)
	case inTypeEnd:
		if kind == '!' {
			return n.keep(inTypeDone)
		}
	case inVariables, inVariable, inVariableDescribed:
		return n.nextVariable()
	}
	if n.state != inDefaultTail && n.inner().container == listType {
		if kind != ']' {
			return n.unexpected("the end of a list type")
		}
		return n.leave()
	}
	switch {
	case kind == '=' && n.state != inDefaultTail:
		n.result.lean.fallback(len(n.out))
		return n.keep(inValue)
	case kind == '@':
		// The parser knows no directives here; they are read, but left out.
		n.silent = true
		return n.directives(inDefaultTail)
	default:
		return n.nextVariable()
	}
}

// nextVariable takes the start of a variable definition, or the end of them.
func (n *normalizer) nextVariable() error {
	n.result.lean.defined(len(n.out))
	switch kind := n.token.kind; {
	case kind == '$':
		n.result.lean.define(len(n.out))
		return n.keep(inDefinedName)
	case n.state == inVariableDescribed:
		return n.unexpected("a variable")
	case kind == tokenString || kind == tokenBlockString:
		n.state = inVariableDescribed
		return nil
	case kind == ')' && n.state != inVariables:
		return n.leave()
	default:
		return n.unexpected("a variable")
	}
}
