package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
)

// keyHeader carries the API key, as in APISIX. A key in the URL is not accepted: URLs end up
// in logs.
const keyHeader = "X-API-KEY"

// keys are the digests of the keys. Digests are compared, in constant time, so that neither
// a key's bytes nor its length can be found out by timing.
type keys struct {
	admin  [sha256.Size]byte
	viewer [sha256.Size]byte
	view   bool // there is a viewer key
}

func newKeys(admin, viewer string) (keys, error) {
	switch {
	case admin == "":
		return keys{}, errors.New("the admin key is empty")
	case admin == viewer:
		return keys{}, errors.New("the viewer key is the admin key")
	}
	return keys{admin: sha256.Sum256([]byte(admin)), viewer: sha256.Sum256([]byte(viewer)), view: viewer != ""}, nil
}

// check returns the refusal of a request whose key does not allow it. A viewer may only GET.
func (k keys) check(r *http.Request) error {
	key := r.Header.Get(keyHeader)
	if key == "" {
		return unauthorized("missing apikey")
	}
	digest := sha256.Sum256([]byte(key))
	isAdmin := subtle.ConstantTimeCompare(digest[:], k.admin[:]) == 1
	isViewer := subtle.ConstantTimeCompare(digest[:], k.viewer[:]) == 1 && k.view
	switch {
	case isAdmin:
		return nil
	case !isViewer:
		return unauthorized("wrong apikey")
	case r.Method != http.MethodGet:
		return unauthorized("invalid method for role viewer")
	}
	return nil
}

// unauthorized is APISIX's answer, also to a viewer who writes.
func unauthorized(description string) error {
	return &refusal{status: http.StatusUnauthorized, body: map[string]any{
		memberError:   "failed to check token",
		"description": description,
	}}
}
