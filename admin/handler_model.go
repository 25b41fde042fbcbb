package admin

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"graphql-limit-count/decorations"
)

const argumentDryRun = "dry_run"

// errDryRun ends a replacement that is only to be described.
var errDryRun = errors.New("nothing is written in a dry run")

// readModel reads a document of decorations.
func readModel(r *http.Request, c *call) error {
	if err := checkDocumentType(r.Header.Get("Content-Type")); err != nil {
		drain(r.Body)
		return err
	}
	var err error
	c.text, err = readText(r, decorations.MaxBytes)
	return err
}

// checkDocumentType refuses what is neither YAML nor JSON. Which of the two it is shows in the
// text; no type, and the one that curl sends unless it is told better, say nothing.
func checkDocumentType(contentType string) error {
	media, _, err := mime.ParseMediaType(contentType)
	if contentType == "" || err == nil && slices.Contains([]string{
		jsonType, yamlType, "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain",
		"application/x-www-form-urlencoded",
	}, media) {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, fmt.Sprintf("the body must be %s or %s, not %.80q", yamlType, jsonType, contentType))
}

// getModel answers with the decorations of a service as one document.
func (h *Handler) getModel(ctx context.Context, c call) (int, any, error) {
	yaml, err := wantsYAML(c)
	if err != nil {
		return 0, nil, err
	}
	records, err := h.existing(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	set := writableSet(c.serviceID, records)
	if yaml {
		text, err := set.YAML()
		return http.StatusOK, document{yamlType, text}, err
	}
	text, err := set.JSON()
	return http.StatusOK, document{jsonType, text}, err
}

func wantsYAML(c call) (bool, error) {
	switch format := c.query.Get(argumentFormat); format {
	case "yaml":
		return true, nil
	case "json":
		return false, nil
	case "":
		return accepts(c.header, yamlType, jsonType), nil
	}
	return false, refuse(http.StatusBadRequest, "invalid argument format: must be json or yaml")
}

// setOf is the records of a service as a document.
func setOf(serviceID string, records []Record) decorations.Set {
	list := make([]decorations.Decoration, len(records))
	for i, r := range records {
		list[i] = decorations.Decoration{ID: r.ID, FieldPath: r.FieldPath, Value: r.Value}
	}
	return decorations.NewSet(serviceID, list)
}

// writableSet is setOf without what a document cannot be sent back with: records that are not
// valid, which only other programs can have written, and of several with one path all but the
// last, which is the one that counts.
func writableSet(serviceID string, records []Record) decorations.Set {
	last, faults := make(map[string]string, len(records)), make([]error, len(records))
	for i, r := range records {
		if faults[i] = writable(r); faults[i] == nil {
			last[r.FieldPath] = r.ID
		}
	}
	var good []Record
	var out []decorations.LeftOut
	for i, r := range records {
		err := faults[i]
		if err == nil && last[r.FieldPath] != r.ID {
			err = fmt.Errorf("decoration %q of the same field_path counts", last[r.FieldPath])
		}
		if err != nil {
			out = append(out, decorations.LeftOut{ID: r.ID, FieldPath: r.FieldPath, Why: err.Error()})
			continue
		}
		good = append(good, r)
	}
	set := setOf(serviceID, good)
	set.LeftOut = out
	return set
}

// writable tells why a record could not be written as it is.
func writable(r Record) error {
	if _, err := costDecoration(r); err != nil {
		return err
	}
	object, err := decodeObject(r.Value)
	if err != nil {
		return err
	}
	object[memberID], object[memberServiceID] = r.ID, r.ServiceID
	return checkDecoration(object)
}

// putModel makes the decorations of a service those of a document, all or nothing, and
// answers with what that changed. A dry run answers the same and changes nothing.
func (h *Handler) putModel(ctx context.Context, c call) (int, any, error) {
	dryRun, err := isDryRun(c)
	if err != nil {
		return 0, nil, err
	}
	wanted, err := parseModel(c)
	if err != nil {
		return 0, nil, err
	}
	o, err := h.owner(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	if !o.exists {
		return 0, nil, refuse(http.StatusNotFound, noSuchService)
	}
	r := replacing{wanted: wanted, incarnation: o.incarnation, dryRun: dryRun}
	_, err = h.store.Replace(ctx, c.serviceID, r.plan)
	switch {
	case err == nil:
		h.refresh(ctx, c.serviceID)
	case dryRun && errors.Is(err, errDryRun):
	default:
		return 0, nil, err
	}
	return http.StatusOK, decorations.Result{
		Changes: r.changes, Warnings: warningsForAll(h.known(c.serviceID), asRecords(r.drafts)), DryRun: dryRun,
	}, nil
}

func isDryRun(c call) (bool, error) {
	switch value := c.query.Get(argumentDryRun); {
	case !c.query.Has(argumentDryRun), value == "false":
		return false, nil
	case value == "true":
		return true, nil
	}
	return false, refuse(http.StatusBadRequest, "invalid argument dry_run: must be true or false")
}

// parseModel reads the document and checks that it is this service's.
func parseModel(c call) (decorations.Set, error) {
	if err := checkServiceID(c.serviceID); err != nil {
		return decorations.Set{}, err
	}
	set, err := decorations.Parse(c.text)
	switch {
	case err != nil:
		return decorations.Set{}, refuse(http.StatusBadRequest, err.Error())
	case set.ServiceID != "" && set.ServiceID != c.serviceID:
		return decorations.Set{}, refuse(http.StatusBadRequest, "wrong service_id, it is taken from the path")
	}
	set.ServiceID = c.serviceID
	return set, nil
}

// replacing plans one replacement and keeps what the plan was.
type replacing struct {
	wanted      decorations.Set
	incarnation string
	dryRun      bool

	changes decorations.Changes
	drafts  []Draft
}

// plan is called with the present records, under the store's lock, maybe more than once.
func (r *replacing) plan(current []Record) ([]Draft, error) {
	present := setOf(r.wanted.ServiceID, current)
	wanted, err := r.wanted.WithIDs(present, idMaker(current, r.wanted))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, err.Error())
	}
	old := make(map[string]decorations.Decoration, len(current))
	for _, d := range present.Decorations {
		old[d.ID] = d
	}
	r.drafts = make([]Draft, 0, len(wanted.Decorations))
	for _, d := range wanted.Decorations {
		before, exists := old[d.ID]
		if d.ID == checkName && !exists {
			return nil, refuse(http.StatusBadRequest, reservedID)
		}
		if exists && before.FieldPath == d.FieldPath && before.Same(d) {
			// A default that is written out in one and left out in the other is no change.
			d.Value = before.Value
		} else if err := r.check(d); err != nil {
			return nil, err
		}
		r.drafts = append(r.drafts, Draft{ServiceID: wanted.ServiceID, ID: d.ID, FieldPath: d.FieldPath,
			Value: d.Value, Incarnation: r.incarnation})
	}
	r.changes = decorations.Diff(present, wanted)
	if r.dryRun {
		return r.drafts, errDryRun
	}
	return r.drafts, nil
}

