package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golocker/golocker/internal/servertest"
)

// losses are servers that go on and forget keys.
func losses() []Fault {
	evicted := []Allowance{
		{single, exclusion, "a server that evicts keys forgets leases"},
		{quorum, exclusion, "a node that evicts keys forgets leases and does not show it, which counts where others do not have them"},
	}
	return []Fault{
		{Name: "flushall", Kinds: alone, Inject: onServer(flush), loses: true, Allows: []Allowance{
			{single, exclusion, "FLUSHALL deletes leases"},
		}},
		{Name: "evict-allkeys-lru", Kinds: alone, Inject: onServer(evict("allkeys-lru")), loses: true, Allows: evicted},
		{Name: "evict-volatile-lru", Kinds: alone, Inject: onServer(evict("volatile-lru")), loses: true, Allows: evicted},
	}
}

func flush(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	_, err := srv.Do("FLUSHALL")
	return healed, err
}

// Ballast is what fills a server up, so that it has to evict some keys again and again
// but has room for new ones.
const (
	ballastPieces = 50
	ballastSize   = 10_000 // bytes of a piece
)

// evict makes a server evict keys by that policy.
func evict(policy string) strike {
	return func(ctx context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
		heal := func(ctx context.Context) error {
			return errors.Join(
				set(srv, "maxmemory", "0", "maxmemory-policy", "noeviction"),
				talk(ctx, srv, "SELECT "+ballastDB, "FLUSHDB"))
		}
		before, err := infoNumber(srv, "stats", "evicted_keys")
		if err == nil {
			err = ballast(ctx, srv)
		}
		var used int
		if err == nil {
			used, err = infoNumber(srv, "memory", "used_memory")
		}
		if err == nil {
			err = set(srv, "maxmemory-policy", policy, "maxmemory", strconv.Itoa(used-ballastPieces*ballastSize/2))
		}
		if err == nil {
			err = servertest.Await(ctx, func() error {
				now, err := infoNumber(srv, "stats", "evicted_keys")
				if err == nil && now == before {
					err = fmt.Errorf("nemesis: %s evicts nothing", srv.Addr)
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, heal(ctx))
		}
		stop := every(s.TTL/10, func(ctx context.Context) { _ = ballast(ctx, srv) })
		return func(ctx context.Context) error {
			stop()
			return heal(ctx)
		}, nil
	}
}

// ballast writes all pieces anew, so that the keys of locks are those that have been used
// least lately.
func ballast(ctx context.Context, srv *servertest.Server) error {
	return talk(ctx, srv, "SELECT "+ballastDB, fmt.Sprintf(
		`EVAL "for i = 1, %d do redis.call('SET', 'ballast' .. i, string.rep('x', %d), 'EX', 600) end" 0`, ballastPieces, ballastSize))
}

// infoNumber returns a number of the server's INFO.
func infoNumber(srv *servertest.Server, section, field string) (int, error) {
	reply, err := srv.Do("INFO", section)
	if err != nil {
		return 0, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("nemesis: INFO %s of %s has no %s", section, srv.Addr, field)
}

// every calls do now and then, with a context that ends with stop, which returns when it
// is not called any more.
func every(interval time.Duration, do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(ctx, interval) == nil {
			do(ctx)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
