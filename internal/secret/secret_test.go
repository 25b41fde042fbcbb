package secret

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pinned is "hunter2" under key1: a release must read what an older one wrote.
const pinned = "$aes://9a6724e6.gNapiIcj-K3VAIQ-oC_g_9anPhLZaBf5WQUphKR8OiUsTgk"

func TestWhatWasEncryptedIsDecrypted(t *testing.T) {
	k := ring(t, key1)
	for _, text := range []string{"x", "hunter2", "pässwörd ☃", "$aes://", "two\nlines", strings.Repeat("a", MaxSecret)} {
		reference, err := k.Encrypt(text)
		require.NoError(t, err)
		require.Regexp(t, `^\$aes://`+id1+`\.[A-Za-z0-9_-]+$`, reference)
		got, err := k.Decrypt(reference)
		require.NoError(t, err)
		require.Equal(t, text, got)
		again, err := k.Encrypt(text)
		require.NoError(t, err)
		require.NotEqual(t, reference, again, "equal secrets cannot be told by their references")
	}
}

func TestReferencesOfAnOlderReleaseAreDecrypted(t *testing.T) {
	for _, reference := range []string{pinned, "$AES" + strings.TrimPrefix(pinned, "$aes")} {
		got, err := ring(t, key1).Decrypt(reference)
		require.NoError(t, err)
		require.Equal(t, "hunter2", got)
	}
}

func TestWhatCannotBeEncrypted(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"nothing", "", "encrypt a secret: it is empty"},
		{"too much", strings.Repeat("a", MaxSecret+1), "encrypt a secret: it is longer than 8192 bytes"},
		{"what JSON cannot hold", "hunter\xff", "encrypt a secret: it is not valid UTF-8"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ring(t, key1).Encrypt(c.text)
			require.EqualError(t, err, c.want)
		})
	}
}

func TestWhatIsNoReferenceIsRefusedWithoutShowingIt(t *testing.T) {
	sealed := strings.TrimPrefix(pinned, Scheme+id1+".")
	for _, c := range []struct{ rule, reference, want string }{
		{"another scheme", "$env://" + sealed, "it does not begin with $aes://"},
		{"nothing after the scheme", Scheme, "it is malformed: no id of a key and a dot after $aes://"},
		{"no dot", Scheme + id1 + sealed, "it is malformed: no id of a key and a dot after $aes://"},
		{"an id in upper case", Scheme + strings.ToUpper(id1) + "." + sealed, "it is malformed: no id of a key and a dot after $aes://"},
		{"a long id", Scheme + id1 + "0." + sealed, "it is malformed: no id of a key and a dot after $aes://"},
		{"padding", pinned + "==", "it is malformed: not base64url after its key " + id1},
		{"the other alphabet", Scheme + id1 + ".++++" + sealed, "it is malformed: not base64url after its key " + id1},
		{"a line break", pinned + "\n", "it is malformed: a line break in it"},
		{"no ciphertext", Scheme + id1 + "." + encoding.EncodeToString(make([]byte, nonceSize+tagSize)), "it is malformed: too short after its key " + id1},
		{"endless", Scheme + id1 + "." + strings.Repeat("A", maxSealed+1), "it is malformed: longer than a secret of 8192 bytes makes it"},
		{"a key that is not there", Scheme + id2 + "." + sealed, "its key " + id2 + " is not in the keyring"},
		{"cut short", pinned[:len(pinned)-7], "it is not what key " + id1 + " encrypted: it was changed or cut short"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ring(t, key1).Decrypt(c.reference)
			require.EqualError(t, err, c.want)
		})
	}
}

// Every bit is authenticated; another spelling of the same bits is refused as well.
func TestNoCharacterOfAReferenceCanBeChanged(t *testing.T) {
	k := ring(t, key1+"\n"+key2)
	for i := len(Scheme); i < len(pinned); i++ {
		for _, c := range []byte("aB0_.") {
			if pinned[i] == c {
				continue
			}
			changed := pinned[:i] + string(c) + pinned[i+1:]
			_, err := k.Decrypt(changed)
			require.Error(t, err, changed)
		}
	}
}

// What one key encrypted cannot pass as another's, even if both are the same key: the id
// is authenticated too.
func TestTheKeyOfAReferenceIsAuthenticated(t *testing.T) {
	first := ring(t, key1)
	renamed := &Keyring{keys: []key{{id: id2, aead: first.keys[0].aead}}}
	_, err := renamed.Decrypt(strings.Replace(pinned, id1, id2, 1))
	require.EqualError(t, err, "it is not what key "+id2+" encrypted: it was changed or cut short")
}

func TestWhatIsEncryptedMustBeText(t *testing.T) {
	k := ring(t, key1)
	nonce := make([]byte, nonceSize)
	sealed := k.keys[0].aead.Seal(nonce, nonce, []byte("\xff\xfe"), authenticated(id1))
	_, err := k.Decrypt(Scheme + id1 + "." + encoding.EncodeToString(sealed))
	require.EqualError(t, err, "what key "+id1+" encrypted in it is not valid UTF-8")
}

// FuzzDecrypt: whatever the reference, the answer is the text that was encrypted, or an
// error that repeats nothing of the reference but a well formed id.
func FuzzDecrypt(f *testing.F) {
	for _, seed := range []string{pinned, "", Scheme, "$AES://" + id1 + ".AAAA", pinned + "A", Scheme + id2 + "." + strings.Repeat("B", 60)} {
		f.Add(seed)
	}
	k := ring(f, key1)
	f.Fuzz(func(t *testing.T, reference string) {
		text, err := k.Decrypt(reference)
		if err == nil {
			require.True(t, strings.EqualFold(reference[:len(Scheme)], Scheme))
			require.Equal(t, pinned[len(Scheme):], reference[len(Scheme):], "nobody else encrypts")
			require.Equal(t, "hunter2", text)
			return
		}
		require.NotContains(t, err.Error(), "hunter2")
		_, sealed, found := strings.Cut(reference, ".")
		if found && len(sealed) > 16 {
			require.NotContains(t, err.Error(), sealed)
		}
	})
}
