package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"graphql-limit-count/cost"
)

// memberWarnings is a member of the answers to writes, only when there are warnings.
const memberWarnings = "warnings"

// maxWarnings is how many warnings an answer holds: a model that is not the schema's at all
// has thousands, each with a field path.
const maxWarnings = 100

// warned is a decoration that names something that the schema does not have.
type warned struct {
	ID        string   `json:"id"`
	FieldPath string   `json:"field_path"`
	Warnings  []string `json:"warnings"`
}

// check lists the decorations that name a type, a field or an argument that the known schema
// of the service does not have, ordered by id: the first with maxWarnings, and how many there
// are.
func (h *Handler) check(ctx context.Context, c call) (int, any, error) {
	records, err := h.existing(ctx, c.serviceID)
	if err != nil {
		return 0, nil, err
	}
	schema := h.known(c.serviceID)
	list, total, room := []warned{}, 0, maxWarnings
	for _, record := range records {
		warnings := warningsFor(schema, record)
		if len(warnings) == 0 {
			continue
		}
		total++
		if warnings = warnings[:min(len(warnings), room)]; len(warnings) > 0 {
			room -= len(warnings)
			list = append(list, warned{ID: record.ID, FieldPath: record.FieldPath, Warnings: warnings})
		}
	}
	return http.StatusOK, map[string]any{
		"schema_known": schema != nil,
		"checked":      len(records),
		"total":        total,
		"list":         list,
	}, nil
}

// known is the schema that decorations are compared with, nil when there is none in memory.
func (h *Handler) known(serviceID string) *cost.Schema {
	if h.source == nil {
		return nil
	}
	return h.source.Known(serviceID)
}

// warningsFor says what a decoration names and a schema does not have. A record that is not
// valid names nothing; the log tells about it.
func warningsFor(schema *cost.Schema, record Record) []string {
	if schema == nil {
		return nil
	}
	decoration, err := costDecoration(record)
	if err != nil {
		return nil
	}
	return bounded(schema.Missing(decoration))
}

// warningsForAll is warningsFor of several records, in the order of their field paths: the
// first maxWarnings, and how many more there are.
func warningsForAll(schema *cost.Schema, records []Record) []string {
	warnings := []string{}
	for _, record := range records {
		warnings = append(warnings, warningsFor(schema, record)...)
	}
	slices.Sort(warnings) // each begins with the field path
	return bounded(warnings)
}

// bounded are the first maxWarnings, and how many more there are.
func bounded(warnings []string) []string {
	more := len(warnings) - maxWarnings
	if more <= 0 {
		return warnings
	}
	return append(warnings[:maxWarnings], fmt.Sprintf("and %d more", more))
}
