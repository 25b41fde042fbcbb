package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
)

const (
	// readTimeout bounds a read as a whole: what the store and APISIX need of it together.
	readTimeout = 3 * time.Second
	// askTimeout bounds how long a read waits for APISIX before it answers with what the
	// store has.
	askTimeout = 2 * time.Second
	// APISIX's bounds of page_size.
	minPageSize = 10
	maxPageSize = 500
)

// rawJSON is written as it is.
type rawJSON = json.RawMessage

// entry is a decoration as it is shown.
type entry struct {
	Key           string         `json:"key"`
	Value         map[string]any `json:"value"`
	CreatedIndex  int64          `json:"createdIndex"`
	ModifiedIndex int64          `json:"modifiedIndex"`
}

func newEntry(r Record) (entry, error) {
	object, err := r.Object()
	if err != nil {
		return entry{}, err
	}
	return entry{Key: key(r.ServiceID, r.ID), Value: object, CreatedIndex: r.CreatedIndex, ModifiedIndex: r.ModifiedIndex}, nil
}

// get answers with one decoration or the list of them.
func (h *Handler) get(ctx context.Context, c call) (int, any, error) {
	records, err := h.current(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	if c.id == "" {
		return listed(records, c.query)
	}
	for _, record := range records {
		if record.ID == c.id {
			e, err := newEntry(record)
			return http.StatusOK, e, err
		}
	}
	return 0, nil, keyNotFound()
}

// current returns a service's decorations, without those of a service that is gone. While
// APISIX cannot be asked they are shown as they are stored.
func (h *Handler) current(ctx context.Context, serviceID string) ([]Record, error) {
	o, err := h.shown(ctx, serviceID)
	return o.records, err
}

// existing is current where a service that APISIX does not have is refused.
func (h *Handler) existing(ctx context.Context, serviceID string) ([]Record, error) {
	o, err := h.shown(ctx, serviceID)
	if err == nil && !o.exists {
		err = refuse(http.StatusNotFound, noSuchService)
	}
	return o.records, err
}

// shown is owner for reads: while APISIX cannot be asked, a service is taken to exist as it is
// stored.
func (h *Handler) shown(ctx context.Context, serviceID string) (owner, error) {
	records, err := h.store.List(ctx, serviceID) // before APISIX is asked, see Reconcile
	if err != nil || h.reclaimer == nil {
		return owner{exists: true, records: records}, err
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o, err := h.reclaimer.confirm(asking, holding{serviceID: serviceID, records: records})
	if err != nil {
		h.unasked(err)
		return owner{exists: true, records: records}, nil
	}
	return o, nil
}

// unasked notes that APISIX could not be asked.
func (h *Handler) unasked(err error) {
	h.complaint.Error("what is stored is shown without asking APISIX whether its service exists", zap.Error(err))
}

// listed filters, sorts and pages as APISIX does: total counts what the filters left; order is
// by key without paging and by creation with it.
func listed(records []Record, query url.Values) (int, any, error) {
	if len(records) == 0 {
		return 0, nil, keyNotFound()
	}
	entries := make([]entry, 0, len(records))
	for _, record := range records {
		e, err := newEntry(record)
		if err != nil {
			return 0, nil, err
		}
		entries = append(entries, e)
	}
	entries, err := filter(entries, query)
	if err != nil {
		return 0, nil, err
	}
	total := len(entries)
	entries, err = page(entries, query)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"total": total, "list": entries}, nil
}

// filter keeps the entries that all of APISIX's filters let pass: label, the key of a label;
// name, a regular expression (RE2, where APISIX's is PCRE) that the name matches; uri, which no
// decoration has; and filter, a query string of members and the values that they must have.
// Of the latter APISIX supports some members for some resources and none for decorations, and
// leaves out the others; here field_path, id and service_id are supported.
func filter(entries []entry, query url.Values) ([]entry, error) {
	if query.Has("label") {
		entries = slices.DeleteFunc(entries, func(e entry) bool {
			labels, _ := e.Value[memberLabels].(map[string]any)
			_, ok := labels[query.Get("label")]
			return !ok
		})
	}
	if query.Has("name") {
		pattern, err := regexp.Compile(query.Get("name"))
		if err != nil {
			return nil, refuse(http.StatusBadRequest, fmt.Sprintf("invalid argument name: %v", err))
		}
		entries = slices.DeleteFunc(entries, func(e entry) bool {
			name, ok := e.Value[memberName].(string)
			return !ok || !pattern.MatchString(name)
		})
	}
	if query.Has("uri") {
		entries = entries[:0]
	}
	return filterByMembers(entries, query.Get("filter"))
}

func filterByMembers(entries []entry, text string) ([]entry, error) {
	wanted, err := url.ParseQuery(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, fmt.Sprintf("invalid argument filter: %v", err))
	}
	return slices.DeleteFunc(entries, func(e entry) bool {
		for _, member := range []string{memberFieldPath, memberID, memberServiceID} {
			values := wanted[member]
			// Of a repeated member the last value counts, as in APISIX.
			if len(values) > 0 && e.Value[member] != values[len(values)-1] {
				return true
			}
		}
		return false
	}), nil
}

// page returns one page when page and page_size are both numbers.
func page(entries []entry, query url.Values) ([]entry, error) {
	number, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		return entries, nil
	}
	size, err := strconv.Atoi(query.Get("page_size"))
	if err != nil {
		return entries, nil
	}
	if size < minPageSize || size > maxPageSize {
		return nil, refuse(http.StatusBadRequest,
			fmt.Sprintf("page_size must be between %d and %d", minPageSize, maxPageSize))
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.CreatedIndex, b.CreatedIndex) })
	before := max(number, 1) - 1
	if before > len(entries)/size {
		return []entry{}, nil
	}
	from := min(before*size, len(entries))
	return entries[from:min(from+size, len(entries))], nil
}
