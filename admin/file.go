package admin

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// defaultFilePoll is FileConfig.PollInterval where it is not set.
	defaultFilePoll = 500 * time.Millisecond
	// settleShare is which part of the poll interval a changed file must stay as it is before
	// it counts, and settleAge how old its time must be then: who writes in place shows
	// halves, which may read well and cost less.
	settleShare = 5
	settleAge   = 300 * time.Millisecond
	// maxShownServices is how many services a line of the log names.
	maxShownServices = 20
)

// FileConfig holds the settings of a File.
type FileConfig struct {
	// PollInterval is the time between two looks at the files. Default 500 ms; more than
	// 700 ms breaks the promise that a change is in force within a second.
	PollInterval time.Duration
	// Logger is told once about each content that cannot be used. Required.
	Logger *zap.Logger
}

// File is a Store that reads a YAML or JSON file and takes no writes, for APISIX's standalone
// mode: decorations are deployed as the routes are. The file is a document of
// decorations.ParseServices; the schema files that it names are relative to its folder.
//
// Watch looks at the files and takes over what changed, whole: a file that was written just now,
// is bad, or is gone leaves the last good content in force. A half that reads well and rests
// cannot be told from what was meant. Files that are replaced by renaming and
// symbolic links to others (as of a Kubernetes ConfigMap) are followed. Without Watch the
// content stays that of OpenFile.
//
// Times of records are 0; an index is the number of the content, from 1, that brought it.
type File struct {
	path    string
	poll    time.Duration
	logger  *zap.Logger
	current atomic.Pointer[fileContent]

	// wait lets time pass, and tells whether it did before ctx was done.
	wait func(ctx context.Context, length time.Duration) bool

	mu   sync.Mutex   // of reloading
	seen *fileReading // what was read last, good or bad
}

var _ Store = (*File)(nil)

// OpenFile reads the file once. A file that is missing or cannot be used is an error that names
// it and the line.
func OpenFile(_ context.Context, path string, cfg FileConfig) (*File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the decorations in %s: %w", path, err)
	}
	f := &File{path: absolute, poll: cfg.PollInterval, logger: cfg.Logger, wait: waitFor}
	if f.poll <= 0 {
		f.poll = defaultFilePoll
	}
	f.seen = readFiles(absolute, nil)
	content, err := f.seen.content()
	if err != nil {
		return nil, fmt.Errorf("open the decorations in %s: %w", path, err)
	}
	f.current.Store(content.following(nil))
	return f, nil
}

