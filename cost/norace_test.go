//go:build !race

package cost_test

const underRace = false
