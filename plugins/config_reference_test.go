package plugins

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/secret"
)

func TestReferencesToTheEnvironmentAreResolved(t *testing.T) {
	t.Setenv("GLC_HOST", "redis.example")
	t.Setenv("GLC_PASSWORD", "s3cret")
	t.Setenv("GLC_TOKEN", "Bearer t0ken")
	t.Setenv("GLC_EMPTY", "")
	cfg := parsed(t, `{"count":1,"time_window":60,"policy":"redis","redis_host":"$env://GLC_HOST",
		"redis_password":"$ENV://GLC_PASSWORD","introspection_headers":{"Authorization":"$env://GLC_TOKEN"},
		"rejected_msg":"costs $env://GLC_HOST"}`)
	require.Equal(t, "redis.example", cfg.RedisHost)
	require.Equal(t, "s3cret", cfg.RedisPassword)
	require.Equal(t, map[string]string{"Authorization": "Bearer t0ken"}, cfg.IntrospectionHeaders)
	require.Equal(t, "costs $env://GLC_HOST", cfg.RejectedMsg, "only a whole text is a reference")
	require.NotContains(t, cfg.String(), "s3cret")
	require.NotContains(t, cfg.String(), "t0ken")

	_, err := ParseConfig([]byte(`{"count":1,"time_window":60,"key":"$env://GLC_EMPTY"}`), nil)
	require.EqualError(t, err, `property "key" refers to the environment variable "GLC_EMPTY", which is not set`)
	for conf, want := range map[string]string{
		`"policy":"redis","redis_host":"$env://GLC_HOST"`: `property "redis_host" validation failed: what its reference stands for does not pass "minLength"`,
		`"introspection_endpoint":"$env://GLC_HOST"`:      `property "introspection_endpoint" validation failed: what its reference stands for does not pass "pattern"`,
		`"cost_strategy":"$env://GLC_HOST"`:               `property "cost_strategy" validation failed: what its reference stands for does not pass "enum"`,
	} {
		t.Setenv("GLC_HOST", "x")
		_, err = ParseConfig([]byte(`{"count":1,"time_window":60,`+conf+`}`), nil)
		require.EqualError(t, err, want, "what stands there is checked like any text, but not shown")
	}
}

// The two keyrings of a rotation, and ids that are known.
const (
	oldKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	newKey = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	oldID  = "9a6724e6"
)

func keyring(t *testing.T, lines ...string) *secret.Keyring {
	t.Helper()
	ring, err := secret.ParseKeyring([]byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return ring
}

func encrypted(t *testing.T, ring *secret.Keyring, text string) string {
	t.Helper()
	reference, err := ring.Encrypt(text)
	require.NoError(t, err)
	return reference
}

func TestEncryptedTextsAreResolvedWhereCredentialsStand(t *testing.T) {
	ring := keyring(t, oldKey)
	t.Setenv("GLC_ENCRYPTED", encrypted(t, ring, "hunter3"))
	cfg, err := ParseConfig(fmt.Appendf(nil, `{"count":1,"time_window":60,"redis_password":%q,"sentinel_password":"$env://GLC_ENCRYPTED",
		"introspection_headers":{"Authorization":%q,"X-Plain":"a"}}`,
		encrypted(t, ring, "$env://HOME"), strings.Replace(encrypted(t, ring, "hunter2"), "aes", "AES", 1)), ring.Decrypt)
	require.NoError(t, err)
	require.Equal(t, "$env://HOME", cfg.RedisPassword, "what was encrypted is no reference")
	require.Equal(t, "hunter3", cfg.SentinelPassword, "a variable may hold an encrypted text")
	require.Equal(t, map[string]string{"Authorization": "hunter2", "X-Plain": "a"}, cfg.IntrospectionHeaders)
	require.NotContains(t, cfg.String(), "hunter")
}

func TestFaultsOfEncryptedTextsNameFieldAndKeyOnly(t *testing.T) {
	old := keyring(t, oldKey)
	reference := encrypted(t, old, "hunter2")
	changed := []byte(reference)
	for i := range 4 { // of the tag
		at := len(changed) - 8 + i
		changed[at] = map[bool]byte{true: 'B', false: 'A'}[changed[at] == 'A']
	}
	for _, c := range []struct {
		rule, text string
		secrets    Secrets
		want       string
	}{
		{"no keyring", reference, nil, ", but there is no keyring: --keyring is not given"},
		{"another keyring", reference, keyring(t, newKey).Decrypt, " that cannot be read: its key " + oldID + " is not in the keyring"},
		{"a changed text", string(changed), old.Decrypt, " that cannot be read: it is not what key " + oldID + " encrypted: it was changed or cut short"},
		{"no reference", "$aes://hunter2", old.Decrypt, " that cannot be read: it is malformed: no id of a key and a dot after $aes://"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ParseConfig(fmt.Appendf(nil,
				`{"count":1,"time_window":60,"introspection_headers":{"A":%q,"B":%[1]q},"redis_password":%[1]q}`, c.text), c.secrets)
			require.EqualError(t, err, `property "introspection_headers" holds an encrypted text`+c.want+
				`; property "redis_password" holds an encrypted text`+c.want)
		})
	}
}

