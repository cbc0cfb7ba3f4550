//go:build !race

package locker

const underRace = false
