package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// keySize is the size of a key in bytes: AES-256.
	keySize = 32
	// idSize is how many bytes of a digest make a key's id.
	idSize = 4
	// MaxKeys is how many keys a keyring holds at most.
	MaxKeys = 64
	// comment begins what a keyring's reader skips, to the end of the line.
	comment = "#"
	// idContext keeps the digests that ids are taken from apart from all others.
	idContext = "graphql-limit-count keyring\x00"
)

// Keyring is a list of keys: the first encrypts, all decrypt. It is immutable.
type Keyring struct {
	keys []key // at least one
}

// ParseKeyring reads a keyring: one key on each line, 32 bytes in base64 (either
// alphabet, padded or not) or hexadecimal; "#" begins a comment, empty lines are skipped.
// No key at all, more than MaxKeys and a key that stands there twice are errors. They
// name the line.
func ParseKeyring(text []byte) (*Keyring, error) {
	ring := &Keyring{}
	seen := map[string]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		content, _, _ := strings.Cut(string(line), comment)
		content = strings.TrimSpace(content)
		if content == "" {
			continue
		}
		key, err := parseKey(content)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if first, double := seen[key.id]; double {
			return nil, fmt.Errorf("line %d: key %s is also on line %d", number, key.id, first)
		}
		seen[key.id] = number
		if ring.keys = append(ring.keys, key); len(ring.keys) > MaxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", number, MaxKeys)
		}
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("it holds no key")
	}
	return ring, nil
}

// IDs returns the ids of the keys, in order: eight hexadecimal digits, the beginning of a
// SHA-256 of the key.
func (k *Keyring) IDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}
	return ids
}

func parseKey(text string) (key, error) {
	raw, ok := decodeKey(text)
	if !ok {
		return key{}, fmt.Errorf("no key: expected %d bytes in base64 or hexadecimal", keySize)
	}
	if bytes.Count(raw, raw[:1]) == keySize {
		return key{}, errors.New("no key: all its bytes are equal, it is not random")
	}
	return newKey(raw)
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, fmt.Errorf("make a cipher of the key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, fmt.Errorf("make a cipher of the key: %w", err)
	}
	return key{id: keyID(raw), aead: aead}, nil
}

// decodeKey reads a key in any of its spellings, which differ in length or alphabet.
func decodeKey(text string) ([]byte, bool) {
	if len(text) == hex.EncodedLen(keySize) {
		raw, err := hex.DecodeString(text)
		return raw, err == nil
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSuffix(text, "="))
	raw, err := base64.RawStdEncoding.DecodeString(text)
	return raw, err == nil && len(raw) == keySize
}

func keyID(raw []byte) string {
	sum := sha256.Sum256(append([]byte(idContext), raw...))
	return hex.EncodeToString(sum[:idSize])
}

// isKeyID reports whether a text could be a key's id; only then an error may repeat it.
func isKeyID(text string) bool {
	if len(text) != hex.EncodedLen(idSize) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
