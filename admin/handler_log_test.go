package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestEachWriteByAKnownKeyIsLogged(t *testing.T) {
	e := startWithSchemas(t, nil)
	const secret = "nobody may read this"
	e.do(http.MethodPut, decorationsPath("shop", "d1")+"?x="+strings.ReplaceAll(secret, " ", "+"), `{"field_path":"Query.a","desc":"`+secret+`"}`)
	e.do(http.MethodGet, decorationsPath("shop"), nil)
	e.do(http.MethodPut, modelPath("shop", "?dry_run=true"), modelYAML)
	e.do(http.MethodDelete, "/apisix/admin/services/sh%0aop/graphql_cost_decorations/d%1b%5B31m", nil)
	e.send(e.url, "another key", http.MethodDelete, decorationsPath("shop", "d1"), nil)
	e.send(e.url, testViewerKey, http.MethodDelete, decorationsPath("shop", "d1"), nil)
	e.do(http.MethodPatch, decorationsPath("shop", strings.Repeat("d", 300)), `{}`)
	_, err := e.store.db.ExecContext(t.Context(), "DROP TABLE decoration")
	require.NoError(t, err)
	e.do(http.MethodDelete, decorationsPath("shop", "d1"), nil)

	var lines []map[string]any
	for _, entry := range e.logs.FilterMessage("admin write").All() {
		require.Equal(t, zap.InfoLevel, entry.Level)
		lines = append(lines, entry.ContextMap())
	}
	const path = "/apisix/admin/services/shop/graphql_cost_decorations/"
	require.Equal(t, []map[string]any{
		{"method": "PUT", "path": path + "d1", "status": int64(201), "role": "admin"},
		{"method": "PUT", "path": "/apisix/admin/services/shop/graphql_cost_model", "status": int64(200), "role": "admin", "dry_run": true},
		{"method": "DELETE", "path": "/apisix/admin/services/sh%0aop/graphql_cost_decorations/d%1b%5B31m", "status": int64(404), "role": "admin"},
		{"method": "DELETE", "path": path + "d1", "status": int64(401), "role": "viewer"},
		{"method": "PATCH", "path": (path + strings.Repeat("d", 300))[:256] + "...", "status": int64(404), "role": "admin"},
		{"method": "DELETE", "path": path + "d1", "status": int64(503), "role": "admin",
			"error": "delete decoration d1 of service shop: SQL logic error: no such table: decoration (1)"},
	}, lines)
	for _, entry := range e.logs.All() {
		for _, value := range entry.ContextMap() {
			text, _ := value.(string)
			require.NotContains(t, text, secret)
			require.NotContains(t, text, testAdminKey)
			require.NotContains(t, text, "\n")
		}
	}
}
