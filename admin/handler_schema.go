package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"graphql-limit-count/cost"
	"graphql-limit-count/introspect"
)

const (
	jsonType = "application/json"
	textType = "text/plain; charset=utf-8"
	yamlType = "application/yaml"

	formatSDL  = "sdl"
	formatJSON = "introspection"
	formatRaw  = "raw"

	argumentFormat = "format"
)

// readSchema reads an uploaded schema.
func readSchema(r *http.Request, c *call) (err error) {
	c.text, err = readText(r, MaxSchemaBytes)
	return err
}

// getSchema answers with the uploaded schema: as an object that holds it, or alone where
// ?format=raw or the header Accept asks for it.
func (h *Handler) getSchema(ctx context.Context, c call) (int, any, error) {
	raw, err := wantsRaw(c)
	if err != nil {
		return 0, nil, err
	}
	upload, err := h.upload(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	if raw && formatOf(upload.Text) == formatJSON {
		return http.StatusOK, document{jsonType, upload.Text}, nil
	}
	if raw {
		return http.StatusOK, document{textType, upload.Text}, nil
	}
	value := uploadObject(upload)
	value["schema"] = string(upload.Text)
	return http.StatusOK, map[string]any{
		"key": schemaKey(upload.ServiceID), "value": value,
		"createdIndex": upload.CreatedIndex, "modifiedIndex": upload.ModifiedIndex,
	}, nil
}

func wantsRaw(c call) (bool, error) {
	switch format := c.query.Get(argumentFormat); {
	case format == formatRaw:
		return true, nil
	case format == "json" || format == "" && !accepts(c.header, "text/plain", jsonType):
		return false, nil
	case format == "":
		return true, nil
	}
	return false, refuse(http.StatusBadRequest, "invalid argument format: must be raw or json")
}

// accepts tells whether the header Accept names a media type before it names another one.
// Ranges (*/*) name none, and quality values are not weighed.
func accepts(header http.Header, wanted, other string) bool {
	for _, accept := range header.Values("Accept") {
		for item := range strings.SplitSeq(accept, ",") {
			media, _, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			switch media {
			case wanted:
				return true
			case other:
				return false
			}
		}
	}
	return false
}

// upload returns a service's uploaded schema, without one of an earlier life of the service.
// While APISIX cannot be asked it is shown as it is stored.
func (h *Handler) upload(ctx context.Context, serviceID string) (Schema, error) {
	upload, err := h.store.GetSchema(ctx, serviceID)
	if err != nil || h.reclaimer == nil {
		return upload, err
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	mine, err := h.reclaimer.ownsUpload(asking, upload)
	switch {
	case err != nil:
		h.unasked(err)
		return upload, nil
	case !mine:
		return Schema{}, ErrNoSchema
	}
	return upload, nil
}

// putSchema stores a schema of a service that exists and puts it in force.
func (h *Handler) putSchema(ctx context.Context, c call) (int, any, error) {
	if err := checkServiceID(c.serviceID); err != nil {
		return 0, nil, err
	}
	o, err := h.owner(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	if !o.exists {
		return 0, nil, refuse(http.StatusNotFound, noSuchService)
	}
	if err := checkSchema(c.text); err != nil {
		return 0, nil, err
	}
	upload, created, err := h.store.PutSchema(ctx, Schema{ServiceID: c.serviceID, Text: c.text, Incarnation: o.incarnation})
	if err != nil {
		return 0, nil, schemaRefusal(err)
	}
	h.refreshUpload(ctx, c.serviceID)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	answer := map[string]any{"key": schemaKey(c.serviceID), "value": uploadObject(upload)}
	if warnings := warningsForAll(h.known(c.serviceID), o.records); len(warnings) > 0 {
		answer[memberWarnings] = warnings
	}
	return status, answer, nil
}

// checkSchema refuses a text that no schema can be made of, with why.
func checkSchema(text []byte) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return refuse(http.StatusBadRequest, "invalid schema: the body is empty, it must be SDL or the answer to an introspection query")
	case !utf8.Valid(text):
		return refuse(http.StatusBadRequest, "invalid schema: it is not UTF-8")
	}
	if err := checkCostable(text); err != nil {
		return refuse(http.StatusBadRequest, "invalid schema: "+err.Error())
	}
	return nil
}

// checkCostable tells whether a schema that an operator gives can be costed by. It asks for
// more than is asked of an upstream: here somebody reads what is wrong.
func checkCostable(text []byte) error {
	schema, err := cost.ParseSchema(text)
	if err != nil {
		return err
	}
	return schema.CheckComplete()
}

// formatOf tells SDL from introspection JSON, as cost.ParseSchema does.
func formatOf(text []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))), []byte("{")) {
		return formatJSON
	}
	return formatSDL
}

