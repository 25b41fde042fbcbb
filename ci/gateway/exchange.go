package gateway

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"graphql-limit-count/internal/extplugin"
)

const (
	// maxBody bounds a request body that is read on behalf of the runner, in bytes.
	maxBody = 8 << 20

	requestIDBytes = 16 // nginx's $request_id is 32 hexadecimal digits
)

// exchange is one client's request on its way through the phases. It belongs to one
// goroutine.
type exchange struct {
	request *http.Request // a copy whose headers the plugins may change
	writer  http.ResponseWriter
	id      string
	path    string         // decoded and normalised, as nginx's $uri
	args    []extplugin.KV // decoded, in order
	host    string         // the Host that the upstream is to see under pass_host "pass"

	upstreamPath string // escaped; empty until something rewrites it
	rawArgs      string // what follows the question mark, without it

	binding  *binding
	consumer string

	body     []byte
	bodyRead bool
	tooLarge bool

	respHeader http.Header // set by plugins, for whatever response is sent
}

func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	id := make([]byte, requestIDBytes)
	_, _ = rand.Read(id) // never fails
	copied := r.Clone(r.Context())
	return &exchange{
		request:    copied,
		writer:     w,
		id:         hex.EncodeToString(id),
		path:       normalise(r.URL.Path),
		args:       parseArgs(r.URL.RawQuery),
		rawArgs:    r.URL.RawQuery,
		host:       r.Host,
		respHeader: http.Header{},
	}
}

// normalise resolves dots and merges slashes, as nginx does before it sets $uri. A
// trailing slash stays.
func normalise(decoded string) string {
	clean := path.Clean("/" + decoded)
	if clean != "/" && (strings.HasSuffix(decoded, "/") || strings.HasSuffix(decoded, "/.") || strings.HasSuffix(decoded, "/..")) {
		clean += "/"
	}
	return clean
}

// parseArgs splits and decodes a query string and keeps its order. A part that is
// badly escaped is kept as it is.
func parseArgs(raw string) (args []extplugin.KV) {
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		args = append(args, extplugin.KV{Name: unescape(name), Value: unescape(value), NoValue: !found})
	}
	return args
}

func unescape(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}

// encodeArgs writes args as a query string.
func encodeArgs(args []extplugin.KV) string {
	parts := make([]string, 0, len(args))
	for _, a := range args {
		part := url.QueryEscape(a.Name)
		if !a.NoValue {
			part += "=" + url.QueryEscape(a.Value)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "&")
}

// hostname is nginx's $host: the Host without its port, in lower case.
func (x *exchange) hostname() string {
	host := x.request.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(host)
}

// rewriteURI sends the request to another path, which may bring arguments of its own.
func (x *exchange) rewriteURI(uri string) {
	rewritten, args, found := strings.Cut(uri, "?")
	x.upstreamPath = escapePath(rewritten)
	if found {
		x.args, x.rawArgs = parseArgs(args), args
	}
}

// escapePath escapes what cannot stand in a request line's path.
func escapePath(decoded string) string {
	return (&url.URL{Path: decoded}).EscapedPath()
}

// upstreamURI is nginx's $upstream_uri: empty until the path was rewritten.
func (x *exchange) upstreamURI() string {
	if x.upstreamPath == "" || x.rawArgs == "" {
		return x.upstreamPath
	}
	return x.upstreamPath + "?" + x.rawArgs
}

// authenticate is key-auth: it finds the consumer by the key in the header or the
// argument and adds what only the consumer has to the plugins.
func (x *exchange) authenticate(router *router, conf *keyAuthConf) *answer {
	if conf == nil {
		return nil
	}
	key := cmp.Or(x.request.Header.Get(conf.Header), x.arg(conf.Query))
	if key == "" {
		return refusal(http.StatusUnauthorized, "message", "Missing API key in request")
	}
	rec := router.consumers[key]
	if rec == nil {
		return refusal(http.StatusUnauthorized, "message", "Invalid API key in request")
	}
	if conf.HideCredentials {
		x.request.Header.Del(conf.Header)
		x.rewriteArgs([]extplugin.KV{{Name: conf.Query, NoValue: true}})
	}
	x.consumer = rec.id
	x.request.Header.Set("X-Consumer-Username", rec.id)
	x.binding = x.binding.with(rec)
	return nil
}

// arg is the first argument of the name.
func (x *exchange) arg(name string) string {
	for _, a := range x.args {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// Body reads the client's body whole, once, and keeps it for the upstream.
func (x *exchange) Body() ([]byte, error) {
	if x.bodyRead {
		return x.body, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.writer, x.request.Body, maxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		x.tooLarge = true
	}
	if err != nil {
		return nil, fmt.Errorf("read the client's body: %w", err)
	}
	x.setBody(body)
	return body, nil
}

// setBody replaces the body that the upstream gets.
func (x *exchange) setBody(body []byte) {
	x.body, x.bodyRead = body, true
	x.request.Body = io.NopCloser(bytes.NewReader(body))
	x.request.ContentLength = int64(len(body))
	x.request.TransferEncoding = nil
}

// send writes an answer of the gateway itself, with the headers that plugins have set
// before. The body that the client is still sending is read first: a client that
// writes before it reads must not find its connection reset.
func (x *exchange) send(w http.ResponseWriter, a *answer) {
	if !x.bodyRead && x.request.Header.Get("Expect") == "" {
		_, _ = io.Copy(io.Discard, io.LimitReader(x.request.Body, maxBody)) // the answer is the same either way
	}
	header := w.Header()
	maps.Copy(header, x.respHeader)
	maps.Copy(header, a.header)
	body := a.body
	if len(body) == 0 && a.status >= http.StatusBadRequest {
		header.Set("Content-Type", "text/html; charset=utf-8")
		body = page(a.status)
	} else if header.Get("Content-Type") == "" {
		header.Set("Content-Type", textPlain)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	if x.request.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that went away is not an error
	}
}

// page is an HTML page that says the status, as nginx's do.
func page(status int) []byte {
	title := html.EscapeString(fmt.Sprintf("%d %s", status, pageTitle(status)))
	return []byte("<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n<hr><center>" + ServerName + "</center>\r\n</body>\r\n</html>\r\n")
}

// pageTitle is nginx's text where it differs from Go's.
func pageTitle(status int) string {
	switch status {
	case http.StatusServiceUnavailable:
		return "Service Temporarily Unavailable"
	case http.StatusUnauthorized:
		return "Authorization Required"
	}
	return http.StatusText(status)
}
