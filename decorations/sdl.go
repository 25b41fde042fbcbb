package decorations

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"graphql-limit-count/cost"
)

// The directives of the GraphQL Cost Directives specification (IBM, draft of 2021), as Apollo
// (weight is an Int) and Hot Chocolate (with slicingArgumentDefaultValue) use them.
const (
	directiveCost     = "cost"
	directiveListSize = "listSize"

	argumentWeight       = "weight"
	argumentAssumedSize  = "assumedSize"
	argumentSlicing      = "slicingArguments"
	argumentSizedFields  = "sizedFields"
	argumentRequireOne   = "requireOneSlicingArgument"
	argumentDefaultValue = "slicingArgumentDefaultValue"
)

// FromSDL translates a schema with @cost and @listSize, also under the names that schema
// federation gives them (federation__cost). The notes are what the translation could not say.
//
//   - @cost on a field or on an output type becomes add_value;
//   - @listSize becomes mul_arguments (slicingArguments) and assumed_size
//     (slicingArgumentDefaultValue, else assumedSize);
//   - a field without @cost takes the weight of its type, as a field's own decoration would
//     otherwise set it back to 1;
//   - the weight of an interface or union is the largest of its types, and an interface's
//     field has the decoration of its implementations where those agree.
//
// It is an error when the text is no SDL, or holds neither directive.
func FromSDL(text []byte) (Set, []Note, error) {
	outline, err := cost.ReadOutline(text)
	if err != nil {
		return Set{}, nil, fmt.Errorf("read decorations from SDL: %w", err)
	}
	r := sdlReader{
		outline: outline, weights: map[string]float64{}, types: map[string]*cost.OutlineType{},
		decorated: map[string]Decoration{},
	}
	for _, t := range outline.Types {
		r.types[t.Name] = t
	}
	r.typeWeights()
	r.abstractWeights()
	for _, t := range outline.Types {
		r.fields(t)
	}
	r.interfaces()
	if len(r.set.Decorations) == 0 && len(r.notes) == 0 {
		return Set{}, nil, fmt.Errorf("read decorations from SDL: the schema has neither @%s nor @%s", directiveCost, directiveListSize)
	}
	return r.set, r.notes, nil
}

// sdlReader collects what the directives of a schema say.
type sdlReader struct {
	outline   *cost.Outline
	types     map[string]*cost.OutlineType
	weights   map[string]float64 // of types
	decorated map[string]Decoration
	set       Set
	notes     []Note
}

func (r *sdlReader) lost(line int, where, format string, arguments ...any) {
	r.notes = append(r.notes, Note{Line: line, Where: where, Text: fmt.Sprintf(format, arguments...), Lost: true})
}

func (r *sdlReader) differs(line int, where, format string, arguments ...any) {
	r.notes = append(r.notes, Note{Line: line, Where: where, Text: fmt.Sprintf(format, arguments...)})
}

func (r *sdlReader) add(line int, fieldPath string, members map[string]any) {
	if _, twice := r.decorated[fieldPath]; twice {
		r.lost(line, fieldPath, "it is declared twice, the first declaration counts")
		return
	}
	d, err := newDecoration(fieldPath, members)
	if err != nil { // no value of ours fails
		r.lost(line, fieldPath, "%v", err)
		return
	}
	r.decorated[fieldPath] = d
	r.set.Decorations = append(r.set.Decorations, d)
}

// newDecoration makes a decoration of a field path and its other members.
func newDecoration(fieldPath string, members map[string]any) (Decoration, error) {
	members[memberFieldPath] = fieldPath
	value, err := encodeValue(members)
	return Decoration{FieldPath: fieldPath, Value: value}, err
}

// named returns the directives of a name, whatever federation put before it.
func named(directives []cost.Directive, name string) []cost.Directive {
	var found []cost.Directive
	for _, d := range directives {
		if d.Name == name || strings.HasSuffix(d.Name, "__"+name) {
			found = append(found, d)
		}
	}
	return found
}

// weight is what @cost says of an item, if it has one that can be translated.
func (r *sdlReader) weight(where string, directives []cost.Directive) (weight float64, ok bool) {
	found := named(directives, directiveCost)
	if len(found) == 0 {
		return 0, false
	}
	if len(found) > 1 {
		r.lost(found[1].Line, where, "@%s stands here twice, the first one counts", directiveCost)
	}
	literal, given := found[0].Argument(argumentWeight)
	if !given {
		r.lost(found[0].Line, where, "@%s has no %s: it is not the directive of the cost specification", directiveCost, argumentWeight)
		return 0, false
	}
	weight, err := strconv.ParseFloat(strings.TrimSpace(plainText(literal)), 64)
	switch {
	case err != nil || math.IsNaN(weight) || math.IsInf(weight, 0):
		r.lost(found[0].Line, where, "the weight %.40s is not a number", literal)
		return 0, false
	case weight < 0:
		r.lost(found[0].Line, where, "the weight %.40s is negative, and add_value cannot be", literal)
		return 0, false
	}
	return weight, true
}

