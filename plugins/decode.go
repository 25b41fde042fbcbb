package plugins

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"graphql-limit-count/cost"
)

// operation is one GraphQL request: a document, the operation to run and the
// variables, a JSON object or nothing.
type operation struct {
	query     string
	name      string
	variables json.RawMessage
}

// requestError is what is wrong with a request, in words for the client.
type requestError struct{ code, message string }

func (e *requestError) Error() string { return e.message }

// The beginnings of what a client is told. Both are APISIX's: the second is for
// what is wrong around the document.
const (
	prefixInvalid  = "Invalid graphql request: "
	prefixEnvelope = "invalid graphql request, "
)

const messageNoBody = prefixInvalid + "can't get graphql request body"

var errNoBody = &requestError{codeBadRequest, messageNoBody}

// envelopeError says what is wrong around the document.
func envelopeError(format string, args ...any) error {
	return &requestError{codeBadRequest, prefixEnvelope + fmt.Sprintf(format, args...)}
}

// costError puts an error of package cost in words for the client, without what
// it quotes or where it points.
func costError(err error) error {
	for _, known := range []error{cost.ErrNoOperation, cost.ErrFragmentCycle, cost.ErrTooManySelections} {
		if errors.Is(err, known) {
			return &requestError{codeBadRequest, prefixInvalid + known.Error()}
		}
	}
	return &requestError{codeParseFailed, prefixInvalid + cost.ErrSyntax.Error()}
}

// operations reads the GraphQL requests out of the HTTP request: one, or those of
// a batch. What is read is what every upstream would read, or it is refused.
func (d *decision) operations() ([]operation, error) {
	if why := d.request.ambiguous(); why != "" {
		return nil, envelopeError("%s", why)
	}
	if d.request.Method() == http.MethodGet {
		if d.request.hasBody() {
			return nil, envelopeError("a GET with a body")
		}
		if err := d.request.prefetch(false, d.route.variables); err != nil {
			return nil, fmt.Errorf("asking APISIX for variables: %w", err)
		}
		return operationInURL(d.request.arguments())
	}
	if d.request.contentLength() > d.route.maxBody {
		return nil, errNoBody
	}
	// Some upstreams prefer the URL's members to the body's, others the reverse.
	for name := range d.request.arguments() {
		if member := resembles(name); member != "" && name != "operationName" {
			return nil, envelopeError("the URL has a %s argument as well", member)
		}
	}
	body, err := d.body()
	if err != nil {
		return nil, err
	}
	operations, err := d.operationsInBody(body)
	d.doubtNames(operations)
	return operations, err
}

// doubtNames forgets the operations' names where the URL gives another one, which
// clients do for their logs: either may be run, so the dearest operation is charged.
func (d *decision) doubtNames(operations []operation) {
	for _, name := range d.request.arguments()["operationName"] {
		for i := range operations {
			if operations[i].name != name {
				operations[i].name = ""
			}
		}
	}
}

// body is the request's body, decompressed, within the size limit.
func (d *decision) body() ([]byte, error) {
	if err := d.request.prefetch(true, d.route.variables); err != nil {
		return nil, fmt.Errorf("asking APISIX for the body: %w", err)
	}
	body, err := d.request.Body()
	if err != nil {
		return nil, fmt.Errorf("asking APISIX for the body: %w", err)
	}
	if len(body) == 0 || int64(len(body)) > d.route.maxBody {
		return nil, errNoBody
	}
	switch encoding := strings.TrimSpace(d.request.Header().Get("Content-Encoding")); {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return body, nil
	case strings.EqualFold(encoding, "gzip"):
		return gunzip(body, d.route.maxBody)
	default:
		return nil, envelopeError("error content-encoding: %.100s", encoding)
	}
}

// gunzip decompresses a body to at most limit bytes.
func gunzip(body []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errNoBody
	}
	defer r.Close()
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil || len(plain) == 0 || int64(len(plain)) > limit {
		return nil, errNoBody
	}
	return plain, nil
}

var byteOrderMark = []byte("\uFEFF")

// operationsInBody reads a body by its media type.
func (d *decision) operationsInBody(body []byte) ([]operation, error) {
	contentType := d.request.Header().Get("Content-Type")
	media, parameters, _ := strings.Cut(contentType, ";")
	media = strings.TrimSpace(media)
	switch {
	case !utf8Charset(parameters):
	case strings.EqualFold(media, mediaJSON):
		return d.operationsInJSON(body)
	case strings.EqualFold(media, "application/graphql"):
		return []operation{{query: string(body)}}, nil
	case strings.EqualFold(media, "multipart/form-data") && d.route.AllowMultipart:
		operations, err := multipartOperations(body, contentType)
		if err != nil {
			return nil, err
		}
		return d.operationsInJSON(operations)
	}
	return nil, envelopeError("error content-type: %.256s", contentType)
}

