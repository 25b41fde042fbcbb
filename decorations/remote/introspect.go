package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// introspectionQuery asks for what package cost's outline has: kinds, wrappers, arguments
// with their types and defaults. Nine ofType links are as many as GraphQL's reference
// implementation asks for.
const introspectionQuery = `query IntrospectionQuery {
  __schema {
    queryType { name }
    mutationType { name }
    subscriptionType { name }
    types {
      kind name
      fields(includeDeprecated: true) { name args { ...Input } type { ...Type } }
      inputFields { ...Input }
      interfaces { name }
      possibleTypes { name }
    }
  }
}
fragment Input on __InputValue { name defaultValue type { ...Type } }
fragment Type on __Type {
  kind name
  ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType {
    kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }
}
`

// IntrospectConfig says where and how an upstream is asked for its schema.
type IntrospectConfig struct {
	// Endpoint is the URL that answers GraphQL. Required.
	Endpoint string
	// Header is sent along.
	Header http.Header
	// CAFile and Timeout are as Config's.
	CAFile  string
	Timeout time.Duration
}

// Introspect returns an upstream's answer to an introspection query, at most 32 MiB.
func Introspect(ctx context.Context, cfg IntrospectConfig) ([]byte, error) {
	endpoint, err := parseURL(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("introspect the upstream: %w", err)
	}
	client, err := newHTTPClient(cfg.CAFile, cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("introspect the upstream: %w", err)
	}
	defer client.CloseIdleConnections()
	body, err := json.Marshal(map[string]string{"query": introspectionQuery})
	if err != nil {
		return nil, fmt.Errorf("introspect the upstream: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("introspect the upstream: %w", err)
	}
	for name, values := range cfg.Header {
		request.Header[name] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	request.Header.Set("Content-Type", jsonType)
	request.Header.Set("Accept", jsonType)
	status, text, err := send(client, request)
	if err != nil {
		return nil, fmt.Errorf("introspect the upstream: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("introspect the upstream: it answers %d: %s", status, message(text))
	}
	return text, nil
}
