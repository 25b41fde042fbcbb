package introspect

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// Settings are how a configuration has a schema fetched. [NewSettings] makes them; the zero
// Settings derive the endpoint from the upstream and add no header.
type Settings struct {
	endpoint string
	headers  map[string]string
	// digest tells settings apart, zero when there are none. A digest rather than the
	// text, because the headers hold credentials and the keys of schemas outlive the
	// configuration.
	digest [sha256.Size]byte
}

// NewSettings returns the settings of an introspection_endpoint, empty to derive it from the
// upstream, and introspection_headers, which are applied last and must not be changed
// afterwards. Requests share them: to make them takes a hash over both.
func NewSettings(endpoint string, headers map[string]string) Settings {
	return Settings{endpoint: endpoint, headers: headers, digest: digest(endpoint, headers)}
}

// digest is a hash over length-prefixed texts, so that no two settings share one.
func digest(endpoint string, headers map[string]string) (sum [sha256.Size]byte) {
	if endpoint == "" && len(headers) == 0 {
		return sum
	}
	settings := appendText(nil, endpoint)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		settings = appendText(appendText(settings, name), headers[name])
	}
	return sha256.Sum256(settings)
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}
