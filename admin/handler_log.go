package admin

import (
	"net/http"
	"path"

	"go.uber.org/zap"
)

const (
	// maxLoggedPath bounds how many bytes of a path a line of the log shows.
	maxLoggedPath = 256

	roleAdmin = "admin"
)

// record logs each write of a client whose key is known, whatever became of it, and any failure
// of the store or of APISIX, the latter at most once a minute as they repeat themselves. Of the
// request only its method and path are shown, never a header, a query or a body; a path is
// shown as it was escaped, which leaves no control character in it. Unknown keys are counted,
// not logged: anyone could fill the log with them.
func (h *Handler) record(r *http.Request, status int, err error) {
	fields := []zap.Field{zap.String("method", r.Method), zap.String("path", loggedPath(r))}
	failed := status >= http.StatusInternalServerError
	if failed {
		h.complaint.Error("admin request failed", append(fields, zap.Error(err))...)
	}
	role := h.gate.keys.role(r.Header.Get(keyHeader))
	if r.Method == http.MethodGet || r.Method == http.MethodHead || role == "" {
		return
	}
	fields = append(fields, zap.Int("status", status), zap.String("role", role))
	if r.URL.Query().Get(argumentDryRun) == "true" && path.Base(r.URL.Path) == modelName {
		fields = append(fields, zap.Bool(argumentDryRun, true)) // it wrote nothing
	}
	if failed {
		fields = append(fields, zap.Error(err))
	}
	h.logger.Info("admin write", fields...)
}

func loggedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if len(path) > maxLoggedPath {
		return path[:maxLoggedPath] + "..."
	}
	return path
}
