package secret

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"graphql-limit-count/internal/regular"

	"go.uber.org/zap"
)

const (
	// maxFileBytes bounds what is read of a file: certificates with their chains are the
	// largest ones.
	maxFileBytes = 256 << 10
	// othersMode and groupWriteMode are the bits of a mode that a file with a secret must
	// not have. The group may read: that is how containers hand files to a process that
	// is not root.
	othersMode     fs.FileMode = 0o007
	groupWriteMode fs.FileMode = 0o020
)

// FileConfig says which files a File reads.
type FileConfig struct {
	// What the files hold, for errors and the log: "the keyring". Required.
	What string
	// Paths are the files, at least one; they are read together.
	Paths []string
	// Private refuses files that everybody may read, or that others than the owner may
	// write: who can read a secret has it, and who can write it decides. Default: false.
	Private bool
	// Interval is for how long content is used without looking at the files again.
	// Default (0): they are looked at whenever Value is asked.
	Interval time.Duration
	// Logger is told when new content is taken (info) and when it cannot be (error, once
	// for each reason). Required.
	Logger *zap.Logger
	// Now is the clock of Interval. Default (nil): time.Now.
	Now func() time.Time
}

// File is what small files hold, parsed. When their content changes it is parsed again;
// while the new content is bad, the last good one stays. It is safe for concurrent use.
type File[T any] struct {
	cfg   FileConfig
	parse func(contents [][]byte) (T, error)

	mu      sync.Mutex
	looked  time.Time
	digest  [sha256.Size]byte // of the contents of value
	value   T
	failure string // why the files cannot be used, as logged; "" when they can
}

// OpenFile reads the files and parses their contents, given in the order of the paths.
// Errors name the file; those of parse must not hold content.
func OpenFile[T any](cfg FileConfig, parse func(contents [][]byte) (T, error)) (*File[T], error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	f := &File[T]{cfg: cfg, parse: parse}
	f.looked = cfg.Now()
	if _, err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Value returns what the files hold now.
func (f *File[T]) Value() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	if f.cfg.Interval > 0 && now.Sub(f.looked) < f.cfg.Interval {
		return f.value
	}
	f.looked = now
	changed, err := f.load()
	switch {
	case err != nil && err.Error() != f.failure:
		f.failure = err.Error()
		f.cfg.Logger.Error("a changed file cannot be used, what it held before stays in use", zap.Error(err))
	case err == nil && changed:
		f.cfg.Logger.Info("read "+f.cfg.What+" again", zap.Strings("files", f.cfg.Paths))
	}
	if err == nil {
		f.failure = ""
	}
	return f.value
}

// load reads the files and parses them if their contents are not those of the value.
// Contents are compared, not times: a file can be written twice within one tick of the
// clock, and these are small.
func (f *File[T]) load() (changed bool, err error) {
	contents := make([][]byte, len(f.cfg.Paths))
	sum := sha256.New()
	for i, path := range f.cfg.Paths {
		if contents[i], err = readFile(path, f.cfg.Private); err != nil {
			return false, fmt.Errorf("read %s: %w", f.cfg.What, err)
		}
		one := sha256.Sum256(contents[i])
		sum.Write(one[:])
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	if digest == f.digest {
		return false, nil
	}
	value, err := f.parse(contents)
	if err != nil {
		return false, fmt.Errorf("read %s in %s: %w", f.cfg.What, strings.Join(f.cfg.Paths, " and "), err)
	}
	f.digest, f.value = digest, value
	return true, nil
}

// CheckMode returns an error if everybody may read the file, or others than its owner may
// write it. A file that cannot be looked at is none.
func CheckMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return checkMode(path, info)
}

func checkMode(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&(othersMode|groupWriteMode) != 0 {
		return fmt.Errorf("%s has the mode %04o: others than its owner may read or write it; chmod go-w,o= %s", path, mode, path)
	}
	return nil
}

func readFile(path string, private bool) ([]byte, error) {
	content, info, err := regular.Read(path, maxFileBytes)
	if err == nil && private {
		err = checkMode(path, info)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// OpenKeyring reads a keyring file, and follows it: a key that is added to it is used
// without a restart. The file must not be readable by everybody.
func OpenKeyring(path string, logger *zap.Logger) (*KeyringFile, error) {
	file, err := OpenFile(FileConfig{What: "the keyring", Paths: []string{path}, Private: true, Logger: logger},
		func(contents [][]byte) (*Keyring, error) { return ParseKeyring(contents[0]) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (graphql-limit-count encrypt --generate makes one)", err)
	}
	if err != nil {
		return nil, err
	}
	return &KeyringFile{file}, nil
}

// KeyringFile is a keyring that follows its file.
type KeyringFile struct{ file *File[*Keyring] }

// Keyring returns the keyring as it is now.
func (f *KeyringFile) Keyring() *Keyring { return f.file.Value() }

// Decrypt is Keyring.Decrypt with the keys that the file holds now.
func (f *KeyringFile) Decrypt(reference string) (string, error) {
	return f.Keyring().Decrypt(reference)
}