// check applies the checks of a single decoration's write.
func (r *replacing) check(d decorations.Decoration) error {
	object, err := decodeObject(d.Value)
	if err != nil {
		return refuse(http.StatusBadRequest, fmt.Sprintf("decoration of %s: %v", d.FieldPath, err))
	}
	object[memberID], object[memberServiceID] = d.ID, r.wanted.ServiceID
	if err := checkWritten(object); err != nil {
		return refuse(http.StatusBadRequest, fmt.Sprintf("decoration of %s: %v", d.FieldPath, err))
	}
	return nil
}

// idMaker makes ids of field paths, the same ones each time. They are no numbers: APISIX's Admin
// API makes its ids of etcd's revisions and overwrites what has one of these already, so a
// number that is above the present revision would be the id of a decoration to come. Ids that
// are taken are left out.
func idMaker(current []Record, wanted decorations.Set) func(fieldPath string) string {
	taken := map[string]bool{checkName: true}
	for _, record := range current {
		taken[record.ID] = true
	}
	for _, d := range wanted.Decorations {
		taken[d.ID] = true
	}
	return func(fieldPath string) string {
		id := pathID(fieldPath, taken)
		for n := 1; taken[id]; n++ {
			id = pathDigest(fmt.Sprintf("%s %d", fieldPath, n))
		}
		taken[id] = true
		return id
	}
}

// asRecords are drafts as far as warnings need them.
func asRecords(drafts []Draft) []Record {
	records := make([]Record, len(drafts))
	for i, d := range drafts {
		records[i].Draft = d
	}
	return records
}
