package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// trustingClient is a client that trusts the certificate in a file.
func trustingClient(t *testing.T, certFile string) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(certFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	const patience = 10 * time.Second
	return &http.Client{Transport: transport, Timeout: patience}
}

// validated is the outcome of validate for a configuration with that password.
func validated(password string, flags ...string) outcome {
	conf := fmt.Sprintf(`{"count": 1, "time_window": 60, "policy": "redis", "redis_host": "redis", "redis_password": %q}`, password)
	return execute(conf, append([]string{"validate", "-"}, flags...)...)
}

// TestRotation goes through a keyring's life with the commands that an operator uses.
func TestRotation(t *testing.T) {
	keyring := filepath.Join(t.TempDir(), "keyring")
	encrypt := func(input string, flags ...string) outcome {
		return execute(input, append([]string{"encrypt", "--keyring", keyring}, flags...)...)
	}
	ids := func() []string { return strings.Fields(encrypt("", "--list").stdout) }

	made := encrypt("", "--generate")
	require.NoError(t, made.err)
	require.Regexp(t, `^`+regexp.QuoteMeta(keyring)+`: key [0-9a-f]{8} is new and encrypts from now on\n$`, made.stdout)
	first := ids()
	require.Len(t, first, 1)
	old := encrypt("hunter2\n")
	require.NoError(t, old.err)
	require.Regexp(t, `^\$aes://`+first[0]+`\.[A-Za-z0-9_-]+\n$`, old.stdout)

	require.NoError(t, encrypt("", "--generate").err)
	both := ids()
	require.Equal(t, first[0], both[1])
	fresh := encrypt(old.stdout)
	require.NoError(t, fresh.err, "a reference is encrypted again")
	require.Regexp(t, `^\$aes://`+both[0]+`\.`, fresh.stdout)
	for _, reference := range []string{old.stdout, fresh.stdout} {
		require.Equal(t, outcome{stdout: "-: valid\n"}, validated(strings.TrimSpace(reference), "--keyring", keyring))
	}

	text, err := os.ReadFile(keyring)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(text), "\n")
	require.NoError(t, os.WriteFile(keyring, []byte(line+"\n"), 0o600))
	require.Equal(t, outcome{stdout: "-: valid\n"}, validated(strings.TrimSpace(fresh.stdout), "--keyring", keyring))
	gone := validated(strings.TrimSpace(old.stdout), "--keyring", keyring)
	require.ErrorIs(t, gone.err, errSilent)
	require.Equal(t, `-: property "redis_password" holds an encrypted text that cannot be read: its key `+first[0]+" is not in the keyring\n", gone.stderr)
	require.EqualError(t, encrypt(old.stdout).err, "the reference on standard input cannot be read: its key "+first[0]+" is not in the keyring")
}

func TestLineBreaksAtTheEndAreNotEncrypted(t *testing.T) {
	keyring := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, execute("", "encrypt", "--keyring", keyring, "--generate").err)
	length := func(input string) int { return len(execute(input, "encrypt", "--keyring", keyring).stdout) }
	for input, same := range map[string]string{"abc\n": "abc", "abc\r\n": "abc", "abc\n\n": "abc?", "abc\r": "abc?", " abc ": "?abc?"} {
		require.Equal(t, length(same), length(input), "%q", input)
	}
}

func TestWhatEncryptRefuses(t *testing.T) {
	keyring := filepath.Join(t.TempDir(), "keyring")
	missing := filepath.Join(t.TempDir(), "missing")
	require.NoError(t, execute("", "encrypt", "--keyring", keyring, "--generate").err)
	for _, c := range []struct {
		rule, input string
		arguments   []string
		want        string
	}{
		{"no keyring", "x", nil, "--keyring is not given"},
		{"a secret in an argument, which others see", "", []string{"--keyring", keyring, "hunter2"}, "a secret is read from standard input, not given as an argument"},
		{"nothing", "", []string{"--keyring", keyring}, "encrypt a secret: it is empty"},
		{"an empty line", "\n", []string{"--keyring", keyring}, "encrypt a secret: it is empty"},
		{"too much", strings.Repeat("x", 8193), []string{"--keyring", keyring}, "encrypt a secret: it is longer than 8192 bytes"},
		{"a keyring that is not there", "x", []string{"--keyring", missing},
			"read the keyring: open " + missing + ": no such file or directory (graphql-limit-count encrypt --generate makes one)"},
		{"two things at once", "x", []string{"--keyring", keyring, "--generate", "--list"},
			"if any flags in the group [generate list] are set none of the others can be; [generate list] were all set"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := execute(c.input, append([]string{"encrypt"}, c.arguments...)...)
			require.EqualError(t, got.err, c.want)
			require.Empty(t, got.stdout)
		})
	}
}

func TestAKeyringMayBeNamedByTheEnvironment(t *testing.T) {
	keyring := filepath.Join(t.TempDir(), "keyring")
	t.Setenv("GRAPHQL_LIMIT_COUNT_KEYRING", keyring)
	require.NoError(t, execute("", "encrypt", "--generate").err)
	reference := strings.TrimSpace(execute("hunter2", "encrypt").stdout)
	require.Equal(t, outcome{stdout: "-: valid\n"}, validated(reference))
	t.Setenv("GRAPHQL_LIMIT_COUNT_KEYRING", "")
	require.Equal(t, "-: property \"redis_password\" holds an encrypted text, but there is no keyring: --keyring is not given\n", validated(reference).stderr)
	require.ErrorContains(t, validated(reference, "--keyring", "/missing").err, "--keyring: read the keyring: open /missing")
}

// Who may write routes must not read the runner's own credentials.
func TestConfigurationsCannotReferToTheRunnersOwnCredentials(t *testing.T) {
	found := 0
	newRun().Flags().VisitAll(func(f *pflag.Flag) {
		if !regexp.MustCompile(`(key|password)$`).MatchString(f.Name) || f.Name == "admin-tls-key" {
			return // the last one is the name of a file
		}
		found++
		variable := environmentName(f.Name)
		t.Setenv(variable, "hunter2-hunter2-hunter2")
		conf := fmt.Sprintf(`{"count": 1, "time_window": 60, "rejected_msg": "$env://%s"}`, variable)
		require.Equal(t, fmt.Sprintf("-: property \"rejected_msg\" refers to the environment variable %q, which is this plugin's own\n", variable),
			execute(conf, "validate", "-").stderr)
	})
	require.GreaterOrEqual(t, found, 3)
}
