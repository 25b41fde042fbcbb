package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"graphql-limit-count/internal/regular"

	"go.uber.org/zap"
)

// maxMarkerBytes bounds what is read of a marker: its endpoints are flags of the process.
const maxMarkerBytes = 64 << 10

// etcdMarker is a file that says that decorations were seen in etcd. Without it, a process
// that starts cannot tell an etcd that lost its data from one that never had any, and every
// query would be cheap without a word.
type etcdMarker struct {
	path string // empty: there is none
	text []byte // says which etcd, and what the file is

	mu   sync.Mutex
	held *bool // what the file says, nil where it is not known
}

func newEtcdMarker(path, prefix string, endpoints []string) *etcdMarker {
	endpoints = slices.Sorted(slices.Values(endpoints))
	// Texts can always be encoded.
	text, _ := json.Marshal(struct {
		Note      string   `json:"note"`
		Endpoints []string `json:"endpoints"`
		Prefix    string   `json:"prefix"`
	}{"decorations were seen in this etcd; see stores.md", endpoints, prefix})
	return &etcdMarker{path: path, text: append(text, '\n')}
}

// says tells whether this etcd held decorations. A file that cannot be read does: nobody
// knows that it does not.
func (m *etcdMarker) says() bool {
	text, _, err := regular.Read(m.path, maxMarkerBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || !json.Valid(text) || bytes.Equal(text, m.text)
}

// note makes the file say whether decorations are held.
func (m *etcdMarker) note(held bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" || m.held != nil && *m.held == held {
		return nil
	}
	m.held = nil
	change := m.write
	if !held {
		change = m.remove
	}
	if err := change(); err != nil {
		return fmt.Errorf("note in %s whether etcd holds decorations: %w", m.path, err)
	}
	m.held = &held
	return nil
}

// write replaces the file in one step.
func (m *etcdMarker) write() (err error) {
	folder := filepath.Dir(m.path)
	file, err := os.CreateTemp(folder, "."+filepath.Base(m.path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(m.text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), m.path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func (m *etcdMarker) remove() error {
	if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncFolder(filepath.Dir(m.path))
}

// Recall is called once before the decorations are loaded. When etcd holds none, although it
// held some when a process with the same EtcdConfig.Marker last looked, its data may be lost:
// while etcd holds no configuration of APISIX at all, that is an error, which names the file
// to remove for a start without decorations; otherwise it is logged. An etcd that cannot be
// read is an error.
func (s *Etcd) Recall(ctx context.Context) error {
	if s.marker.path == "" {
		return nil
	}
	keys, _, err := s.client.Keys(ctx, servicesPath)
	if err != nil {
		return fmt.Errorf("look for decorations: %w", err)
	}
	for _, kv := range keys {
		if isDecoration(kv.Key) {
			s.note(true)
			return nil
		}
	}
	if !s.marker.says() {
		return nil
	}
	blank, err := s.client.Blank(ctx)
	if err != nil {
		return fmt.Errorf("look for APISIX's configuration: %w", err)
	}
	if blank {
		return fmt.Errorf("etcd holds no configuration of APISIX at all under %s, but held decorations before: its data seems to be lost, "+
			"and without decorations every query is cheap. Restore a backup, or set APISIX and the decorations up again; "+
			"to start without decorations, remove %s", s.client.Prefix(), s.marker.path)
	}
	s.logger.logger.Error("etcd holds no decorations any more, but held some before: queries cost what undecorated ones do. "+
		"Restore a backup, or push the decorations again; if they were removed on purpose, remove the file that remembers them",
		zap.String("prefix", s.client.Prefix()), zap.String("file", s.marker.path))
	return nil
}

// note keeps the marker as etcd is. Where it cannot be written, only a later start knows less.
func (s *Etcd) note(held bool) {
	if err := s.marker.note(held); err != nil {
		s.logger.Error("after a restart, a loss of etcd's data would not be noticed", zap.Error(err))
	}
}

// isDecoration tells whether a key, without the prefix, is a decoration's.
func isDecoration(key string) bool {
	_, id, ok := splitKey(key)
	return ok && id != ""
}
