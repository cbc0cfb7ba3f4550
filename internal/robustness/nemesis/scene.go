package nemesis

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// ErrBusy means that everything that a fault could be done to is under another one.
var ErrBusy = errors.New("nemesis: all that could fail is under another fault")

// A Scene is what faults are injected into. Several may be at the same time.
type Scene struct {
	Rig     *rig.Rig
	Workers Workers
	// TTL is the longest that the workers' locks have. Faults that need to outlast a
	// lease do.
	TTL time.Duration

	mu   sync.Mutex
	rand *rand.Rand
	busy map[string]bool // the servers, by address, and the workers that are under a fault
}

// NewScene returns a scene on which all choices are made by the seed.
func NewScene(r *rig.Rig, workers Workers, ttl time.Duration, seed uint64) *Scene {
	return &Scene{Rig: r, Workers: workers, TTL: ttl, rand: rand.New(rand.NewPCG(seed, seed)), busy: map[string]bool{}}
}
