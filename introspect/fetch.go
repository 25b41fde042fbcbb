package introspect

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

// maxHeaderBytes bounds the header of an upstream's answer.
const maxHeaderBytes = 64 << 10

// introspectionQuery asks for what costing reads and no more: root types, fields
// and what they return, arguments and their defaults, and the kinds of types, by which
// warnings about decorations know where fragments can lead. Deprecated fields are included,
// because they can still be selected and must not become free. Seven ofType links
// unwrap [[[T!]!]!]!, the deepest that GraphQL's reference query asks for.
const introspectionQuery = `query IntrospectionQuery {
  __schema {
    queryType { name }
    mutationType { name }
    subscriptionType { name }
    types {
      kind
      name
      fields(includeDeprecated: true) {
        name
        args { name defaultValue }
        type { ...TypeRef }
      }
    }
  }
}

fragment TypeRef on __Type {
  name
  ofType { name ofType { name ofType { name ofType { name
    ofType { name ofType { name ofType { name } } } } } } }
}
`

// fetch posts the introspection query to t and returns the body of a 200 answer.
// Each fetch has a connection of its own: there are few, to different places, and
// one that is not kept needs no looking after.
func (s *Source) fetch(ctx context.Context, t target, headers map[string]string) ([]byte, error) {
	req, err := newRequest(ctx, t, headers)
	if err != nil {
		return nil, err
	}
	transport := s.transport(t)
	defer transport.CloseIdleConnections()
	// Not through http.Client, which follows redirects and repeats the whole URL in
	// its errors.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("post the introspection query to %s: %w", t.shown, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected status %d from %s", resp.StatusCode, t.shown)
	}
	body, err := readBody(resp, s.maxBody)
	if err != nil {
		return nil, fmt.Errorf("read the introspection response of %s: %w", t.shown, err)
	}
	return body, nil
}

func newRequest(ctx context.Context, t target, headers map[string]string) (*http.Request, error) {
	body, err := json.Marshal(map[string]string{"query": introspectionQuery})
	if err != nil {
		return nil, fmt.Errorf("encode the introspection query: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.url.Host, bytes.NewReader(body))
	if err != nil {
		return nil, unasked("the address %q of the endpoint is not valid", t.url.Host)
	}
	u := t.url
	req.URL, req.Host = &u, t.host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("User-Agent", "graphql-limit-count")
	if u.User != nil {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if strings.EqualFold(name, "Host") {
			if !validHost(headers[name]) {
				return nil, unasked("the Host of introspection_headers is not a valid header value")
			}
			req.Host = headers[name]
			continue
		}
		req.Header.Set(name, headers[name])
	}
	return req, nil
}

func (s *Source) transport(t target) *http.Transport {
	return &http.Transport{
		DialContext:            s.dial,
		DisableKeepAlives:      true,
		DisableCompression:     true, // done by readBody, which counts
		MaxResponseHeaderBytes: maxHeaderBytes,
		TLSClientConfig: &tls.Config{
			ServerName:         t.serverName,
			RootCAs:            s.rootCAs,
			InsecureSkipVerify: !s.tlsVerify,
		},
	}
}

func (s *Source) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return s.dialHook(ctx, network, addr)
}

// readBody reads an answer of at most limit bytes, counted decompressed.
func readBody(resp *http.Response, limit int) ([]byte, error) {
	body := io.Reader(resp.Body)
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		zr, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		body = zr
	default:
		return nil, fmt.Errorf("content encoding %q was not asked for", shorten(encoding))
	}
	text, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return text, nil
}
