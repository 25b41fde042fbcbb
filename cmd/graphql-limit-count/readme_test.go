package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/plugins"
)

// TestReadmeNamesEveryAttribute keeps the operators' page complete: each attribute
// of the configuration is in its table, or among those that it says are refused.
func TestReadmeNamesEveryAttribute(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, attributes, found := strings.Cut(string(readme), "\n## Attributes\n")
	require.True(t, found)
	attributes, _, _ = strings.Cut(attributes, "\n## ")
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(plugins.ConfigSchema(), &schema))
	require.NotEmpty(t, schema.Properties)
	for name := range schema.Properties {
		// Their policies are named as refused, with all their fields.
		refused := strings.HasPrefix(name, "redis_cluster_") || strings.Contains(name, "sentinel") ||
			name == "redis_master_name" || name == "redis_role" ||
			name == "redis_connect_timeout" || name == "redis_read_timeout"
		if name == "_meta" || refused {
			continue
		}
		require.Contains(t, attributes, "`"+name+"`")
	}
}

// TestReadmeExampleCostsWhatItSays runs the page's offline example.
func TestReadmeExampleCostsWhatItSays(t *testing.T) {
	got := execute("", "cost", "--strategy", "node_quantifier", "--schema", "../../examples/shop.graphql",
		"--decorations", "../../examples/decorations.json", "../../examples/query.graphql")
	require.NoError(t, got.err)
	require.Equal(t, "raw 51\ncharged 52\n", got.stdout)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "\n"+got.stdout)
}
