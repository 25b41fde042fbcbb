package extplugin

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func listening(t *testing.T, path string) (net.Listener, error) {
	l, err := NewServer(Config{Logger: zap.NewNop()}).Listen(path)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

// names returns what lies in the directory of path.
func names(t *testing.T, path string) []string {
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

func TestListenMakesASocketThatOthersMayWriteTo(t *testing.T) {
	path := socketPath(t)
	l, err := listening(t, path)
	require.NoError(t, err)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o766, info.Mode())
	require.Equal(t, []string{"runner.sock"}, names(t, path))
	require.NoError(t, l.Close())
	require.Empty(t, names(t, path))
}

func TestListenGivesTheModeConfigured(t *testing.T) {
	path := socketPath(t)
	l, err := NewServer(Config{Logger: zap.NewNop(), SocketMode: 0o600}).Listen(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestListenReplacesASocketThatIsStale(t *testing.T) {
	path := socketPath(t)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	_, err = net.Dial("unix", path)
	require.Error(t, err)

	requireServes(t, serveAt(t, path).path)
}

func TestTheOneTakenOverDoesNotRemoveTheOthersSocket(t *testing.T) {
	path := socketPath(t)
	old := serveAt(t, path)
	serveAt(t, path)
	old.stop()
	require.NoError(t, <-old.done)
	require.Equal(t, []string{"runner.sock"}, names(t, path))
	requireServes(t, path)
}

func TestListenRefusesWhatItMustNotReplace(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	file, empty := filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(empty, 0o700))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), link))
	long := filepath.Join(dir, strings.Repeat("x", maxSocketPath-len(dir)))
	for _, tc := range []struct{ name, path, want string }{
		{"a file", file, file + " exists and is not a socket (-rw-------)"},
		{"a directory", empty, empty + " exists and is not a socket (drwx------)"},
		{"a symbolic link", link, link + " exists and is not a socket"},
		{"a missing directory", filepath.Join(dir, "none", "s"), "the directory of the socket " + filepath.Join(dir, "none", "s") + " does not exist"},
		{"a directory that is a file", filepath.Join(file, "s"), file + ", the parent of the socket " + filepath.Join(file, "s") + ", is not a directory"},
		{"a path that is too long", long, "the path of the socket is 108 bytes long, more than the 107 that the system allows"},
		{"no path", "", "the path of the socket is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := names(t, file)
			_, err := listening(t, tc.path)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, before, names(t, file))
		})
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(kept))
}

func TestListenTakesTheLongestPath(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	deep := filepath.Join(dir, strings.Repeat("d", maxSocketPath-len(dir)-len("//abc")))
	require.NoError(t, os.Mkdir(deep, 0o700))
	path := filepath.Join(deep, "abc")
	require.Len(t, path, maxSocketPath)
	for range 3 {
		requireServes(t, serveAt(t, path).path)
	}
}

func TestListenInADirectoryThatCannotBeWritten(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	path := socketPath(t)
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o500))
	_, err := listening(t, path)
	require.ErrorContains(t, err, "making the socket "+path)
}
