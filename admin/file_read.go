package admin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"graphql-limit-count/decorations"
	"graphql-limit-count/internal/regular"
)

const (
	// racyAge is how old a file's time must be before an unchanged time says that its content
	// is unchanged: file systems count time in steps of up to two seconds.
	racyAge = 2 * time.Second
	// fullReadInterval is how long times are believed at most: programs can set them.
	fullReadInterval = 10 * time.Second
)

// fileReading is what was found when the files were read, good or bad.
type fileReading struct {
	at     time.Time
	stamps map[string]fs.FileInfo // by path; nil for a file that is not there
	// sum is the digest of all contents and of what could not be read; mainSum that of the
	// document, which says what the others are.
	sum, mainSum [sha256.Size]byte

	services []decorations.Service
	schemas  map[string][]byte // by the name that the document has for the file
	err      error
}

// readFiles reads the document and the schemas that it names. last saves parsing a document
// that is as it was; nil for none.
func readFiles(path string, last *fileReading) *fileReading {
	r := &fileReading{at: time.Now(), stamps: map[string]fs.FileInfo{}, schemas: map[string][]byte{}}
	digest := sha256.New()
	note := func(text []byte, err error) {
		// A length before each content, so that no two readings have one digest.
		fmt.Fprintf(digest, "%d %v\n", len(text), err)
		digest.Write(text)
	}
	text, err := r.file(path, decorations.MaxBytes)
	note(text, err)
	digest.Sum(r.mainSum[:0])
	switch {
	case err != nil:
		r.err = err
	case last != nil && last.mainSum == r.mainSum && len(last.services) > 0:
		r.services = last.services
	default:
		r.services, r.err = decorations.ParseServices(text)
	}
	for _, s := range r.services {
		if _, read := r.schemas[s.SchemaFile]; s.SchemaFile == "" || read {
			continue
		}
		schema, err := r.file(resolve(path, s.SchemaFile), MaxSchemaBytes)
		note(schema, err)
		r.schemas[s.SchemaFile] = schema
		if err != nil && r.err == nil {
			r.err = fmt.Errorf("line %d: schema_file of service %s: %w", s.Line, s.ServiceID, err)
		}
	}
	digest.Sum(r.sum[:0])
	return r
}

// resolve is the path of a file that the document names.
func resolve(document, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(document), name)
}

// file reads one file of at most limit bytes and keeps its stamp.
func (r *fileReading) file(path string, limit int64) ([]byte, error) {
	text, info, err := regular.Read(path, limit)
	r.stamps[path] = info
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, reason(err))
	}
	return text, nil
}

// reason is an error of a file without the path, which the message has already.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// content makes the reading a content, or returns why it is none.
func (r *fileReading) content() (*fileContent, error) {
	if r.err != nil {
		return nil, r.err
	}
	return newFileContent(r.services, r.schemas)
}

// unchanged reports whether the files surely are as they were read.
func (r *fileReading) unchanged() bool {
	if time.Since(r.at) > fullReadInterval {
		return false
	}
	for path, before := range r.stamps {
		now, err := os.Stat(path)
		switch {
		case err != nil && before == nil:
		case err != nil, !sameStamp(before, now), r.at.Sub(before.ModTime()) < racyAge:
			return false
		}
	}
	return true
}

// sameFiles reports whether two readings found the same files, none written in between.
func (r *fileReading) sameFiles(other *fileReading) bool {
	return maps.EqualFunc(r.stamps, other.stamps, sameStamp)
}

func sameStamp(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// unsettled is for how long the files must stay as they are until all of them are settleAge
// old. Times that are in the future say no more than that they are not old.
func (r *fileReading) unsettled() time.Duration {
	longest := time.Duration(0)
	for _, info := range r.stamps {
		if info != nil {
			longest = max(longest, min(settleAge-r.at.Sub(info.ModTime()), settleAge))
		}
	}
	return longest
}
