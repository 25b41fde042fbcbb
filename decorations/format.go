package decorations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// isDefault tells whether leaving a member out says the same.
func isDefault(name string, value any) bool {
	if name != memberAddValue && name != memberMulValue {
		return false
	}
	number, ok := value.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	return err == nil && f == defaultWeight
}

// shown is a decoration's members as documents show them: in order, those that are unknown
// (of a record that other means put into a store) after the others, defaults left out.
func (d Decoration) shown() ([]string, map[string]any, error) {
	members, err := d.members()
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for name, value := range members {
		if !isDefault(name, value) {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		if i := slices.Index(memberOrder, name); i >= 0 {
			return i
		}
		return len(memberOrder)
	}
	slices.SortFunc(names, func(a, b string) int {
		if r := rank(a) - rank(b); r != 0 {
			return r
		}
		return strings.Compare(a, b)
	})
	if d.ID != "" {
		members[memberID] = d.ID
		at := min(1, len(names)) // after field_path: that is what a reader looks for
		names = slices.Insert(names, at, memberID)
	}
	return names, members, nil
}

// yamlIndent is the number of spaces of one level.
const yamlIndent = 2

// YAML writes the set as a document that Parse reads: the decorations in their order, their
// members in a fixed one, defaults left out, each under its comment.
func (s Set) YAML() ([]byte, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if len(s.Decorations) == 0 {
		list.Style = yaml.FlowStyle
	}
	for _, d := range s.Decorations {
		item, err := d.yaml()
		if err != nil {
			return nil, fmt.Errorf("write decorations: %w", err)
		}
		list.Content = append(list.Content, item)
	}
	root := &yaml.Node{Kind: yaml.MappingNode, HeadComment: s.leftOutComment()}
	if s.ServiceID != "" {
		root.Content = append(root.Content, text(memberServiceID), text(s.ServiceID))
	}
	root.Content = append(root.Content, text(memberDecorations), list)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(yamlIndent)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("write decorations: %w", err)
	}
	return out.Bytes(), nil
}

// text is a YAML string, quoted where another reading is possible.
func text(s string) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(s); err != nil { // no string fails
		n.SetString(s)
	}
	return &n
}

func (d Decoration) yaml() (*yaml.Node, error) {
	names, members, err := d.shown()
	if err != nil {
		return nil, err
	}
	item := &yaml.Node{Kind: yaml.MappingNode, HeadComment: comment(d.Comment)}
	for _, name := range names {
		item.Content = append(item.Content, text(name), toYAML(members[name]))
	}
	return item, nil
}

// comment makes every line of a text a comment.
func comment(text string) string {
	if text == "" {
		return ""
	}
	return "# " + strings.ReplaceAll(text, "\n", "\n# ")
}

// toYAML turns a decoded JSON value into YAML, lists on one line.
func toYAML(value any) *yaml.Node {
	switch value := value.(type) {
	case string:
		return text(value)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: value.String()}
	case []any:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range value {
			list.Content = append(list.Content, toYAML(item))
		}
		return list
	case map[string]any:
		object := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range sortedNames(value) {
			object.Content = append(object.Content, text(name), toYAML(value[name]))
		}
		return object
	default: // a boolean or null
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(jsonText(value))}
	}
}

func jsonText(value any) string {
	text, err := encode(value)
	if err != nil { // no value of a decoded document fails
		return "null"
	}
	return string(text)
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// JSON writes the set as YAML does, as indented JSON without the comments.
func (s Set) JSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	if s.ServiceID != "" {
		fmt.Fprintf(&out, "%q:%s,", memberServiceID, jsonText(s.ServiceID))
	}
	fmt.Fprintf(&out, "%q:[", memberDecorations)
	for i, d := range s.Decorations {
		if i > 0 {
			out.WriteByte(',')
		}
		object, err := d.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("write decorations: %w", err)
		}
		out.Write(object)
	}
	out.WriteByte(']')
	if len(s.LeftOut) > 0 {
		fmt.Fprintf(&out, ",%q:%s", memberLeftOut, jsonText(s.LeftOut))
	}
	out.WriteByte('}')
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", strings.Repeat(" ", yamlIndent)); err != nil {
		return nil, fmt.Errorf("write decorations: %w", err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// MarshalJSON writes a decoration as documents show it, with its id and without defaults.
func (d Decoration) MarshalJSON() ([]byte, error) {
	names, members, err := d.shown()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%s:%s", jsonText(name), jsonText(members[name]))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON wrote. It does not validate.
func (d *Decoration) UnmarshalJSON(text []byte) error {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("read a decoration: %w", err)
	}
	*d = Decoration{}
	for name, target := range map[string]*string{memberID: &d.ID, memberFieldPath: &d.FieldPath} {
		if value, ok := members[name]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return fmt.Errorf("read a decoration: %s: %w", name, err)
			}
		}
	}
	delete(members, memberID)
	var err error
	d.Value, err = encode(members)
	return err
}
