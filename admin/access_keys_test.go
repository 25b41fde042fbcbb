package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Keys of fifteen and sixteen characters.
const (
	shortKey = "fifteen-letters"
	longKey  = "sixteen--letters"
)

// replaceKey replaces a file as an editor does.
func replaceKey(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	temporary := filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.WriteFile(temporary, []byte(text), mode))
	require.NoError(t, os.Chmod(temporary, mode))
	require.NoError(t, os.Rename(temporary, path))
}

func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	replaceKey(t, path, text, 0o600)
	return path
}

func TestKeysComeFromTextsOrFirstLinesOfFiles(t *testing.T) {
	keys, err := OpenKeys(KeysConfig{AdminFile: keyFile(t, "  the admin's\t\r\nnot this\n"), Viewer: "the viewer's", Logger: zap.NewNop()})
	require.NoError(t, err)
	for key, role := range map[string]string{
		"the admin's": "admin", "the viewer's": "viewer", "not this": "", "the": "", "": "", "the admin's ": "",
	} {
		require.Equal(t, role, keys.role(key), key)
	}
	none, err := OpenKeys(KeysConfig{Admin: "a"})
	require.NoError(t, err)
	require.Empty(t, none.role(""), "no key is not the viewer's")
}

func TestWhatAreNoKeysIsRefused(t *testing.T) {
	same := keyFile(t, longKey)
	empty, missing := keyFile(t, "\n"+longKey), filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		rule string
		cfg  KeysConfig
		want string
	}{
		{"none", KeysConfig{}, "the admin key is empty"},
		{"a viewer's only", KeysConfig{Viewer: longKey}, "the admin key is empty"},
		{"the same twice", KeysConfig{Admin: longKey, ViewerFile: same}, "the viewer key is the admin key"},
		{"one file for both", KeysConfig{AdminFile: same, ViewerFile: same}, "the viewer key is the admin key"},
		{"a text and a file", KeysConfig{Admin: longKey, AdminFile: same}, "the admin key is given twice: as text and as a file"},
		{"a text and a file for viewers", KeysConfig{Admin: longKey, Viewer: shortKey, ViewerFile: same}, "the viewer key is given twice: as text and as a file"},
		{"an empty first line", KeysConfig{AdminFile: empty}, "read the admin key in " + empty + ": is empty"},
		{"a file that is not there", KeysConfig{Admin: longKey, ViewerFile: missing}, "read the viewer key: open " + missing + ": no such file or directory"},
		{"spaces around it", KeysConfig{Admin: " " + longKey}, "the admin key has spaces around it or control characters in it, which no header carries"},
		{"a line break", KeysConfig{Admin: longKey, Viewer: "a\nb"}, "the viewer key has spaces around it or control characters in it, which no header carries"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.cfg.Logger = zap.NewNop()
			_, err := OpenKeys(c.cfg)
			require.EqualError(t, err, c.want)
		})
	}
}

func TestAKeyIsReplacedWithItsFileWithinASecond(t *testing.T) {
	path, now := keyFile(t, "old"), time.Unix(1000, 0)
	core, logs := observer.New(zap.InfoLevel)
	keys, err := OpenKeys(KeysConfig{AdminFile: path, Viewer: "viewer", Logger: zap.New(core), Now: func() time.Time { return now }})
	require.NoError(t, err)
	replaceKey(t, path, "new", 0o600)
	require.Equal(t, "admin", keys.role("old"))
	now = now.Add(keyInterval)
	require.Empty(t, keys.role("old"))
	require.Equal(t, "admin", keys.role("new"))
	for _, bad := range []string{"", " \n", "a\x00b"} {
		replaceKey(t, path, bad, 0o600)
		now = now.Add(keyInterval)
		require.Equal(t, "admin", keys.role("new"), "the last good one stays")
	}
	require.NoError(t, os.Remove(path))
	now = now.Add(keyInterval)
	require.Equal(t, "admin", keys.role("new"))
	require.Len(t, logs.FilterLevelExact(zap.ErrorLevel).All(), 3, "one for each reason")
	replaceKey(t, path, "viewer", 0o600)
	now = now.Add(keyInterval)
	require.Equal(t, "viewer", keys.role("viewer"))
	require.Equal(t, "admin", keys.role("new"), "the viewer key does not become the admin key")
	refused := logs.FilterLevelExact(zap.ErrorLevel).All()
	require.Len(t, refused, 4)
	require.Equal(t, "read the admin key in "+path+": is the viewer key too", refused[3].ContextMap()["error"])
}

func TestAFileOfAKeyThatEverybodyReadsIsToldOf(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	private, public := keyFile(t, "a"), keyFile(t, "b")
	require.NoError(t, os.Chmod(public, 0o644))
	_, err := OpenKeys(KeysConfig{AdminFile: private, ViewerFile: public, Logger: zap.New(core)})
	require.NoError(t, err)
	require.Equal(t, 1, logs.Len())
	require.Equal(t, map[string]any{"key": "viewer key",
		"error": public + " has the mode 0644: others than its owner may read or write it; chmod go-w,o= " + public}, logs.All()[0].ContextMap())
}

