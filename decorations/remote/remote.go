// Package remote reads and writes a service's decorations through the admin endpoint, and
// asks upstreams for their schemas. It is what the command line does with package decorations.
package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"graphql-limit-count/decorations"
)

const (
	// DefaultURL is where the admin endpoint listens unless it is told otherwise.
	DefaultURL = "http://127.0.0.1:9181"
	// DefaultTimeout is Config.Timeout where it is not set.
	DefaultTimeout = 30 * time.Second

	connectTimeout = 5 * time.Second
	// continueTimeout is how long a body is held back for the server to ask for it.
	continueTimeout = time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 32 << 20
	// maxQuoted bounds how much of an answer that is not understood is repeated.
	maxQuoted = 200
	// keyHeader carries the key, as in APISIX's Admin API.
	keyHeader = "X-API-KEY"
	jsonType  = "application/json"
	// plainToTLS is what Go's server answers to who does not encrypt.
	plainToTLS = "HTTP request to an HTTPS server"
)

// Config says where the admin endpoint is.
type Config struct {
	// URL is the endpoint's; only scheme, host, port and a path before /apisix count. Default
	// DefaultURL.
	URL string
	// Key is sent with every request. Required.
	Key string
	// CAFile holds the certificates that the endpoint's is checked against, in PEM. Default:
	// the system's.
	CAFile string
	// Timeout bounds each request. Default DefaultTimeout.
	Timeout time.Duration
}

// Client talks to one admin endpoint. It is safe for concurrent use. Close it.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client. It reads CAFile and connects to nothing. A URL that is not http or
// https, that holds a password, or a missing key, are errors.
func New(cfg Config) (*Client, error) {
	if cfg.URL == "" {
		cfg.URL = DefaultURL
	}
	if cfg.Key == "" {
		return nil, errors.New("the admin key is missing")
	}
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("admin endpoint: %w", err)
	}
	client, err := newHTTPClient(cfg.CAFile, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &Client{base: strings.TrimRight(base.Scheme+"://"+base.Host+base.EscapedPath(), "/"), key: cfg.Key, http: client}, nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"): // it is not repeated, it may hold a password
		return nil, errors.New("the URL has no scheme, http:// or https:// is missing before the host")
	case err != nil: // its text may hold a password
		return nil, errors.New("the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%.200q is no http or https URL", u.Redacted())
	case u.User != nil:
		return nil, errors.New("the URL must not hold a user or password")
	}
	return u, nil
}

// newHTTPClient follows no redirects: they would carry the key to another place.
func newHTTPClient(caFile string, timeout time.Duration) (*http.Client, error) {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		DialContext:     (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		// See do.
		ExpectContinueTimeout: continueTimeout,
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates: %s holds none in PEM", caFile)
		}
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Refusal is an answer that says why a request was not served.
type Refusal struct {
	Status  int
	Message string
}

// Error says what the endpoint answered.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the admin endpoint answers %d: %s", r.Status, r.Message)
}

// Pull returns a service's decorations, ordered by field path, and what was left out of them. A refusal is a *Refusal.
func (c *Client) Pull(ctx context.Context, serviceID string) (decorations.Set, error) {
	text, err := c.do(ctx, http.MethodGet, serviceID, url.Values{"format": {"json"}}, nil)
	if err != nil {
		return decorations.Set{}, fmt.Errorf("pull the decorations of service %s: %w", serviceID, err)
	}
	var answer struct {
		Decorations []decorations.Decoration `json:"decorations"`
		LeftOut     []decorations.LeftOut    `json:"left_out"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return decorations.Set{}, fmt.Errorf("pull the decorations of service %s: read the answer: %w", serviceID, err)
	}
	set := decorations.NewSet(serviceID, answer.Decorations)
	set.LeftOut = answer.LeftOut
	return set, nil
}

// Push makes a service's decorations those of the set, all or nothing, and returns what that
// changed. With dryRun nothing is written and the result is the same. A refusal is a *Refusal.
func (c *Client) Push(ctx context.Context, serviceID string, set decorations.Set, dryRun bool) (decorations.Result, error) {
	set.ServiceID = serviceID
	body, err := set.JSON()
	if err != nil {
		return decorations.Result{}, fmt.Errorf("push decorations: %w", err)
	}
	query := url.Values{}
	if dryRun {
		query.Set("dry_run", "true")
	}
	text, err := c.do(ctx, http.MethodPut, serviceID, query, body)
	if err != nil {
		return decorations.Result{}, fmt.Errorf("push decorations to service %s: %w", serviceID, err)
	}
	var result decorations.Result
	if err := json.Unmarshal(text, &result); err != nil {
		return decorations.Result{}, fmt.Errorf("push decorations to service %s: read the answer: %w", serviceID, err)
	}
	return result, nil
}

// do sends a request about a service's whole set and returns the body of a 200 answer.
func (c *Client) do(ctx context.Context, method, serviceID string, query url.Values, body []byte) ([]byte, error) {
	address := c.base + "/apisix/admin/services/" + url.PathEscape(serviceID) + "/graphql_cost_model"
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set(keyHeader, c.key)
	request.Header.Set("Accept", jsonType)
	if body != nil {
		request.Header.Set("Content-Type", jsonType)
		// A server that refuses the request for another reason than its body says why only if
		// it need not break the connection in the middle of the body.
		request.Header.Set("Expect", "100-continue")
	}
	status, text, err := send(c.http, request)
	if err != nil {
		return nil, err
	}
	if status == http.StatusBadRequest && bytes.Contains(text, []byte(plainToTLS)) {
		return nil, errors.New("the admin endpoint speaks https, and its URL begins with http://")
	}
	if status != http.StatusOK {
		return nil, &Refusal{Status: status, Message: message(text)}
	}
	return text, nil
}

// send returns the status and the bounded body of an answer.
func send(client *http.Client, request *http.Request) (int, []byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(text) > maxAnswer {
		return 0, nil, fmt.Errorf("read the answer: it is larger than %d bytes", maxAnswer)
	}
	return response.StatusCode, text, nil
}

// message is what a refusal says, or the beginning of an answer that is none of ours.
func message(text []byte) string {
	var body struct {
		Error       string `json:"error_msg"`
		Message     string `json:"message"`
		Description string `json:"description"` // why a key is refused
	}
	if json.Unmarshal(text, &body) == nil && body.Error+body.Message != "" {
		said := body.Error + body.Message // an answer has one of the two
		if body.Description != "" {
			said += ": " + body.Description
		}
		return said
	}
	return fmt.Sprintf("%q", text[:min(len(text), maxQuoted)])
}
