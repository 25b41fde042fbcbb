package etcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"graphql-limit-count/ci/servers"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestSettingsThatCannotBeMeantAreNamed(t *testing.T) {
	t.Parallel()
	const good = "127.0.0.1:2379"
	for _, c := range []struct {
		name string
		cfg  Config
		want string // "": they are fine
	}{
		{"host and port", Config{Endpoints: []string{good, "etcd-1.example.org:2379"}}, ""},
		{"URLs", Config{Endpoints: []string{"http://" + good, "http://[::1]:2379/"}, Prefix: "/gateway/apisix"}, ""},
		{"TLS", Config{Endpoints: []string{"https://" + good}, CAFile: "ca.pem", CertFile: "c", KeyFile: "k", ServerName: "etcd"}, ""},
		{"a user", Config{Endpoints: []string{good}, Username: "u", Password: "p"}, ""},
		{"no endpoint", Config{}, "etcd: no endpoint is given"},
		{"an empty endpoint", Config{Endpoints: []string{""}}, `etcd: endpoint "": it names no host`},
		{"no port", Config{Endpoints: []string{"etcd"}}, `etcd: endpoint "etcd": its port must be 1 to 65535`},
		{"a port beyond", Config{Endpoints: []string{"etcd:65536"}}, `etcd: endpoint "etcd:65536": its port must be 1 to 65535`},
		{"another scheme", Config{Endpoints: []string{"ftp://etcd:1"}}, `etcd: endpoint "ftp://etcd:1": its scheme must be http or https`},
		{"a path", Config{Endpoints: []string{"http://etcd:1/v3"}}, `etcd: endpoint "http://etcd:1/v3": nothing may follow the port`},
		{"no address", Config{Endpoints: []string{"http://a b:1"}}, `etcd: endpoint "http://a b:1": it is not an address`},
		{"TLS mixed with none", Config{Endpoints: []string{good, "https://b:1"}},
			`etcd: endpoint "https://b:1": some endpoints are https and some are not`},
		{"TLS settings without TLS", Config{Endpoints: []string{good}, CAFile: "ca.pem"},
			`etcd: endpoint "127.0.0.1:2379": TLS is configured, but the endpoint is not https`},
		{"a prefix without a slash", Config{Endpoints: []string{good}, Prefix: "apisix"},
			`etcd: prefix "apisix": it must begin with a slash and not end in one`},
		{"a prefix with one at its end", Config{Endpoints: []string{good}, Prefix: "/apisix/"},
			`etcd: prefix "/apisix/": it must begin with a slash and not end in one`},
		{"a user without a password", Config{Endpoints: []string{good}, Username: "u"}, "etcd: user name and password must be given together"},
		{"a certificate without its key", Config{Endpoints: []string{"https://" + good}, CertFile: "c"},
			"etcd: certificate file and key file must be given together"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Logger = zap.NewNop()
			err := c.cfg.Validate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			_, err = Open(c.cfg)
			require.EqualError(t, err, c.want)
		})
	}
}

func TestAPasswordInAnEndpointIsNotRepeated(t *testing.T) {
	t.Parallel()
	err := Config{Endpoints: []string{"http://user:secret@etcd:2379"}, Logger: zap.NewNop()}.Validate()
	require.EqualError(t, err, `etcd: endpoint 1: a user belongs into the settings, not into the address`)
}

func TestFilesThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	cfg := Config{Endpoints: []string{"https://127.0.0.1:2379"}, Logger: zap.NewNop()}
	cfg.CAFile = filepath.Join(dir, "missing.pem")
	_, err := Open(cfg)
	require.ErrorContains(t, err, "etcd: read the certificate authorities: open "+cfg.CAFile)
	cfg.CAFile = empty
	_, err = Open(cfg)
	require.EqualError(t, err, "etcd: read the certificate authorities: "+empty+" holds no PEM certificate")
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = "", empty, empty
	_, err = Open(cfg)
	require.ErrorContains(t, err, "etcd: read the client certificate: ")
}

// answers tells whether a client can read, and why not.
func answers(t *testing.T, cfg Config) error {
	t.Helper()
	cfg.Logger = zap.NewNop()
	client, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	_, _, err = client.Snapshot(t.Context(), "/services/")
	return err
}

