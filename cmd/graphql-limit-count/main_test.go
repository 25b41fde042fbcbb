package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// beTheCommand in the environment makes the test binary behave as the command itself,
// so that tests can start it as a process.
const beTheCommand = "GRAPHQL_LIMIT_COUNT_TEST_IS_THE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beTheCommand) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// asCommand is the path of an executable that is the command, when started with this
// process's environment.
func asCommand(t *testing.T) string {
	t.Helper()
	t.Setenv(beTheCommand, "1")
	// A program with the race detector would sleep for a second when it ends.
	t.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// outcome is what a command did.
type outcome struct {
	stdout, stderr string
	err            error
}

// execute runs a command line in this process.
func execute(input string, arguments ...string) outcome {
	var stdout, stderr bytes.Buffer
	root := newRoot()
	root.SetArgs(arguments)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.Execute()
	return outcome{stdout.String(), stderr.String(), err}
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestVersionPrintsOneLine(t *testing.T) {
	require.Equal(t, outcome{stdout: "graphql-limit-count development\n"}, execute("", "version"))
}

func TestUnknownCommandsAndFlagsAreRefused(t *testing.T) {
	require.EqualError(t, execute("", "rum").err, "unknown command \"rum\" for \"graphql-limit-count\"\n\nDid you mean this?\n\trun\n")
	require.EqualError(t, execute("", "version", "--loud").err, "unknown flag: --loud")
	require.Error(t, execute("", "version", "please").err)
}
