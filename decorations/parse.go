package decorations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"graphql-limit-count/internal/validation"
)

// Parse reads one service's set: an object with the members decorations and, optionally,
// service_id, or only the list of decorations; JSON when it begins with a bracket, else YAML.
//
// It is strict, because a document that is not understood as it was meant changes what
// queries cost: unknown and repeated members, a field path or an id that occurs twice, values
// that the admin endpoint would refuse, YAML aliases and numbers that JSON cannot write are
// errors, which name the line and the decoration. At most MaxBytes and MaxDecorations are read.
func Parse(text []byte) (Set, error) {
	document, err := readDocument(text)
	if err != nil {
		return Set{}, fmt.Errorf("read decorations: %w", err)
	}
	set, err := readSet(document)
	if err != nil {
		return Set{}, fmt.Errorf("read decorations: %w", err)
	}
	return set, nil
}

// readSet reads a set, or only its list.
func readSet(document node) (Set, error) {
	var set Set
	list := document
	if members, ok := document.value.([]member); ok {
		list = node{line: document.line}
		found := false
		for _, m := range members {
			switch m.name {
			case memberServiceID:
				id, err := readID(m)
				if err != nil {
					return Set{}, err
				}
				set.ServiceID = id
			case memberDecorations:
				list, found = m.value, true
			case memberLeftOut:
			default:
				return Set{}, faultf(m.line, "unknown member %.80q: a set has %s and %s", m.name, memberDecorations, memberServiceID)
			}
		}
		if !found {
			return Set{}, faultf(document.line, "the member %s is missing", memberDecorations)
		}
	}
	var err error
	set.Decorations, err = readList(list, set.ServiceID)
	return set, err
}

func readList(list node, serviceID string) ([]Decoration, error) {
	items, ok := list.value.([]node)
	if !ok {
		return nil, faultf(list.line, "%s must be a list, not %s", memberDecorations, list.kind())
	}
	if len(items) > MaxDecorations {
		return nil, fmt.Errorf("%d decorations are more than %d", len(items), MaxDecorations)
	}
	decorations := make([]Decoration, 0, len(items))
	paths, ids := map[string]int{}, map[string]int{}
	for _, item := range items {
		d, err := readDecoration(item, serviceID)
		if err != nil {
			return nil, err
		}
		if first, twice := paths[d.FieldPath]; twice {
			return nil, faultf(d.Line, "field_path %s is decorated already, on line %d", d.FieldPath, first)
		}
		if first, twice := ids[d.ID]; twice && d.ID != "" {
			return nil, faultf(d.Line, "id %s is taken already, on line %d", d.ID, first)
		}
		paths[d.FieldPath], ids[d.ID] = d.Line, d.Line
		decorations = append(decorations, d)
	}
	return decorations, nil
}

func readDecoration(item node, serviceID string) (Decoration, error) {
	members, ok := item.value.([]member)
	if !ok {
		return Decoration{}, faultf(item.line, "a decoration must be an object, not %s", item.kind())
	}
	d := Decoration{Line: item.line}
	kept := make(map[string]any, len(members))
	for _, m := range members {
		switch m.name {
		case memberID:
			id, err := readID(m)
			if err != nil {
				return Decoration{}, err
			}
			d.ID = id
		case memberServiceID:
			id, err := readID(m)
			if err != nil {
				return Decoration{}, err
			}
			if id != serviceID {
				return Decoration{}, faultf(m.line, "%s belongs to the whole set, not to a decoration of another service", memberServiceID)
			}
		case "create_time", "update_time":
			return Decoration{}, faultf(m.line, "%s is kept by the store and cannot be set", m.name)
		default:
			kept[m.name] = m.value.plain()
		}
	}
	if err := d.validate(kept, members); err != nil {
		return Decoration{}, err
	}
	var err error
	d.Value, err = encodeValue(kept)
	return d, err
}

// validate applies the admin endpoint's schema. The line is that of the member at fault.
func (d *Decoration) validate(kept map[string]any, members []member) error {
	d.FieldPath, _ = kept[memberFieldPath].(string)
	schema, err := Schema()
	if err != nil {
		return err
	}
	fault := schema.Validate(kept)
	if fault == nil {
		return nil
	}
	line := d.Line
	if faults := validation.Faults(fault); len(faults) > 0 {
		named := slices.Concat(faults[0].Path, faults[0].Names)
		for _, m := range members {
			if len(named) > 0 && m.name == named[0] {
				line = m.line
			}
		}
	}
	return faultf(line, "decoration of %.80q: %s", d.FieldPath, validation.Message(fault))
}

// validID is what APISIX allows ids to be.
var validID = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// readID reads an id, which may also be written as a number.
func readID(m member) (string, error) {
	text := ""
	switch id := m.value.value.(type) {
	case string:
		text = id
	case json.Number:
		if n, err := strconv.ParseInt(id.String(), 10, 64); err == nil && n > 0 {
			text = id.String()
		}
	}
	if !validID.MatchString(text) {
		return "", faultf(m.line, "%s must be 1 to 64 letters, digits, points, dashes or underscores, or an integer above 0", m.name)
	}
	return text, nil
}

// encodeValue writes a decoration's members in their order.
func encodeValue(members map[string]any) (json.RawMessage, error) {
	var text bytes.Buffer
	text.WriteByte('{')
	for _, name := range memberOrder {
		value, ok := members[name]
		if !ok {
			continue
		}
		encoded, err := encode(value)
		if err != nil {
			return nil, err
		}
		if text.Len() > len("{") {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "%q:%s", name, encoded)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// encode writes JSON without escaping what only HTML needs escaped.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// members decodes a decoration's value; numbers stay as they are written.
func (d Decoration) members() (map[string]any, error) {
	decoded, err := validation.Decode(d.Value)
	if err != nil {
		return nil, fmt.Errorf("decoration of %s: %w", d.FieldPath, err)
	}
	object, ok := decoded.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("decoration of %s: %w", d.FieldPath, errors.New("its value is not an object"))
	}
	return object, nil
}
