package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"graphql-limit-count/internal/cjson"
	"graphql-limit-count/internal/validation"
)

const (
	// maxBody is how many bytes a decoration's body may have.
	maxBody = 1 << 20
	// maxDrain is how many bytes of a larger body are read and dropped.
	maxDrain = 8 << 20
	// maxEcho bounds how much of a malformed body is repeated in the answer.
	maxEcho = 1 << 10
)

// noBody reads nothing: the operation has no body, or pays no heed to it.
func noBody(*http.Request, *call) error { return nil }

// readDecoration reads the JSON value of a request's body, nil when it has none. A body that
// cannot be read is a *refusal with APISIX's text.
func readDecoration(r *http.Request, c *call) error {
	text, err := readText(r, maxBody)
	if err != nil {
		return err
	}
	c.body, err = parseBody(text)
	return err
}

// readText reads a body of at most limit bytes.
func readText(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		drain(r.Body)
		return nil, tooLarge(r.ContentLength, limit)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, badBody(err.Error(), nil)
	}
	if int64(len(text)) > limit {
		drain(r.Body)
		return nil, tooLarge(int64(len(text)), limit)
	}
	return text, nil
}

// drain reads some of what is left of a body that is refused: a client that is still sending
// when the connection closes loses the answer.
func drain(body io.Reader) {
	// It makes no difference why the reading ends.
	_, _ = io.CopyN(io.Discard, body, maxDrain)
}

// parseBody reads a body. Beyond JSON's grammar it refuses what validation.Decode does:
// repeated members and numbers that no weight can have.
func parseBody(text []byte) (any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if fault := cjson.Fault(text); fault != "" {
		return nil, badBody(fault, text)
	}
	value, err := validation.Decode(text)
	if err != nil {
		return nil, badBody(err.Error(), text)
	}
	return value, nil
}

func tooLarge(size, limit int64) error {
	return badBody(fmt.Sprintf("request size %d is greater than the maximum size %d allowed", size, limit), nil)
}

// badBody is the answer to a body that cannot be read; text, if any, is shown to the client.
func badBody(fault string, text []byte) error {
	body := map[string]any{memberError: "invalid request body: " + fault}
	if text != nil {
		body["req_body"] = strings.ToValidUTF8(string(text[:min(len(text), maxEcho)]), "\uFFFD")
	}
	return &refusal{status: http.StatusBadRequest, body: body}
}

// asObject returns the body as the object that a decoration is.
func asObject(body any) (map[string]any, error) {
	object, ok := body.(map[string]any)
	if !ok {
		return nil, refuse(http.StatusBadRequest, "invalid configuration")
	}
	return object, nil
}

// luaText is a scalar as Lua's tostring writes it, by which APISIX compares ids: the number
// 1 and the text "1" are the same id.
func luaText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		const luaDigits = 14 // Lua prints numbers with "%.14g"
		f, err := value.Float64()
		if err != nil {
			return value.String()
		}
		return strconv.FormatFloat(f, 'g', luaDigits, 64)
	}
	return fmt.Sprint(value)
}

// merge writes patch over target, as APISIX does: an object is merged into an object, null
// removes a member, anything else replaces what was there.
func merge(target, patch map[string]any) {
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		old, wasObject := target[name].(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isObject && wasObject && len(old) > 0:
			merge(old, inner)
		default:
			target[name] = value
		}
	}
}
