package apisix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of one call. The Admin API stands on the same host or network, so one
// that needs longer is in trouble and must not take its callers along.
const (
	connectTimeout  = 2 * time.Second
	callTimeout     = 5 * time.Second
	idleTimeout     = 30 * time.Second
	maxIdlePerHost  = 2
	maxHeaderBytes  = 64 << 10 // of an answer
	maxRecordBytes  = 4 << 20  // one object
	maxListBytes    = 64 << 20 // all services
	listPageSize    = 500      // the most that APISIX gives in one page
	maxListPages    = 2000     // a million services
	maxListAttempts = 3        // a collection may change between its pages
)

const (
	adminPrefix  = "/apisix/admin"
	apiKeyHeader = "X-API-KEY"
	// maxIDLength is what APISIX's schema allows for an id, maxUsernameLength for the
	// name of a consumer.
	maxIDLength       = 64
	maxUsernameLength = 100
)

// Config says where the Admin API is.
type Config struct {
	// URL is the Admin API's base, such as http://127.0.0.1:9180; a trailing
	// /apisix/admin is tolerated. Required.
	URL string
	// Key is sent as X-API-KEY and appears in no error and no log. A viewer's key
	// is enough. Empty sends none.
	Key string
	// HTTP makes the calls; its redirect policy is replaced, because the key must
	// not follow a redirect to another host. Default: a client without proxy,
	// 2 s to connect. Whatever it is, one call takes at most 5 s.
	HTTP *http.Client
}

// Validate reports what is wrong with the configuration, as an error that names
// the field and never holds the key. A Client of a configuration that does not
// validate answers every call with that same error.
func (c Config) Validate() error {
	_, err := c.base()
	return err
}

func (c Config) base() (string, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil: // the parser's text repeats the URL, which may hold a password
		return "", errors.New("admin API url: not a URL")
	case u.Scheme != SchemeHTTP && u.Scheme != SchemeHTTPS:
		return "", errors.New("admin API url: must start with http:// or https://")
	case u.Host == "":
		return "", errors.New("admin API url: has no host")
	case u.User != nil:
		return "", errors.New("admin API url: must not carry a user or password")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("admin API url: must not have a query or fragment")
	}
	for i := range len(c.Key) {
		if c.Key[i] < ' ' || c.Key[i] > '~' {
			return "", errors.New("admin API key: holds a byte that no header may have")
		}
	}
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), adminPrefix)
	return u.Scheme + "://" + u.Host + path + adminPrefix, nil
}

// Client reads objects from APISIX's Admin API, one call each, nothing remembered.
// It is safe for concurrent use.
type Client struct {
	base string
	err  error // of the configuration
	key  string
	http *http.Client
}

