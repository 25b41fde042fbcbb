//go:build !race

package e2e_test

// raceDetector tells whether the suite was built with the race detector.
const raceDetector = false
