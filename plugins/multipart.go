package plugins

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// multipartOperations finds the operations of an upload request, as the GraphQL
// multipart request specification names the part that holds them.
func multipartOperations(body []byte, contentType string) ([]byte, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return nil, envelopeError("the multipart body has no boundary")
	}
	var operations []byte
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, envelopeError("malformed multipart body")
		}
		name := part.FormName()
		if resembles(name) != "" || name != "operations" && strings.EqualFold(strings.TrimSpace(name), "operations") {
			return nil, envelopeError("the multipart body has a part that could be taken for operations")
		}
		if name != "operations" {
			continue
		}
		if operations != nil {
			return nil, envelopeError("the multipart body has more than one operations part")
		}
		if operations, err = plainPart(part); err != nil {
			return nil, err
		}
	}
	if len(operations) == 0 {
		return nil, envelopeError("the multipart body has no operations part")
	}
	return operations, nil
}

// plainPart reads a part that every server reads alike: not encoded for transfer,
// and in UTF-8.
func plainPart(part *multipart.Part) ([]byte, error) {
	switch encoding := part.Header.Get("Content-Transfer-Encoding"); strings.ToLower(encoding) {
	case "", "7bit", "8bit", "binary":
	default:
		return nil, envelopeError("the operations part is encoded as %.100s", encoding)
	}
	_, parameters, _ := strings.Cut(part.Header.Get("Content-Type"), ";")
	if !utf8Charset(parameters) {
		return nil, envelopeError("the operations part is not in UTF-8")
	}
	text, err := io.ReadAll(part)
	if err != nil {
		return nil, envelopeError("malformed multipart body")
	}
	return text, nil
}
