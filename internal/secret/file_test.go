package secret

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// lines is what these tests parse: text without the word bad.
func lines(contents [][]byte) (string, error) {
	text := string(bytes.Join(contents, []byte("|")))
	if bytes.Contains([]byte(text), []byte("bad")) {
		return "", errors.New("it is bad")
	}
	return text, nil
}

func TestAFileIsReadAgainWhenItChangesAndTheLastGoodContentStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one", 0o600)
	core, logs := observer.New(zap.InfoLevel)
	f, err := OpenFile(FileConfig{What: "the file", Paths: []string{path}, Private: true, Logger: zap.New(core)}, lines)
	require.NoError(t, err)
	require.Equal(t, "one", f.Value())
	require.Zero(t, logs.Len())
	for _, step := range []struct {
		rule string
		do   func()
		want string
		log  string // "" for none
	}{
		{"new content is taken", func() { write(t, path, "two", 0o600) }, "two", "read the file again"},
		{"nothing has changed", func() {}, "two", ""},
		{"the same content in another file is no change", func() { write(t, path, "two", 0o640) }, "two", ""},
		{"bad content is not taken", func() { write(t, path, "bad", 0o600) }, "two", "a changed file cannot be used, what it held before stays in use"},
		{"that is said once", func() {}, "two", ""},
		{"nor is one that everybody may read", func() { write(t, path, "three", 0o604) }, "two", "a changed file cannot be used, what it held before stays in use"},
		{"nor is none", func() { require.NoError(t, os.Remove(path)) }, "two", "a changed file cannot be used, what it held before stays in use"},
		{"good content is", func() { write(t, path, "three", 0o400) }, "three", "read the file again"},
		{"bad content is told of again", func() { write(t, path, "bad", 0o600) }, "three", "a changed file cannot be used, what it held before stays in use"},
	} {
		step.do()
		require.Equal(t, step.want, f.Value(), step.rule)
		f.Value()
		entries := logs.TakeAll()
		if step.log == "" {
			require.Empty(t, entries, step.rule)
			continue
		}
		require.Len(t, entries, 1, step.rule)
		require.Equal(t, step.log, entries[0].Message, step.rule)
	}
}

func TestAFileIsLookedAtOnceInAnInterval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one", 0o600)
	now := day
	f, err := OpenFile(FileConfig{What: "the file", Paths: []string{path}, Interval: time.Second,
		Logger: zap.NewNop(), Now: func() time.Time { return now }}, lines)
	require.NoError(t, err)
	write(t, path, "two", 0o600)
	now = now.Add(time.Second - 1)
	require.Equal(t, "one", f.Value())
	now = now.Add(1)
	require.Equal(t, "two", f.Value())
}

func TestFilesThatBelongTogetherAreTakenTogether(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, a, "1", 0o600)
	write(t, b, "1", 0o600)
	f, err := OpenFile(FileConfig{What: "the pair", Paths: []string{a, b}, Logger: zap.NewNop()}, func(c [][]byte) (string, error) {
		if !bytes.Equal(c[0], c[1]) {
			return "", errors.New("they differ")
		}
		return string(c[0]), nil
	})
	require.NoError(t, err)
	write(t, a, "2", 0o600)
	require.Equal(t, "1", f.Value())
	write(t, b, "2", 0o600)
	require.Equal(t, "2", f.Value())
}

