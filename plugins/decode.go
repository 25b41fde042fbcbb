package plugins

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"graphql-limit-count/cost"
	"graphql-limit-count/internal/cjson"
)

// operation is one GraphQL request: a document, the name of the operation to run and
// the variables, a JSON object or nothing. All lie in the request or in the decision's
// room, and are gone with them.
type operation struct {
	query     []byte
	name      []byte
	variables []byte
}

// requestError is what is wrong with a request, in words for the client; inErrors are those
// of the GraphQL error, if they are others.
type requestError struct{ code, message, inErrors string }

func (e *requestError) Error() string { return e.message }

// The beginnings of what a client is told. Both are APISIX's: the second is for
// what is wrong around the document.
const (
	prefixInvalid  = "Invalid graphql request: "
	prefixEnvelope = "invalid graphql request, "
)

const messageNoBody = prefixInvalid + "can't get graphql request body"

var errNoBody = &requestError{code: codeBadRequest, message: messageNoBody}

// envelopeError says what is wrong around the document.
func envelopeError(format string, args ...any) error {
	return &requestError{code: codeBadRequest, message: prefixEnvelope + fmt.Sprintf(format, args...)}
}

// costError puts an error of package cost in words for the client, without what
// it quotes or where it points.
func costError(err error) error {
	for _, known := range []error{cost.ErrNoOperation, cost.ErrFragmentCycle, cost.ErrTooManySelections} {
		if errors.Is(err, known) {
			return &requestError{code: codeBadRequest, message: prefixInvalid + known.Error()}
		}
	}
	return &requestError{code: codeParseFailed, message: prefixInvalid + cost.ErrSyntax.Error()}
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
		return d.operationInURL(d.request.arguments())
	}
	if d.request.contentLength() > d.route.maxBody {
		return nil, errNoBody
	}
	// Some upstreams prefer the URL's members to the body's, others the reverse.
	if member := strayArgument(d.request.arguments(), "operationName"); member != "" {
		return nil, envelopeError("the URL has the argument %s as well", member)
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
			if string(operations[i].name) != name {
				operations[i].name = nil
			}
		}
	}
}

// body is the request's body, decompressed, within the size limit.
func (d *decision) body() ([]byte, error) {
	if err := d.request.prefetch(true, d.route.variables); err != nil {
		return nil, fmt.Errorf("asking APISIX for the body: %w", err)
	}
	body, err := d.request.peekBody()
	if err != nil {
		return nil, fmt.Errorf("asking APISIX for the body: %w", err)
	}
	if len(body) == 0 || int64(len(body)) > d.route.maxBody {
		return nil, errNoBody
	}
	switch encoding := bytes.TrimSpace(d.request.headers().Peek("Content-Encoding")); {
	case len(encoding) == 0 || strings.EqualFold(string(encoding), "identity"):
		return body, nil
	case strings.EqualFold(string(encoding), "gzip"):
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
	contentType := d.request.headers().Peek("Content-Type")
	media, parameters, _ := bytes.Cut(contentType, []byte(";"))
	media = bytes.TrimSpace(media)
	switch {
	case len(parameters) > 0 && !utf8Charset(string(parameters)):
	case strings.EqualFold(string(media), mediaJSON):
		return d.operationsInJSON(body)
	case strings.EqualFold(string(media), "application/graphql"):
		return d.only(operation{query: body}), nil
	case strings.EqualFold(string(media), mediaMultipart) && d.route.AllowMultipart:
		operations, err := multipartOperations(body, string(parameters))
		if err != nil {
			return nil, err
		}
		return d.operationsInJSON(operations)
	}
	return nil, envelopeError("error content-type: %.256s", contentType)
}

// only is one request, in the decision's room.
func (d *decision) only(op operation) []operation {
	d.room.operations = append(d.room.operations[:0], op)
	return d.room.operations
}

// utf8Charset reports whether the parameters of a media type name no other
// character set. An upstream that honours another (UTF-7, say) would read another
// document out of the same bytes. Some look for it anywhere, and some put together what
// RFC 2231 splits (charset*0, charset*), so it may stand in its own parameter only; and
// some take what follows a comma for a second header.
func utf8Charset(parameters string) bool {
	if strings.Contains(parameters, ",") {
		return false
	}
	const charset = "charset"
	for more := true; more; {
		var parameter string
		parameter, parameters, more = strings.Cut(parameters, ";")
		if !strings.Contains(strings.ToLower(parameter), charset) {
			continue
		}
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), charset) {
			return false
		}
		if value = strings.Trim(value, " \t\""); !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "utf8") {
			return false
		}
	}
	return true
}

var errNoQuery = envelopeError("json body[query] is nil")

var errNotPersisted = notPersisted(errNoQuery)

// notPersisted is an error for clients that send the digest of a query first: they send the
// query as well when they are told by this code or text (Apollo Server's).
func notPersisted(missing error) error {
	return &requestError{code: "PERSISTED_QUERY_NOT_SUPPORTED", message: missing.Error(), inErrors: "PersistedQueryNotSupported"}
}

