package decorations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"graphql-limit-count/internal/validation"

	"go.yaml.in/yaml/v3"
)

// node is a value of a document, of YAML or of JSON, and where it stands.
type node struct {
	line int
	// value is nil, a string, a bool, a json.Number, []node or []member.
	value any
}

// member is one member of an object.
type member struct {
	name  string
	line  int
	value node
}

// faultf is an error about a line of a document.
func faultf(line int, format string, arguments ...any) error {
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, arguments...))
}

// kind names a node's kind in messages.
func (n node) kind() string {
	switch n.value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []node:
		return "a list"
	default:
		return "an object"
	}
}

// plain is the value as encoding/json would give it.
func (n node) plain() any {
	switch value := n.value.(type) {
	case []node:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = item.plain()
		}
		return list
	case []member:
		object := make(map[string]any, len(value))
		for _, m := range value {
			object[m.name] = m.value.plain()
		}
		return object
	default:
		return value
	}
}

// readDocument reads a document. One that begins with a bracket is JSON, any other YAML.
func readDocument(text []byte) (node, error) {
	if len(text) > MaxBytes {
		return node{}, fmt.Errorf("the document has %d bytes, more than %d", len(text), MaxBytes)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return node{}, errors.New("the document is not UTF-8")
	}
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		return readJSON(text)
	}
	return readYAML(text)
}

// readJSON reads a JSON document under the rules of validation.Decode.
func readJSON(text []byte) (node, error) {
	if _, err := validation.Decode(text); err != nil {
		return node{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	r := jsonReader{decoder: decoder, text: text, line: 1}
	return r.value()
}

// jsonReader reads a document that is known to be valid.
type jsonReader struct {
	decoder *json.Decoder
	text    []byte
	offset  int // up to which lines are counted
	line    int
}

// token returns the next token and the line on which it ends.
func (r *jsonReader) token() (json.Token, int, error) {
	token, err := r.decoder.Token()
	if err != nil {
		return nil, 0, fmt.Errorf("invalid JSON: %w", err)
	}
	offset := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.text[r.offset:offset], []byte{'\n'})
	r.offset = offset
	return token, r.line, nil
}

func (r *jsonReader) value() (node, error) {
	token, line, err := r.token()
	if err != nil {
		return node{}, err
	}
	switch token {
	case json.Delim('['):
		items := []node{}
		for r.decoder.More() {
			item, err := r.value()
			if err != nil {
				return node{}, err
			}
			items = append(items, item)
		}
		_, _, err = r.token() // the closing bracket
		return node{line: line, value: items}, err
	case json.Delim('{'):
		members, err := r.members()
		return node{line: line, value: members}, err
	default:
		return node{line: line, value: token}, nil
	}
}

func (r *jsonReader) members() ([]member, error) {
	members := []member{}
	for r.decoder.More() {
		token, line, err := r.token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		members = append(members, member{name: name, line: line, value: value})
	}
	_, _, err := r.token() // the closing brace
	return members, err
}

// readYAML reads the only document of a YAML text. An empty one is null.
func readYAML(text []byte) (node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return node{line: 1}, nil
	}
	if err != nil {
		return node{}, yamlFault(err)
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return node{}, yamlFault(err)
		}
		return node{}, faultf(second.Line, "a second document begins")
	}
	if len(document.Content) != 1 {
		return node{line: 1}, nil
	}
	return fromYAML(document.Content[0], 0)
}

// yamlFault words a syntax error of the YAML library like this package's own.
func yamlFault(err error) error {
	return fmt.Errorf("invalid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
}

// fromYAML takes over a YAML node. Only what JSON can say is allowed: no aliases (a few of
// them make gigabytes), no merge keys, no tags of its own.
func fromYAML(y *yaml.Node, depth int) (node, error) {
	if depth > validation.MaxDepth {
		return node{}, faultf(y.Line, "objects and lists are nested more than %d deep", validation.MaxDepth)
	}
	switch y.Kind {
	case yaml.ScalarNode:
		return yamlScalar(y)
	case yaml.SequenceNode:
		if y.ShortTag() != "!!seq" {
			return node{}, badTag(y)
		}
		items := make([]node, 0, len(y.Content))
		for _, content := range y.Content {
			item, err := fromYAML(content, depth+1)
			if err != nil {
				return node{}, err
			}
			items = append(items, item)
		}
		return node{line: y.Line, value: items}, nil
	case yaml.MappingNode:
		if y.ShortTag() != "!!map" {
			return node{}, badTag(y)
		}
		members, err := yamlMembers(y, depth)
		return node{line: y.Line, value: members}, err
	case yaml.AliasNode:
		return node{}, faultf(y.Line, "aliases are not supported, write *%.40s out", y.Value)
	default:
		return node{}, faultf(y.Line, "not a value")
	}
}

func badTag(y *yaml.Node) error {
	return faultf(y.Line, "the tag %.40q is not supported", y.ShortTag())
}

func yamlMembers(y *yaml.Node, depth int) ([]member, error) {
	members := make([]member, 0, len(y.Content)/2)
	lines := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return nil, faultf(key.Line, "a member's name must be plain text")
		}
		if first, twice := lines[key.Value]; twice {
			return nil, faultf(key.Line, "member %.80q occurs more than once, first on line %d", key.Value, first)
		}
		lines[key.Value] = key.Line
		value, err := fromYAML(y.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name: key.Value, line: key.Line, value: value})
	}
	return members, nil
}

// jsonNumber is a number as JSON writes it. YAML also has 0x1F, 010 (which is 8), 1_000 and
// .inf; what such a text means depends on the reader.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func yamlScalar(y *yaml.Node) (node, error) {
	n := node{line: y.Line}
	switch y.ShortTag() {
	case "!!null":
	case "!!str", "!!timestamp": // a date is text: JSON has no other
		n.value = y.Value
	case "!!bool":
		n.value = strings.EqualFold(y.Value, "true")
	case "!!int", "!!float":
		if !jsonNumber.MatchString(y.Value) {
			return node{}, faultf(y.Line, "write the number %.40q in decimal, as in JSON, or in quotes if it is text", y.Value)
		}
		// What no float64 can hold would not come back as it was sent.
		number, err := validation.Decode([]byte(y.Value))
		if err != nil {
			return node{}, faultf(y.Line, "%v", err)
		}
		n.value = number
	default:
		return node{}, badTag(y)
	}
	return n, nil
}
