package secret

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAKeyringIsOneKeyOnEachLine(t *testing.T) {
	url := "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_A"
	for _, c := range []struct {
		rule, text string
		want       []string
	}{
		{"base64", key1, []string{id1}},
		{"base64 without padding", strings.TrimSuffix(key1, "="), []string{id1}},
		{"hexadecimal", key2, []string{id2}},
		{"hexadecimal in upper case", strings.ToUpper(key2), []string{id2}},
		{"base64url", url, []string{"21afd365"}},
		{"several, in order", key2 + "\n" + key1 + "\n", []string{id2, id1}},
		{"comments, empty lines, spaces and Windows' line ends",
			"# the keyring\r\n\r\n  " + key1 + " # " + id1 + "\r\n\t#" + key2 + "\r\n" + key2 + "\r\n", []string{id1, id2}},
	} {
		t.Run(c.rule, func(t *testing.T) { require.Equal(t, c.want, ring(t, c.text).IDs()) })
	}
}

func TestWhatIsNoKeyringIsRefusedByItsLine(t *testing.T) {
	many := &strings.Builder{}
	for i := range MaxKeys + 1 {
		many.WriteString(strings.Repeat("00", keySize-2) + "01" + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16]) + "\n")
	}
	for _, c := range []struct{ rule, text, want string }{
		{"nothing", "", "it holds no key"},
		{"comments only", "# " + key1, "it holds no key"},
		{"a short key", key1 + "\nc2hvcnQ=", "line 2: no key: expected 32 bytes in base64 or hexadecimal"},
		{"a long key", key2 + "00", "line 1: no key: expected 32 bytes in base64 or hexadecimal"},
		{"no hexadecimal", "g" + key2[1:], "line 1: no key: expected 32 bytes in base64 or hexadecimal"},
		{"a password", "\nhunter2", "line 2: no key: expected 32 bytes in base64 or hexadecimal"},
		{"two keys on a line", key1 + " " + key2, "line 1: no key: expected 32 bytes in base64 or hexadecimal"},
		{"zeros", strings.Repeat("0", 64), "line 1: no key: all its bytes are equal, it is not random"},
		{"a key twice, in two spellings", key2 + "\n#\n" + strings.ToUpper(key2), "line 3: key " + id2 + " is also on line 1"},
		{"too many", many.String(), "line 65: more than 64 keys"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ParseKeyring([]byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// Rotation: a new first key encrypts, the old one still decrypts, until it is removed.
func TestTheFirstKeyEncryptsAndAllDecrypt(t *testing.T) {
	before := ring(t, key1)
	old, err := before.Encrypt("hunter2")
	require.NoError(t, err)
	rotated := ring(t, key2+"\n"+key1)
	fresh, err := rotated.Encrypt("hunter2")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(fresh, Scheme+id2+"."))
	for _, reference := range []string{old, fresh} {
		text, err := rotated.Decrypt(reference)
		require.NoError(t, err)
		require.Equal(t, "hunter2", text)
	}
	_, err = before.Decrypt(fresh)
	require.EqualError(t, err, "its key "+id2+" is not in the keyring")
	_, err = ring(t, key2).Decrypt(old)
	require.EqualError(t, err, "its key "+id1+" is not in the keyring")
}

// FuzzParseKeyring: any text is a keyring that works, or an error that repeats no line.
func FuzzParseKeyring(f *testing.F) {
	for _, seed := range []string{key1, key2, key1 + "\n" + key2, "", "#\n", "hunter2hunter2hunter2\n" + key1, key1 + " # " + key2 + "\r\n", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseKeyring(text)
		if err != nil {
			for _, word := range strings.Fields(string(text)) {
				if len(word) > 12 {
					require.NotContains(t, err.Error(), word)
				}
			}
			return
		}
		require.NotEmpty(t, k.IDs())
		reference, err := k.Encrypt("x")
		require.NoError(t, err)
		got, err := k.Decrypt(reference)
		require.NoError(t, err)
		require.Equal(t, "x", got)
	})
}
