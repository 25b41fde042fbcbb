package extplugin

import (
	"net/http"
	"net/textproto"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
)

// entry is a name and a value as they lie in a frame. A nil value is one that the
// sender left out: an argument without "=", or a deletion.
type entry struct{ name, value []byte }

// headerChange is what a plugin did to a request header.
type headerChange struct {
	name    string // canonical
	value   string
	deleted bool
}

// header shows the request's headers where they lie in the frame, and records
// what plugins change.
type header struct {
	sent    []entry
	changes []headerChange
	view    http.Header // nil until asked for
}

var _ pkghttp.Header = (*header)(nil)

func (h *header) reset(sent []entry) {
	h.sent = sent
	clear(h.changes)
	h.changes = h.changes[:0]
	h.view = nil
}

// Set replaces the values of key by value.
func (h *header) Set(key, value string) {
	h.change(headerChange{name: textproto.CanonicalMIMEHeaderKey(key), value: value})
}

// Del removes the values of key.
func (h *header) Del(key string) {
	h.change(headerChange{name: textproto.CanonicalMIMEHeaderKey(key), deleted: true})
}

func (h *header) change(to headerChange) {
	if h.view != nil {
		if to.deleted {
			delete(h.view, to.name)
		} else {
			h.view[to.name] = []string{to.value}
		}
	}
	for i := range h.changes {
		if h.changes[i].name == to.name {
			h.changes[i] = to
			return
		}
	}
	h.changes = append(h.changes, to)
}

// Get returns the first value of key, or "".
func (h *header) Get(key string) string { return string(h.Peek(key)) }

// Peek returns the first value of key, or nil: Get without a copy. It must be neither
// kept nor changed.
func (h *header) Peek(key string) []byte {
	for i := range h.changes {
		if equalFold(h.changes[i].name, key) {
			return []byte(h.changes[i].value)
		}
	}
	for i := range h.sent {
		if equalFold(h.sent[i].name, key) {
			return h.sent[i].value
		}
	}
	return nil
}

// Times returns how many headers named key there are. It makes no map, as View does.
func (h *header) Times(key string) int {
	for i := range h.changes {
		if equalFold(h.changes[i].name, key) {
			return countIf(!h.changes[i].deleted)
		}
	}
	times := 0
	for i := range h.sent {
		times += countIf(equalFold(h.sent[i].name, key))
	}
	return times
}

// Len returns how many headers the client sent, as far as APISIX lists them.
func (h *header) Len() int { return len(h.sent) }

// View returns the headers as a map, for reading.
func (h *header) View() http.Header {
	if h.view != nil {
		return h.view
	}
	h.view = make(http.Header, len(h.sent))
	for _, e := range h.sent {
		h.view.Add(string(e.name), string(e.value))
	}
	for _, c := range h.changes {
		if c.deleted {
			delete(h.view, c.name)
		} else {
			h.view[c.name] = []string{c.value}
		}
	}
	return h.view
}

// changed reports whether change c leaves the upstream with other headers than
// the client sent.
func (h *header) changed(c headerChange) bool {
	values, same := 0, false
	for i := range h.sent {
		if equalFold(h.sent[i].name, c.name) {
			values++
			same = string(h.sent[i].value) == c.value
		}
	}
	if c.deleted {
		return values > 0
	}
	return values != 1 || !same
}

// equalFold reports whether two header names are the same but for the case of
// their ASCII letters.
func equalFold[A, B string | []byte](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
