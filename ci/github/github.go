// Package github fetches GitHub's public GraphQL schema, one of the largest there are, for
// tests and benchmarks.
package github

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	// SDL and JSON are the names of the schema's two forms: as text, and as the answer to an
	// introspection query. They are not of the same day and differ in a few fields.
	SDL  = "schema.graphql"
	JSON = "schema.json"

	// npmPackage has the schema. A version never changes; what a later one holds is not what
	// was measured.
	npmPackage    = "@octokit/graphql-schema@15.26.1"
	downloadLimit = 20 * time.Second
	// endLimit is how long what npm itself started may go on writing after that.
	endLimit = time.Second
)

// Schema returns the schema's two forms by their names. It is in nobody's repository: npm
// fetches it, and without that the test is skipped, with the reason.
func Schema(tb testing.TB) map[string][]byte {
	tb.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		tb.Skipf("npm, which downloads %s, is not installed", npmPackage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), downloadLimit)
	defer cancel()
	folder := tb.TempDir()
	command := exec.CommandContext(ctx, npm, "pack", "--silent", "--fetch-retries=0", npmPackage)
	command.Dir, command.WaitDelay = folder, endLimit
	if output, err := command.CombinedOutput(); err != nil {
		tb.Skipf("npm cannot download %s: %v: %.200s", npmPackage, err, output)
	}
	packed, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(packed) != 1 {
		tb.Fatalf("npm pack of %s left %v, %v", npmPackage, packed, err)
	}
	texts, err := unpack(packed[0], SDL, JSON)
	if err != nil || len(texts) != 2 {
		tb.Fatalf("unpack %s: %d of 2 files, %v", npmPackage, len(texts), err)
	}
	return texts
}

// unpack returns those files of an archive that have one of the names.
func unpack(path string, names ...string) (map[string][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	zr, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for archive := tar.NewReader(zr); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if filepath.Base(head.Name) == name {
				if texts[name], err = io.ReadAll(archive); err != nil {
					return nil, err
				}
			}
		}
	}
}
