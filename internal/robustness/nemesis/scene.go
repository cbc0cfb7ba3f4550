package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

// ErrBusy means that everything that a fault could be done to is under another one, or
// is not there now.
var ErrBusy = errors.New("nemesis: there is nothing to do that to now")

// A Scene is what faults are injected into. Several may be at the same time, but never
// two that are done to the same server or worker.
type Scene struct {
	Rig     *rig.Rig
	Workers Workers
	// TTL is the longest that the workers' locks have. Faults that need to outlast a
	// lease do.
	TTL time.Duration

	mu     sync.Mutex
	rand   *rand.Rand
	taken  map[string]bool // the addresses of servers and names of workers that are under a fault
	offset time.Duration   // of the rig's clock
}

// NewScene returns a scene on which all choices are made by the seed.
func NewScene(r *rig.Rig, workers Workers, ttl time.Duration, seed uint64) *Scene {
	return &Scene{Rig: r, Workers: workers, TTL: ttl, rand: rand.New(rand.NewPCG(seed, seed)), taken: map[string]bool{}}
}

// claim takes up to n of the names, by chance, that are under no fault yet; at least one.
func (s *Scene) claim(n int, names ...string) (claimed []string, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.taken[name] })
	if len(free) == 0 {
		return nil, nil, ErrBusy
	}
	s.rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	free = free[:min(n, len(free))]
	for _, name := range free {
		s.taken[name] = true
	}
	return free, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range free {
			delete(s.taken, name)
		}
	}, nil
}

// claimAll takes all of the names, or none.
func (s *Scene) claimAll(names ...string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(names, func(name string) bool { return s.taken[name] }) {
		return nil, ErrBusy
	}
	for _, name := range names {
		s.taken[name] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range names {
			delete(s.taken, name)
		}
	}, nil
}

// intN returns a number below n, by chance.
func (s *Scene) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// shuffle puts lines in an order by chance.
func (s *Scene) shuffle(lines []*wire.Wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
}

// between returns a time between a and b, by chance.
func (s *Scene) between(a, b time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a + time.Duration(s.rand.Int64N(int64(b-a)))
}

// sleep returns after d, or with the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A strike does a fault to one server.
type strike func(ctx context.Context, s *Scene, srv *servertest.Server) (Heal, error)

// onServer makes a fault's Inject of what is done to the server that workers use: on a
// quorum to one or two of them, on a Cluster to one of the masters.
func onServer(do strike) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		victims, release, err := s.victims()
		if err != nil {
			return nil, err
		}
		var heals []Heal
		for _, srv := range victims {
			var heal Heal
			if heal, err = do(ctx, s, srv); err != nil {
				break
			}
			heals = append(heals, heal)
		}
		all := func(ctx context.Context) error {
			defer release()
			var errs []error
			for _, heal := range heals {
				errs = append(errs, heal(ctx))
			}
			return errors.Join(errs...)
		}
		if err != nil {
			return nil, errors.Join(err, all(ctx))
		}
		return all, nil
	}
}

// victims claims the servers that a fault is done to.
func (s *Scene) victims() ([]*servertest.Server, func(), error) {
	n := 1
	candidates := s.Rig.Servers
	switch s.Rig.Kind {
	case rig.Single:
		candidates = []*servertest.Server{s.Rig.Primary()}
	case rig.Quorum:
		n += s.intN(2) // the others are a majority
	default:
		candidates = masters(s.free())
	}
	claimed, release, err := s.claim(n, addresses(candidates)...)
	if err != nil {
		return nil, nil, err
	}
	return addressed(candidates, claimed), release, nil
}

// free returns the servers that are under no fault.
func (s *Scene) free() []*servertest.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.Rig.Servers), func(srv *servertest.Server) bool { return s.taken[srv.Addr] })
}

// masters returns those of the servers that say that they are no replicas.
func masters(servers []*servertest.Server) []*servertest.Server {
	return slices.DeleteFunc(slices.Clone(servers), func(srv *servertest.Server) bool {
		return srv.InfoSays("replication", "role:master") != nil
	})
}

func addresses(servers []*servertest.Server) []string {
	var all []string
	for _, srv := range servers {
		all = append(all, srv.Addr)
	}
	return all
}

// addressed returns those of the servers that have one of the addresses.
func addressed(servers []*servertest.Server, addrs []string) []*servertest.Server {
	return slices.DeleteFunc(slices.Clone(servers), func(srv *servertest.Server) bool {
		return !slices.Contains(addrs, srv.Addr)
	})
}

// healed is the Heal of a fault that is over as soon as it has been.
func healed(context.Context) error { return nil }