// Watch follows the files; see Store.
func (f *File) Watch(ctx context.Context, changed func(services []string) error) error {
	told := int64(0) // the number of the content that changed was told of, 0 for none
	ticker := time.NewTicker(f.poll)
	defer ticker.Stop()
	for {
		f.reload(ctx)
		content := f.current.Load()
		if services := content.changedSince(told); told == 0 || len(services) > 0 {
			// An error is told by who returns it; the next look calls again.
			if err := changed(services); err == nil {
				told = content.number
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// reload takes over the files' content if it is another one, settled and good. Each bad one is
// logged once.
func (f *File) reload(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen.unchanged() {
		return
	}
	first := readFiles(f.path, f.seen)
	if first.sum == f.seen.sum {
		f.seen = first
		return
	}
	if !f.wait(ctx, max(f.poll/settleShare, first.unsettled())) {
		return
	}
	second := readFiles(f.path, first)
	if second.sum != first.sum || !second.sameFiles(first) {
		return // still being written; the next look tells
	}
	f.seen = second
	content, err := second.content()
	if err != nil {
		f.logger.Error("the decorations cannot be used, the last good ones stay in force",
			zap.String("file", f.path), zap.Error(err))
		return
	}
	last := f.current.Load()
	if emptied := content.emptied(last); len(emptied) > 0 {
		f.logger.Warn("the file has no decorations of services any more that it had some of: their queries cost what an undecorated service's do",
			zap.String("file", f.path), zap.Int("services", len(emptied)),
			zap.Strings("service_ids", emptied[:min(len(emptied), maxShownServices)]))
	}
	f.current.Store(content.following(last))
}

func waitFor(ctx context.Context, length time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}

// List returns the decorations of a service, ordered by id.
func (f *File) List(_ context.Context, serviceID string) ([]Record, error) {
	return slices.Clone(f.current.Load().services[serviceID].records), nil
}

// All returns the decorations of all services, ordered by service and id.
func (f *File) All(context.Context) ([]Record, error) {
	content := f.current.Load()
	var records []Record
	for _, id := range content.ids() {
		records = append(records, content.services[id].records...)
	}
	return records, nil
}

// Get returns one decoration, or ErrNotFound.
func (f *File) Get(_ context.Context, serviceID, id string) (Record, error) {
	records := f.current.Load().services[serviceID].records
	i, found := slices.BinarySearchFunc(records, id, func(r Record, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return Record{}, fmt.Errorf("%s of service %s: %w", id, serviceID, ErrNotFound)
	}
	return records[i], nil
}

// GetSchema returns the schema that the file names for a service, or ErrNoSchema.
func (f *File) GetSchema(_ context.Context, serviceID string) (Schema, error) {
	service := f.current.Load().services[serviceID]
	if service.schema == nil {
		return Schema{}, fmt.Errorf("service %s: %w", serviceID, ErrNoSchema)
	}
	return *service.schema, nil
}

// Schemas returns the schemas that the file names, ordered by service and without their texts.
func (f *File) Schemas(context.Context) ([]Schema, error) {
	content := f.current.Load()
	var schemas []Schema
	for _, id := range content.ids() {
		if s := content.services[id].schema; s != nil {
			listed := *s
			listed.Text = nil
			schemas = append(schemas, listed)
		}
	}
	return schemas, nil
}

// Replace asks plan, whose error comes first so that dry runs work, and returns ErrReadOnly.
func (f *File) Replace(ctx context.Context, serviceID string, plan func(current []Record) ([]Draft, error)) ([]Record, error) {
	records, err := f.List(ctx, serviceID)
	if err != nil {
		return nil, err
	}
	if _, err := plan(records); err != nil {
		return nil, err
	}
	return nil, f.readOnly()
}

// Put returns ErrReadOnly.
func (f *File) Put(context.Context, Draft) (Record, bool, error) {
	return Record{}, false, f.readOnly()
}

// Patch returns ErrReadOnly.
func (f *File) Patch(context.Context, string, string, func(Record) (Draft, error)) (Record, error) {
	return Record{}, f.readOnly()
}

// Delete returns ErrReadOnly.
func (f *File) Delete(context.Context, string, string) error { return f.readOnly() }

// PutSchema returns ErrReadOnly.
func (f *File) PutSchema(context.Context, Schema) (Schema, bool, error) {
	return Schema{}, false, f.readOnly()
}

// DeleteSchema returns ErrReadOnly.
func (f *File) DeleteSchema(context.Context, string) error { return f.readOnly() }

// Reclaim returns ErrReadOnly when there is anything to remove.
func (f *File) Reclaim(_ context.Context, records []Record) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	return 0, f.readOnly()
}

// Adopt returns ErrReadOnly when there is anything to note.
func (f *File) Adopt(_ context.Context, records []Record, _ string) error {
	if len(records) == 0 {
		return nil
	}
	return f.readOnly()
}

// ReclaimSchema returns ErrReadOnly.
func (f *File) ReclaimSchema(context.Context, Schema) (bool, error) { return false, f.readOnly() }

// AdoptSchema returns ErrReadOnly.
func (f *File) AdoptSchema(context.Context, Schema, string) error { return f.readOnly() }

func (f *File) readOnly() error { return fmt.Errorf("%w: %s", ErrReadOnly, f.path) }
