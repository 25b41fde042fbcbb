package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// newFileMode is the mode of a new keyring: the owner alone reads and writes.
const newFileMode fs.FileMode = 0o600

// Generate makes a random key the first of the keyring file, and returns its id. A file
// that is not there is created with mode 0600; of one that is, the other keys, comments,
// mode and owner stay. The file is replaced as a whole, so that who reads it meanwhile sees
// the old or the new one, and two calls at once leave both keys in it.
func Generate(path string, now time.Time) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("add a key to the keyring %s: %w", path, err)
		}
	}()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the link stays, and what it leads to changes
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer unlock()
	old, err := readFile(path, true)
	exists := !errors.Is(err, fs.ErrNotExist)
	if exists && err != nil {
		return "", err
	}
	id, line, err := randomKey(now)
	if err != nil {
		return "", err
	}
	text := append(line, old...)
	if _, err := ParseKeyring(text); err != nil {
		return "", fmt.Errorf("with the new key as line 1: %w", err)
	}
	return id, replaceFile(path, text, exists)
}

// randomKey returns a new key's id and its line, with a comment that tells it from others.
func randomKey(now time.Time) (id string, line []byte, err error) {
	raw := make([]byte, keySize)
	if _, err := rand.Read(raw); err != nil {
		return "", nil, err
	}
	id = keyID(raw)
	text := base64.StdEncoding.EncodeToString(raw)
	return id, fmt.Appendf(nil, "%s %s %s, made on %s\n", text, comment, id, now.UTC().Format(time.DateOnly)), nil
}

// lockFolder keeps other calls of Generate out of a folder. The keyring itself cannot be
// locked: it is replaced.
func lockFolder(folder string) (unlock func(), err error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", folder, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // closing drops the lock
}

// replaceFile writes the text to a file beside path and moves it there, durably. A file
// that should not be there yet is not replaced.
func replaceFile(path string, text []byte, exists bool) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Chmod(newFileMode))
	if exists {
		err = errors.Join(err, keepOwner(temporary, path))
	}
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if exists {
		err = os.Rename(temporary.Name(), path)
	} else {
		err = os.Link(temporary.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// keepOwner gives a file the mode and owner of the one that it will replace: root adds
// keys to a file that another user's process reads.
func keepOwner(file *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := file.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("keep its owner: %w", err)
		}
	}
	return file.Chmod(info.Mode().Perm())
}

func syncFolder(folder string) error {
	file, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