// utf8Charset reports whether the parameters of a media type name no other
// character set. An upstream that honours another (UTF-7, say) would read another
// document out of the same bytes.
func utf8Charset(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "charset") {
			continue
		}
		if value = strings.Trim(value, " \t\""); !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "utf8") {
			return false
		}
	}
	return true
}

var errNoQuery = envelopeError("json body[query] is nil")

// operationsInJSON reads an object, or a batch where the route allows one.
func (d *decision) operationsInJSON(text []byte) ([]operation, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	if err := checkJSON(text); err != nil {
		return nil, envelopeError("%s", err)
	}
	value := trimJSON(text)
	if value[0] != '[' || d.route.MaxBatch == 0 {
		op, err := operationInObject(value)
		return []operation{op}, err
	}
	var operations []operation
	err := eachElement(value, func(element []byte) error {
		if int64(len(operations)) == d.route.MaxBatch {
			return envelopeError("the batch has more than %d entries", d.route.MaxBatch)
		}
		op, err := operationInObject(element)
		operations = append(operations, op)
		return err
	})
	if err == nil && len(operations) == 0 {
		err = errNoQuery
	}
	return operations, err
}

// operationInObject reads one GraphQL request (GraphQL over HTTP). Members are
// matched exactly. One that counts may not be repeated: the upstream might read
// the other.
func operationInObject(value []byte) (operation, error) {
	if value[0] != '{' {
		return operation{}, errNoQuery
	}
	var query, name, variables []byte
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
		default:
			if other == "" {
				other = resembles(key)
			}
			return nil
		}
		if *member != nil {
			return envelopeError("json body[%s] is repeated", key)
		}
		*member = value
		return nil
	})
	if err != nil {
		return operation{}, err
	}
	if len(query) == 0 || query[0] != '"' {
		return operation{}, errNoQuery
	}
	if other != "" {
		return operation{}, envelopeError("json body[%s] is there in another spelling as well", other)
	}
	if holdsObject(variables) {
		return operation{}, envelopeError("json body[variables] is a string")
	}
	op := operation{query: unquote(query)}
	if len(name) > 0 && name[0] == '"' {
		op.name = unquote(name)
	}
	if len(variables) > 0 && variables[0] == '{' {
		op.variables = variables
	}
	return op, nil
}

// requestMembers are what a GraphQL request is made of.
var requestMembers = []string{"query", "operationName", "variables"}

// resembles returns the member of a GraphQL request that some upstream takes a name
// for, "" if none does: decoders differ in whether case counts (Go's json folds it,
// also U+017F to s), in white space, and in reading name[] as a list.
func resembles(name string) string {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "[")
	for _, member := range requestMembers {
		if strings.EqualFold(name, member) {
			return member
		}
	}
	return ""
}

// holdsObject reports whether a JSON value is a string with an object in it, which
// some upstreams decode once more.
func holdsObject(value []byte) bool {
	if len(value) == 0 || value[0] != '"' {
		return false
	}
	inner := trimJSON([]byte(unquote(value)))
	return len(inner) > 0 && inner[0] == '{'
}

// operationInURL reads a GET request (GraphQL over HTTP, section 6.3).
func operationInURL(args url.Values) ([]operation, error) {
	for name := range args {
		if member := resembles(name); member != "" && member != name {
			return nil, envelopeError("the URL has %s in another spelling", member)
		}
	}
	for _, name := range requestMembers {
		if len(args[name]) > 1 {
			return nil, envelopeError("the URL has more than one %s", name)
		}
	}
	if !args.Has("query") {
		return nil, envelopeError("the URL has no query")
	}
	op := operation{query: args.Get("query"), name: args.Get("operationName")}
	if text := args.Get("variables"); text != "" {
		if err := checkJSON([]byte(text)); err != nil {
			return nil, envelopeError("variables: %s", err)
		}
		value := trimJSON([]byte(text))
		if holdsObject(value) {
			return nil, envelopeError("variables in the URL are a string")
		}
		if value[0] == '{' {
			op.variables = value
		}
	}
	return []operation{op}, nil
}

// values are the request's values of the named variables. Of a variable that is
// given twice the later value counts, as for every JSON decoder.
func (op *operation) values(names []string) []cost.Value {
	if len(names) == 0 || op.variables == nil {
		return nil
	}
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	values := make([]cost.Value, len(names))
	// The visitor never fails.
	_ = eachMember(op.variables, func(key string, value []byte) error {
		if i, ok := index[key]; ok {
			values[i] = cost.JSONValue(value)
		}
		return nil
	})
	return values
}
