// Package regular reads files that somebody else may have put in place, and that may
// therefore be a pipe, a device or without end: none of these may hold a runner up.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// errNotRegular is the reason why a folder, a pipe or a device is not read.
var errNotRegular = errors.New("it is no regular file")

// Read returns what a regular file holds, and its description as it was before that was
// read, so that a later change shows in another one. Symbolic links are followed.
//
// A file of more than limit bytes is refused, and so is what is not a regular file; it does
// not block. Every error is an [fs.PathError]. The description is nil where there is none.
func Read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would wait for its writer
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	tooLong := &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", limit)}
	if info.Size() > limit {
		return nil, info, tooLong
	}
	// One byte more than the limit shows that it is exceeded. A file can grow meanwhile, and
	// those of /proc say that they are empty.
	text := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err = text.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, info, err
	}
	if int64(text.Len()) > limit {
		return nil, info, tooLong
	}
	return text.Bytes(), info, nil
}
