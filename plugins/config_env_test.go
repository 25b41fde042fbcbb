package plugins

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferencesToTheEnvironmentAreResolved(t *testing.T) {
	t.Setenv("GLC_HOST", "redis.example")
	t.Setenv("GLC_PASSWORD", "s3cret")
	t.Setenv("GLC_TOKEN", "Bearer t0ken")
	t.Setenv("GLC_EMPTY", "")
	cfg := parsed(t, `{"count":1,"time_window":60,"policy":"redis","redis_host":"$env://GLC_HOST",
		"redis_password":"$ENV://GLC_PASSWORD","introspection_headers":{"Authorization":"$env://GLC_TOKEN"},
		"rejected_msg":"costs $env://GLC_HOST"}`)
	require.Equal(t, "redis.example", cfg.RedisHost)
	require.Equal(t, "s3cret", cfg.RedisPassword)
	require.Equal(t, map[string]string{"Authorization": "Bearer t0ken"}, cfg.IntrospectionHeaders)
	require.Equal(t, "costs $env://GLC_HOST", cfg.RejectedMsg, "only a whole text is a reference")
	require.NotContains(t, cfg.String(), "s3cret")
	require.NotContains(t, cfg.String(), "t0ken")

	_, err := ParseConfig([]byte(`{"count":1,"time_window":60,"key":"$env://GLC_EMPTY"}`))
	require.EqualError(t, err, `property "key" refers to the environment variable "GLC_EMPTY", which is not set`)
	t.Setenv("GLC_HOST", "x")
	_, err = ParseConfig([]byte(`{"count":1,"time_window":60,"policy":"redis","redis_host":"$env://GLC_HOST"}`))
	require.ErrorContains(t, err, "redis_host", "what stands there is checked like any text")
}
