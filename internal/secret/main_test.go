package secret

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two keys in their spellings; their ids are pinned, because references in use name them.
const (
	key1 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	key2 = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	id1  = "9a6724e6"
	id2  = "dc0aa1a2"
)

var day = time.Date(2026, 10, 8, 23, 0, 0, 0, time.UTC)

func ring(t testing.TB, text string) *Keyring {
	t.Helper()
	k, err := ParseKeyring([]byte(text))
	require.NoError(t, err)
	return k
}

// write replaces a file as an editor or a mounted volume does.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	temporary := filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.WriteFile(temporary, []byte(text), mode))
	require.NoError(t, os.Chmod(temporary, mode))
	require.NoError(t, os.Rename(temporary, path))
}
