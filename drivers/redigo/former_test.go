package redigo_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

const (
	formerAddr  = "10.0.0.9:6379"
	formerReply = "*2\r\n$8\r\n10.0.0.9\r\n$4\r\n6379\r\n"
)

// former is a server that the Sentinels, which the wire plays, take for the master until
// the returned function is called. It is not told of that, and keeps its connections.
func (r *rig) former() (w *wire.Wire, depose func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	r.t.Cleanup(server.Close)
	w = wire.New(func(context.Context) (net.Conn, error) { return server.Dial() })
	r.t.Cleanup(func() { require.NoError(r.t, w.Close()) })
	for _, master := range []*wire.Wire{w, r.Wire} {
		master.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleMaster))
	}
	known := r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(formerReply))
	return w, func() {
		known.Remove()
		r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(masterAddr))
	}
}

// client opens one of locks by Sentinels, where the former master is w.
func (r *rig) client(w *wire.Wire) *locker.Client {
	connector, err := redigo.Driver{}.OpenConnector(driver.Config{
		Mode: driver.ModeSentinel, Master: "m", Addrs: []string{"10.0.0.2:26379"},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == formerAddr {
				return w.Dial(ctx, network, addr)
			}
			return r.Dial(ctx, network, addr)
		},
	})
	require.NoError(r.t, err)
	c, err := locker.New(connector)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
	return c
}

// A master that is cut off from its Sentinels, but not from its clients, keeps their
// subscriptions alive, on which nothing is heard any more. The waiters come to the new one.
func TestWaiterIsToldByTheNewMaster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		former, depose := r.former()
		holder, waiter := r.client(former), r.client(former)
		handOn := func() time.Duration {
			held, err := holder.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *locker.Lease, 1)
			go func() {
				lease, err := waiter.Mutex("k").Lock(t.Context())
				assert.NoError(t, err)
				got <- lease
			}()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			begun := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			lease := <-got
			took := time.Since(begun)
			require.NoError(t, lease.Unlock(t.Context()))
			return took
		}
		require.Zero(t, handOn())
		subscribed := former.Count(wire.Match{Name: "SUBSCRIBE"})
		require.Equal(t, 1, subscribed)
		depose()
		time.Sleep(time.Minute) // requests go to the new master
		require.Zero(t, handOn(), "nobody was told, and the lock was found by a look")
		require.Equal(t, subscribed, former.Count(wire.Match{Name: "SUBSCRIBE"}))
		require.Equal(t, 1, r.Count(wire.Match{Name: "SUBSCRIBE"})-r.Count(watching))
	})
}

// watching is how a Sentinel is asked to tell of failovers.
var watching = wire.Match{Name: "SUBSCRIBE", Arg: "+switch-master"}

// formerConn opens a Conn with the former master, and waits until the Sentinels tell it of another.
func (r *rig) formerConn() (c driver.Conn, former *wire.Wire, depose func()) {
	former, depose = r.former()
	c = r.openAt(map[string]*wire.Wire{formerAddr: former}, "10.0.0.2:26379")
	do(r.t, c, "PING")
	synctest.Wait()
	return c, former, depose
}

// openAt opens one by Sentinels, where what is not among the servers is r.
func (r *rig) openAt(servers map[string]*wire.Wire, sentinels ...string) driver.Conn {
	return open(r.t, driver.Config{
		Mode: driver.ModeSentinel, Master: "m", Addrs: sentinels,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if w := servers[addr]; w != nil {
				return w.Dial(ctx, network, addr)
			}
			return r.dial(ctx, network, addr)
		},
	})
}

// switched is what Sentinels say when another server has become the master of that name.
func (r *rig) switched(name string) {
	time.Sleep(time.Millisecond) // since connections were used
	r.server.Publish("+switch-master", name+" 10.0.0.9 6379 10.0.0.1 6379")
	synctest.Wait()
}

// A former master goes on granting locks for a while. It is left as soon as a Sentinel tells of another,
// whatever its connections are used for.
func TestFormerMasterIsLeftAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, depose := r.formerConn()
		sub, err := c.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		defer sub.Close()
		require.NoError(t, sub.Add(t.Context(), "ch"))
		former.On(wire.Match{Name: "SET"}, wire.HoldReply)
		underWay := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), command("SET", "k", "v"))
			underWay <- err
		}()
		synctest.Wait()
		begun := time.Now()
		depose()
		r.switched("m")
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(<-underWay))
		before := len(former.Requests(wire.Match{}))
		do(t, c, "SET", "k", "v")
		_, err = sub.Receive(t.Context())
		require.ErrorIs(t, err, driver.ErrGap)
		assert.Less(t, time.Since(begun), time.Second)
		assert.Len(t, former.Requests(wire.Match{}), before)
	})
}

// underWay begins a call on the former master that is not answered until the rule is released.
func underWay(t *testing.T, c driver.Conn, former *wire.Wire) (*wire.Rule, <-chan error) {
	held, result := former.On(wire.Match{Name: "SET"}, wire.HoldReply), make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), command("SET", "k", "v"))
		result <- err
	}()
	synctest.Wait()
	return held, result
}

// A connection to another master is enough, if that takes itself for one: no Sentinel need tell.
func TestFormerMasterIsLeftForOneThatIsDialed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE"}, wire.Answer("*1\r\n$5\r\nslave\r\n"))
		c, former, depose := r.formerConn()
		_, result := underWay(t, c, former)
		begun := time.Now()
		depose()
		_, err := c.Do(t.Context(), command("PING"))
		require.ErrorContains(t, err, "not a master")
		synctest.Wait()
		require.Empty(t, result, "it was left for nobody")
		require.Equal(t, 1, r.Open(), "one to a Sentinel, which is listened to")
		do(t, c, "PING")
		require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(<-result))
		assert.Zero(t, time.Since(begun))
	})
}

