package admin

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/ci/servers"
)

// serveTLS serves the endpoint with a certificate in a new folder.
func serveTLS(t *testing.T) (*guarded, servers.Certificate, *observer.ObservedLogs) {
	t.Helper()
	files, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	certificate, err := OpenCertificate(files.CertFile, files.KeyFile, zap.New(core))
	require.NoError(t, err)
	return startGuarded(t, nil, certificate.Listener), files, logs
}

// trusting is a client that trusts the certificate in a file.
func trusting(t *testing.T, certFile string, change func(*tls.Config)) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(certFile)
	require.NoError(t, err)
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, cfg.RootCAs.AppendCertsFromPEM(pem))
	if change != nil {
		change(cfg)
	}
	transport := &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func getTLS(client *http.Client, address string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "https://"+address+readPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(keyHeader, testAdminKey)
	response, err := client.Do(request)
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return response, err
}

func TestTheEndpointSpeaksTLS(t *testing.T) {
	g, files, _ := serveTLS(t)
	for version, name := range map[uint16]string{tls.VersionTLS12: "TLS 1.2", tls.VersionTLS13: "TLS 1.3"} {
		response, err := getTLS(trusting(t, files.CertFile, func(cfg *tls.Config) { cfg.MaxVersion = version }), g.address)
		require.NoError(t, err, name)
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, version, response.TLS.Version, name)
		require.Equal(t, 1, response.ProtoMajor, "one request at a time on a connection")
	}
	_, err := getTLS(trusting(t, files.CertFile, func(cfg *tls.Config) { cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), g.address)
	require.ErrorContains(t, err, "protocol version")
	plain := g.exchange(withKey(testAdminKey))
	require.Equal(t, 400, plain.status)
	require.Contains(t, plain.text, "HTTP request to an HTTPS server")
}

func TestARenewedCertificateIsServedWithoutARestart(t *testing.T) {
	g, files, logs := serveTLS(t)
	before := trusting(t, files.CertFile, nil)
	_, err := getTLS(before, g.address)
	require.NoError(t, err)

	// Half of a renewal: the files do not fit together.
	renewed, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Rename(renewed.CertFile, files.CertFile))
	require.Eventually(t, func() bool {
		_, err := getTLS(before, g.address)
		require.NoError(t, err, "the last good one stays")
		return logs.FilterMessage("a changed file cannot be used, what it held before stays in use").Len() == 1
	}, patience, testPoll)

	require.NoError(t, os.Rename(renewed.KeyFile, files.KeyFile))
	after := trusting(t, files.CertFile, nil)
	require.Eventually(t, func() bool {
		_, err := getTLS(after, g.address)
		return err == nil
	}, patience, testPoll)
	_, err = getTLS(before, g.address)
	require.ErrorContains(t, err, "certificate")
}

func TestWhatIsNoCertificateIsRefused(t *testing.T) {
	one, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	other, err := servers.NewCertificate(t.TempDir())
	require.NoError(t, err)
	for _, c := range []struct{ rule, cert, key, want string }{
		{"another certificate's key", one.CertFile, other.KeyFile, "read the admin endpoint's certificate in " + one.CertFile + " and " + other.KeyFile + ": tls: private key does not match public key"},
		{"the files the wrong way round", one.KeyFile, one.CertFile, "read the admin endpoint's certificate in " + one.KeyFile + " and " + one.CertFile + ": tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"},
		{"a file that is not there", one.CertFile, one.KeyFile + "x", "read the admin endpoint's certificate: open " + one.KeyFile + "x: no such file or directory"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := OpenCertificate(c.cert, c.key, zap.NewNop())
			require.EqualError(t, err, c.want)
		})
	}
}

// Connections that never finish the handshake are strangers as any.
func TestHandshakesThatNeverEndDoNotCrowdOutWhoHasAKey(t *testing.T) {
	g, files, _ := serveTLS(t)
	for range maxStrangers + 20 {
		conn := g.dial()
		defer conn.Close()
		_, err := conn.Write([]byte{22, 3, 1}) // the beginning of a record
		require.NoError(t, err)
	}
	response, err := getTLS(trusting(t, files.CertFile, nil), g.address)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode)
}
