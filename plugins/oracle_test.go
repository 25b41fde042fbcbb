package plugins

import (
	"bytes"
	"encoding/json"
	"strings"

	"graphql-limit-count/internal/cjson"
)

// The decoder as one reads it off the specification: the text is checked by
// encoding/json, then walked, and each string is decoded by encoding/json. What reads
// requests in one pass is compared with it.

// trimJSON cuts insignificant white space.
func trimJSON(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// oracleOperations reads an object, or a batch where the route allows one.
func oracleOperations(text []byte, maxBatch int64) ([]operation, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	if !json.Valid(text) {
		return nil, envelopeError("%s", cjson.Fault(text))
	}
	value := trimJSON(text)
	if value[0] != '[' || maxBatch == 0 {
		op, err := oracleOperation(value)
		return []operation{op}, err
	}
	var operations []operation
	err := eachElement(value, func(element []byte) error {
		if int64(len(operations)) == maxBatch {
			return envelopeError("the batch has more than %d entries", maxBatch)
		}
		op, err := oracleOperation(element)
		operations = append(operations, op)
		return err
	})
	if err == nil && len(operations) == 0 {
		err = errNoQuery
	}
	return operations, err
}

// oracleOperation reads one GraphQL request (GraphQL over HTTP). Members are
// matched exactly. One that counts may not be repeated: the upstream might read
// the other.
func oracleOperation(value []byte) (operation, error) {
	if value[0] != '{' {
		return operation{}, errNoQuery
	}
	var query, name, variables, extensions, batch []byte
	ids := map[string]*[]byte{"id": {}, "documentId": {}, "queryId": {}, "doc_id": {}}
	other := ""
	err := eachMember(value, func(key string, value []byte) error {
		var member *[]byte
		switch key {
		case "query":
			member = &query
		case "operationName":
			member = &name
		case "variables":
			member = &variables
		case "_json":
			member = &batch
		default:
			if strings.EqualFold(key, "extensions") {
				member = &extensions
			}
			for name, id := range ids {
				if strings.EqualFold(key, name) {
					member = id
				}
			}
			if member == nil {
				if other == "" {
					other = resembles(key)
				}
				return nil
			}
		}
		if *member != nil {
			return envelopeError("json body[%s] is repeated", key)
		}
		*member = value
		if key == "variables" {
			return oracleVariables(value)
		}
		return nil
	})
	if err != nil {
		return operation{}, err
	}
	if len(query) == 0 || query[0] != '"' {
		if oraclePersisted(extensions) != nil {
			return operation{}, errNotPersisted
		}
		return operation{}, errNoQuery
	}
	if other != "" {
		return operation{}, envelopeError("json body[%s] is there in another spelling as well", other)
	}
	if oracleHoldsObject(variables) {
		return operation{}, envelopeError("json body[variables] is a string")
	}
	if listsObjects(variables) {
		return operation{}, envelopeError("json body[variables] is a list of objects")
	}
	if oracleHoldsObject(extensions) {
		return operation{}, envelopeError("json body[extensions] is a string")
	}
	if len(batch) > 0 {
		return operation{}, envelopeError("json body[_json] holds other requests")
	}
	op := operation{query: []byte(unquote(query))}
	for _, member := range idMembers {
		id := *ids[member]
		named := string(id)
		if strings.HasPrefix(named, `"`) {
			named = unquote(id)
		}
		if string(id) != "null" && (&digests{query: op.query}).namesAnother(member, named) {
			return operation{}, envelopeError("json body[%s] names another document than the query", member)
		}
	}
	if oracleNamesAnother(extensions, op.query) {
		return operation{}, envelopeError("json body[extensions] names another document than the query")
	}
	if len(name) > 0 && name[0] == '"' {
		op.name = []byte(unquote(name))
	}
	if len(variables) > 0 && variables[0] == '{' {
		op.variables = variables
	}
	return op, nil
}

// oracleVariables refuses a variable that is given twice: decoders differ in which
// value they keep.
func oracleVariables(value []byte) error {
	if value[0] != '{' {
		return nil
	}
	seen := map[string]bool{}
	return eachMember(value, func(key string, _ []byte) error {
		if seen[key] {
			return envelopeError("json body[variables] repeats %.100q", key)
		}
		seen[key] = true
		return nil
	})
}

func oracleHoldsObject(value []byte) bool {
	if len(value) == 0 || value[0] != '"' {
		return false
	}
	return strings.ContainsAny(unquote(value), `{\`)
}

func oracleNamesAnother(extensions, query []byte) (another bool) {
	for _, persisted := range oraclePersisted(extensions) {
		_ = eachMember(persisted, func(_ string, value []byte) error {
			switch value[0] {
			case '"':
				another = another || !(&digests{query: query}).namesQuery(unquote(value))
			case '[', '{':
				another = true
			}
			return nil
		})
	}
	return another
}

func oraclePersisted(extensions []byte) (objects [][]byte) {
	if len(extensions) == 0 || extensions[0] != '{' {
		return nil
	}
	_ = eachMember(extensions, func(key string, value []byte) error {
		if key == "persistedQuery" && value[0] == '{' {
			objects = append(objects, value)
		}
		return nil
	})
	return objects
}

// unquote decodes a valid JSON string.
func unquote(text []byte) string {
	if body := text[1 : len(text)-1]; bytes.IndexByte(body, '\\') < 0 && isASCII(body) {
		return string(body)
	}
	var s string
	// A valid string always decodes; invalid UTF-8 becomes U+FFFD.
	_ = json.Unmarshal(text, &s)
	return s
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// eachMember visits the members of a valid JSON object, in order, up to the first
// error of the visitor.
func eachMember(object []byte, visit func(key string, value []byte) error) error {
	c := jsonCursor{text: object, at: 1}
	for c.more('}') {
		key := c.value()
		c.skip(':')
		if err := visit(unquote(key), c.value()); err != nil {
			return err
		}
		c.skip(',')
	}
	return nil
}

// eachElement visits the elements of a valid JSON array, as eachMember does.
func eachElement(array []byte, visit func(value []byte) error) error {
	c := jsonCursor{text: array, at: 1}
	for c.more(']') {
		if err := visit(c.value()); err != nil {
			return err
		}
		c.skip(',')
	}
	return nil
}

// jsonCursor walks over valid JSON, once and without decoding it.
type jsonCursor struct {
	text []byte
	at   int
}

func (c *jsonCursor) space() {
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

// more reports whether something comes before the closing bracket.
func (c *jsonCursor) more(closing byte) bool {
	c.space()
	return c.at < len(c.text) && c.text[c.at] != closing
}

// skip passes over a separator, if it is there.
func (c *jsonCursor) skip(separator byte) {
	if c.space(); c.at < len(c.text) && c.text[c.at] == separator {
		c.at++
	}
}

// value passes over the next value and returns its text.
func (c *jsonCursor) value() []byte {
	c.space()
	start, depth := c.at, 0
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case '"':
			c.string()
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			if depth == 0 {
				return c.text[start:c.at]
			}
			depth--
			c.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.text[start:c.at]
			}
			c.at++
			continue
		default:
			c.at++
			continue
		}
		if depth == 0 {
			return c.text[start:c.at]
		}
	}
	return c.text[start:c.at]
}

func (c *jsonCursor) string() {
	for c.at++; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '\\':
			c.at++
		case '"':
			c.at++
			return
		}
	}
}
