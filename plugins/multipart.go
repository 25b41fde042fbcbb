package plugins

import (
	"bytes"
	"strings"
)

// Parsers of multipart bodies differ in all that their specifications leave open, or
// that they get wrong: what separates parts, where a header ends, which of two
// parameters counts. One that reads another part as the operations would run another
// document. So what is read here is only what browsers, curl and the HTTP libraries
// write (RFC 7578, with RFC 2046's delimiters and CRLF at the end of lines); anything
// else is refused.

const mediaMultipart = "multipart/form-data"

// partOperations is the name of the part that holds the operations (GraphQL multipart
// request specification).
const partOperations = "operations"

// maxBoundary is the length of a boundary (RFC 2046, section 5.1.1), in bytes.
const maxBoundary = 70

var (
	errBadBoundary  = envelopeError("the multipart body has no boundary")
	errBadMultipart = envelopeError("malformed multipart body")
)

// multipartOperations finds the operations of an upload request. parameters are those
// of its media type.
func multipartOperations(body []byte, parameters string) ([]byte, error) {
	boundary, ok := multipartBoundary(parameters)
	if !ok {
		return nil, errBadBoundary
	}
	var operations []byte
	parts := partSplitter{rest: bytes.TrimLeft(body, "\r\n"), delimiter: []byte("--" + boundary)}
	if !parts.open() {
		return nil, errBadMultipart
	}
	for !parts.ended {
		text, ok := parts.next()
		if !ok {
			return nil, errBadMultipart
		}
		part, err := parsePart(text)
		switch {
		case err != nil:
			return nil, err
		case part.name != partOperations:
		case operations != nil:
			return nil, envelopeError("the multipart body has more than one operations part")
		default:
			if err := part.requirePlain(); err != nil {
				return nil, err
			}
			operations = part.body
		}
	}
	if len(operations) == 0 {
		return nil, envelopeError("the multipart body has no operations part")
	}
	return operations, nil
}

// multipartBoundary is the boundary that the parameters of a media type name, where all
// parsers find the same: no other parameters than it and a charset, each once, spelled
// as everyone spells them.
func multipartBoundary(parameters string) (boundary string, ok bool) {
	charset := false
	for more := true; more; {
		var parameter string
		parameter, parameters, more = strings.Cut(parameters, ";")
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		switch {
		case name == "boundary" && boundary == "":
			if boundary = unquoted(value); !isBoundary(boundary) {
				return "", false
			}
		case strings.EqualFold(name, "charset") && !charset && isToken(unquoted(value)):
			charset = true // which one is looked at elsewhere
		default:
			return "", false
		}
	}
	return boundary, boundary != ""
}

// unquoted is what a parameter's value is: a token, or anything in quotes.
func unquoted(value string) string {
	if len(value) >= len(`""`) && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	if !isToken(value) {
		return ""
	}
	return value
}

// isBoundary reports whether text is a boundary as RFC 2046 has them, without the
// characters that end it for some parsers: white space, and the comma.
func isBoundary(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && strings.IndexByte("'()+_-./:=?", c) < 0 {
			return false
		}
	}
	return 0 < len(text) && len(text) <= maxBoundary
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

// partSplitter cuts a body at its delimiters. Wherever the delimiter's text lies, it
// must be one: alone on its line, and the last with nothing but white space behind it.
// Clients choose boundaries that do not occur in what they send.
type partSplitter struct {
	rest      []byte
	delimiter []byte // without the line end before it
	ended     bool
}

const lineEnd = "\r\n"

// open passes over the first delimiter, before which nothing stands.
func (p *partSplitter) open() bool {
	return bytes.HasPrefix(p.rest, p.delimiter) && p.pass(0)
}

// next returns the text of the next part, headers and body.
func (p *partSplitter) next() (text []byte, ok bool) {
	at := bytes.Index(p.rest, p.delimiter)
	if at < 0 || !bytes.HasSuffix(p.rest[:at], []byte(lineEnd)) {
		return nil, false
	}
	text = p.rest[:at-len(lineEnd)]
	return text, p.pass(at)
}

// pass passes over the delimiter at an index, with what belongs to it.
func (p *partSplitter) pass(at int) bool {
	p.rest = p.rest[at+len(p.delimiter):]
	if behind, ok := bytes.CutPrefix(p.rest, []byte(lineEnd)); ok {
		p.rest = behind
		return true
	}
	behind, ok := bytes.CutPrefix(p.rest, []byte("--"))
	p.ended = true
	return ok && len(bytes.Trim(behind, " \t\r\n")) == 0
}
