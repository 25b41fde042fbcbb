package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAValidConfigurationIsSaidToBe(t *testing.T) {
	path := file(t, "good.json", `{"count": 10, "time_window": 60}`)
	require.Equal(t, outcome{stdout: path + ": valid\n"}, execute("", "validate", path))
	require.Equal(t, outcome{stdout: "-: valid\n"}, execute(`{"count": "$http_quota", "time_window": 60}`, "validate", "-"))
}

func TestEveryFaultOfAConfigurationIsNamedByItsField(t *testing.T) {
	path := file(t, "bad.json", `{"count": 0, "time_windw": 60, "rejected_code": 99}`)
	got := execute("", "validate", path)
	require.ErrorIs(t, got.err, errSilent)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, path+`: unknown field "time_windw": did you mean "time_window"?`+"\n")
	require.Contains(t, got.stderr, `"count"`)
	require.Contains(t, got.stderr, `"rejected_code"`)
}

func TestWhatIsNoJSONIsNoConfiguration(t *testing.T) {
	got := execute(`{"count": 10,`, "validate", "-")
	require.ErrorIs(t, got.err, errSilent)
	require.Equal(t, "-: invalid JSON: the document ends too early\n", got.stderr)
}

func TestAFileThatIsNotThereCannotBeValidated(t *testing.T) {
	require.ErrorIs(t, execute("", "validate", "missing.json").err, os.ErrNotExist)
	require.EqualError(t, execute("", "validate").err, "accepts 1 arg(s), received 0")
}

func TestSchemaPrintsTheJSONSchemaOfTheConfiguration(t *testing.T) {
	got := execute("", "schema")
	require.NoError(t, got.err)
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &schema))
	require.Equal(t, "object", schema.Type)
	require.Contains(t, schema.Properties, "cost_strategy")
}
