package plugins_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs all tests, ends the servers that they have shared, and looks for
// goroutines that are left.
func run(m *testing.M) int {
	code := m.Run()
	for _, closeServer := range started {
		if err := closeServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