// NewClient returns a client of the Admin API at cfg.URL. It does no I/O; a bad
// configuration is the error of every call, see [Config.Validate].
func NewClient(cfg Config) *Client {
	c := &Client{key: cfg.Key}
	c.base, c.err = cfg.base()
	if cfg.HTTP != nil {
		own := *cfg.HTTP
		c.http = &own
	} else {
		c.http = &http.Client{Transport: newTransport()}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// Close closes the connections that are kept for later calls. Calls after it
// still work.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Service reads one service. An id that APISIX does not have, or could not have,
// is ErrNotFound.
func (c *Client) Service(ctx context.Context, id string) (Service, error) {
	var s Service
	rec, obj, err := c.object(ctx, "services", id)
	if err == nil {
		s = Service{ID: rec.id(obj.ID), Incarnation: rec.incarnation(obj.CreateTime), CreateTime: obj.CreateTime.seconds(),
			UpstreamID: string(obj.UpstreamID), Plugins: obj.Plugins}
		s.Upstream, err = obj.Upstream.upstream()
	}
	if err != nil {
		return Service{}, fmt.Errorf("read service %q from APISIX's Admin API: %w", id, err)
	}
	return s, nil
}

// Route reads one route. An id that APISIX does not have, or could not have, is
// ErrNotFound.
func (c *Client) Route(ctx context.Context, id string) (Route, error) {
	var r Route
	rec, obj, err := c.object(ctx, "routes", id)
	if err == nil {
		r = Route{ID: rec.id(obj.ID), Incarnation: rec.incarnation(obj.CreateTime),
			ServiceID: string(obj.ServiceID), PluginConfigID: string(obj.PluginConfigID),
			UpstreamID: string(obj.UpstreamID), Plugins: obj.Plugins}
		r.Upstream, err = obj.Upstream.upstream()
	}
	if err != nil {
		return Route{}, fmt.Errorf("read route %q from APISIX's Admin API: %w", id, err)
	}
	return r, nil
}

// Upstream reads one upstream object. An id that APISIX does not have, or could
// not have, is ErrNotFound.
func (c *Client) Upstream(ctx context.Context, id string) (Upstream, error) {
	u, err := c.upstream(ctx, id)
	if err != nil {
		return Upstream{}, fmt.Errorf("read upstream %q from APISIX's Admin API: %w", id, err)
	}
	return *u, nil
}

func (c *Client) upstream(ctx context.Context, id string) (*Upstream, error) {
	rec, obj, err := c.object(ctx, "upstreams", id)
	if err != nil {
		return nil, err
	}
	wire := new(wireUpstream)
	if err := json.Unmarshal(rec.Value, wire); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	u, err := wire.upstream()
	if err != nil {
		return nil, err
	}
	u.ID, u.Incarnation = rec.id(obj.ID), rec.incarnation(obj.CreateTime)
	return u, nil
}

// object reads one object of a collection.
func (c *Client) object(ctx context.Context, collection, id string) (record, wireObject, error) {
	if !validID(id) {
		return record{}, wireObject{}, ErrNotFound
	}
	body, err := c.get(ctx, "/"+collection+"/"+id, maxRecordBytes)
	if err != nil {
		return record{}, wireObject{}, err
	}
	var obj wireObject
	rec, err := decodeRecord(body)
	if err == nil {
		err = json.Unmarshal(rec.Value, &obj)
	}
	if err != nil {
		return record{}, wireObject{}, fmt.Errorf("decode the answer: %w", err)
	}
	return rec, obj, nil
}

// validID reports whether APISIX could hold an object under this id: its schema
// allows A-Za-z0-9._- up to 64 bytes, and a dot segment cannot be asked for in a
// path. It is what keeps an id from reaching another path of the Admin API.
func validID(id string) bool { return len(id) <= maxIDLength && validName(id) }

// validName is validID for names of any length.
func validName(id string) bool {
	if id == "" || id == "." || id == ".." {
		return false
	}
	for i := range len(id) {
		b := id[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}

// get returns the body of a 200 answer of at most limit bytes.
func (c *Client) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	if c.key != "" {
		req.Header.Set(apiKeyHeader, c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("get %s: %w", c.base+path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.base+path, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", c.base+path, limit)
	}
	return body, c.checkStatus(resp.StatusCode, path, body)
}

func (c *Client) checkStatus(status int, path string, body []byte) error {
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound && saysNotFound(body):
		return ErrNotFound
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("status %d from %s: %w", status, c.base+path, ErrKeyRefused)
	default:
		return fmt.Errorf("unexpected status %d from %s", status, c.base+path)
	}
}

// saysNotFound tells the Admin API's own 404 (a JSON object with a message, "Key
// not found") from the 404 of whatever else may listen at a mistyped address.
// APISIX's proxy port is the likely one: it answers "404 Route Not Found" to
// everything, and taking that for an answer would make every service look deleted.
func saysNotFound(body []byte) bool {
	var said struct {
		Message  string `json:"message"`
		ErrorMsg string `json:"error_msg"`
	}
	if json.Unmarshal(bytes.TrimSpace(body), &said) != nil {
		return false
	}
	text := strings.ToLower(said.Message + said.ErrorMsg)
	return text != "" && !strings.Contains(text, "route not found")
}
