package plugins

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // clients name documents by it, and nothing is secured with it
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Upstreams that keep documents run the one that a request names rather than the one
// that it holds: graphql-java by extensions.persistedQuery, Hot Chocolate by id, others by
// documentId (GraphQL over HTTP, appendix A). The name of the query itself, a digest of its
// text, is what clients send that want it kept; any other name is of another document.

// idMembers name a stored document.
var idMembers = [...]string{"id", "documentId", "queryId", "doc_id"}

// extensionsMember holds persistedMember, an object with digests of the document in it.
const (
	extensionsMember = "extensions"
	persistedMember  = "persistedQuery"
)

// sha256Prefix stands before a digest that is a documentId.
const sha256Prefix = "sha256:"

// isDigest reports whether a name is a digest of the query: MD5, SHA-1 or SHA-256, in
// hexadecimal or base64.
func isDigest(name string, query []byte) bool {
	name = strings.TrimPrefix(name, sha256Prefix)
	digest, err := hex.DecodeString(name)
	if err != nil {
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(name, "="))
		if digest, err = base64.RawStdEncoding.DecodeString(plain); err != nil {
			return false
		}
	}
	switch len(digest) {
	case md5.Size:
		sum := md5.Sum(query) //nolint:gosec // as above
		return bytes.Equal(digest, sum[:])
	case sha1.Size:
		sum := sha1.Sum(query) //nolint:gosec // as above
		return bytes.Equal(digest, sum[:])
	case sha256.Size:
		sum := sha256.Sum256(query)
		return bytes.Equal(digest, sum[:])
	default:
		return false
	}
}

// namesAnother reports whether extensions, a JSON text or nothing, name another document
// than the query. What is no JSON names nothing that can be known, and so another.
func namesAnother(extensions, query []byte) bool {
	// Most clients that send extensions tell their version in them.
	if !bytes.Contains(extensions, []byte("persisted")) && bytes.IndexByte(extensions, '\\') < 0 {
		return false
	}
	s := &jsonScanner{}
	s.start(extensions)
	if s.next() != '{' {
		return false
	}
	another := false
	ok := s.eachMember(func(name string, value jsonValue) {
		if name == persistedMember && value.text[0] == '{' {
			another = namesAnotherIn(value.text, query) || another
		}
	})
	return another || !ok
}

// namesAnotherIn is namesAnother for a persistedQuery, whose every text counts.
func namesAnotherIn(persisted, query []byte) (another bool) {
	s := &jsonScanner{}
	s.start(persisted)
	ok := s.eachMember(func(_ string, value jsonValue) {
		if value.in.quoted != nil && !isDigest(string(value.in.bytes(new([]byte))), query) {
			another = true
		}
	})
	return another || !ok
}
