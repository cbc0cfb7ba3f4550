package worker

import (
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// A Config is what a worker is told. It goes to the process as JSON.
type Config struct {
	// Name is the worker's, new in the round.
	Name   string     `json:"name"`
	Target rig.Target `json:"target"`
	// Seed decides what the worker does, though not what comes of it.
	Seed uint64 `json:"seed"`
	// History is the file that the worker makes, and Resource the socket of what the
	// locks guard.
	History  string `json:"history"`
	Resource string `json:"resource"`
	// Parcels is the folder in which workers leave leases for each other.
	Parcels string `json:"parcels"`
	// Hands is how many goroutines take locks, and Locks how many ordinary ones there are.
	Hands int `json:"hands"`
	Locks int `json:"locks"`
	// TTL is what locks are leased for; Longest is the most that is asked for.
	TTL     time.Duration `json:"ttl"`
	Longest time.Duration `json:"longest"`
	// Pause is how long a hand rests between two locks, on average.
	Pause time.Duration `json:"pause"`
}
