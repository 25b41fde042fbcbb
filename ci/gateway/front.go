package gateway

import (
	"net/http"

	"go.uber.org/zap"
)

// front serves the clients.
type front struct {
	store *store
	log   *zap.Logger
}

type runner struct{}

func newRunner(Config) *runner { return &runner{} }

func newFront(s *store, _ *runner, log *zap.Logger) *front { return &front{store: s, log: log} }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, "text/plain; charset=utf-8", http.StatusNotFound, map[string]any{"error_msg": "404 Route Not Found"})
}

func (f *front) close() {}
