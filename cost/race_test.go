//go:build race

package cost_test

// underRace: the race detector makes pure arithmetic some ten times slower, and finds
// nothing in it that fewer cases do not show.
const underRace = true
