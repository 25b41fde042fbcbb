package plugins

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADigestIsMadeOnce: a request could name a large query ten thousand times.
func TestADigestIsMadeOnce(t *testing.T) {
	const md5, sha256 = "0b1e9e8b8ee3f2e3b4dc0e8e0f3c5a3d", "460c3a93211614ac783c0f1d1bbbcb45a6da87d6421b5c0771772588f1015ff8"
	d := digests{query: []byte("{a}")}
	for range 3 {
		require.True(t, d.namesQuery(sha256))
		require.False(t, d.namesQuery(md5))
		require.False(t, d.namesQuery(strings.Repeat("0", 64)))
		require.False(t, d.namesQuery(""))
	}
	require.Len(t, d.known, 2)
}
