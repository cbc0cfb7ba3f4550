package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

type chaosConn struct {
	*fakeConn
	x  *chaos
	bg context.Context
}

// chaos is a connector whose requests are late, lost, executed after their caller was
// told of a reset, or answered late, by a seed.
type chaos struct {
	*fakeDeployment
	mu    sync.Mutex
	r     *rand.Rand
	quiet bool
	cut   bool // all requests are lost
	// together lets commands of several callers share a batch, which is answered as
	// late as the last of its commands.
	together bool
	late     time.Duration // at the most; 0 is 1.5 s
	// alter, if there is one, changes a command on its way, or gives the reply itself.
	alter func(cmd driver.Command) (driver.Command, driver.Value)
}

const lostRequest = 6

func (x *chaos) roll() (kind int, d1, d2 time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.quiet:
		return 0, 0, 0
	case x.cut:
		return lostRequest, 0, 0
	}
	late := x.late
	if late == 0 {
		late = 1500 * time.Millisecond
	}
	ms := int(late.Milliseconds())
	k := x.r.IntN(10)
	return k, time.Duration(x.r.IntN(ms)) * time.Millisecond, time.Duration(x.r.IntN(ms)) * time.Millisecond
}

// turn changes what goes wrong.
func (x *chaos) turn(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
}

func (x *chaos) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := x.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &chaosConn{c.(*fakeConn), x, context.Background()}
	if x.together {
		return chaosBatcher{conn}, nil
	}
	return conn, nil
}

type chaosBatcher struct{ *chaosConn }

func (c chaosBatcher) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	var wg sync.WaitGroup
	for i, cmd := range cmds {
		wg.Go(func() { results[i].Value, results[i].Err = c.Do(ctx, cmd) })
	}
	wg.Wait()
	return results
}

func (c *chaosConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	if c.x.alter != nil {
		var v driver.Value
		if cmd, v = c.x.alter(cmd); v != nil {
			return v, nil
		}
	}
	kind, d1, d2 := c.x.roll()
	type res struct {
		v   driver.Value
		err error
	}
	cmd.Args = append([]string(nil), cmd.Args...)
	done := make(chan res, 1)
	go func() {
		switch {
		case kind < 5:
		case kind == 5: // late execution
			time.Sleep(d1)
		case kind == lostRequest:
			return
		case kind == 7: // lost reply
			c.fakeConn.Do(c.bg, cmd)
			done <- res{nil, errLostReply}
			return
		case kind == 8: // reset then executed late
			done <- res{nil, errLostReply}
			time.Sleep(d1 * 3)
			c.fakeConn.Do(c.bg, cmd)
			return
		case kind == 9: // slow reply
			v, err := c.fakeConn.Do(c.bg, cmd)
			time.Sleep(d2)
			done <- res{v, err}
			return
		}
		v, err := c.fakeConn.Do(c.bg, cmd)
		done <- res{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Nine workers on three clients lock, extend, hand over and unlock for a minute. No
// two believe in the lock at once, tokens grow, nothing is left, and in the end the
// lock can be had. CHAOS sets the number of seeds.
func TestChaos(t *testing.T) {
	for seed := range chaosSeeds(12) {
		for _, fenced := range []bool{true, false} {
			t.Run(fmt.Sprint(seed, fenced), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) { chaosRun(t, f, uint64(seed), fenced) })
			})
		}
	}
}

// chaosSeeds is how many seeds are tried: n, or what CHAOS says. Under the race detector each takes
// several times as long, and a quarter of them tells as much.
func chaosSeeds(n int) int {
	if underRace {
		n = (n + 3) / 4
	}
	if s := os.Getenv("CHAOS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	return n
}

func chaosRun(t *testing.T, f *fakeDeployment, seed uint64, fenced bool) {
	x := &chaos{fakeDeployment: f, r: rand.New(rand.NewPCG(seed, 1)), together: seed%2 == 1}
	var mu sync.Mutex
	believing := map[*Lease]bool{}
	var last Token
	grants := 0
	var wg sync.WaitGroup
	end := time.Now().Add(60 * time.Second)
	var clients []*Client
	for ci := range 3 {
		c, err := New(x, TTL(time.Second+time.Duration(ci)*300*time.Millisecond))
		require.NoError(t, err)
		clients = append(clients, c)
		for wi := range 3 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(10+ci*10+wi)))
				for time.Now().Before(end) {
					var opts []Option
					if fenced {
						opts = append(opts, Fenced())
					}
					m := c.Mutex("k", opts...)
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.IntN(5000))*time.Millisecond)
					l, err := m.Lock(ctx)
					cancel()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUnavailable) {
							t.Errorf("lock: %v", err)
						}
						continue
					}
					check := func(l *Lease) {
						mu.Lock()
						defer mu.Unlock()
						if !l.Valid() {
							return
						}
						grants++
						for o := range believing {
							if o.Context().Err() == nil {
								t.Errorf("overlap: %v %v", o.Err(), l.Err())
							}
						}
						if fenced && l.Token() <= last {
							t.Errorf("token %d after %d", l.Token(), last)
						}
						last = l.Token()
						believing[l] = true
					}
					check(l)
					stop := func(l *Lease) { mu.Lock(); delete(believing, l); mu.Unlock() }
					select {
					case <-time.After(time.Duration(1+r.IntN(2000)) * time.Millisecond): // never none, see soonest
					case <-l.Context().Done():
					}
					if r.IntN(4) == 0 {
						ectx, ecancel := context.WithTimeout(context.Background(), time.Second)
						l.Extend(ectx, time.Duration(200+r.IntN(3000))*time.Millisecond)
						ecancel()
					}
					if r.IntN(4) == 0 {
						dctx, dcancel := context.WithTimeout(context.Background(), time.Second)
						stop(l)
						id, err := l.Detach(dctx, 2*time.Second)
						dcancel()
						if err == nil {
							actx, acancel := context.WithTimeout(context.Background(), 2*time.Second)
							l2, err := clients[r.IntN(len(clients))].Mutex("k", opts...).Attach(actx, id)
							acancel()
							if err != nil {
								continue
							}
							l = l2
							check(l)
							time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
						}
					}
					stop(l)
					uctx, ucancel := context.WithTimeout(context.Background(), time.Duration(1+r.IntN(3000))*time.Millisecond)
					err = l.Unlock(uctx)
					ucancel()
					if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrReleased) {
						t.Errorf("unlock: %v", err)
					}
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
	}
	wg.Wait()
	x.mu.Lock()
	x.quiet = true
	x.mu.Unlock()
	time.Sleep(15 * time.Second) // until all that was late has arrived
	begun := time.Now()
	l, err := clients[0].Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	if d := time.Since(begun); d > 4*time.Second {
		t.Errorf("liveness: %v", d)
	}
	require.NoError(t, l.Unlock(t.Context()))
	time.Sleep(3 * time.Minute)
	for _, k := range f.Keys() {
		if f.TTL(k) == 0 || !strings.HasPrefix(k, "__golocker:f:") {
			t.Errorf("left: %s %v", k, f.TTL(k))
		}
	}
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	if grants < 10 {
		t.Errorf("grants: %d", grants)
	}
}
