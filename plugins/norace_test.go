//go:build !race

package plugins

const underRace = false