// plainText is the text of a string literal, or any other literal as it is.
func plainText(literal string) string {
	if block, ok := strings.CutPrefix(literal, `"""`); ok {
		return strings.TrimSuffix(block, `"""`)
	}
	var text string
	if err := json.Unmarshal([]byte(literal), &text); err == nil {
		return text
	}
	return literal
}

// typeWeights translates @cost on types.
func (r *sdlReader) typeWeights() {
	for _, t := range r.outline.Types {
		weight, ok := r.weight(t.Name, t.Directives)
		if !ok {
			continue
		}
		if t.Kind == cost.KindInput {
			r.lost(t.Line, t.Name, "an input type is returned by no field")
			continue
		}
		r.weights[t.Name] = weight
		r.add(t.Line, t.Name, map[string]any{memberAddValue: number(weight)})
	}
}

// abstractWeights gives interfaces and unions the largest weight of their types.
func (r *sdlReader) abstractWeights() {
	members := map[string][]string{}
	for _, t := range r.outline.Types {
		for _, i := range t.Interfaces {
			members[i] = append(members[i], t.Name)
		}
		if t.Kind == cost.KindUnion {
			members[t.Name] = t.Members
		}
	}
	for _, t := range r.outline.Types {
		if _, own := r.weights[t.Name]; own || len(members[t.Name]) == 0 {
			continue
		}
		largest, weighted := 0.0, false
		for _, name := range members[t.Name] {
			weight, ok := r.weights[name]
			if !ok {
				weight = defaultWeight
			}
			largest, weighted = max(largest, weight), weighted || ok
		}
		if weighted && largest != defaultWeight {
			r.weights[t.Name] = largest
			r.add(t.Line, t.Name, map[string]any{memberAddValue: number(largest)})
		}
	}
}

// fields translates the directives on what a type declares.
func (r *sdlReader) fields(t *cost.OutlineType) {
	for i := range t.Fields {
		f := &t.Fields[i]
		where := t.Name + "." + f.Name
		if t.Kind != cost.KindObject && t.Kind != cost.KindInterface {
			if found := named(f.Directives, directiveCost); len(found) > 0 {
				r.lost(found[0].Line, where, "what stands inside an argument has no weight of its own")
			}
			continue
		}
		for _, a := range f.Arguments {
			if found := named(a.Directives, directiveCost); len(found) > 0 {
				r.lost(found[0].Line, where+"("+a.Name+":)",
					"an argument has no weight of its own; add_arguments would add its value, not its presence")
			}
		}
		members := r.field(where, f)
		if members != nil {
			r.add(f.Line, where, members)
		}
	}
}

// field translates the directives of one field, nil when they say nothing.
func (r *sdlReader) field(where string, f *cost.OutlineField) map[string]any {
	weight, own := r.weight(where, f.Directives)
	inherited, weighted := r.weights[f.Type.Named()]
	members := r.listSize(where, f)
	if own && weight == defaultWeight && !weighted && members == nil {
		return nil // what it costs anyway
	}
	if !own && members == nil {
		return nil
	}
	if members == nil {
		members = map[string]any{}
	}
	if !own && weighted {
		weight, own = inherited, true
	}
	if own && weight != defaultWeight {
		members[memberAddValue] = number(weight)
	}
	return members
}

// listSize translates @listSize, nil when there is none that can be.
func (r *sdlReader) listSize(where string, f *cost.OutlineField) map[string]any {
	found := named(f.Directives, directiveListSize)
	if len(found) == 0 {
		return nil
	}
	d := found[0]
	for _, other := range found[1:] {
		r.lost(other.Line, where, "a second @%s: a field has one multiplier", directiveListSize)
	}
	members := map[string]any{}
	slicing := r.slicing(where, f, d)
	if len(slicing) > 0 {
		members["mul_arguments"] = slicing
	}
	for _, name := range []string{argumentDefaultValue, argumentAssumedSize} {
		literal, given := d.Argument(name)
		if _, taken := members["assumed_size"]; taken || !given || literal == "null" {
			continue
		}
		size, err := strconv.ParseFloat(plainText(literal), 64)
		if err != nil || !(size >= 0) || math.IsInf(size, 0) {
			r.lost(d.Line, where, "%s %.40s is no number >= 0", name, literal)
			continue
		}
		members["assumed_size"] = number(size)
	}
	if len(members) == 0 {
		r.lost(d.Line, where, "@%s leaves neither a slicing argument nor a size", directiveListSize)
		return nil
	}
	r.listSizeDifferences(where, f, d, slicing, members["assumed_size"] != nil)
	return members
}