// operationsInJSON reads an object, or a batch where the route allows one. A text that
// is no JSON is refused as such, whatever else is wrong with it.
func (d *decision) operationsInJSON(text []byte) ([]operation, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	s := &d.room.scan
	s.start(text)
	d.room.text = d.room.text[:0]
	operations := d.room.operations[:0]
	var fault error
	var ok bool
	if s.next() == '[' && d.route.MaxBatch > 0 {
		operations, fault, ok = d.batch(operations)
	} else {
		var op operation
		op, fault, ok = d.operation()
		operations = append(operations, op)
	}
	if !ok || !s.ended() {
		return nil, envelopeError("%s", cjson.Fault(text))
	}
	d.room.operations = operations
	return operations, fault
}

// batch reads an array of requests. fault is the first that is none; ok is false when
// the array is no JSON.
func (d *decision) batch(operations []operation) (all []operation, fault error, ok bool) {
	s := &d.room.scan
	s.enter(']')
	for first := true; !s.leave(); first = false {
		if !first && !s.take(',') {
			return nil, nil, false
		}
		if int64(len(operations)) == d.route.MaxBatch && fault == nil {
			fault = envelopeError("the batch has more than %d entries", d.route.MaxBatch)
		}
		if fault != nil {
			if _, ok := s.value(); !ok {
				return nil, nil, false
			}
			continue
		}
		var op operation
		if op, fault, ok = d.operation(); !ok {
			return nil, nil, false
		}
		operations = append(operations, op)
	}
	if fault == nil && len(operations) == 0 {
		fault = errNoQuery
	}
	return operations, fault, true
}

// members are those that a GraphQL request is made of, and those that name another one.
type members struct {
	query, name, variables jsonValue
	extensions             jsonValue
	ids                    [len(idMembers)]jsonValue
	batch                  jsonValue
}

// named returns the member of exactly that name, nil for another name. What names
// another request is found in any case.
func (m *members) named(name []byte) *jsonValue {
	switch string(name) {
	case "query":
		return &m.query
	case "operationName":
		return &m.name
	case "variables":
		return &m.variables
	case batchMember:
		return &m.batch
	}
	if strings.EqualFold(string(name), extensionsMember) {
		return &m.extensions
	}
	for i := range idMembers {
		if strings.EqualFold(string(name), idMembers[i]) {
			return &m.ids[i]
		}
	}
	return nil
}

// operation reads one GraphQL request (GraphQL over HTTP). Members are matched exactly.
// One that counts may not be repeated: the upstream might read the other. fault is why
// the value is no request; ok is false when it is no JSON.
func (d *decision) operation() (op operation, fault error, ok bool) {
	s := &d.room.scan
	if s.next() != '{' {
		_, ok := s.value()
		return operation{}, errNoQuery, ok
	}
	s.enter('}')
	var found members
	other := ""
	for first := true; !s.leave(); first = false {
		if !first && !s.take(',') {
			return operation{}, nil, false
		}
		key, ok := s.key()
		if !ok {
			return operation{}, nil, false
		}
		name := key.bytes(&d.room.text)
		of := found.named(name)
		var value jsonValue
		var repeated jsonString
		if of == &found.variables && s.next() == '{' {
			value.text, repeated, ok = d.variables()
		} else {
			value, ok = s.described()
		}
		if !ok {
			return operation{}, nil, false
		}
		switch {
		case of == nil:
			if other == "" {
				other = resembles(string(name))
			}
		case of.text == nil:
			*of = value
			if repeated.quoted != nil && fault == nil {
				fault = envelopeError("json body[variables] repeats %.100q", repeated.bytes(&d.room.text))
			}
		case fault == nil:
			fault = envelopeError("json body[%s] is repeated", name)
		}
	}
	if fault == nil {
		op, fault = d.operationOf(&found, other)
	}
	return op, fault, true
}

// operationOf makes a request of its members. other is the one that is there in
// another spelling, "" if none is.
func (d *decision) operationOf(m *members, other string) (operation, error) {
	switch {
	case m.query.in.quoted == nil && namesDocument(m.extensions.text):
		return operation{}, errNotPersisted
	case m.query.in.quoted == nil:
		return operation{}, errNoQuery
	case other != "":
		return operation{}, envelopeError("json body[%s] is there in another spelling as well", other)
	case d.holdsObject(m.variables.in):
		return operation{}, envelopeError("json body[variables] is a string")
	case listsObjects(m.variables.text):
		return operation{}, envelopeError("json body[variables] is a list of objects")
	case d.holdsObject(m.extensions.in):
		return operation{}, envelopeError("json body[%s] is a string", extensionsMember)
	case m.batch.text != nil:
		return operation{}, envelopeError("json body[%s] holds other requests", batchMember)
	}
	op := operation{query: m.query.in.bytes(&d.room.text)}
	known := digests{query: op.query}
	for i, id := range m.ids {
		if known.namesAnother(idMembers[i], d.textOf(id)) {
			return operation{}, envelopeError("json body[%s] names another document than the query", idMembers[i])
		}
	}
	if known.extensionsNameAnother(m.extensions.text) {
		return operation{}, envelopeError("json body[%s] names another document than the query", extensionsMember)
	}
	if m.name.in.quoted != nil {
		op.name = m.name.in.bytes(&d.room.text)
	}
	if m.variables.text != nil && m.variables.text[0] == '{' {
		op.variables = m.variables.text
	}
	return op, nil
}
