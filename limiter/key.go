package limiter

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// redisPrefix starts every Redis key of this package.
	redisPrefix = "graphql-limit-count:"
	// digestPrefix marks a Redis key whose text is a digest.
	digestPrefix = "sha256:"
	// maxRedisKeyText is the longest key text, in bytes, that Redis sees as it is.
	maxRedisKeyText = 128

	// maxLocalKey is the longest key, in bytes, that Local holds as it is: what keeps a
	// counter with its key under 200 bytes.
	maxLocalKey = 96
	// localDigestMark starts a local key that is a digest.
	localDigestMark = "\x00"
)

// redisKey is the name of a counter in Redis:
//
//	graphql-limit-count:<window type>:<text>
//
// and, for a leaky bucket, "rate:" before that, which redis_rate adds; text is the key
// itself if that is at most 128 bytes of printable ASCII without braces, else "sha256:"
// and the key's SHA-256 in lower-case hexadecimal. A key that itself starts with "sha256:"
// is always hashed, so that no key can pose as another. Braces are hashed because Redis
// Cluster reads them as a hash tag, which would let a client choose the node that its
// counters burden. The window type is part of the name because each type stores its own
// kind of value.
func redisKey(t WindowType, key string) string {
	if plainRedisText(key) {
		return redisPrefix + string(t) + ":" + key
	}
	sum := sha256.Sum256([]byte(key))
	return redisPrefix + string(t) + ":" + digestPrefix + hex.EncodeToString(sum[:])
}

// settledKey is the name under which a sender's last settlement of a counter is kept:
//
//	graphql-limit-count:settled:{<name of the counter>}:<sender>
//
// The braces put it on the node of a cluster that has the counter.
func settledKey(counter, sender string) string {
	return redisPrefix + "settled:{" + counter + "}:" + sender
}

func plainRedisText(key string) bool {
	if len(key) > maxRedisKeyText || strings.HasPrefix(key, digestPrefix) {
		return false
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == '{' || c == '}' {
			return false
		}
	}
	return true
}

// plainLocalKey reports whether a key is its own name in memory.
func plainLocalKey(key string) bool {
	return len(key) <= maxLocalKey && (key == "" || key[0] != localDigestMark[0])
}

// localKey is the name of a counter in memory: the key itself up to 96 bytes, else a NUL
// and its binary SHA-256. A key that itself starts with NUL is always hashed.
func localKey(key string) string {
	if plainLocalKey(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return localDigestMark + string(sum[:])
}