// slicing returns those of the slicing arguments that a query's cost can depend on.
func (r *sdlReader) slicing(where string, f *cost.OutlineField, d cost.Directive) []string {
	literal, _ := d.Argument(argumentSlicing)
	var kept []string
	for _, name := range textList(literal) {
		argument := f.Argument(name)
		switch {
		case strings.Contains(name, "."):
			r.lost(d.Line, where, "the slicing argument %s stands inside an object, which is not looked into", name)
		case argument == nil:
			r.lost(d.Line, where, "the slicing argument %s is no argument of the field", name)
		case r.isInput(argument.Type):
			r.lost(d.Line, where, "the slicing argument %s is an object, which is not looked into", name)
		case !slices.Contains(kept, name):
			kept = append(kept, name)
		}
	}
	return kept
}

func (r *sdlReader) isInput(t cost.TypeText) bool {
	named := r.types[t.Named()]
	return !t.List() && named != nil && named.Kind == cost.KindInput
}

// listSizeDifferences notes where @listSize means something else than its decoration.
func (r *sdlReader) listSizeDifferences(where string, f *cost.OutlineField, d cost.Directive, slicing []string, assumed bool) {
	if literal, _ := d.Argument(argumentSizedFields); len(textList(literal)) > 0 {
		r.differs(d.Line, where, "everything below the field is multiplied, not only below %s",
			strings.Join(textList(literal), ", "))
	}
	requireOne, given := d.Argument(argumentRequireOne)
	if given && requireOne == "true" {
		r.differs(d.Line, where, "%s is not enforced: a query without one is charged, not refused", argumentRequireOne)
	}
	if len(slicing) > 1 && requireOne == "false" {
		r.differs(d.Line, where, "where a query gives several of %s their product counts, not the largest", strings.Join(slicing, ", "))
	}
	defaults := 0
	for _, name := range slicing {
		if f.Argument(name).Default != "" {
			defaults++
		}
	}
	if len(slicing) > 0 && defaults == 0 && !assumed {
		r.differs(d.Line, where, "there is no %s: a query without %s is charged as for one record",
			argumentAssumedSize, strings.Join(slicing, " or "))
	}
	if len(slicing) > 1 && defaults > 0 {
		r.differs(d.Line, where, "the schema's defaults of slicing arguments multiply with those that a query gives")
	}
}

// interfaces gives an interface's field the decoration of its implementations: what is
// selected on the interface is matched there and nowhere else.
func (r *sdlReader) interfaces() {
	implementations := map[string][]string{}
	for _, t := range r.outline.Types {
		for _, i := range t.Interfaces {
			implementations[i] = append(implementations[i], t.Name)
		}
	}
	for _, t := range r.outline.Types {
		if t.Kind != cost.KindInterface {
			continue
		}
		for _, f := range t.Fields {
			r.interfaceField(t, f, implementations[t.Name])
		}
	}
}

func (r *sdlReader) interfaceField(t *cost.OutlineType, f cost.OutlineField, implementations []string) {
	where := t.Name + "." + f.Name
	if _, own := r.decorated[where]; own {
		return
	}
	var first *Decoration
	for _, name := range implementations {
		d, ok := r.decorated[name+"."+f.Name]
		if !ok {
			continue
		}
		d.FieldPath = where
		if value, err := d.members(); err == nil {
			value[memberFieldPath] = where
			d.Value, _ = encodeValue(value) // it was encoded from such a value
		}
		if first != nil && !first.Same(d) {
			r.lost(f.Line, where, "the interface's types weight the field differently; selected on the interface it is not weighted")
			return
		}
		first = &d
	}
	if first != nil {
		r.decorated[where] = *first
		r.set.Decorations = append(r.set.Decorations, *first)
	}
}

// quotedText matches one string of a list literal.
var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// textList is the strings of a list literal, or the one of a string.
func textList(literal string) []string {
	var list []string
	for _, quoted := range quotedText.FindAllString(literal, -1) {
		list = append(list, plainText(quoted))
	}
	return list
}

// number is a float64 as JSON writes it.
func number(f float64) json.Number {
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
}
