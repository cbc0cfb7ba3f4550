package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A shaky is what lies between one client and one node in a history: a line that loses
// requests and replies, sends twice, is slow, or is cut. It sits on the driver, since
// a [wire.Wire] remembers all that has passed.
type shaky struct {
	mu      sync.Mutex
	rand    *rand.Rand
	weather weather
	cut     chan struct{} // not nil: cut off until it is closed
	late    sync.WaitGroup
}

// A weather is how likely each fault of a line is, in percent.
type weather struct{ loseRequest, loseReply, twice, slow int }

var fine weather

var errLostOnTheWay = errors.New("lost on the way")

func (s *shaky) set(w weather) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weather = w
}

func (s *shaky) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut == nil {
		s.cut = make(chan struct{})
	}
}

func (s *shaky) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weather = fine
	if s.cut != nil {
		close(s.cut)
		s.cut = nil
	}
}

func (s *shaky) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weather == fine && s.cut == nil
}

// A fate is what becomes of one request.
type fate struct {
	cut                           <-chan struct{}
	loseRequest, loseReply, twice bool
	delay                         time.Duration
}

func (s *shaky) fate() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(percent int) bool { return s.rand.IntN(100) < percent }
	if s.cut != nil {
		s.late.Add(1) // under mu, so that who waits after heal waits for it
	}
	f := fate{cut: s.cut, loseRequest: is(s.weather.loseRequest), loseReply: is(s.weather.loseReply), twice: is(s.weather.twice)}
	if is(s.weather.slow) {
		f.delay = time.Duration(s.rand.Int64N(int64(80 * time.Millisecond)))
	}
	return f
}

// A shakyConnector is a driver's connector on such a line.
type shakyConnector struct {
	driver.Connector
	line *shaky
}

func (c shakyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &shakyConn{driver.Wrapper{Conn: conn}, c.line}, nil
}

type shakyConn struct {
	driver.Wrapper
	line *shaky
}

var (
	_ driver.Subscriber = (*shakyConn)(nil)
	_ driver.Describer  = (*shakyConn)(nil)
	_ driver.Batcher    = (*shakyConn)(nil)
)

// DoBatch sends commands together while the line is whole; else each has a fate of its
// own.
func (c *shakyConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	if c.line.whole() {
		return driver.DoBatch(ctx, c.Conn, cmds)
	}
	results := make([]driver.Result, len(cmds))
	for i, cmd := range cmds {
		results[i].Value, results[i].Err = c.Do(ctx, cmd)
	}
	return results
}

func (c *shakyConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	f := c.line.fate()
	switch {
	case f.cut != nil:
		// What is sent now arrives when the line is whole again, whoever waits for it.
		go func() {
			defer c.line.late.Done()
			<-f.cut
			late, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, _ = c.Conn.Do(late, cmd)
		}()
		<-ctx.Done()
		return nil, ctx.Err()
	case f.loseRequest:
		return nil, errLostOnTheWay
	}
	if f.delay > 0 {
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v, err := c.Conn.Do(ctx, cmd)
	if f.twice {
		_, _ = c.Conn.Do(ctx, cmd)
	}
	if f.loseReply {
		return nil, errLostOnTheWay
	}
	return v, err
}

func (c *shakyConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	s, ok := c.Conn.(driver.Subscriber)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	return s.Subscribe(ctx)
}

func (c *shakyConn) Describe(ctx context.Context) (driver.Topology, error) {
	d, ok := c.Conn.(driver.Describer)
	if !ok {
		return driver.Topology{}, nil
	}
	return d.Describe(ctx)
}

// makeTrouble lets nodes and lines fail until ctx ends, and heals everything. One or two
// nodes restart empty; the next do so when those take part again, so that there mostly
// is a majority.
func makeTrouble(ctx context.Context, r *rand.Rand, q fleet, all [][]*shaky, quarantine time.Duration) {
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	// Most faults are over before anybody is sure of them.
	upTo := func(d time.Duration) time.Duration {
		if r.IntN(3) > 0 {
			d /= 8
		}
		return time.Duration(r.Int64N(int64(d)))
	}
	var whole time.Time // when no node is in quarantine any more
	for ctx.Err() == nil {
		victims := r.Perm(len(q.servers))
		switch r.IntN(6) {
		case 0:
			if time.Now().After(whole) {
				dead := victims[:1+r.IntN(2)]
				for _, i := range dead {
					q.servers[i].Kill()
				}
				pause(upTo(400 * time.Millisecond))
				for _, i := range dead {
					q.servers[i].Restart()
				}
				whole = time.Now().Add(quarantine)
			}
		case 1: // three of them are a majority
			hung := victims[:1+r.IntN(3)]
			for _, i := range hung {
				q.servers[i].Pause()
			}
			pause(upTo(700 * time.Millisecond))
			for _, i := range hung {
				q.servers[i].Resume()
			}
		case 2, 3: // a client is cut off, or some lines of it
			lines := all[r.IntN(len(all))]
			for _, i := range victims[:1+r.IntN(len(lines))] {
				lines[i].cutOff()
			}
			pause(upTo(900 * time.Millisecond))
			for _, l := range lines {
				l.heal()
			}
		default:
			for _, lines := range all {
				for _, l := range lines {
					if r.IntN(3) == 0 {
						l.set(weather{r.IntN(10), r.IntN(10), r.IntN(10), r.IntN(20)})
					}
				}
			}
			pause(upTo(700 * time.Millisecond))
			for _, lines := range all {
				for _, l := range lines {
					l.set(fine)
				}
			}
		}
		pause(upTo(100 * time.Millisecond))
	}
	for _, lines := range all {
		for _, l := range lines {
			l.heal()
			l.late.Wait()
		}
	}
}
