// Package secret keeps credentials out of APISIX's store: a text is encrypted under a
// keyring that only the processes have, and stands in a configuration as a reference,
//
//	$aes://1f3a9c07.q1Zk...
//
// the id of the key, a dot, and base64url (without padding) of what AES-256-GCM makes of
// the text: a nonce of 12 bytes, the ciphertext, a tag of 16 bytes. Scheme and id are
// authenticated with it. The same text is another reference each time it is encrypted.
//
// Errors name keys by their ids and files by their paths, never a key, a text or a
// reference.
package secret

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Scheme begins a reference. In upper case it is understood too, as APISIX does with $ENV://.
const Scheme = "$aes://"

// MaxSecret is how long a text may be at most, in bytes.
const MaxSecret = 8 << 10

// maxSealed is the longest sealed text, in characters of base64.
var maxSealed = encoding.EncodedLen(nonceSize + MaxSecret + tagSize)

const (
	nonceSize = 12 // bytes, GCM's standard nonce
	tagSize   = 16 // bytes, GCM's standard tag
)

// encoding is strict, so that a reference has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// IsReference reports whether a text is meant as a reference, well formed or not.
func IsReference(text string) bool {
	return len(text) >= len(Scheme) && strings.EqualFold(text[:len(Scheme)], Scheme)
}

// Encrypt returns a reference to the text, under the first key. The text must not be
// empty, must be valid UTF-8, which configurations are written in, and not longer than
// MaxSecret.
func (k *Keyring) Encrypt(text string) (string, error) {
	switch {
	case text == "":
		return "", errors.New("encrypt a secret: it is empty")
	case len(text) > MaxSecret:
		return "", fmt.Errorf("encrypt a secret: it is longer than %d bytes", MaxSecret)
	case !utf8.ValidString(text):
		return "", errors.New("encrypt a secret: it is not valid UTF-8")
	}
	first := k.keys[0]
	sealed := make([]byte, nonceSize, nonceSize+len(text)+tagSize)
	if _, err := rand.Read(sealed); err != nil {
		return "", fmt.Errorf("encrypt a secret: %w", err)
	}
	sealed = first.aead.Seal(sealed, sealed, []byte(text), authenticated(first.id))
	return Scheme + first.id + "." + encoding.EncodeToString(sealed), nil
}

// Decrypt returns the text of a reference. The error says whether the reference is
// malformed, its key is missing, or it is not what its key encrypted.
func (k *Keyring) Decrypt(reference string) (string, error) {
	id, sealed, err := parseReference(reference)
	if err != nil {
		return "", err
	}
	aead := k.byID(id)
	if aead == nil {
		return "", fmt.Errorf("its key %s is not in the keyring", id)
	}
	text, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], authenticated(id))
	if err != nil {
		return "", fmt.Errorf("it is not what key %s encrypted: it was changed or cut short", id)
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("what key %s encrypted in it is not valid UTF-8", id)
	}
	return string(text), nil
}

// parseReference takes a reference apart: the key's id, and nonce, ciphertext and tag.
func parseReference(reference string) (id string, sealed []byte, err error) {
	if !IsReference(reference) {
		return "", nil, fmt.Errorf("it does not begin with %s", Scheme)
	}
	id, text, found := strings.Cut(reference[len(Scheme):], ".")
	switch {
	case !found || !isKeyID(id):
		return "", nil, errors.New("it is malformed: no id of a key and a dot after " + Scheme)
	case len(text) > maxSealed:
		return "", nil, fmt.Errorf("it is malformed: longer than a secret of %d bytes makes it", MaxSecret)
	case strings.ContainsAny(text, "\r\n"): // which the decoder would skip
		return "", nil, errors.New("it is malformed: a line break in it")
	}
	sealed, err = encoding.DecodeString(text)
	if err != nil {
		return "", nil, fmt.Errorf("it is malformed: not base64url after its key %s", id)
	}
	if len(sealed) <= nonceSize+tagSize {
		return "", nil, fmt.Errorf("it is malformed: too short after its key %s", id)
	}
	return id, sealed, nil
}

// authenticated is what a reference's tag covers besides the text.
func authenticated(id string) []byte { return []byte(Scheme + id) }

// key is one key of a keyring.
type key struct {
	id   string
	aead cipher.AEAD
}

// byID returns the cipher of the key with the id, nil if there is none.
func (k *Keyring) byID(id string) cipher.AEAD {
	for _, key := range k.keys {
		if key.id == id {
			return key.aead
		}
	}
	return nil
}
