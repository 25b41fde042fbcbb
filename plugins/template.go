package plugins

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Lookup tells the value of a request variable, and whether the request has it. An
// empty value is a value.
type Lookup func(name string) (value string, present bool)

// Template is a text with references to request variables, compiled once.
//
// A reference is "$name" or "${name}" or "${name ?? default}". A bare name is the
// longest run of ASCII letters, digits, "_" and "."; between braces a name is
// anything without "}" up to "??". White space around braces' content and around "??"
// is ignored. The default is literal text; an empty default is none. "\$" is no
// reference, and the backslash stays in the text. What is no reference is plain text.
// Names that begin with "http_" are those of headers: they are lower-cased, and "-"
// is read as "_".
type Template struct {
	parts []templatePart
	// literals is the length of all plain text.
	literals int
}

// templatePart is plain text or a reference.
type templatePart struct {
	text     string // plain text, or the default of a reference
	name     string // the variable's name
	variable bool
}

// headerPrefix is how the names of variables that hold request headers begin.
const headerPrefix = "http_"

// ParseTemplate compiles a template. Every text is a template.
func ParseTemplate(text string) *Template {
	t := &Template{}
	plain := 0 // where the plain text before the next reference begins
	lastBrace := strings.LastIndexByte(text, '}')
	for i := 0; i < len(text); {
		if text[i] != '$' || i > 0 && text[i-1] == '\\' {
			i++
			continue
		}
		part, length := parseReference(text[i:], i < lastBrace)
		if length == 0 {
			i++
			continue
		}
		t.addText(text[plain:i])
		t.parts = append(t.parts, part)
		i += length
		plain = i
	}
	t.addText(text[plain:])
	return t
}

// variableTemplate returns a template that is one variable, whatever its name.
func variableTemplate(name string) *Template {
	return &Template{parts: []templatePart{{name: variableName(name), variable: true}}}
}

func (t *Template) addText(text string) {
	if text == "" {
		return
	}
	t.parts = append(t.parts, templatePart{text: text})
	t.literals += len(text)
}

// parseReference returns the reference that the text, which begins with "$", begins
// with, and its length; 0 when it begins with none. It does not search for a closing
// brace when there is none, so that parsing is linear.
func parseReference(text string, closed bool) (templatePart, int) {
	if len(text) < 2 || text[1] == '{' && !closed {
		return templatePart{}, 0
	}
	if text[1] != '{' {
		length := 1
		for length < len(text) && isBareNameByte(text[length]) {
			length++
		}
		if length == 1 {
			return templatePart{}, 0
		}
		return templatePart{name: variableName(text[1:length]), variable: true}, length
	}
	end := strings.IndexByte(text, '}')
	if end <= len("${") {
		return templatePart{}, 0
	}
	pieces := strings.SplitN(text[len("${"):end], "??", 3)
	part := templatePart{name: variableName(trimSpace(pieces[0])), variable: true}
	if len(pieces) > 1 {
		part.text = trimSpace(pieces[1])
	}
	return part, end + 1
}

func isBareNameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// trimSpace removes ASCII white space only, as the regular expressions of APISIX do.
func trimSpace(text string) string { return strings.Trim(text, " \t\n\v\f\r") }

func variableName(name string) string {
	if !strings.HasPrefix(name, headerPrefix) {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return '_'
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return r
		}
	}, name)
}

// Names returns the names of the variables that Resolve may look up, in order, each
// once. A reference without a name looks nothing up. The caller may change the result.
func (t *Template) Names() []string {
	var names []string
	for _, part := range t.parts {
		if part.variable && part.name != "" && !slices.Contains(names, part.name) {
			names = append(names, part.name)
		}
	}
	return names
}

// Resolve returns the text with each reference replaced by its variable's value, else
// by its default, else by nothing; and how many references had a value or took their
// default. A template that is one variable or plain text allocates nothing.
func (t *Template) Resolve(lookup Lookup) (value string, resolved int) {
	switch len(t.parts) {
	case 0:
		return "", 0
	case 1:
		return t.parts[0].resolve(lookup)
	}
	var out strings.Builder
	out.Grow(t.literals + valueSizeHint*len(t.parts))
	for _, part := range t.parts {
		text, n := part.resolve(lookup)
		out.WriteString(text)
		resolved += n
	}
	return out.String(), resolved
}

// valueSizeHint is how many bytes a variable's value is expected to have: an address
// or a name.
const valueSizeHint = 16

func (p templatePart) resolve(lookup Lookup) (string, int) {
	if !p.variable {
		return p.text, 0
	}
	if p.name != "" {
		if value, present := lookup(p.name); present {
			return value, 1
		}
	}
	if p.text != "" {
		return p.text, 1
	}
	return "", 0
}

// What a number looks like, in LuaJIT's spellings.
var (
	decimalNumber     = regexp.MustCompile(`^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$`)
	hexadecimalNumber = regexp.MustCompile(`^[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?$`)
	binaryNumber      = regexp.MustCompile(`^([+-]?)0[bB]([01]+)$`)
	infinity          = regexp.MustCompile(`^[+-]?(?i:inf|infinity)$`)
	noNumber          = regexp.MustCompile(`^[+-]?(?i:nan)$`)
)

// parseNumber returns the number that a text is for LuaJIT's tonumber, white space around
// it aside. It may be infinite or no number: an exponent knows no bound, and both have
// names.
func parseNumber(text string) (float64, bool) {
	text = trimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil { // nearly all are
		return float64(n), true
	}
	if parts := binaryNumber.FindStringSubmatch(text); parts != nil {
		return parseBinary(parts[1] == "-", parts[2])
	}
	switch {
	case decimalNumber.MatchString(text), infinity.MatchString(text):
	case hexadecimalNumber.MatchString(text):
		if !strings.ContainsAny(text, "pP") {
			text += "p0" // which strconv insists on
		}
	default:
		return math.NaN(), noNumber.MatchString(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return f, true
}

func parseBinary(negative bool, digits string) (float64, bool) {
	n, err := strconv.ParseUint(digits, 2, 64) // more digits are no number for LuaJIT either
	if negative {
		return -float64(n), err == nil
	}
	return float64(n), err == nil
}

// maxQuotedValue is how many bytes of a client's value an error text repeats.
const maxQuotedValue = 64

// parseQuotaNumber returns the quota or window that a resolved template stands for: a
// number as APISIX reads one from a text, whole, from 1 to MaxQuantity.
func parseQuotaNumber(text string) (int64, error) {
	f, ok := parseNumber(text)
	quoted := text[:min(len(text), maxQuotedValue)]
	switch {
	case !ok:
		// Not quoted: what a client sends instead of a number may be a secret.
		return 0, errors.New("resolved value is not a number")
	case f <= 0:
		return 0, fmt.Errorf("resolved value must be a positive number, got %q", quoted)
	case f != math.Floor(f) && !math.IsInf(f, 0):
		return 0, fmt.Errorf("resolved value must be an integer, got %q", quoted)
	case f > MaxQuantity:
		return 0, fmt.Errorf("resolved value exceeds safe integer range (2^53-1), got %q", quoted)
	default:
		return int64(f), nil
	}
}
