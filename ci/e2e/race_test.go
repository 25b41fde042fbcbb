//go:build race

package e2e_test

import (
	"os"
	"strings"
)

// raceDetector tells whether the suite was built with the race detector.
const raceDetector = true

// A program with the race detector sleeps for a second when it ends, which is all the
// time that a runner has.
func init() {
	options := strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=0")
	if err := os.Setenv("GORACE", options); err != nil {
		panic(err)
	}
}
