package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// minBadConfigs guards against a corpus that is not found.
const minBadConfigs = 60

// TestBadConfigsSayWhatIsWrong runs the corpus: each NAME.json has one fault and is
// refused with the text of NAME.txt, to the letter.
func TestBadConfigsSayWhatIsWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/bad_configs/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), minBadConfigs)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".txt")
			require.NoError(t, err)
			for range 5 { // objects are read in random order
				cfg, err := ParseConfig(raw, nil)
				require.Nil(t, cfg)
				require.EqualError(t, err, strings.TrimSuffix(string(want), "\n"))
				var invalid *ConfigError
				require.ErrorAs(t, err, &invalid)
				require.NotEmpty(t, invalid.Faults)
			}
		})
	}
}
