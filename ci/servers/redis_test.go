package servers_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"graphql-limit-count/ci/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const answerTimeout = 5 * time.Second

// ask sends one command line and returns the first line of the answer.
func ask(t *testing.T, addr, command string, timeout time.Duration) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	_, err = conn.Write([]byte(command + "\r\n"))
	require.NoError(t, err)
	return bufio.NewReader(conn).ReadString('\n')
}

func TestAStartedRedisAnswersAndAStoppedOneRefuses(t *testing.T) {
	r := servers.RunRedis(t)
	line, err := ask(t, r.Addr(), "PING", answerTimeout)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", line)

	require.NoError(t, r.Stop())
	_, err = ask(t, r.Addr(), "PING", answerTimeout)
	require.Error(t, err)
	require.Error(t, r.Pause(), "nothing runs")

	require.NoError(t, r.Start(context.Background()))
	require.Error(t, r.Start(context.Background()), "it runs already")
	line, err = ask(t, r.Addr(), "PING", answerTimeout)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", line)
}

func TestAPausedRedisHangsUntilResumed(t *testing.T) {
	r := servers.RunRedis(t)
	require.NoError(t, r.Pause())
	_, err := ask(t, r.Addr(), "PING", 100*time.Millisecond)
	require.True(t, errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
	require.NoError(t, r.Resume())
	line, err := ask(t, r.Addr(), "PING", answerTimeout)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", line)
}

func TestDirectivesReachTheServer(t *testing.T) {
	r := servers.RunRedis(t, "--requirepass", "secret")
	line, err := ask(t, r.Addr(), "PING", answerTimeout)
	require.NoError(t, err)
	require.Contains(t, line, "NOAUTH")
}

func TestATLSServerShowsItsCertificate(t *testing.T) {
	cert, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	r := servers.RunRedisTLS(t, cert)
	text, err := os.ReadFile(cert.CertFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	conn, err := tls.Dial("tcp", r.Addr(), &tls.Config{RootCAs: roots, ServerName: r.Host})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, err := servers.StartRedis(context.Background(), "--no-such-directive", "x")
	require.ErrorContains(t, err, "starting redis-server: it ended at once")
	require.ErrorContains(t, err, "no-such-directive")
}

func TestAMissingProgramNamesItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := servers.Require(context.Background(), "redis-server", "redis-server")
	require.EqualError(t, err, "redis-server is not installed: install the package redis-server")
}
