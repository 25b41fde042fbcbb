package plugins_test

import (
	"testing"

	"graphql-limit-count/internal/extplugin"
)

// TestUploads: section 1, multipart requests.
func TestUploads(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allow_multipart":true,"max_batch":2}`)
	part := func(name, headers, text string) string {
		return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n" + headers + "\r\n" + text + "\r\n"
	}
	operations := part("operations", "", `{"query":"{a{b}}","variables":{"file":null}}`)
	rest := part("map", "", `{"0":["variables.file"]}`) +
		"--B\r\nContent-Disposition: form-data; name=\"0\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--B--\r\n"
	send := func(body string) answer {
		return route.send(query{body: body, headers: map[string]string{"content-type": "multipart/form-data; boundary=B"}})
	}
	send(operations + rest).costs("2")
	send("\r\n" + operations + rest + "\r\n \t\r\n").costs("2")
	send(part("operations", "Content-Type: application/json; charset=utf-8\r\nContent-Transfer-Encoding: 8BIT\r\n", `{"query":"{a}"}`) + rest).costs("1")
	send(part("operations", "", `[{"query":"{a}"},{"query":"{a}"}]`) + rest).costs("2")
	const prefix = "invalid graphql request, "
	for _, c := range []struct{ name, body, message string }{
		{"no operations", rest, prefix + "the multipart body has no operations part"},
		{"empty operations", part("operations", "", "") + rest, prefix + "the multipart body has no operations part"},
		{"operations twice", operations + operations + rest, prefix + "the multipart body has more than one operations part"},
		{"operations that are no JSON", part("operations", "", "{a}") + rest, prefix + "Expected object key string but found invalid token at character 2"},
		{"encoded operations", part("operations", "Content-Transfer-Encoding: base64\r\n", "e30=") + rest, prefix + "the operations part is encoded as base64"},
		{"operations in another charset", part("operations", "Content-Type: application/json; charset=utf-7\r\n", "{}") + rest, prefix + "the operations part is not in UTF-8"},
		{"cut off in the operations", operations[:80], prefix + "malformed multipart body"},
		{"cut off after the operations", operations + "--B\r\nContent-Disp", prefix + "malformed multipart body"},
		{"no parts", "--B--\r\n", prefix + "the multipart body has no operations part"},
		{"no delimiter", "text", prefix + "malformed multipart body"},
	} {
		t.Run(c.name, func(t *testing.T) { send(c.body).badRequest(c.message) })
	}
	for _, contentType := range []string{"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"", "multipart/form-data; x"} {
		t.Run("no boundary in "+contentType, func(t *testing.T) {
			route.send(query{body: operations + rest, headers: map[string]string{"content-type": contentType}}).
				badRequest(prefix + "the multipart body has no boundary")
		})
	}
	t.Run("a second Content-Type could name another boundary", func(t *testing.T) {
		q := query{body: operations + rest, headers: map[string]string{"content-type": "multipart/form-data; boundary=B"}}
		q.more = []extplugin.KV{{Name: "content-type", Value: "multipart/form-data; boundary=C"}}
		route.send(q).badRequest(prefix + "more than one content-type")
		q.headers["content-type"] += "; boundary=C"
		q.more = nil
		route.send(q).badRequest(prefix + "the multipart body has no boundary")
	})
	t.Run("a compressed upload", func(t *testing.T) {
		route.send(query{body: zipped(t, operations+rest), headers: map[string]string{
			"content-type": "multipart/form-data; boundary=B", "content-encoding": "gzip",
		}}).costs("2")
	})
	t.Run("only where it is allowed", func(t *testing.T) {
		s.route(t, `{`+plenty+`}`).send(query{body: operations + rest, headers: map[string]string{"content-type": "multipart/form-data; boundary=B"}}).
			badRequest(typeError + "multipart/form-data; boundary=B")
	})
}
