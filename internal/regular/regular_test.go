package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReturnsAFileUpToTheLimit(t *testing.T) {
	const limit = 1000
	for _, size := range []int{0, 1, 511, 512, 513, limit - 1, limit} {
		path := filepath.Join(t.TempDir(), "file")
		want := strings.Repeat("x", size)
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		got, info, err := Read(path, limit)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.EqualValues(t, size, info.Size())
	}
}

func TestWhatIsNotReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(in("long"), make([]byte, 1001), 0o600))
	require.NoError(t, os.Mkdir(in("folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o600))
	tests := []struct{ name, path, want string }{
		{"a missing file", in("none"), "open " + in("none") + ": no such file or directory"},
		{"a folder", in("folder"), "read " + in("folder") + ": it is no regular file"},
		{"a pipe without a writer", in("pipe"), "read " + in("pipe") + ": it is no regular file"},
		{"a device without end", "/dev/zero", "read /dev/zero: it is no regular file"},
		{"a byte too much", in("long"), "read " + in("long") + ": it has more than 1000 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Read(tt.path, 1000)
			require.EqualError(t, err, tt.want)
			var of *fs.PathError
			require.ErrorAs(t, err, &of)
		})
	}
}

func TestAFileWhoseSizeIsNotKnownIsReadWhole(t *testing.T) {
	got, info, err := Read("/proc/self/status", 1<<20)
	require.NoError(t, err)
	require.Zero(t, info.Size())
	require.Contains(t, string(got), "Name:")
	_, _, err = Read("/proc/self/status", 10)
	require.EqualError(t, err, "read /proc/self/status: it has more than 10 bytes")
}
