package introspect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// maxDiskBytes bounds a folder of schemas; a large one has some 300 KB.
	maxDiskBytes = 256 << 20
	// folderMode keeps a folder of schemas to its owner, as files are.
	folderMode = 0o700
	// fileSuffix ends the name of a schema's file, tempPrefix begins that of a file that is
	// being written.
	fileSuffix = ".schema"
	tempPrefix = ".writing-"
	// tempLife is how old the second kind gets before it is taken for the rest of a process
	// that was killed.
	tempLife = time.Minute
	// nameBytes is how much of a digest goes into a name: two never meet by chance.
	nameBytes = 16
)

// disk keeps fetched schemas in a folder, one file per key. Several processes may use one
// folder: files are written whole under another name and then renamed, so that a reader, a
// second writer and a process that is killed leave no half ones. All methods of a nil disk
// do nothing.
type disk struct {
	dir      string
	maxFiles int
	maxBytes int64 // of all files
	maxBody  int   // of one schema, decompressed
	log      *zap.Logger

	mu      sync.Mutex // serialises what changes the folder
	failing bool       // the log knows that nothing can be written
}

func newDisk(dir string, maxFiles, maxBody int, log *zap.Logger) *disk {
	return &disk{dir: dir, maxFiles: maxFiles, maxBytes: maxDiskBytes, maxBody: maxBody, log: log}
}

// fileName is the name of a key's file: a digest of the owner, by which Flush finds all
// its files, and one of the settings. Digests, because an owner may be a URL with a
// password, and because an id may be longer than a name.
func fileName(k key) string {
	return ownerPrefix(k.kind, k.owner) + hex.EncodeToString(k.settings[:nameBytes]) + fileSuffix
}

func ownerPrefix(kind ownerKind, owner string) string {
	sum := sha256.Sum256(append([]byte{byte(kind)}, owner...))
	return hex.EncodeToString(sum[:nameBytes]) + "-"
}

// load returns what is kept under a key; ok is false when there is nothing that can be
// used. A damaged file is logged; it stays until the next fetch replaces it.
func (d *disk) load(k key) (c content, confirmed time.Time, ok bool) {
	if d == nil {
		return content{}, time.Time{}, false
	}
	name := fileName(k)
	c, confirmed, err := readFile(filepath.Join(d.dir, name), d.maxBody)
	if err == nil && c.Name != name {
		err = errors.New("the file was written under another name")
	}
	switch {
	case err == nil:
		return c, confirmed, true
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errOtherVersion):
		d.log.Info("a kept schema has the format of another version, it is fetched again",
			zap.Stringer("of", k), zap.String("file", filepath.Join(d.dir, name)))
	default:
		d.log.Warn("a kept schema cannot be read, it is fetched again",
			zap.Stringer("of", k), zap.String("file", filepath.Join(d.dir, name)), zap.Error(err))
	}
	return content{}, time.Time{}, false
}

// save writes a schema that the upstream gave at confirmed, if current still says so: it
// is asked when no Flush can come in between. One that the file already has is only dated.
func (d *disk) save(k key, c content, confirmed time.Time, unchanged bool, current func() bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !current() {
		return
	}
	c.Name = fileName(k)
	err := d.write(c, confirmed, unchanged)
	if err != nil && !d.failing {
		d.log.Error("keeping schemas on disk failed, after a restart they are fetched again",
			zap.String("folder", d.dir), zap.Error(err))
	}
	d.failing = err != nil
}

func (d *disk) write(c content, confirmed time.Time, unchanged bool) error {
	path := filepath.Join(d.dir, c.Name)
	if unchanged {
		if err := os.Chtimes(path, time.Time{}, confirmed); err == nil {
			return nil
		}
	}
	if err := os.MkdirAll(d.dir, folderMode); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	if err := writeFile(path, c, confirmed); err != nil {
		return err
	}
	return d.shrink(c.Name)
}

// remove removes what is kept of an owner.
func (d *disk) remove(kind ownerKind, owner string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	prefix, removed := ownerPrefix(kind, owner), false
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			err = errors.Join(err, removeFile(filepath.Join(d.dir, entry.Name())))
			removed = true
		}
	}
	if removed {
		err = errors.Join(err, syncFolder(d.dir))
	}
	if err != nil {
		d.log.Error("removing kept schemas failed", zap.Stringer("of", key{kind: kind, owner: owner}), zap.Error(err))
	}
}

// keptFile is a file in the folder.
type keptFile struct {
	name     string
	size     int64
	modified time.Time
}

// shrink removes what killed processes left, and then the schemas that were confirmed
// longest ago until the folder is within its bounds. The newest one stays.
func (d *disk) shrink(newest string) error {
	files, bytes, err := d.list()
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b keptFile) int {
		return cmp.Or(a.modified.Compare(b.modified), strings.Compare(a.name, b.name))
	})
	count := len(files)
	for _, f := range files {
		if count <= d.maxFiles && bytes <= d.maxBytes {
			break
		}
		if f.name == newest {
			continue
		}
		if err := removeFile(filepath.Join(d.dir, f.name)); err != nil {
			return err
		}
		count--
		bytes -= f.size
	}
	return nil
}

// list returns the schemas in the folder and the sum of their sizes.
func (d *disk) list() (files []keptFile, bytes int64, err error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list the folder: %w", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // it has just gone, or is not of this package
		}
		switch name := entry.Name(); {
		case strings.HasPrefix(name, tempPrefix) && time.Since(info.ModTime()) > tempLife:
			if err := removeFile(filepath.Join(d.dir, name)); err != nil {
				return nil, 0, err
			}
		case strings.HasSuffix(name, fileSuffix):
			files = append(files, keptFile{name: name, size: info.Size(), modified: info.ModTime()})
			bytes += info.Size()
		}
	}
	return files, bytes, nil
}

// removeFile removes a file; that another process was faster is no error.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a kept schema: %w", err)
	}
	return nil
}
