package plugins

import (
	"net/url"
	"slices"
	"strings"

	"graphql-limit-count/internal/cjson"
)

// requestMembers are what a GraphQL request is made of.
var requestMembers = []string{"query", "operationName", "variables"}

// batchMember is what Rails makes of an array of requests, batchArgument has Hot Chocolate
// run several operations of a document.
const (
	batchMember   = "_json"
	batchArgument = "batchOperations"
)

var batchMembers, extensionsMembers = []string{batchMember, batchArgument}, []string{extensionsMember}

// strayMembers have no place but in a request of their own: some upstreams read them
// wherever they are. An id is in many a URL, and of nothing to do with GraphQL.
var strayMembers = slices.Concat(requestMembers, idMembers[1:], batchMembers, extensionsMembers)

// resembles returns the member of a GraphQL request that some upstream takes a name
// for, "" if none does: decoders differ in whether case counts (Go's json folds it,
// also U+017F to s).
func resembles(name string) string { return resembling(name, requestMembers) }

func resembling(name string, members []string) string {
	name = stem(name)
	for _, member := range members {
		if strings.EqualFold(name, member) {
			return member
		}
	}
	return ""
}

// stem is what a name without its indexes is: x of x[y], x[] and, as Rack has it, of [x]
// and ]x. PHP ends names at a NUL, and many cut white space.
func stem(name string) string {
	if strings.IndexFunc(name, isNoWord) < 0 {
		return name
	}
	const brackets = "[]"
	name = strings.TrimLeft(name, " \t\r\n"+brackets)
	if end := strings.IndexAny(name, brackets+"\x00"); end >= 0 {
		name = name[:end]
	}
	return strings.TrimSpace(name)
}

func isNoWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
}

// strayArgument returns the member of a GraphQL request that some upstream finds in the
// URL, "" if none does; an argument of exactly the name that is allowed does not count.
func strayArgument(args url.Values, allowed string) string {
	for name, values := range args {
		if member := resembling(name, strayMembers); member != "" && name != allowed {
			return member
		}
		for _, value := range values {
			if member := behindSemicolon(name, value); member != "" {
				return member
			}
		}
	}
	return ""
}

// behindSemicolon is strayArgument for what older upstreams take for further arguments.
func behindSemicolon(name, value string) string {
	if !strings.Contains(name, ";") && !strings.Contains(value, ";") {
		return ""
	}
	_, rest, _ := strings.Cut(name+"="+value, ";")
	for piece := range strings.SplitSeq(rest, ";") {
		name, _, assigned := strings.Cut(piece, "=")
		if member := resembling(name, strayMembers); member != "" && assigned {
			return member
		}
	}
	return ""
}

// strayInGET is why the arguments of a GET are not what every upstream would read, nil if
// they are.
func strayInGET(args url.Values) error {
	for name, values := range args {
		if !slices.Contains(requestMembers, name) {
			if member := resembles(name); member != "" {
				return envelopeError("the URL has %s in another spelling", member)
			}
			if member := resembling(name, batchMembers); member != "" {
				return envelopeError("the URL has %s as well", member)
			}
		}
		for _, value := range values {
			if member := behindSemicolon(name, value); member != "" {
				return envelopeError("the URL has %s behind a semicolon", member)
			}
		}
	}
	for _, name := range requestMembers {
		if len(args[name]) > 1 {
			return envelopeError("the URL has more than one %s", name)
		}
	}
	if !args.Has("query") {
		if namesDocument([]byte(args.Get(extensionsMember))) {
			return errNotPersistedURL
		}
		return errNoURLQuery
	}
	return anotherInURL(args)
}

var (
	errNoURLQuery      = envelopeError("the URL has no query")
	errNotPersistedURL = notPersisted(errNoURLQuery)
)

// anotherInURL is the argument that names another document than the query, as an error.
func anotherInURL(args url.Values) error {
	var known digests
	for name, values := range args {
		if slices.Contains(requestMembers, name) {
			continue
		}
		id, extensions := resembling(name, idMembers[:]), resembling(name, extensionsMembers)
		if id+extensions != "" && known.query == nil {
			known.query = []byte(args.Get("query"))
		}
		for _, value := range values {
			if id != "" && known.namesAnother(id, value) || extensions != "" && known.extensionsNameAnother([]byte(value)) {
				return envelopeError("%s in the URL names another document than the query", id+extensions)
			}
		}
	}
	return nil
}

// operationInURL reads a GET request (GraphQL over HTTP, section 6.3).
func (d *decision) operationInURL(args url.Values) ([]operation, error) {
	if err := strayInGET(args); err != nil {
		return nil, err
	}
	op := operation{query: []byte(args.Get("query")), name: []byte(args.Get("operationName"))}
	if text := args.Get("variables"); text != "" {
		s := &d.room.scan
		s.start([]byte(text))
		var value jsonValue
		var repeated jsonString
		var ok bool
		if s.next() == '{' {
			value.text, repeated, ok = d.variables()
		} else {
			value, ok = s.described()
		}
		switch {
		case !ok || !s.ended():
			return nil, envelopeError("variables: %s", cjson.Fault([]byte(text)))
		case d.holdsObject(value.in):
			return nil, envelopeError("variables in the URL are a string")
		case listsObjects(value.text):
			return nil, envelopeError("variables in the URL are a list of objects")
		case repeated.quoted != nil:
			return nil, envelopeError("variables in the URL repeat %.100q", repeated.bytes(&d.room.text))
		case value.text[0] == '{':
			op.variables = value.text
		}
	}
	return d.only(op), nil
}
