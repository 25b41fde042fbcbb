package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const testKey = "test-admin-key"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observed is a logger and what it logged at warn and above.
func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	return zap.New(core), logs
}

// testGateway starts a gateway on free ports and stops it with the test.
func testGateway(tb testing.TB, change ...func(*Config)) *Gateway {
	tb.Helper()
	cfg := Config{FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", AdminKey: testKey, Logger: zap.NewNop()}
	for _, c := range change {
		c(&cfg)
	}
	g, err := Start(context.Background(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(g.Close)
	return g
}

// reply is a response read whole.
type reply struct {
	status int
	header http.Header
	text   string
}

// json decodes the reply's body as an object.
func (r reply) json(tb testing.TB) map[string]any {
	tb.Helper()
	var object map[string]any
	require.NoError(tb, json.Unmarshal([]byte(r.text), &object), r.text)
	return object
}

// client closes every connection after its response, so that no test leaves one.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send sends one request with the headers given as name, value pairs.
func send(tb testing.TB, method, url, body string, headers ...string) reply {
	tb.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(tb, err)
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Add(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := client.Do(req)
	require.NoError(tb, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	return reply{status: resp.StatusCode, header: resp.Header, text: string(bytes.TrimSpace(text))}
}

// adminCall calls the Admin API with the right key.
func (g *Gateway) adminCall(tb testing.TB, method, path, body string) reply {
	tb.Helper()
	return send(tb, method, g.AdminURL()+"/apisix/admin/"+path, body, "X-API-KEY", testKey)
}

// put stores an object and requires that this worked.
func (g *Gateway) put(tb testing.TB, path, body string) {
	tb.Helper()
	r := g.adminCall(tb, http.MethodPut, path, body)
	require.Less(tb, r.status, 300, r.text)
}

func TestStartNeedsALogger(t *testing.T) {
	_, err := Start(context.Background(), Config{FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"})
	require.EqualError(t, err, "start the development gateway: no logger")
}

func TestStartNamesTheAddressThatIsTaken(t *testing.T) {
	first := testGateway(t)
	taken := strings.TrimPrefix(first.FrontURL(), "http://")

	_, err := Start(context.Background(), Config{FrontAddr: taken, AdminAddr: "127.0.0.1:0", Logger: zap.NewNop()})
	require.ErrorContains(t, err, "start the development gateway's front: listen on "+taken)

	_, err = Start(context.Background(), Config{FrontAddr: "127.0.0.1:0", AdminAddr: taken, Logger: zap.NewNop()})
	require.ErrorContains(t, err, "start the development gateway's admin api: listen on "+taken)
}

func TestGatewayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	g, err := Start(ctx, Config{FrontAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", Logger: zap.NewNop()})
	require.NoError(t, err)
	cancel()
	<-g.done
	_, err = client.Get(g.FrontURL())
	require.Error(t, err)
	g.Close()
}

func TestEveryResponseNamesTheDevelopmentGateway(t *testing.T) {
	g := testGateway(t)
	require.Equal(t, []string{ServerName}, send(t, http.MethodGet, g.FrontURL()+"/", "").header["Server"])
	require.Equal(t, []string{ServerName}, send(t, http.MethodGet, g.AdminURL()+"/", "").header["Server"])
}
