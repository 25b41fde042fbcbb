package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// adminKeyFile is where a generated key is kept, in the data folder.
const adminKeyFile = "admin.key"

// readKey returns the key in a file: its first line, as the admin endpoint reads it.
func readKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the admin key: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	key := strings.TrimSpace(line)
	if key == "" {
		return "", fmt.Errorf("read the admin key: %s is empty", path)
	}
	return key, nil
}

// writeKey writes a new key, whole or not at all: another runner may start at the same
// time, and both must end up with one key. The file is its owner's alone.
func writeKey(path string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), adminKeyFile+"-")
	if err != nil {
		return fmt.Errorf("write the admin key: %w", err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, temporary.Close()); err != nil {
		return fmt.Errorf("write the admin key: %w", err)
	}
	if err := os.Link(temporary.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write the admin key: %w", err)
	}
	return nil
}

// setStockEnvironment gives the stock server the settings that it takes from the
// environment only.
func setStockEnvironment(f *runFlags) error {
	for name, value := range map[string]string{
		apisixEnvironment["listen"]:      f.listen,
		apisixEnvironment["conf-expire"]: strconv.Itoa(f.confExpire),
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
