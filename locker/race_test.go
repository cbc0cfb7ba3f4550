//go:build race

package locker

const underRace = true
