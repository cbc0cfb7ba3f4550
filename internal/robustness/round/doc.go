// Package round plays the rounds of which a run consists: one deployment, one driver,
// some faults and a seed. It starts the servers and the workers, injects the faults and
// heals them, stops the workers, makes sure that every lock can be had, and has the
// histories checked.
package round