func TestAKeyFileThatComesWithAnOpenModeIsToldOf(t *testing.T) {
	path, now := keyFile(t, "a"), time.Unix(1000, 0)
	core, logs := observer.New(zap.WarnLevel)
	keys, err := OpenKeys(KeysConfig{AdminFile: path, Logger: zap.New(core), Now: func() time.Time { return now }})
	require.NoError(t, err)
	require.Zero(t, logs.Len())
	replaceKey(t, path, "b", 0o644)
	for range 3 {
		now = now.Add(keyInterval)
		require.Equal(t, "admin", keys.role("b"))
	}
	require.Equal(t, 1, logs.Len())
	require.Equal(t, "the file of a key is not kept from others", logs.All()[0].Message)
}

func TestBeyondLoopbackEachKeyHasSixteenCharacters(t *testing.T) {
	const refused = "listen for the admin endpoint on %s, which other hosts reach: the %s has less than 16 characters"
	for _, c := range []struct {
		address, admin, viewer string
		resolved               string
		exposed                bool
		want                   string // of the key at fault
	}{
		{"127.0.0.1:9181", "k", "v", "127.0.0.1:9181", false, ""},
		{"127.8.9.10:9181", "k", "v", "127.8.9.10:9181", false, ""},
		{"[::1]:9181", "k", "v", "[::1]:9181", false, ""},
		{"[::ffff:127.0.0.1]:9181", "k", "v", "[::ffff:127.0.0.1]:9181", false, ""},
		{"localhost:9181", "k", "v", "127.0.0.1:9181", false, ""},
		{":9181", longKey, longKey + "v", ":9181", true, ""},
		{"0.0.0.0:9181", longKey, "", "0.0.0.0:9181", true, ""},
		{"[::]:9181", longKey, "", "[::]:9181", true, ""},
		{"192.0.2.1:9181", longKey, "", "192.0.2.1:9181", true, ""},
		{"192.0.2.1:9181", "sechzehn--zeichÄ", "", "192.0.2.1:9181", true, ""},
		{":9181", shortKey, "", "", true, "admin key"},
		{"0.0.0.0:9181", shortKey, "", "", true, "admin key"},
		{"[::]:9181", shortKey, "", "", true, "admin key"},
		{"[::ffff:0.0.0.0]:9181", shortKey, "", "", true, "admin key"},
		{"[::ffff:192.0.2.1]:9181", shortKey, "", "", true, "admin key"},
		{"[fe80::1%lo]:9181", shortKey, "", "", true, "admin key"},
		{"192.0.2.1:9181", shortKey, longKey, "", true, "admin key"},
		{"192.0.2.1:9181", longKey, shortKey, "", true, "viewer key"},
	} {
		t.Run(strings.Join([]string{c.address, c.admin, c.viewer}, " "), func(t *testing.T) {
			keys, err := OpenKeys(KeysConfig{Admin: c.admin, Viewer: c.viewer})
			require.NoError(t, err)
			resolved, exposed, err := keys.ListenAddress(t.Context(), c.address)
			require.Equal(t, c.exposed, exposed)
			if c.want != "" {
				require.EqualError(t, err, strings.NewReplacer("%s,", c.address+",", "%s h", c.want+" h").Replace(refused))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.resolved, resolved)
		})
	}
}

// The name of this host is loopback on some machines and not on others; what counts is the
// address.
func TestANameIsWhatItsAddressIs(t *testing.T) {
	keys, err := OpenKeys(KeysConfig{Admin: longKey})
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	resolved, exposed, err := keys.ListenAddress(t.Context(), host+":1")
	if err == nil { // a machine need not know its own name
		require.Equal(t, !isLoopback(hostOf(resolved)), exposed)
	}
	_, _, err = keys.ListenAddress(t.Context(), "no.such.host.invalid:1")
	require.ErrorContains(t, err, "the address of the admin endpoint, no.such.host.invalid:1: ")
	_, _, err = keys.ListenAddress(t.Context(), "9181")
	require.ErrorContains(t, err, "the address of the admin endpoint: ")
}

func TestBeyondLoopbackAShortKeyDoesNotReplaceALongOne(t *testing.T) {
	path, now := keyFile(t, longKey), time.Unix(1000, 0)
	core, logs := observer.New(zap.ErrorLevel)
	keys, err := OpenKeys(KeysConfig{AdminFile: path, Logger: zap.New(core), Now: func() time.Time { return now }})
	require.NoError(t, err)
	_, _, err = keys.ListenAddress(t.Context(), "0.0.0.0:1")
	require.NoError(t, err)
	replaceKey(t, path, shortKey, 0o600)
	now = now.Add(keyInterval)
	require.Empty(t, keys.role(shortKey))
	require.Equal(t, "admin", keys.role(longKey))
	require.Equal(t, "read the admin key in "+path+": has less than 16 characters", logs.All()[0].ContextMap()["error"])
}