func TestTLSChecksTheServerAndShowsACertificate(t *testing.T) {
	t.Parallel()
	cert, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	server := servers.RunEtcdTLS(t, cert, "--client-cert-auth", "--trusted-ca-file", cert.CertFile)
	cfg := Config{Endpoints: []string{server.Endpoint()}, CAFile: cert.CertFile, CertFile: cert.CertFile, KeyFile: cert.KeyFile}
	for _, c := range []struct {
		name   string
		change func(*Config)
		works  bool
	}{
		{"as they are meant", func(*Config) {}, true},
		{"an authority that nobody trusts", func(c *Config) { c.CAFile = "" }, false},
		{"one that need not be trusted", func(c *Config) { c.CAFile, c.InsecureSkipVerify = "", true }, true},
		{"no certificate shown", func(c *Config) { c.CertFile, c.KeyFile = "", "" }, false},
		{"a certificate for another name", func(c *Config) { c.ServerName = "elsewhere" }, false},
		{"a certificate for another name than the endpoint's", func(c *Config) { c.ServerName = "localhost" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			c.change(&cfg)
			if err := answers(t, cfg); c.works {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}

func TestASignedInClientReadsAndFollowsThroughARestart(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	require.NoError(t, server.RequirePassword(t.Context(), "apisix", "secret", "/apisix"))
	cfg := Config{Endpoints: []string{server.Endpoint()}, Username: "apisix", Password: "secret", Logger: zap.NewNop()}
	require.NoError(t, answers(t, cfg))
	wrong := cfg
	wrong.Password = "guess"
	require.ErrorContains(t, answers(t, wrong), "authentication failed")
	wrong.Username, wrong.Password = "", ""
	require.ErrorContains(t, answers(t, wrong), "user name is empty")
	elsewhere := cfg
	elsewhere.Prefix = "/other"
	require.ErrorContains(t, answers(t, elsewhere), "permission denied")

	require.NoError(t, server.Stop())
	client, err := Open(cfg) // it has yet to sign in
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	v := follow(t, client, "/services/")
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/services/a", "1")
	v.becomes(t, map[string]string{"/services/a": "1"})
	require.NoError(t, server.Stop()) // it forgets who was signed in
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/services/a", "2")
	v.becomes(t, map[string]string{"/services/a": "2"})
}

func TestACallEndsWithItsContextAndSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	server := servers.RunEtcd(t)
	client := open(t, server.Endpoint())
	put(t, client, "/services/a", "1")
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), look)
		defer cancel()
		_, _, err := client.Snapshot(ctx, "/services/")
		return err
	}
	require.NoError(t, server.Pause())
	err := read()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "read /apisix/services/ from etcd: the server does not answer")
	require.NoError(t, server.Stop())
	require.Eventually(t, func() bool {
		err := read()
		return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "no server can be reached")
	}, patience, look)
}

func TestAnOutageIsLoggedOnceForAllPathsAndItsEndToo(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	server := servers.RunEtcd(t)
	client, err := Open(Config{Endpoints: []string{server.Endpoint()}, Logger: zap.New(core)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	put(t, client, "/services/a", "1")
	v, w := follow(t, client, "/services/"), follow(t, client, "/routes/")
	v.becomes(t, map[string]string{"/services/a": "1"})
	w.becomes(t, map[string]string{})
	require.NoError(t, server.Stop())
	require.Eventually(t, func() bool { return logs.Len() > 0 }, patience, look)
	time.Sleep(3 * retryPause) // more attempts fail meanwhile
	require.NoError(t, server.Start(t.Context()))
	put(t, client, "/services/a", "2")
	put(t, client, "/routes/a", "2")
	v.becomes(t, map[string]string{"/services/a": "2"})
	w.becomes(t, map[string]string{"/routes/a": "2"})
	// A recovery is logged after what was read has been told.
	require.Eventually(t, func() bool { return logs.Len() == 2 }, patience, look)
	require.Equal(t, []string{"etcd cannot be followed, what it held last stays in force", "etcd is followed again"},
		[]string{logs.All()[0].Message, logs.All()[1].Message})
	require.Contains(t, []any{"/apisix/services/", "/apisix/routes/"}, logs.All()[0].ContextMap()["path"])
	require.Equal(t, 2, logs.Len())
}

func TestAnEtcdThatIsAwayAtFirstIsSaidToHaveToldNothing(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	server := servers.RunEtcd(t)
	require.NoError(t, server.Stop())
	client, err := Open(Config{Endpoints: []string{server.Endpoint()}, Logger: zap.New(core)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	follow(t, client, "/services/")
	require.Eventually(t, func() bool { return logs.Len() > 0 }, patience, look)
	require.Equal(t, "etcd cannot be followed, nothing was read from it yet", logs.All()[0].Message)
	require.NoError(t, server.Start(t.Context()))
	require.Eventually(t, func() bool { return logs.FilterMessage("etcd is followed again").Len() == 1 }, patience, look)
}

func TestAnEtcdWithoutConfigurationIsToldOnce(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	server := servers.RunEtcd(t)
	client, err := Open(Config{Endpoints: []string{server.Endpoint()}, Prefix: "/apsix", Logger: zap.New(core)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	follow(t, client, "/services/").becomes(t, map[string]string{})
	follow(t, client, "/routes/").becomes(t, map[string]string{})
	require.Equal(t, 1, logs.Len())
	require.Equal(t, map[string]any{"prefix": "/apsix"}, logs.All()[0].ContextMap())
	require.Contains(t, logs.All()[0].Message, "etcd holds no configuration of APISIX under the prefix")
}
