package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deeply objects and arrays may nest in a document: far more than
// any schema here allows, and little enough for a recursive reader.
const MaxDepth = 64

// maxNumber and maxExponent are how many bytes a number and its exponent may have.
// JSON sets no bound, but exact arithmetic makes long ones expensive or fails, and
// float64 needs 17 digits and an exponent of three.
const (
	maxNumber   = 512
	maxExponent = 8
)

// Decode reads one JSON document into map[string]any, []any, string, bool, nil and
// json.Number, whose text stays as it was written, so numbers are exact.
//
// It is stricter than encoding/json, because a document that two programs read
// differently is a fault: a member that occurs twice in one object, anything but
// white space after the document, bytes that are not UTF-8, nesting beyond MaxDepth
// and numbers outside float64's range (also those that would become zero) are
// errors. The latter also keeps exact arithmetic on them affordable: "1e999999999"
// is twelve bytes of text and a gigabyte as an integer.
func Decode(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("invalid JSON: the document is empty")
	}
	if bytes.HasPrefix(raw, []byte("\ufeff")) {
		return nil, errors.New("invalid JSON: the document begins with a byte order mark")
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("invalid JSON: the document is not UTF-8")
	}
	// The grammar is checked first and whole: the token reader below lets some
	// misplaced commas pass.
	var scanned json.RawMessage
	if err := json.Unmarshal(raw, &scanned); err != nil {
		return nil, explain(raw, err)
	}
	d := decoder{json.NewDecoder(bytes.NewReader(raw))}
	d.UseNumber()
	return d.value(nil)
}

// explain turns the scanner's error into one that says where.
func explain(raw []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON: %w", err)
	case syntax.Offset >= int64(len(raw)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return errors.New("invalid JSON: the document ends too early")
	default:
		return fmt.Errorf("invalid JSON: %w %s", err, position(raw, syntax.Offset))
	}
}

// position says where the byte before offset is.
func position(raw []byte, offset int64) string {
	before := raw[:min(int(max(offset, 0)), len(raw))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("(line %d, column %d)", line, max(column, 1))
}

// decoder builds the document from tokens, so that it sees every member of an
// object, also one that occurs twice.
type decoder struct{ *json.Decoder }

func (d decoder) value(steps []step) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if len(steps) >= MaxDepth {
			return nil, fmt.Errorf("objects and arrays are nested more than %d deep", MaxDepth)
		}
		if t == '{' {
			return d.object(steps)
		}
		return d.array(steps)
	case json.Number:
		if !inRange(t.String()) {
			return nil, fmt.Errorf("%snumber %s is out of range", render(steps), shorten(t.String()))
		}
		return t, nil
	default:
		return token, nil
	}
}

func (d decoder) object(steps []step) (any, error) {
	out := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		name, _ := token.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%sproperty %q occurs more than once", render(steps), shorten(name))
		}
		value, err := d.value(append(slices.Clip(steps), step{kind: stepProperty, name: shorten(name)}))
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	_, err := d.Token() // the closing brace
	return out, err
}

func (d decoder) array(steps []step) (any, error) {
	out := []any{}
	for d.More() {
		value, err := d.value(append(slices.Clip(steps), step{kind: stepItem, index: len(out)}))
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	_, err := d.Token() // the closing bracket
	return out, err
}

// inRange reports whether a number keeps a finite, non-vanishing value in float64.
func inRange(text string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > maxNumber || len(exponent) > maxExponent {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return false
	}
	return f != 0 || !strings.ContainsAny(mantissa, "123456789")
}