func TestWhatIsNoFileOfSecretsIsRefused(t *testing.T) {
	folder := t.TempDir()
	make := func(name string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		write(t, path, key1, mode)
		return path
	}
	pipe := filepath.Join(folder, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	long := filepath.Join(folder, "long")
	write(t, long, string(bytes.Repeat([]byte("#"), maxFileBytes+1)), 0o600)
	bad := filepath.Join(folder, "bad")
	write(t, bad, "hunter2", 0o600)
	for _, c := range []struct{ rule, path, want string }{
		{"everybody may read it", make("r", 0o604), "read the keyring: %s has the mode 0604: others than its owner may read or write it; chmod go-w,o= %[1]s"},
		{"everybody may write it", make("w", 0o602), "read the keyring: %s has the mode 0602: others than its owner may read or write it; chmod go-w,o= %[1]s"},
		{"the group may write it", make("g", 0o660), "read the keyring: %s has the mode 0660: others than its owner may read or write it; chmod go-w,o= %[1]s"},
		{"the group may read it", make("ok", 0o440), ""},
		{"a folder", folder, "read the keyring: read %s: it is no regular file"},
		{"a pipe", pipe, "read the keyring: read %s: it is no regular file"},
		{"endless", long, "read the keyring: read %s: it has more than 262144 bytes"},
		{"no key in it", bad, "read the keyring in %s: line 1: no key: expected 32 bytes in base64 or hexadecimal"},
		{"not there", filepath.Join(folder, "none"), "read the keyring: open %s: no such file or directory (graphql-limit-count encrypt --generate makes one)"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := OpenKeyring(c.path, zap.NewNop())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, fmt.Sprintf(c.want, c.path))
		})
	}
}

func TestAKeyThatIsAddedIsUsedWithoutARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	write(t, path, key1, 0o600)
	f, err := OpenKeyring(path, zap.NewNop())
	require.NoError(t, err)
	old, err := f.Keyring().Encrypt("hunter2")
	require.NoError(t, err)
	id, err := Generate(path, day)
	require.NoError(t, err)
	fresh, err := f.Keyring().Encrypt("hunter2")
	require.NoError(t, err)
	require.Regexp(t, `^\$aes://`+id+`\.`, fresh)
	for _, reference := range []string{old, fresh} {
		text, err := f.Decrypt(reference)
		require.NoError(t, err)
		require.Equal(t, "hunter2", text)
	}
}

func TestGenerateMakesAKeyringThatOnlyItsOwnerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	id, err := Generate(path, day)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^[A-Za-z0-9+/]{43}= # `+id+`, made on 2026-10-08\n$`, string(text))
	require.Equal(t, []string{id}, ring(t, string(text)).IDs())
}

func TestGenerateKeepsWhatIsInTheKeyring(t *testing.T) {
	folder := t.TempDir()
	path, link := filepath.Join(folder, "keyring"), filepath.Join(folder, "link")
	write(t, path, "# of the shop\n"+key1+"\n", 0o640)
	require.NoError(t, os.Symlink(path, link))
	id, err := Generate(link, day)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []string{id, id1}, ring(t, string(text)).IDs())
	require.Contains(t, string(text), "\n# of the shop\n"+key1+"\n")
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing is left beside it")
}

func TestGenerateLeavesABadKeyringAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	for _, c := range []struct {
		rule, text string
		mode       os.FileMode
		want       string
	}{
		{"no keyring", "hunter2", 0o600, "add a key to the keyring %s: with the new key as line 1: line 2: no key: expected 32 bytes in base64 or hexadecimal"},
		{"one that everybody may read", key1, 0o644, "add a key to the keyring %s: %[1]s has the mode 0644: others than its owner may read or write it; chmod go-w,o= %[1]s"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			write(t, path, c.text, c.mode)
			_, err := Generate(path, day)
			require.EqualError(t, err, fmt.Sprintf(c.want, path))
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.text, string(text))
		})
	}
	_, err := Generate(filepath.Join(path, "no", "folder"), day)
	require.ErrorContains(t, err, "add a key to the keyring")
}

func TestKeysThatAreGeneratedAtOnceAllStay(t *testing.T) {
	const writers = 8
	path := filepath.Join(t.TempDir(), "keyring")
	ids := make([]string, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			id, err := Generate(path, day)
			if err == nil {
				ids[i] = id
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ElementsMatch(t, ids, ring(t, string(text)).IDs())
}
