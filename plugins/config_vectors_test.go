package plugins

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// schemaCase is a case of testdata/vectors/schema_check.json: a configuration and what
// the reference says about it.
type schemaCase struct {
	ID         string
	Object     string
	SchemaType string `json:"schema_type"`
	Conf       json.RawMessage
	After      []json.RawMessage
	Expect     struct {
		Valid                bool
		ErrorContains        []string       `json:"error_contains"`
		NamesField           string         `json:"names_field"`
		AfterDefaults        map[string]any `json:"after_defaults"`
		EncryptFieldsInclude []string       `json:"encrypt_fields_include"`
	}
}

// otherObject marks cases about the objects of the admin endpoint.
const otherObject = "graphql_cost_decoration"

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/vectors/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, into))
}

// TestSchemaVectors runs the cases about the plugin's configuration.
func TestSchemaVectors(t *testing.T) {
	var cases []schemaCase
	readVectors(t, "schema_check.json", &cases)
	ran := 0
	for _, c := range cases {
		if c.Object == otherObject {
			continue // package validation and package admin run these
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			if c.Expect.EncryptFieldsInclude != nil {
				require.Subset(t, SecretFields(), c.Expect.EncryptFieldsInclude)
				return
			}
			c.check(t)
		})
	}
	require.Positive(t, ran)
}

// conf returns the configuration of a case. The reference keeps the header names in an
// object of their own; here they are fields of the plugin, so they are put into a
// minimal configuration.
func (c schemaCase) conf(t *testing.T) []byte {
	t.Helper()
	if c.SchemaType != "metadata" {
		return c.Conf
	}
	members := map[string]any{"count": 10, "time_window": 60}
	require.NoError(t, json.Unmarshal(c.Conf, &members))
	raw, err := json.Marshal(members)
	require.NoError(t, err)
	return raw
}

func (c schemaCase) check(t *testing.T) {
	t.Helper()
	groups := &Groups{}
	for _, earlier := range c.After {
		cfg, err := ParseConfig(earlier, nil)
		require.NoError(t, err)
		require.NoError(t, groups.Use(cfg, time.Unix(0, 0)))
	}
	cfg, err := ParseConfig(c.conf(t), nil)
	if err == nil {
		err = groups.Use(cfg, time.Unix(0, 0))
	}
	require.Equal(t, c.Expect.Valid, err == nil, "%v", err)
	if err == nil {
		c.checkDefaults(t, cfg)
		return
	}
	if c.Expect.NamesField != "" {
		require.Contains(t, err.Error(), c.Expect.NamesField)
	}
	for _, sentence := range c.Expect.ErrorContains {
		requireSameFault(t, sentence, err.Error())
	}
}

func (c schemaCase) checkDefaults(t *testing.T, cfg *Config) {
	raw, err := json.Marshal(cfg)
	require.NoError(t, err)
	members := map[string]any{}
	require.NoError(t, json.Unmarshal(raw, &members))
	for name, want := range c.Expect.AfterDefaults {
		require.Equal(t, want, members[name], name)
	}
}

var (
	// clauseSentence is what the reference says of any fault in the fields of a Redis
	// policy. It names nothing; ours must name the field.
	clauseSentence = regexp.MustCompile(`^(then|else) clause did not match$`)
	// essentials are the parts of the reference's sentence that ours must repeat when
	// it is another sentence: what is quoted, and numbers.
	essentials = regexp.MustCompile(`"[^"]*"|'[^']*'|-?\d+(\.\d+)?`)
	// namedField is how our sentences name a field.
	namedField = regexp.MustCompile(`(property|field) "[a-z_]+"`)
)

// requireSameFault checks that a message reports the fault that a sentence of the
// reference reports. Its being part of the message is the best; a clause sentence
// asks for a named field; of any other one the quoted parts and the numbers must be
// there.
func requireSameFault(t *testing.T, sentence, message string) {
	t.Helper()
	switch {
	case strings.Contains(message, sentence):
	case clauseSentence.MatchString(sentence):
		require.Regexp(t, namedField, message)
	default:
		for _, part := range essentials.FindAllString(sentence, -1) {
			require.Contains(t, message, part)
		}
	}
}

// TestCounterVectorConfigurationsAreValid parses the configurations that the counter
// vectors charge with.
func TestCounterVectorConfigurationsAreValid(t *testing.T) {
	var file struct {
		Cases []struct {
			ID, Level string
			Conf      json.RawMessage
		}
	}
	readVectors(t, "counter.json", &file)
	for variable, value := range map[string]string{ // as the cases' contexts say
		"LIMIT_COUNT_KEY": "remote_addr", "REDIS_HOST": "127.0.0.1",
		"REDIS_NODE_0": "127.0.0.1:5000", "REDIS_NODE_1": "127.0.0.1:5001",
	} {
		t.Setenv(variable, value)
	}
	for _, c := range file.Cases {
		if c.Level != "" || bytes.Equal(c.Conf, []byte("null")) {
			continue // these drive a counter, and their conf is no configuration
		}
		t.Run(c.ID, func(t *testing.T) {
			_, err := ParseConfig(c.Conf, nil)
			require.NoError(t, err)
		})
	}
}
