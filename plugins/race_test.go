//go:build race

package plugins

// underRace: the race detector takes several times the memory.
const underRace = true
