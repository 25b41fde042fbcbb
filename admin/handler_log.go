package admin

import (
	"net/http"

	"go.uber.org/zap"
)

const (
	// maxLoggedPath bounds how many bytes of a path a line of the log shows.
	maxLoggedPath = 256

	roleAdmin = "admin"
)

// record logs a write that the key allowed, whatever became of it, and any failure of the
// store or of APISIX, the latter at most once a minute as they repeat themselves. Of the
// request only its method and path are shown, never a header, a query or a body; a path is
// shown as it was escaped, which leaves no control character in it. Requests whose key does not
// allow them are the business of who counts those.
func (h *Handler) record(r *http.Request, status int, err error) {
	fields := []zap.Field{zap.String("method", r.Method), zap.String("path", loggedPath(r))}
	failed := status >= http.StatusInternalServerError
	if failed {
		h.complaint.Error("admin request failed", append(fields, zap.Error(err))...)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || status == http.StatusUnauthorized {
		return
	}
	fields = append(fields, zap.Int("status", status), zap.String("role", roleAdmin))
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
