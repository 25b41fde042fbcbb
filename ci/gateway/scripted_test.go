package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/internal/extplugin"
)

// script is the test plugin's configuration: what it asks, changes and answers.
type script struct {
	Ask  []string `json:"ask,omitempty"`  // variables; the answer to the client is their values
	Body bool     `json:"body,omitempty"` // the body as well

	Show bool `json:"show,omitempty"` // answer with the call as the runner sees it

	Status  *int              `json:"status,omitempty"` // Stop with it
	Text    string            `json:"text,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // of a Stop

	Path        string            `json:"path,omitempty"`
	Args        map[string]string `json:"args,omitempty"` // empty value: removed
	SetHeaders  map[string]string `json:"set_headers,omitempty"`
	RespHeaders map[string]string `json:"resp_headers,omitempty"`
}

// scripted is the test plugin.
type scripted struct{ plugin.DefaultPlugin }

func (*scripted) Name() string { return "scripted" }

func (*scripted) ParseConf(text []byte) (any, error) {
	s := &script{}
	return s, json.Unmarshal(text, s)
}

func (*scripted) RequestFilter(conf any, w http.ResponseWriter, r pkghttp.Request) {
	s := conf.(*script)
	for name, value := range s.RespHeaders {
		r.RespHeader().Set(name, value)
	}
	for name, value := range s.SetHeaders {
		if value == "" {
			r.Header().Del(name)
			continue
		}
		r.Header().Set(name, value)
	}
	for name, value := range s.Args {
		if value == "" {
			r.Args().Del(name)
			continue
		}
		r.Args().Set(name, value)
	}
	if s.Path != "" {
		r.SetPath([]byte(s.Path))
	}
	if s.Show {
		answerJSON(w, map[string]any{"src": r.SrcIP().String(), "bytes": len(r.SrcIP()), "method": r.Method(), "path": string(r.Path()), "args": r.Args(), "headers": r.Header().View()})
	}
	if len(s.Ask) > 0 || s.Body {
		answerJSON(w, s.answers(r))
	}
	if s.Status != nil {
		for name, value := range s.Headers {
			w.Header().Set(name, value)
		}
		if *s.Status != 0 {
			w.WriteHeader(*s.Status)
		}
		_, _ = io.WriteString(w, s.Text)
	}
}

// answers is what the gateway answered: a null is a variable without a value.
func (s *script) answers(r pkghttp.Request) map[string]any {
	got := map[string]any{}
	for _, name := range s.Ask {
		value, err := r.Var(name)
		switch {
		case err != nil:
			got[name] = err.Error()
		case value == nil:
			got[name] = nil
		default:
			got[name] = string(value)
		}
	}
	if s.Body {
		body, err := r.Body()
		got["body"] = string(body)
		if err != nil {
			got["body"] = err.Error()
		}
	}
	return got
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// testRunner serves the test plugin at the socket until stop is called.
func testRunner(tb testing.TB, socket string) (server *extplugin.Server, stop func()) {
	tb.Helper()
	server = extplugin.NewServer(extplugin.Config{Plugins: []plugin.Plugin{&scripted{}}, Logger: zap.NewNop()})
	listener, err := server.Listen(socket)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(tb, <-done)
		})
	}
	tb.Cleanup(stop)
	return server, stop
}

// testPair starts a runner and a gateway that calls it.
func testPair(tb testing.TB, change ...func(*Config)) (*Gateway, *extplugin.Server) {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "runner.sock")
	server, _ := testRunner(tb, socket)
	return testGateway(tb, append(change, func(c *Config) { c.RunnerSocket = socket })...), server
}

// ext is an ext-plugin's configuration with one script.
func ext(tb testing.TB, s script) string {
	tb.Helper()
	value, err := json.Marshal(s)
	require.NoError(tb, err)
	conf, err := json.Marshal(map[string]any{"conf": []any{map[string]any{"name": "scripted", "value": string(value)}}})
	require.NoError(tb, err)
	return string(conf)
}

func status(n int) *int { return &n }
