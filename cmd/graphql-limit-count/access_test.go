package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/admin"
	"graphql-limit-count/ci/servers"
)

// accessOf reads flags as run does.
func accessOf(t *testing.T, arguments ...string) *accessFlags {
	t.Helper()
	a := &accessFlags{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	a.add(flags)
	require.NoError(t, flags.Parse(arguments))
	return a
}

func TestWithoutAKeyOneIsGeneratedForItsOwnerAlone(t *testing.T) {
	folder := t.TempDir()
	core, logs := observer.New(zap.DebugLevel)
	var keys []string
	for range 2 {
		_, err := accessOf(t).open(t.Context(), "0.0.0.0:0", folder, admin.KeysConfig{Logger: zap.New(core)})
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(folder, "admin.key"))
		require.NoError(t, err)
		keys = append(keys, strings.TrimSpace(string(text)))
	}
	require.Equal(t, keys[0], keys[1], "the second run has the first one's")
	require.GreaterOrEqual(t, len(keys[0]), admin.MinExposedKey)
	info, err := os.Stat(filepath.Join(folder, "admin.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, 1, logs.Len())
	require.Equal(t, map[string]any{"file": filepath.Join(folder, "admin.key")}, logs.All()[0].ContextMap(), "the key is not logged")
}

func TestRunnersThatStartTogetherHaveOneGeneratedKey(t *testing.T) {
	folder := t.TempDir()
	const runners = 8
	failures := make(chan error, runners)
	for range runners {
		go func() {
			_, err := accessOf(t).open(t.Context(), "127.0.0.1:0", folder, admin.KeysConfig{Logger: zap.NewNop()})
			failures <- err
		}()
	}
	for range runners {
		require.NoError(t, <-failures)
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1)
	key, err := readKey(filepath.Join(folder, files[0].Name()))
	require.NoError(t, err)
	require.Regexp(t, `^[A-Z2-7]{26}$`, key)
}

func TestAnEmptyFileInTheDataFolderIsNoKey(t *testing.T) {
	path := file(t, adminKeyFile, "\n")
	open := func(dataDir string) error {
		_, err := accessOf(t).open(t.Context(), "127.0.0.1:0", dataDir, admin.KeysConfig{Logger: zap.NewNop()})
		return err
	}
	require.EqualError(t, open(filepath.Dir(path)), "--admin-key, --admin-viewer-key and their files: read the admin key in "+path+": is empty")
	require.ErrorContains(t, open(filepath.Join(filepath.Dir(path), "missing")), "write the admin key: ")
}

func TestSettingsOfAccessThatAreRefused(t *testing.T) {
	require.EqualError(t, accessOf(t, "--admin-tls-cert", "c").check(), "--admin-tls-cert and --admin-tls-key are given together or not at all")
	require.EqualError(t, accessOf(t, "--admin-tls-key", "k").check(), "--admin-tls-cert and --admin-tls-key are given together or not at all")
	require.NoError(t, accessOf(t).check())
	const short, long = "a-short-key", "a-key-that-is-long-enough"
	for _, c := range []struct {
		rule, listen string
		arguments    []string
		keys         admin.KeysConfig
		want         string
	}{
		{"a short key beyond loopback", ":0", nil, admin.KeysConfig{Admin: short},
			"--admin-listen: listen for the admin endpoint on :0, which other hosts reach: the admin key has less than 16 characters"},
		{"a short viewer key beyond loopback", "0.0.0.0:0", nil, admin.KeysConfig{Admin: long, Viewer: short},
			"--admin-listen: listen for the admin endpoint on 0.0.0.0:0, which other hosts reach: the viewer key has less than 16 characters"},
		{"a short key on loopback", "127.0.0.1:0", nil, admin.KeysConfig{Admin: short, Viewer: "v"}, ""},
		{"a name that cannot be resolved now", "no.such.host.invalid:0", nil, admin.KeysConfig{Admin: long}, ""},
		{"a key twice", "127.0.0.1:0", []string{"--admin-key-file", "/missing"}, admin.KeysConfig{Admin: long},
			"--admin-key, --admin-viewer-key and their files: the admin key is given twice: as text and as a file"},
		{"a file that is not there", "127.0.0.1:0", []string{"--admin-viewer-key-file", "/missing"}, admin.KeysConfig{Admin: long},
			"--admin-key, --admin-viewer-key and their files: read the viewer key: open /missing: no such file or directory"},
		{"a certificate that is not there", "127.0.0.1:0", []string{"--admin-tls-cert", "/missing", "--admin-tls-key", "/missing"}, admin.KeysConfig{Admin: long},
			"--admin-tls-cert and --admin-tls-key: read the admin endpoint's certificate: open /missing: no such file or directory"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.keys.Logger = zap.NewNop()
			_, err := accessOf(t, c.arguments...).open(t.Context(), c.listen, t.TempDir(), c.keys)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

// TestTheEndpointIsServedAsItsFlagsSay joins all parts: a key in a file, a name, TLS.
func TestTheEndpointIsServedAsItsFlagsSay(t *testing.T) {
	certificate, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	key := file(t, "key", "the-key-in-the-file\n")
	core, logs := observer.New(zap.WarnLevel)
	flags := accessOf(t, "--admin-key-file", key, "--admin-hosts", "runner,gateway", "--admin-tls-cert", certificate.CertFile, "--admin-tls-key", certificate.KeyFile)
	opened, err := flags.open(t.Context(), "0.0.0.0:0", t.TempDir(), admin.KeysConfig{Logger: zap.New(core)})
	require.NoError(t, err)
	endpoint := admin.Config{PluginSchema: []byte(`{}`), Logger: zap.New(core)}
	opened.configure(&endpoint)
	handler, err := admin.NewHandler(endpoint)
	require.NoError(t, err)
	listener, err := opened.listener(t.Context(), zap.New(core))
	require.NoError(t, err)
	require.Zero(t, logs.Len())
	_, port, _ := strings.Cut(listener.Addr().String(), "]:")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- admin.NewServer(handler, zap.New(core)).Serve(ctx, listener) }()
	defer func() {
		cancel()
		require.NoError(t, <-served)
	}()
	client := trustingClient(t, certificate.CertFile)
	for host, want := range map[string]int{"runner": 200, "gateway:9181": 200, "": 200, "evil.example": 403} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost:"+port+"/apisix/admin/schema/plugins/graphql-limit-count", nil)
		require.NoError(t, err)
		if host != "" {
			request.Host = host
		}
		request.Header.Set("X-API-KEY", "the-key-in-the-file")
		response, err := client.Do(request)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode, host)
	}
}

func TestPlainHTTPForOtherHostsIsWarnedOf(t *testing.T) {
	for listen, warnings := range map[string]int{"0.0.0.0:0": 1, "127.0.0.1:0": 0} {
		core, logs := observer.New(zap.WarnLevel)
		opened, err := accessOf(t).open(t.Context(), listen, t.TempDir(), admin.KeysConfig{Admin: "a-key-that-is-long-enough", Logger: zap.New(core)})
		require.NoError(t, err)
		listener, err := opened.listener(t.Context(), zap.New(core))
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		require.Len(t, logs.FilterMessageSnippet("in plain HTTP").All(), warnings, listen)
	}
}
