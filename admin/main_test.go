package admin

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also plays the other process of the tests that need one: the test binary runs
// itself with roleVariable set.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	goleak.VerifyTestMain(m)
}
