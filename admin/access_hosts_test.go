package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func notOurs(host string) string {
	return `the host "` + host + `" is not one of this endpoint's: call it by its IP address, or name the host in --admin-hosts`
}

// TestPagesOfOtherSitesGetNothing: what a browser sends for a page whose name leads here
// (DNS rebinding), or for a page of another site, is refused before any key is looked at.
func TestPagesOfOtherSitesGetNothing(t *testing.T) {
	g := startGuarded(t, func(cfg *Config) { cfg.Hosts = []string{"Gateway.internal.", "runner:9181", "10.1.2.3:9181", ""} }, nil)
	const pages, sites = "requests from pages of ", "requests from pages of other sites are not allowed"
	for _, c := range []struct {
		rule  string
		host  string
		lines []string
		want  string // "" when it is served
	}{
		{"an address", "127.0.0.1:9181", nil, ""},
		{"another address", "10.9.8.7", nil, ""},
		{"an IPv6 address", "[::1]:9181", nil, ""},
		{"an IPv6 address without a port", "[fd00::1]", nil, ""},
		{"localhost", "localhost:9181", nil, ""},
		{"localhost in capitals, with a dot", "LOCALHOST.", nil, ""},
		{"a known name", "gateway.internal:9181", nil, ""},
		{"a known name in capitals, with a dot and another port", "GATEWAY.internal.:80", nil, ""},
		{"a known name that was given with a port", "runner", nil, ""},
		{"a name that leads here", "evil.example:9181", nil, notOurs("evil.example:9181")},
		{"a name that ends as a known one", "evil-gateway.internal", nil, notOurs("evil-gateway.internal")},
		{"a name below a known one", "a.gateway.internal", nil, notOurs("a.gateway.internal")},
		{"a name that begins as an address", "127.0.0.1.evil.example", nil, notOurs("127.0.0.1.evil.example")},
		{"an address in another spelling", "0x7f.1", nil, notOurs("0x7f.1")},
		{"a name below localhost", "evil.localhost", nil, notOurs("evil.localhost")},
		{"none", "", nil, notOurs("")},
		{"a long one", strings.Repeat("a", 200), nil, notOurs(strings.Repeat("a", 128) + "...")},

		{"its own page", "localhost:9181", []string{"Origin: http://localhost:9181", "Sec-Fetch-Site: same-origin"}, ""},
		{"its own page behind a proxy that ends TLS", "gateway.internal", []string{"Origin: https://gateway.internal"}, ""},
		{"its own page, the port written out", "gateway.internal:443", []string{"Origin: https://gateway.internal"}, ""},
		{"typed into the address bar", "localhost:9181", []string{"Sec-Fetch-Site: none"}, ""},
		{"a page of another port", "localhost:9181", []string{"Origin: http://localhost:3000"}, pages + `"http://localhost:3000" are not allowed`},
		{"a page of another scheme's port", "gateway.internal:80", []string{"Origin: https://gateway.internal"}, pages + `"https://gateway.internal" are not allowed`},
		{"a page of another site", "localhost:9181", []string{"Origin: http://evil.example"}, pages + `"http://evil.example" are not allowed`},
		{"a page of no site", "localhost:9181", []string{"Origin: null"}, pages + `"null" are not allowed`},
		{"an empty origin", "localhost:9181", []string{"Origin: "}, pages + `"" are not allowed`},
		{"two origins", "localhost:9181", []string{"Origin: http://localhost:9181", "Origin: http://evil.example"}, pages + `"http://evil.example" are not allowed`},
		{"an extension", "localhost:9181", []string{"Origin: chrome-extension://localhost:9181"}, pages + `"chrome-extension://localhost:9181" are not allowed`},
		{"a user in the origin", "localhost:9181", []string{"Origin: http://localhost:9181@evil.example"}, pages + `"http://localhost:9181@evil.example" are not allowed`},
		{"an image on another site", "localhost:9181", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, sites},
		{"an image on another port", "localhost:9181", []string{"Sec-Fetch-Site: same-site"}, sites},
		{"a link on another site", "localhost:9181", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, sites},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, key := range []string{testAdminKey, ""} {
				answer := g.exchange(request("GET", readPath, append([]string{"Host: " + c.host, keyHeader + ": " + key}, c.lines...)...))
				if c.want == "" {
					require.Equal(t, map[string]int{testAdminKey: 200, "": 401}[key], answer.status, answer.text)
					continue
				}
				require.Equal(t, http.StatusForbidden, answer.status)
				require.Equal(t, "application/json", answer.header.Get("Content-Type"))
				var body map[string]string
				require.NoError(t, json.Unmarshal([]byte(answer.text), &body))
				require.Equal(t, map[string]string{"error_msg": c.want}, body)
			}
		})
	}
}

// Metrics are scraped by address or a known name; health is nobody's secret, and probed by
// any name.
func TestMetricsAndHealthForMonitoring(t *testing.T) {
	g := startGuarded(t, func(cfg *Config) { cfg.Hosts = []string{"runner"} }, nil)
	visit := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	for _, c := range []struct {
		rule, method, path, host string
		lines                    []string
		want                     int
	}{
		{"scraped by address", "GET", metricsPath, "10.0.0.1:9181", nil, 200},
		{"scraped by a known name", "GET", metricsPath, "runner:9181", nil, 200},
		{"scraped by another name", "GET", metricsPath, "other:9181", nil, 403},
		{"read by a page", "GET", metricsPath, "localhost:9181", []string{"Origin: http://evil.example"}, 403},
		{"put into a page", "GET", metricsPath, "localhost:9181", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{"framed", "GET", metricsPath, "localhost:9181", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"a link is followed", "GET", metricsPath, "localhost:9181", visit, 200},
		{"a form is sent", "POST", metricsPath, "localhost:9181", append(visit, "Content-Length: 0"), 403},
		{"health by address", "GET", healthPath, "10.0.0.1:9181", nil, 200},
		{"health by any name", "GET", healthPath, "probe.example", nil, 200},
		{"health from a page", "GET", healthPath, "localhost:9181", []string{"Origin: http://evil.example"}, 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			answer := g.exchange(request(c.method, c.path, append([]string{"Host: " + c.host}, c.lines...)...))
			require.Equal(t, c.want, answer.status, answer.text)
		})
	}
}

func TestWhatIsNoNameOfAHostIsRefused(t *testing.T) {
	for _, host := range []string{"http://runner", "*.internal", "a b", "runner/metrics", "a:b:c", "user@runner"} {
		_, err := NewHandler(Config{Keys: keysOf(t, "k", ""), Hosts: []string{host}, Logger: zap.NewNop()})
		require.EqualError(t, err, `configure the admin endpoint: "`+host+`" is not the name of a host`)
	}
}

// FuzzHosts: whatever the headers say, a request under another name, or from another site,
// is refused; and nothing panics.
func FuzzHosts(f *testing.F) {
	for _, seed := range [][2]string{
		{"localhost", "http://localhost"}, {"[::1]:1", "http://[::1]:1"}, {"[", "http://["}, {"a:b:c", "null"}, {"runner:9181", "https://runner"}, {"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	names, err := newHostNames([]string{"runner"})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, host, origin string) {
		if names.allow(host) {
			name := hostOf(host)
			require.True(t, name == "runner" || name == "localhost" || strings.ContainsAny(name, ":.0123456789"), "%q", host)
			require.NotContains(t, name, "evil")
		}
		if sameHost(origin, host) {
			require.True(t, strings.HasPrefix(origin, "http"))
			require.NotEmpty(t, hostOf(host))
		}
	})
}
