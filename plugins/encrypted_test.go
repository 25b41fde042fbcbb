package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/internal/secret"
	"graphql-limit-count/introspect"
)

// vault is a keyring file, and all that is seen of a runner that has it.
type vault struct {
	*stack
	path    string
	keyring *secret.KeyringFile
	now     *clock
	source  *observer.ObservedLogs // of introspections
	answers []string
}

func startVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{path: filepath.Join(t.TempDir(), "keyring"), now: newClock()}
	v.generate(t)
	var err error
	v.keyring, err = secret.OpenKeyring(v.path, zap.NewNop())
	require.NoError(t, err)
	core, logs := observer.New(zap.DebugLevel)
	v.source = logs
	source := introspect.New(introspect.Config{Logger: zap.New(core)})
	t.Cleanup(source.Close)
	v.stack = startStack(t, stackConfig{secrets: v.keyring.Decrypt, now: v.now.Now, verbose: true,
		schemas: source, models: productsModel(t)})
	return v
}

func (v *vault) generate(t *testing.T) (id string) {
	t.Helper()
	id, err := secret.Generate(v.path, time.Unix(0, 0))
	require.NoError(t, err)
	return id
}

func (v *vault) encrypt(t *testing.T, text string) string {
	t.Helper()
	reference, err := v.keyring.Keyring().Encrypt(text)
	require.NoError(t, err)
	return reference
}

// send sends a query of cost 1 and keeps the answer.
func (v *vault) send(c *caller) answer {
	a := c.send(graphQL("{a}"))
	v.answers = append(v.answers, fmt.Sprint(a.status, a.header, a.body))
	return a
}

// seen is everything that left the runner.
func (v *vault) seen(t *testing.T, keys []string) string {
	t.Helper()
	text := v.logged(t)
	for _, entry := range v.source.TakeAll() {
		text += fmt.Sprintln(entry.Message, entry.ContextMap())
	}
	families, err := v.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		text += family.String() + "\n"
	}
	return text + strings.Join(v.answers, "\n") + strings.Join(keys, "\n")
}

// TestSecretsAreSeenNowhere drives a runner through all that can go wrong with encrypted
// credentials, and looks for them in everything that comes out.
func TestSecretsAreSeenNowhere(t *testing.T) {
	const password, wrong, token = "hunter2-password", "hunter2-wrong", "hunter2-token"
	server := servers.RunRedis(t, "--requirepass", password)
	v := startVault(t)
	conf := func(redisPassword, header string) string {
		return fmt.Sprintf(`{"count":9,"time_window":3600,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_password":%q,`+
			`"cost_strategy":"complexity","introspection_endpoint":"http://127.0.0.1:1/","introspection_headers":{"Authorization":%q}}`,
			server.Host, server.Port, redisPassword, header)
	}
	right, bad, header := v.encrypt(t, password), v.encrypt(t, wrong), v.encrypt(t, token)

	v.send(v.route(t, conf(right, header))).costs("3")
	v.send(v.route(t, conf(bad, header))).refused(500, counterFailure)
	require.Equal(t, 400, v.send(v.bound(t, "r", "s", conf(right, header))).status, "the introspection fails")
	require.Equal(t, 500, v.send(v.route(t, conf(right[:len(right)-12], header))).status)
	require.Equal(t, 500, v.send(v.route(t, conf(strings.Replace(right, ".", "0.", 1), header))).status)
	require.Equal(t, 500, v.send(v.route(t, strings.Replace(conf(right, header), "count", "cuont", 1))).status)

	keys, err := redisClient(t, server, password, 0).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	seen := v.seen(t, keys)
	require.Contains(t, seen, "WRONGPASS", "the log is looked into")
	require.Contains(t, seen, "redis_password", "so are faults")
	require.NotContains(t, seen, "hunter2")
	for _, reference := range []string{right, bad, header} {
		_, sealed, _ := strings.Cut(reference, ".")
		require.NotContains(t, seen, sealed[:20])
	}
}

// TestACounterOutlivesTheRotationOfKeysAndPasswords: what was spent stays spent.
func TestACounterOutlivesTheRotationOfKeysAndPasswords(t *testing.T) {
	server := servers.RunRedis(t, "--requirepass", "hunter2")
	v := startVault(t)
	conf := func(reference string) string {
		return fmt.Sprintf(`{"count":9,"time_window":3600,"policy":"redis","redis_host":%q,"redis_port":%d,"redis_password":%q}`,
			server.Host, server.Port, reference)
	}
	remaining := func(reference string) string {
		return v.send(v.route(t, conf(reference))).passes().header["X-RateLimit-Remaining"]
	}
	old := v.encrypt(t, "hunter2")
	require.Equal(t, "8", remaining(old))
	require.Equal(t, "7", remaining(v.encrypt(t, "hunter2")), "encrypted again")
	id := v.generate(t)
	require.Equal(t, "6", remaining(old), "the old key still decrypts")
	fresh := v.encrypt(t, "hunter2")
	require.Regexp(t, `^\$aes://`+id+`\.`, fresh, "the first one encrypts")
	require.Equal(t, "5", remaining(fresh))

	require.NoError(t, redisClient(t, server, "hunter2", 0).ConfigSet(t.Context(), "requirepass", "hunter3").Err())
	require.Equal(t, "4", remaining(v.encrypt(t, "hunter3")), "another password for the same counters")

	text, err := os.ReadFile(v.path)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	require.NoError(t, os.WriteFile(v.path, []byte(first+"\n"), 0o600))
	v.logged(t)
	require.Equal(t, 500, v.send(v.route(t, conf(old)+" ")).status, "the old key is gone")
	require.Contains(t, v.logged(t), "is not in the keyring")
}

// TestAConfigurationWaitsForItsKey: a keyring may reach a runner after the configuration
// that needs it. The runner reads a configuration only once.
func TestAConfigurationWaitsForItsKey(t *testing.T) {
	v := startVault(t)
	before, err := os.ReadFile(v.path)
	require.NoError(t, err)
	id := v.generate(t)
	after, err := os.ReadFile(v.path)
	require.NoError(t, err)
	reference := v.encrypt(t, "hunter2")
	require.NoError(t, os.WriteFile(v.path, before, 0o600))

	route := v.route(t, fmt.Sprintf(`{"count":9,"time_window":3600,"introspection_headers":{"A":%q}}`, reference))
	require.Equal(t, 500, v.send(route).status)
	require.Contains(t, v.logged(t), "its key "+id+" is not in the keyring")
	require.NoError(t, os.WriteFile(v.path, after, 0o600))
	require.Equal(t, 500, v.send(route).status, "it is tried once a second")
	v.now.advance(time.Second)
	v.send(route).costs("1")
	v.send(route).costs("1")
	require.Contains(t, v.logged(t), "a configuration whose secrets could not be read is in force now")
	require.Equal(t, "6", v.send(route).header["X-RateLimit-Remaining"], "one configuration, one counter")
}
