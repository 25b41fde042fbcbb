package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"graphql-limit-count/cost"
	"graphql-limit-count/decorations"
	"graphql-limit-count/internal/validation"
)

// noAlternative is how APISIX ends the sentence about an id that is neither of the two
// things an id can be; it does not go on to say why.
const noAlternative = "object matches none of the required"

// checkDecoration validates a whole decoration, with id and service_id. The error's text is
// APISIX's.
func checkDecoration(object map[string]any) error {
	schema, err := decorations.Schema()
	if err != nil {
		return err
	}
	fault := schema.Validate(object)
	if fault == nil {
		return nil
	}
	message := validation.Message(fault)
	if faults := validation.Faults(fault); len(faults) > 0 && faults[0].Keyword == "anyOf" &&
		strings.HasPrefix(faults[0].What, noAlternative) {
		message = faults[0].Where + noAlternative
	}
	return errors.New("invalid configuration: " + message)
}

// decodeObject reads a stored value; numbers stay as they are written.
func decodeObject(value []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	object := map[string]any{}
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("decode its value: %w", err)
	}
	if object == nil { // the value is null
		return nil, errors.New("decode its value: it is not an object")
	}
	return object, nil
}

// encode writes JSON with sorted members, numbers as they were sent, and text as it is:
// patterns in messages must stay readable, so nothing is escaped for HTML.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// draft splits a checked decoration into what the store keeps by itself and the rest.
func draft(serviceID, id string, object map[string]any) (Draft, error) {
	value := make(map[string]any, len(object))
	for name, member := range object {
		switch name {
		case memberID, memberServiceID, memberCreateTime, memberUpdateTime:
		default:
			value[name] = member
		}
	}
	text, err := encode(value)
	if err != nil {
		return Draft{}, err
	}
	fieldPath, _ := object[memberFieldPath].(string)
	return Draft{ServiceID: serviceID, ID: id, FieldPath: fieldPath, Value: text}, nil
}

// costDecoration reads what the cost model needs of a record. Whoever wrote the record, it
// must be as valid as one that came through the endpoint.
func costDecoration(r Record) (cost.Decoration, error) {
	object, err := validation.Decode(r.Value)
	if err != nil {
		return cost.Decoration{}, err
	}
	members, ok := object.(map[string]any)
	if !ok {
		return cost.Decoration{}, errors.New("its value is not an object")
	}
	if err := checkDecoration(members); err != nil {
		return cost.Decoration{}, err
	}
	var decoration cost.Decoration
	if err := json.Unmarshal(r.Value, &decoration); err != nil {
		return cost.Decoration{}, err
	}
	if decoration.FieldPath != r.FieldPath {
		return cost.Decoration{}, fmt.Errorf("its value has field_path %q, its index %q", decoration.FieldPath, r.FieldPath)
	}
	return decoration, nil
}