// A Sentinel that cannot be asked names nobody for whom the master would be left.
func TestMasterIsNotLeftForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, _ := r.formerConn()
		held, result := underWay(t, c, former)
		var dials atomic.Int32
		through := r.dial
		r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 2 { // by who is listened to again, and asks
				return nil, syscall.ECONNREFUSED
			}
			return through(ctx, network, addr)
		}
		r.KillAll()
		time.Sleep(time.Second)
		require.Equal(t, 2, r.Count(watching))
		require.EqualValues(t, 2, dials.Load())
		held.Release()
		require.NoError(t, <-result)
	})
}

func TestIdleConnectionsToTheFormerMasterAreNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, depose := r.formerConn()
		depose()
		r.switched("m")
		do(t, c, "SET", "k", "v")
		assert.Zero(t, former.Count(wire.Match{Name: "SET"}))
	})
}

// The Sentinel that told of the failover is asked who the master is: others hear of it later. Where
// one is lost, another one tells.
func TestSentinelsThatHeardNothingYetAreNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const behind = "10.0.0.3:26379"
		former, depose := r.former()
		other, deposeThere := r.former()
		other.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(formerReply))
		c := r.openAt(map[string]*wire.Wire{formerAddr: former, behind: other}, behind, "10.0.0.2:26379")
		do(t, c, "PING")
		synctest.Wait()
		require.Equal(t, 1, other.Count(watching))
		other.KillAll()
		time.Sleep(time.Second)
		require.Equal(t, 1, r.Count(watching))
		depose()
		deposeThere()
		r.switched("m")
		do(t, c, "SET", "k", "v")
		assert.Zero(t, former.Count(wire.Match{Name: "SET"}))
	})
}

// Who is not told of failovers, since no Sentinel answers, tries again when a connection is made.
func TestSentinelsAreListenedToLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(watching, wire.CutRequest)
		c, former, depose := r.formerConn()
		time.Sleep(11 * time.Second)
		do(t, c, "PING")
		synctest.Wait()
		require.Equal(t, 2, r.Count(watching))
		depose()
		r.switched("m")
		do(t, c, "SET", "k", "v")
		assert.Zero(t, former.Count(wire.Match{Name: "SET"}))
	})
}

// A Sentinel whose host is frozen takes connections, and tells nothing. One that has answered is listened to.
func TestFrozenSentinelIsNotListenedTo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const frozen = "10.0.0.3:26379"
		former, _ := r.former()
		silent := wire.New(func(context.Context) (net.Conn, error) { return r.server.Dial() })
		t.Cleanup(func() { require.NoError(t, silent.Close()) })
		silent.On(wire.Match{Times: -1}, wire.HoldReply)
		c := r.openAt(map[string]*wire.Wire{formerAddr: former, frozen: silent}, frozen, "10.0.0.2:26379")
		do(t, c, "PING")
		synctest.Wait()
		assert.Equal(t, 1, r.Count(watching))
	})
}

// Of a former master whose host is dead, the Sentinels tell while it is dialed. That ends the dial, and
// not the Conn.
func TestFormerMasterIsLeftWhileItIsDialed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, depose := r.formerConn()
		former.KillAll()
		former.HangDials()
		_, err := c.Do(t.Context(), command("PING")) // on a connection that broke
		require.Error(t, err)
		answer := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), command("PING"))
			answer <- err
		}()
		synctest.Wait()
		depose()
		r.switched("m")
		err = <-answer
		require.ErrorContains(t, err, "the Sentinels name another master")
		assert.NotErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		do(t, c, "SET", "k", "v")
	})
}

// Close ends what dials the master.
func TestCloseWhileTheMasterIsDialed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		begun, ended := time.Now(), make(chan struct{})
		through := r.dial
		r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != formerAddr {
				return through(ctx, network, addr)
			}
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}
		r.former()
		c := r.openAt(nil, "10.0.0.2:26379")
		go func() { _, _ = c.Do(t.Context(), command("PING")) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		<-ended
		require.Zero(t, time.Since(begun))
	})
}

func TestFailoverOfAnotherMaster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, _ := r.formerConn()
		dials := former.Dials()
		r.switched("other")
		r.server.Publish("+switch-master", "m")
		synctest.Wait()
		do(t, c, "SET", "k", "v")
		assert.Equal(t, 1, former.Count(wire.Match{Name: "SET"}))
		assert.Equal(t, dials, former.Dials())
	})
}

// What a Sentinel has told while no connection to it worked is asked for.
func TestFailoverThatNobodyToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, former, depose := r.formerConn()
		r.KillAll()
		depose()
		time.Sleep(time.Second)
		do(t, c, "SET", "k", "v")
		assert.Zero(t, former.Count(wire.Match{Name: "SET"}))
		assert.Equal(t, 2, r.Count(watching))
	})
}

// A user to whom the Sentinels tell nothing leaves a former master within ten seconds, and does not
// fill their ACL LOG.
func TestFailoverThatNobodyMayTellOf(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(watching, wire.Answer("-NOPERM this user has no permissions to run the 'subscribe' command\r\n"))
		c, former, depose := r.formerConn()
		assert.Zero(t, r.Open(), "nothing is heard from a Sentinel")
		depose()
		r.switched("m")
		do(t, c, "SET", "k", "v")
		assert.Equal(t, 1, former.Count(wire.Match{Name: "SET"}))
		time.Sleep(11 * time.Second)
		do(t, c, "SET", "k", "v")
		synctest.Wait()
		assert.Equal(t, 1, former.Count(wire.Match{Name: "SET"}))
		assert.Equal(t, 1, r.Count(watching))
	})
}