// uploadObject is an uploaded schema as the endpoint shows it, without its text.
func uploadObject(s Schema) map[string]any {
	object := map[string]any{memberServiceID: s.ServiceID, "format": formatOf(s.Text), "bytes": len(s.Text)}
	if s.CreateTime > 0 {
		object[memberCreateTime] = s.CreateTime
	}
	if s.UpdateTime > 0 {
		object[memberUpdateTime] = s.UpdateTime
	}
	return object
}

// deleteSchema removes an uploaded schema: from then on the upstream is introspected.
func (h *Handler) deleteSchema(ctx context.Context, c call) (int, any, error) {
	if err := h.store.DeleteSchema(ctx, c.serviceID); err != nil {
		return 0, nil, schemaRefusal(err)
	}
	h.refreshUpload(ctx, c.serviceID)
	return http.StatusOK, map[string]any{"deleted": "1", "key": schemaKey(c.serviceID)}, nil
}

// placeOfSchemas says where the schemas of a store that takes no writes are changed.
const placeOfSchemas = "schemas are read from the files that schema_file names, which are the place to change them"

// schemaRefusal is the error of a write of a schema, which is in another place than
// decorations where the store takes no writes.
func schemaRefusal(err error) error {
	if errors.Is(err, ErrReadOnly) {
		return refuse(http.StatusForbidden, placeOfSchemas)
	}
	return err
}

// refreshUpload puts a written schema in force, as refresh does it for decorations.
func (h *Handler) refreshUpload(ctx context.Context, serviceID string) {
	if h.uploads != nil {
		h.putInForce(ctx, h.uploads, serviceID)
	}
}

// readsFile tells whether the store is a file.
func (h *Handler) readsFile() bool {
	_, ok := h.store.(*File)
	return ok
}

// refreshSchema has the schema of a service fetched from its upstream again.
func (h *Handler) refreshSchema(ctx context.Context, c call) (int, any, error) {
	if h.source == nil {
		return 0, nil, refuse(http.StatusNotFound, "this process introspects no schemas")
	}
	err := h.source.Refresh(ctx, c.serviceID)
	switch {
	case err == nil:
	case errors.Is(err, introspect.ErrUnasked):
		return 0, nil, refuse(http.StatusNotFound, "there is no schema to refresh: "+introspect.ErrUnasked.Error())
	case errors.Is(err, introspect.ErrGiven) && h.readsFile():
		return 0, nil, refuse(http.StatusConflict, "there is nothing to refresh: "+placeOfSchemas)
	case errors.Is(err, introspect.ErrGiven):
		return 0, nil, refuse(http.StatusConflict, "there is nothing to refresh: "+introspect.ErrGiven.Error())
	case errors.Is(err, introspect.ErrClosed):
		return 0, nil, refuse(http.StatusServiceUnavailable, "the process is about to end")
	case ctx.Err() != nil:
		return 0, nil, fmt.Errorf("refresh the schema of service %s: %w", c.serviceID, ctx.Err())
	default: // errors of fetches name no header's value
		return 0, nil, refuse(http.StatusBadGateway, "the schema stays as it is: "+err.Error())
	}
	records, err := h.current(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{memberServiceID: c.serviceID, "refreshed": true}
	if warnings := warningsForAll(h.known(c.serviceID), records); len(warnings) > 0 {
		answer[memberWarnings] = warnings
	}
	return http.StatusOK, answer, nil
}
