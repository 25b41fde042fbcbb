package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/runner"
	"graphql-limit-count/ci/subprocess"
)

// startTimeout bounds the start and the end of a process.
const startTimeout = 20 * time.Second

func TestRunRefusesFlagsThatMeanNothing(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "r.sock")
	taken := file(t, "taken", "")
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"no socket", []string{}, "no socket to listen on: APISIX sets APISIX_LISTEN_ADDRESS, by hand give --listen unix:/path"},
		{"an address that is no unix socket", []string{"--listen", "127.0.0.1:1"}, `--listen "127.0.0.1:1" is not unix:/path`},
		{"a socket without a path", []string{"--listen", "unix:"}, `--listen "unix:" is not unix:/path`},
		{"an unknown server", []string{"--listen", socket, "--server", "stock"}, `--server "stock" is neither extplugin nor go-runner`},
		{"a mode that is not octal", []string{"--listen", socket, "--socket-mode", "0899"}, `--socket-mode "0899" is not an octal file mode`},
		{"a mode that nobody can use", []string{"--listen", socket, "--socket-mode", "0"}, `--socket-mode "0" is not an octal file mode`},
		{"a mode with more than permissions", []string{"--listen", socket, "--socket-mode", "4777"}, `--socket-mode "4777" is not an octal file mode`},
		{"no lifetime of tokens", []string{"--listen", socket, "--conf-expire", "0"}, "--conf-expire 0 is not above 0"},
		{"no connections", []string{"--listen", socket, "--max-conns", "0"}, "--max-conns 0 is not above 0"},
		{"no plans", []string{"--listen", socket, "--plan-cache-entries", "0"}, "--plan-cache-entries 0 is not above 0"},
		{"no body", []string{"--listen", socket, "--graphql-max-size", "-1"}, "--graphql-max-size -1 is not above 0"},
		{"no counters", []string{"--listen", socket, "--local-keys-max", "0"}, "--local-keys-max 0 is not above 0"},
		{"a number that is none", []string{"--listen", socket, "--max-conns", "x"}, `invalid argument "x" for "--max-conns" flag`},
		{"an unknown level", []string{"--listen", socket, "--log-level", "loud"}, `--log-level "loud": `},
		{"an admin address without a port", []string{"--listen", socket, "--admin-listen", "localhost"}, `--admin-listen "localhost" is neither host:port nor off`},
		{"a URL of APISIX that is none", []string{"--listen", socket, "--apisix-admin-url", "127.0.0.1:9180"}, "--apisix-admin-url and --apisix-admin-key: "},
		{"a data folder below a file", []string{"--listen", socket, "--data-dir", taken + "/below"}, "--data-dir " + taken + "/below"},
		{"viewer and admin with one key", []string{"--listen", socket, "--admin-key", "k", "--admin-viewer-key", "k"}, "viewer"},
		{"a socket in a folder that is not there", []string{"--listen", "unix:/missing/r.sock"}, "/missing/r.sock"},
		{"a socket where a file is", []string{"--listen", "unix:" + taken}, taken + " exists and is not a socket"},
		{"an unknown store", []string{"--listen", socket, "--store", "redis"}, `--store "redis" is neither sqlite, etcd nor file`},
		{"a store in no etcd", []string{"--listen", socket, "--store", "etcd"}, "--store=etcd needs --etcd-endpoints"},
		{"an etcd that is no address", []string{"--listen", socket, "--etcd-endpoints", "http://127.0.0.1"}, `etcd: endpoint "http://127.0.0.1": its port must be 1 to 65535`},
		{"a user without an etcd", []string{"--listen", socket, "--etcd-user", "u"}, "--etcd-user, --etcd-ca-file and --etcd-cert-file need --etcd-endpoints"},
		{"a store in no file", []string{"--listen", socket, "--store", "file"}, "--store=file needs --decorations"},
		{"a file that is not used", []string{"--listen", socket, "--decorations", taken}, "--decorations is for --store=file only"},
		{"a file that is not there", []string{"--listen", socket, "--store", "file", "--decorations", "/missing/d.yaml"}, "/missing/d.yaml"},
		{"a keyring that is not there", []string{"--listen", socket, "--keyring", "/missing/keyring"}, "/missing/keyring"},
		{"an argument", []string{"please"}, `unknown command "please" for "graphql-limit-count run"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("APISIX_LISTEN_ADDRESS", "")
			arguments := append([]string{"run", "--data-dir", t.TempDir(), "--admin-listen", "127.0.0.1:0"}, c.flags...)
			ended := make(chan outcome, 1)
			go func() { ended <- execute("", arguments...) }()
			select {
			case got := <-ended:
				require.ErrorContains(t, got.err, c.want)
				require.NotContains(t, got.err.Error(), "\n")
			case <-time.After(startTimeout):
				require.FailNow(t, "it was not refused")
			}
		})
	}
}

// started is a running process of the command.
type started struct {
	command *exec.Cmd
	output  bytes.Buffer
	ended   chan error
}

// start runs `run` as a process with these settings, and kills it after the test if it
// still runs.
func start(t *testing.T, environment []string, flags ...string) *started {
	t.Helper()
	s := &started{command: exec.Command(asCommand(t), append([]string{"run"}, flags...)...), ended: make(chan error, 1)}
	s.command.Env = append(os.Environ(), environment...)
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	subprocess.EndWithParent(s.command)
	require.NoError(t, s.command.Start())
	go func() { s.ended <- s.command.Wait() }()
	t.Cleanup(func() { _ = s.command.Process.Kill() }) // it fails when the process has ended
	return s
}

// stop ends the process as APISIX does and returns what it printed.
func (s *started) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		require.NoError(t, err, s.output.String())
	case <-time.After(startTimeout):
		require.Fail(t, "the process does not end")
	}
	return s.output.String()
}

// awaitSocket waits until something listens at path.
func awaitSocket(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, startTimeout, 10*time.Millisecond)
}

func TestRunTakesItsSettingsFromTheEnvironmentAsAPISIXStartsIt(t *testing.T) {
	folder := t.TempDir()
	socket := filepath.Join(folder, "r.sock")
	s := start(t, []string{
		"APISIX_LISTEN_ADDRESS=unix:" + socket, "APISIX_CONF_EXPIRE_TIME=3600",
		"GRAPHQL_LIMIT_COUNT_DATA_DIR=" + folder, "GRAPHQL_LIMIT_COUNT_ADMIN_LISTEN=off",
		"GRAPHQL_LIMIT_COUNT_SOCKET_MODE=0760", "GRAPHQL_LIMIT_COUNT_LOG_LEVEL=info",
	})
	awaitSocket(t, socket)
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o760), info.Mode().Perm())
	require.Contains(t, s.stop(t), "serving APISIX")
	require.NoFileExists(t, socket)
	require.NoFileExists(t, filepath.Join(folder, adminKeyFile), "no endpoint needs no key")
}

func TestTheAdminKeyIsGeneratedOnceForItsOwnerOnly(t *testing.T) {
	folder := t.TempDir()
	log := &bytes.Buffer{}
	config := runner.Config{
		Binary: asCommand(t), Socket: filepath.Join(folder, "r.sock"), DataDir: folder,
		AdminAddr: "127.0.0.1:0", StopTimeout: startTimeout, Log: log,
	}
	p, err := runner.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	path := filepath.Join(folder, adminKeyFile)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	key := strings.TrimSpace(string(text))
	require.Regexp(t, `^[A-Z2-7]{26}$`, key)
	require.Equal(t, http.StatusUnauthorized, statusWith(t, p.AdminURL(), "wrong"))
	require.Equal(t, http.StatusNotFound, statusWith(t, p.AdminURL(), key), "nothing is decorated")

	require.NoError(t, p.Stop())
	require.NotContains(t, log.String(), key, "the log says where the key is, not what it is")
	require.Contains(t, log.String(), path)
	again, err := p.Again(t.Context())
	require.NoError(t, err)
	t.Cleanup(again.Kill)
	require.Equal(t, http.StatusNotFound, statusWith(t, again.AdminURL(), key), "the key stays")
	require.NoError(t, again.Stop())
	left, err := filepath.Glob(path + "-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// statusWith is the status of the list of a service's decorations.
func statusWith(t *testing.T, url, key string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		url+"/apisix/admin/services/s/graphql_cost_decorations", nil)
	require.NoError(t, err)
	request.Header.Set("X-API-KEY", key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}

func TestARunnerThatCannotStartSaysWhy(t *testing.T) {
	log := &bytes.Buffer{}
	_, err := runner.Start(context.Background(), runner.Config{
		Binary: asCommand(t), Server: "stock", Socket: filepath.Join(t.TempDir(), "r.sock"), DataDir: t.TempDir(),
		AdminAddr: "127.0.0.1:0", AdminKey: "k", Log: log,
	})
	require.EqualError(t, err, "start the runner: it ended at once: exit status 1")
	require.Equal(t, "graphql-limit-count: --server \"stock\" is neither extplugin nor go-runner\n", log.String())
}