// The counter of a configuration must outlive its secrets: whoever rotates keys or
// passwords would hand out fresh quotas, and a digest that depended on a password would let
// it be guessed by whoever sees the keys in Redis.
func TestSecretsAreNotPartOfDigests(t *testing.T) {
	before, after := keyring(t, oldKey), keyring(t, newKey, oldKey)
	const conf = `{"count":10,"time_window":60,"policy":"redis","redis_host":"hh","introspection_endpoint":"http://%s@h/","group":"g",
		"redis_password":%q,"sentinel_password":%q,"introspection_headers":{"Authorization":%q}}`
	of := func(user, a, b, c string) *Config {
		cfg, err := ParseConfig(fmt.Appendf(nil, conf, user, a, b, c), after.Decrypt)
		require.NoError(t, err)
		return cfg
	}
	want := of("u:p", "one", "two", "three")
	for rule, cfg := range map[string]*Config{
		"other secrets":           of("u:x", "four", "five", "six"),
		"encrypted":               of("u:p", encrypted(t, before, "one"), encrypted(t, before, "two"), encrypted(t, before, "three")),
		"under a new key":         of("u:p", encrypted(t, after, "one"), encrypted(t, after, "two"), encrypted(t, after, "three")),
		"encrypted once more":     of("u:p", encrypted(t, after, "one"), encrypted(t, after, "two"), encrypted(t, after, "three")),
		"other secrets encrypted": of("u:p", encrypted(t, after, "1"), encrypted(t, after, "2"), encrypted(t, after, "3")),
	} {
		require.Equal(t, want.Digest, cfg.Digest, rule)
		require.Equal(t, want.GroupDigest, cfg.GroupDigest, rule)
	}
	none := parsed(t, `{"count":10,"time_window":60,"policy":"redis","redis_host":"hh","group":"g"}`)
	require.NotEqual(t, want.Digest, none.Digest, "whether there is one is part of it")
}

// A group is one counter in one store; another password may be that of another store.
func TestAGroupComparesSecretsAllTheSame(t *testing.T) {
	ring := keyring(t, newKey, oldKey)
	const conf = `{"count":10,"time_window":60,"group":"g","policy":"redis","redis_host":"hh","redis_password":%q}`
	of := func(password string) *Config {
		cfg, err := ParseConfig(fmt.Appendf(nil, conf, password), ring.Decrypt)
		require.NoError(t, err)
		return cfg
	}
	groups := &Groups{}
	require.NoError(t, groups.Use(of("hunter2"), start))
	require.NoError(t, groups.Use(of(encrypted(t, ring, "hunter2")), start))
	err := groups.Use(of("hunter3"), start)
	require.EqualError(t, err, `group conf mismatched: field "redis_password" differs from that of another configuration of group "g"`)
}

func TestOnlySecretsThatCannotBeReadMayBeCuredWithoutAnotherConfiguration(t *testing.T) {
	for conf, want := range map[string]bool{
		`{"count":1,"time_window":60,"redis_password":"$aes://` + oldID + `.AAAA"}`: true,
		`{"count":1,"time_window":60,"rejected_msg":"$aes://` + oldID + `.AAAA"}`:   false,
		`{"count":0,"time_window":60}`:                                              false,
	} {
		_, err := ParseConfig([]byte(conf), keyring(t, newKey).Decrypt)
		var invalid *ConfigError
		require.True(t, errors.As(err, &invalid))
		require.Equal(t, want, invalid.locked, conf)
	}
}
