package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"graphql-limit-count/decorations"
)

// maxIDLength is how long an id may be; see decoration.schema.json.
const maxIDLength = 64

// fileContent is one good content of a File's files. It is immutable.
type fileContent struct {
	// number counts contents, from 1.
	number   int64
	services map[string]fileService
	// changes holds the number of the content that last changed a service, also of one that
	// is gone.
	changes map[string]int64
}

// fileService is what a content says of one service.
type fileService struct {
	records []Record // ordered by id
	schema  *Schema  // nil: none
}

// newFileContent makes records of what was read. Schemas that cannot be used are errors: the
// last good one must stay in force.
func newFileContent(services []decorations.Service, schemas map[string][]byte) (*fileContent, error) {
	content := &fileContent{services: make(map[string]fileService, len(services)), changes: map[string]int64{}}
	for _, s := range services {
		records, err := fileRecords(s)
		if err != nil {
			return nil, err
		}
		service := fileService{records: records}
		if s.SchemaFile != "" {
			text := schemas[s.SchemaFile]
			if err := checkCostable(text); err != nil {
				return nil, fmt.Errorf("line %d: schema_file %s of service %s: %w", s.Line, s.SchemaFile, s.ServiceID, err)
			}
			service.schema = &Schema{ServiceID: s.ServiceID, Text: text}
		}
		content.services[s.ServiceID] = service
	}
	return content, nil
}

// fileRecords gives the decorations of a service their ids: their own, else one made of the
// field path, so that it is the same after every reload and on every host.
func fileRecords(s decorations.Service) ([]Record, error) {
	taken := map[string]bool{}
	for _, d := range s.Decorations {
		taken[d.ID] = true
	}
	records := make([]Record, 0, len(s.Decorations))
	for _, d := range s.Decorations {
		if d.ID == "" {
			d.ID = pathID(d.FieldPath, taken)
			if taken[d.ID] {
				return nil, fmt.Errorf("line %d: service %s: give the decoration of %s an id, %s is taken", d.Line, s.ServiceID, d.FieldPath, d.ID)
			}
			taken[d.ID] = true
		}
		records = append(records, Record{Draft: Draft{ServiceID: s.ServiceID, ID: d.ID, FieldPath: d.FieldPath, Value: d.Value}})
	}
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
	return records, nil
}

// pathID is the field path where that can be an id, else a digest of it.
func pathID(fieldPath string, taken map[string]bool) string {
	if len(fieldPath) <= maxIDLength && !taken[fieldPath] {
		return fieldPath
	}
	return pathDigest(fieldPath)
}

// pathDigest is an id that begins like no number does.
func pathDigest(text string) string {
	const digits = 20
	digest := sha256.Sum256([]byte(text))
	return "p" + hex.EncodeToString(digest[:])[:digits]
}

// following numbers a content as the one after last, nil for the first: what is as it was
// keeps its indexes.
func (c *fileContent) following(last *fileContent) *fileContent {
	if last == nil {
		last = &fileContent{}
	}
	c.number = last.number + 1
	c.changes = maps.Clone(last.changes)
	if c.changes == nil {
		c.changes = map[string]int64{}
	}
	for id := range last.services {
		if _, ok := c.services[id]; !ok {
			c.changes[id] = c.number
		}
	}
	for id, service := range c.services {
		if service.follow(last.services[id], c.number) {
			c.changes[id] = c.number
		}
		c.services[id] = service
	}
	return c
}

// follow gives records and schema their indexes and tells whether anything changed.
func (s *fileService) follow(last fileService, number int64) (changed bool) {
	before := make(map[string]Record, len(last.records))
	for _, r := range last.records {
		before[r.ID] = r
	}
	changed = len(s.records) != len(last.records)
	for i := range s.records {
		r := &s.records[i]
		old, existed := before[r.ID]
		r.CreatedIndex, r.ModifiedIndex = number, number
		if existed {
			r.CreatedIndex = old.CreatedIndex
		}
		if existed && old.FieldPath == r.FieldPath && string(old.Value) == string(r.Value) {
			r.ModifiedIndex = old.ModifiedIndex
		} else {
			changed = true
		}
	}
	if s.schema == nil {
		return changed || last.schema != nil
	}
	s.schema.CreatedIndex, s.schema.ModifiedIndex = number, number
	if last.schema == nil {
		return true
	}
	s.schema.CreatedIndex = last.schema.CreatedIndex
	if string(last.schema.Text) != string(s.schema.Text) {
		return true
	}
	s.schema.ModifiedIndex = last.schema.ModifiedIndex
	return changed
}

// emptied are the services that have no decorations any more and had some in last.
func (c *fileContent) emptied(last *fileContent) []string {
	var emptied []string
	for _, id := range last.ids() {
		if len(last.services[id].records) > 0 && len(c.services[id].records) == 0 {
			emptied = append(emptied, id)
		}
	}
	return emptied
}

// ids are the services, in their order.
func (c *fileContent) ids() []string { return slices.Sorted(maps.Keys(c.services)) }

// changedSince are the services that later contents than that of the number changed.
func (c *fileContent) changedSince(number int64) []string {
	changed := []string{}
	for id, at := range c.changes {
		if at > number {
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}
