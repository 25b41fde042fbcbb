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
// that it holds: graphql-java by extensions.persistedQuery, Hot Chocolate and graphql-php
// by id, others by documentId (GraphQL over HTTP, appendix A). The name of the query
// itself, a digest of its text, is what clients send that want it kept; any other name is
// of another document.

// idMembers name a stored document. Case does not count: graphql-php folds it.
var idMembers = [...]string{idMember, "documentId", "queryId", "doc_id"}

const (
	// idMember is also where react-relay-network-modern counts its requests.
	idMember = "id"
	// maxCounter is how many digits such a count has at most.
	maxCounter = 9
	// extensionsMember holds persistedMember, an object with digests of the document in it.
	extensionsMember = "extensions"
	persistedMember  = "persistedQuery"
	// sha256Prefix stands before a digest that is a documentId.
	sha256Prefix = "sha256:"
)

// plainBase64 makes base64 of base64url.
var plainBase64 = strings.NewReplacer("-", "+", "_", "/")

// digests are those of a query that are known, each made when it is first asked for: a
// request may name documents as often as it likes.
type digests struct {
	query []byte
	known [][]byte
}

// namesQuery reports whether a name is a digest of the query: MD5, SHA-1 or SHA-256, in
// hexadecimal or base64.
func (d *digests) namesQuery(name string) bool {
	const longest = len(sha256Prefix) + 2*sha256.Size
	if len(name) > longest {
		return false
	}
	name = strings.TrimPrefix(name, sha256Prefix)
	digest, err := hex.DecodeString(name)
	if err != nil {
		plain := plainBase64.Replace(strings.TrimRight(name, "="))
		if digest, err = base64.RawStdEncoding.DecodeString(plain); err != nil {
			return false
		}
	}
	return len(digest) > 0 && bytes.Equal(digest, d.ofSize(len(digest)))
}

// ofSize is the query's digest of so many bytes, nil if no algorithm makes one.
func (d *digests) ofSize(size int) []byte {
	for _, known := range d.known {
		if len(known) == size {
			return known
		}
	}
	var made []byte
	switch size {
	case md5.Size:
		sum := md5.Sum(d.query) //nolint:gosec // as above
		made = sum[:]
	case sha1.Size:
		sum := sha1.Sum(d.query) //nolint:gosec // as above
		made = sum[:]
	case sha256.Size:
		sum := sha256.Sum256(d.query)
		made = sum[:]
	default:
		return nil
	}
	d.known = append(d.known, made)
	return made
}

// namesAnother reports whether the value of one of idMembers names another document than
// the query. No name, and the number of a request, name none.
func (d *digests) namesAnother(member, name string) bool {
	return name != "" && (member != idMember || !isCounter(name)) && !d.namesQuery(name)
}

func isCounter(name string) bool {
	return len(name) <= maxCounter && strings.Trim(name, "0123456789") == ""
}

// extensionsNameAnother is namesAnother for extensions, a text or nothing. What is no JSON
// names nothing that can be known, and so another.
func (d *digests) extensionsNameAnother(extensions []byte) bool {
	another := false
	ok := eachPersisted(extensions, func(persisted []byte) {
		s := &jsonScanner{}
		s.start(persisted)
		s.eachMember(func(_ string, value jsonValue) {
			switch {
			case another:
			case value.in.quoted != nil:
				another = !d.namesQuery(string(value.in.bytes(new([]byte))))
			default: // a number is a version; a list of one name is that name in some languages
				another = value.text[0] == '[' || value.text[0] == '{'
			}
		})
	})
	return another || !ok
}

// namesDocument reports whether extensions name a document at all.
func namesDocument(extensions []byte) (named bool) {
	_ = eachPersisted(extensions, func([]byte) { named = true })
	return named
}

// eachPersisted visits the objects that extensions have as their persistedQuery. ok is
// false where they could have some but are no JSON.
func eachPersisted(extensions []byte, visit func(object []byte)) (ok bool) {
	// Most clients that send extensions tell their version in them.
	if !bytes.Contains(extensions, []byte("persisted")) && bytes.IndexByte(extensions, '\\') < 0 {
		return true
	}
	s := &jsonScanner{}
	s.start(extensions)
	if s.next() != '{' {
		_, ok := s.value()
		return ok && s.ended()
	}
	ok = s.eachMember(func(name string, value jsonValue) {
		if name == persistedMember && value.text[0] == '{' {
			visit(value.text)
		}
	})
	return ok && s.ended()
}
