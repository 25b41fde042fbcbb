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
		if name == "_meta" {
			continue
		}
		require.Contains(t, attributes, "`"+name+"`")
	}
}

// TestReadmeTiersAreValid reads the configurations of the section on tiers.
func TestReadmeTiersAreValid(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for name, want := range map[string]struct {
		count, window int64
		key           string
	}{
		"anonymous": {1000, 60, "remote_addr"}, "consumer": {5000, 3600, "consumer_name"}, "gold": {50000, 3600, "consumer_name"},
	} {
		_, conf, found := strings.Cut(string(readme), "\n"+name+"='")
		require.True(t, found, name)
		conf, _, _ = strings.Cut(conf, "'\n")
		cfg, err := plugins.ParseConfig([]byte(conf), nil)
		require.NoError(t, err, name)
		count, err := cfg.Count.Resolve(nil)
		require.NoError(t, err)
		window, err := cfg.TimeWindow.Resolve(nil)
		require.NoError(t, err)
		require.Equal(t, want.count, count)
		require.Equal(t, want.window, window)
		require.Equal(t, want.key, cfg.Key)
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
