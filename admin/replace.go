package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"graphql-limit-count/internal/validation"
)

// SameValue tells whether two values of decorations are the same JSON: the order of members,
// white space and the spelling of a number (1, 1.0, 1e0) do not matter. A text that is no JSON
// is the same as itself only.
func SameValue(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	left, err := validation.Decode(a)
	if err != nil {
		return false
	}
	right, err := validation.Decode(b)
	return err == nil && reflect.DeepEqual(plainNumbers(left), plainNumbers(right))
}

// plainNumbers replaces the numbers in a decoded value, which are as they were spelled.
func plainNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if number, err := strconv.ParseFloat(value.String(), 64); err == nil {
			return number
		}
	case map[string]any:
		for name, member := range value {
			value[name] = plainNumbers(member)
		}
	case []any:
		for i, member := range value {
			value[i] = plainNumbers(member)
		}
	}
	return value
}

// Replacement is what a Store has to do to make one set of decorations another.
type Replacement struct {
	Remove []Record // to be removed
	Keep   []Record // to be left alone
	Write  []Draft  // to be written; some have the id of a present record
}

// PlanReplacement compares the present records of a service with the whole set that is to
// take their place, for Store.Replace. A draft without an id, of another service, or with an
// id or field path that another draft has, is an error that names it.
func PlanReplacement(serviceID string, current []Record, wanted []Draft) (Replacement, error) {
	present := make(map[string]Record, len(current))
	for _, record := range current {
		present[record.ID] = record
	}
	var r Replacement
	ids, paths := make(map[string]bool, len(wanted)), make(map[string]string, len(wanted))
	for _, draft := range wanted {
		switch holder, taken := paths[draft.FieldPath]; {
		case draft.ServiceID != serviceID:
			return Replacement{}, fmt.Errorf("decoration %q belongs to service %q", draft.ID, draft.ServiceID)
		case draft.ID == "":
			return Replacement{}, fmt.Errorf("the decoration of %q has no id", draft.FieldPath)
		case ids[draft.ID]:
			return Replacement{}, fmt.Errorf("decoration %q is given twice", draft.ID)
		case taken:
			return Replacement{}, &TakenError{FieldPath: draft.FieldPath, Holder: holder}
		}
		ids[draft.ID], paths[draft.FieldPath] = true, draft.ID
		old, exists := present[draft.ID]
		if exists && old.FieldPath == draft.FieldPath && SameValue(old.Value, draft.Value) {
			r.Keep = append(r.Keep, old)
			continue
		}
		r.Write = append(r.Write, draft)
	}
	for _, record := range current {
		if !ids[record.ID] {
			r.Remove = append(r.Remove, record)
		}
	}
	return r, nil
}
