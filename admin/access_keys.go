package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"graphql-limit-count/internal/secret"
)

const (
	// MinExposedKey is how many characters each key has at least where the endpoint is
	// reached from other hosts.
	MinExposedKey = 16
	// keyInterval is how long after its file has changed a key counts at most.
	keyInterval = time.Second
)

// roleViewer is the role of the key that may only read.
const roleViewer = "viewer"

// KeysConfig says what the keys are, or in which files. A file's first line is its key,
// without spaces around it; when the file changes, so does the key. While a changed file
// holds none, or the key of the other role, the key it held before stays.
type KeysConfig struct {
	// Admin is the key that allows everything, AdminFile a file with it. One of them is
	// required.
	Admin, AdminFile string
	// Viewer is the key that allows reading, ViewerFile a file with it. Neither: there is
	// none.
	Viewer, ViewerFile string
	// Logger is told of keys that change, and of files that everybody may read. Required
	// with files.
	Logger *zap.Logger
	// Now is the clock by which files are looked at. Default (nil): time.Now.
	Now func() time.Time
}

// Keys are the keys of the endpoint. They are safe for concurrent use.
type Keys struct {
	admin, viewer keySource
	// least is how many characters a key must have, from now on.
	least atomic.Int64

	mu     sync.Mutex
	opened bool              // from now on no file may bring the key of another role
	taken  map[string]apiKey // the keys in use, by the names of their sources
}

// keySource is where a key comes from; without a file it is always the same one.
type keySource struct {
	name  string // "admin key"
	fixed apiKey
	file  *secret.File[apiKey]
}

// apiKey is what is kept of a key. The zero value is no key's.
type apiKey struct {
	digest     [sha256.Size]byte
	characters int
}

func (s *keySource) key() apiKey {
	if s.file != nil {
		return s.file.Value()
	}
	return s.fixed
}

// OpenKeys reads the keys. No admin key, a viewer key that equals it, and a key that no
// header could carry are errors, which show no key.
func OpenKeys(cfg KeysConfig) (*Keys, error) {
	k := &Keys{taken: map[string]apiKey{}}
	k.least.Store(1)
	var err error
	if k.admin, err = k.open("admin key", cfg.Admin, cfg.AdminFile, cfg); err != nil {
		return nil, err
	}
	if k.viewer, err = k.open("viewer key", cfg.Viewer, cfg.ViewerFile, cfg); err != nil {
		return nil, err
	}
	switch admin := k.admin.key(); {
	case admin.characters == 0:
		return nil, errors.New("the admin key is empty")
	case sameDigest(admin.digest, k.viewer.key().digest):
		return nil, errors.New("the viewer key is the admin key")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened = true
	return k, nil
}

func (k *Keys) open(name, text, file string, cfg KeysConfig) (keySource, error) {
	source := keySource{name: name}
	if file == "" {
		if text == "" {
			return source, nil
		}
		var err error
		if source.fixed, err = k.parse(text); err != nil {
			return source, fmt.Errorf("the %s %w", name, err)
		}
		return source, k.take(name, source.fixed)
	}
	if text != "" {
		return source, fmt.Errorf("the %s is given twice: as text and as a file", name)
	}
	var err error
	source.file, err = secret.OpenFile(secret.FileConfig{
		What: "the " + name, Paths: []string{file}, Interval: keyInterval, Logger: cfg.Logger, Now: cfg.Now,
	}, func(contents [][]byte) (apiKey, error) {
		line, _, _ := bytes.Cut(contents[0], []byte("\n"))
		key, err := k.parse(strings.TrimSpace(string(line)))
		if err == nil {
			err = k.take(name, key)
		}
		if err != nil {
			return apiKey{}, err
		}
		// Each time: who replaces a file gives the new one a mode of its own.
		if err := secret.CheckMode(file); err != nil {
			cfg.Logger.Warn("the file of a key is not kept from others", zap.String("key", name), zap.Error(err))
		}
		return key, nil
	})
	return source, err
}

// take notes the key of a source. A file that is changed to the key of another role is refused:
// whoever has that key would lose what it allows, or the other role would gain it.
func (k *Keys) take(name string, key apiKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, taken := range k.taken {
		if k.opened && other != name && sameDigest(taken.digest, key.digest) {
			return fmt.Errorf("is the %s too", other)
		}
	}
	k.taken[name] = key
	return nil
}

// parse reads a key; errors continue a sentence about it.
func (k *Keys) parse(text string) (apiKey, error) {
	characters := utf8.RuneCountInString(text)
	switch {
	case characters == 0:
		return apiKey{}, errors.New("is empty")
	case strings.TrimSpace(text) != text, strings.ContainsFunc(text, unicode.IsControl):
		return apiKey{}, errors.New("has spaces around it or control characters in it, which no header carries")
	case int64(characters) < k.least.Load():
		return apiKey{}, fmt.Errorf("has less than %d characters", k.least.Load())
	}
	return apiKey{digest: digestOf(text), characters: characters}, nil
}

// role returns whose key a text is, "" if nobody's. Should two roles have one key, it allows
// what both allow.
func (k *Keys) role(text string) string {
	digest := digestOf(text)
	viewer, admin := k.viewer.key(), k.admin.key()
	isAdmin := sameDigest(digest, admin.digest)
	isViewer := sameDigest(digest, viewer.digest) && viewer.characters > 0
	switch {
	case isViewer:
		return roleViewer
	case isAdmin:
		return roleAdmin
	default:
		return ""
	}
}

// ListenAddress returns the address to listen on for one whose host may be a name: host and
// port, the host an IP address, or none for all addresses. Beyond loopback each key must
// have MinExposedKey characters, from then on too; exposed tells that it is beyond.
func (k *Keys) ListenAddress(ctx context.Context, address string) (resolved string, exposed bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false, fmt.Errorf("the address of the admin endpoint: %w", err)
	}
	if host, err = resolveHost(ctx, host); err != nil {
		return "", false, fmt.Errorf("the address of the admin endpoint, %s: %w", address, err)
	}
	if !isLoopback(host) {
		if err := k.require(MinExposedKey); err != nil {
			return "", true, fmt.Errorf("listen for the admin endpoint on %s, which other hosts reach: %w", address, err)
		}
		exposed = true
	}
	return net.JoinHostPort(host, port), exposed, nil
}

// require refuses keys with fewer characters, now and when a file changes.
func (k *Keys) require(characters int) error {
	k.least.Store(int64(characters))
	for _, source := range []*keySource{&k.admin, &k.viewer} {
		if n := source.key().characters; n > 0 && n < characters {
			return fmt.Errorf("the %s has less than %d characters", source.name, characters)
		}
	}
	return nil
}

// resolveHost returns the address of a host, "" for all addresses. A name is resolved here,
// once, so that what is listened on is what was judged; of several addresses an IPv4 one
// is preferred, as net.Listen does.
func resolveHost(ctx context.Context, host string) (string, error) {
	if host == "" {
		return "", nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if address.Unmap().Is4() {
			return address.Unmap().String(), nil
		}
	}
	if len(addresses) == 0 {
		return "", errors.New("the host has no address")
	}
	return addresses[0].String(), nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
