package plugins

import (
	"bytes"
	"strings"
	"unicode"
)

// part is one of a multipart body. A header that it does not have is "".
type part struct {
	name, mediaType, encoding string
	body                      []byte
}

// errBadPart is of a part that parsers could name differently, or not at all.
var errBadPart = envelopeError("the multipart body has a part with headers that could be read in two ways")

// parsePart reads the headers of a part, and its name.
func parsePart(text []byte) (part, error) {
	head, body, ok := bytes.Cut(text, []byte(lineEnd+lineEnd))
	if !ok {
		return part{}, errBadMultipart
	}
	p := part{body: body}
	disposition := ""
	known := map[string]*string{
		"content-disposition": &disposition, "content-type": &p.mediaType, "content-transfer-encoding": &p.encoding,
	}
	for line := range strings.SplitSeq(string(head), lineEnd) {
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) || hasControl(value) {
			return part{}, errBadPart
		}
		if of := known[strings.ToLower(name)]; of != nil {
			if value == "" || *of != "" {
				return part{}, errBadPart
			}
			*of = value
		}
	}
	if p.name, ok = partName(disposition); !ok || isMultipart(p.mediaType) {
		return part{}, errBadPart
	}
	if imitatesOperations(p.name) {
		return part{}, envelopeError("the multipart body has a part that could be taken for operations")
	}
	return p, nil
}

// isMultipart reports whether a part has parts of its own.
func isMultipart(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	return strings.EqualFold(strings.TrimSpace(kind), "multipart")
}

// requirePlain makes sure that every server reads the part's body alike: not encoded
// for transfer, and in UTF-8.
func (p *part) requirePlain() error {
	switch strings.ToLower(p.encoding) {
	case "", "7bit", "8bit", "binary":
	default:
		return envelopeError("the operations part is encoded as %.100s", p.encoding)
	}
	if _, parameters, _ := strings.Cut(p.mediaType, ";"); !utf8Charset(parameters) {
		return envelopeError("the operations part is not in UTF-8")
	}
	return nil
}

// partName is the name that a Content-Disposition gives: form-data; name=N, then for a
// file filename=F and filename*=F, each once at most. Some parsers find the name by a
// regular expression, so it is the first parameter.
func partName(disposition string) (name string, ok bool) {
	kind, rest, _ := strings.Cut(disposition, ";")
	if !strings.EqualFold(strings.Trim(kind, " \t"), "form-data") {
		return "", false
	}
	fileName, extended := false, false
	for first, more := true, true; more; first = false {
		var key, value string
		if key, value, rest, more, ok = dispositionParameter(rest); !ok {
			return "", false
		}
		switch {
		case first && key == "name" && isPartName(value):
			name = value
		case !first && key == "filename" && !fileName && !hidesParameter(value):
			fileName = true
		case !first && key == "filename*" && !extended && !hidesParameter(value):
			extended = true
		default:
			return "", false
		}
	}
	return name, true
}

// dispositionParameter reads a parameter, a token or a quoted string as its value, and
// the semicolon behind it. more is whether there is one.
func dispositionParameter(text string) (key, value, rest string, more, ok bool) {
	key, text, ok = strings.Cut(strings.TrimLeft(text, " \t"), "=")
	if !ok {
		return "", "", "", false, false
	}
	if strings.HasPrefix(text, `"`) {
		end := quotedLength(text)
		if end == 0 {
			return "", "", "", false, false
		}
		value, rest = text[1:end-1], strings.TrimLeft(text[end:], " \t")
		if rest, more = strings.CutPrefix(rest, ";"); !more && rest != "" {
			return "", "", "", false, false
		}
		return strings.ToLower(key), value, rest, more, true
	}
	value, rest, more = strings.Cut(text, ";")
	value = strings.TrimRight(value, " \t")
	return strings.ToLower(key), value, rest, more, isToken(value)
}

// quotedLength is the length of the quoted string that text begins with, 0 if it does
// not end. A backslash is one before a quote or a backslash, else a part of a path.
func quotedLength(text string) int {
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '"':
			return at + 1
		case '\\':
			if at+1 < len(text) && (text[at+1] == '"' || text[at+1] == '\\') {
				at++
			}
		}
	}
	return 0
}

// hidesParameter reports whether a file name could end early, or be split, and go on
// with a parameter.
func hidesParameter(fileName string) bool {
	return strings.Contains(fileName, ";") && strings.Contains(fileName, "=")
}

// isPartName reports whether a name is the same to all parsers: not empty, and without
// what some take for quotes, unescape, cut off, or decode (RFC 2047's =?...?=).
func isPartName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "\\\"'%;") && !strings.Contains(name, "=?")
}

// imitatesOperations reports whether some server takes a name that is not operations
// for it or for a part of it, or for one that says how to read the operations: names
// are compared without case or white space, x[y] and x.y are members of x (see stem),
// upstreams read members of the request in parts of their own, and _charset_ names the
// character set of the other parts (RFC 7578, section 4.6).
func imitatesOperations(name string) bool {
	if name == partOperations {
		return false
	}
	whole, _, _ := strings.Cut(name, ".")
	return resembling(whole, []string{partOperations, "_charset_"}) != "" || resembling(name, strayMembers) != ""
}

// isToken reports whether text is a token (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// hasControl reports whether text holds a control character; tabs are none.
func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\t' })
}
