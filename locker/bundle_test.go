package locker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A renewalLog has the number of leases of each renewal that reached the server, in the
// order of arrival, and lets them fail.
type renewalLog struct {
	mu    sync.Mutex
	sizes []int
}

func (r *renewalLog) note(cmd driver.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := renewals(cmd); n > 0 {
		r.sizes = append(r.sizes, n)
	}
}

// take returns the sizes since the last call.
func (r *renewalLog) take() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sizes := r.sizes
	r.sizes = nil
	return sizes
}

// renewals is how many leases cmd renews.
func renewals(cmd driver.Command) int {
	for _, s := range []*script{mutexFamily.renew, holdFamily.renew} {
		if len(cmd.Args) > 1 && (cmd.Args[1] == s.sha() || cmd.Args[1] == s.source()) {
			return len(cmd.Args) - cmd.FirstKey - cmd.NumKeys - 3
		}
	}
	return 0
}

// logRenewals makes f count renewals and fail those for which fault gives an error.
func logRenewals(f *fakeDeployment, fault func(driver.Command) error) *renewalLog {
	r := &renewalLog{}
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			r.note(cmd)
			if fault != nil && renewals(cmd) > 0 {
				return fault(cmd)
			}
			return nil
		}
	})
	return r
}

// holdMany takes n locks of the client.
func holdMany(t *testing.T, c *Client, n int, opts ...Option) []*Lease {
	t.Helper()
	leases := make([]*Lease, n)
	for i := range leases {
		l, err := c.Mutex(fmt.Sprint("lock", i), opts...).Lock(t.Context())
		require.NoError(t, err)
		leases[i] = l
	}
	return leases
}

func renewCalls(leases []*Lease, ttl time.Duration) []call {
	calls := make([]call, len(leases))
	for i, l := range leases {
		calls[i] = l.tenure.renewCall(ttl)
	}
	return calls
}

// answers are the replies as heldReply reads them.
func answers(results []driver.Result) []error {
	errs := make([]error, len(results))
	for i, r := range results {
		if errs[i] = r.Err; r.Err == nil {
			errs[i] = heldReply(r.Value)
		}
	}
	return errs
}

// onServers runs test on the embedded server and, where there is one, on a real one,
// which renews by other commands.
func onServers(t *testing.T, test func(t *testing.T, f *fakeDeployment)) {
	t.Run("embedded", func(t *testing.T) { bubble(t, test) })
	t.Run("real", func(t *testing.T) {
		f := &fakeDeployment{dial: startRedis(t)}
		f.load(t)
		test(t, f)
	})
}

func (f *fakeDeployment) do(t *testing.T, args ...string) driver.Value {
	t.Helper()
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	v, err := conn.Do(t.Context(), driver.Command{Args: args})
	require.NoError(t, err)
	return v
}

func (f *fakeDeployment) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	return time.Duration(f.do(t, "PTTL", key).(int64)) * time.Millisecond
}

// One of many that is lost, taken by another, or no lock any more, is told so, and costs
// the others nothing. Answers are in the order of the calls.
func TestBundleAnswersEach(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "reentrant, fenced": {Reentrant(), Fenced()}} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				leases := holdMany(t, c, 12, append(opts, TTL(time.Minute))...)
				f.do(t, "DEL", "lock3")
				f.do(t, "DEL", "lock5")
				_, err := f.client(t).Mutex("lock5", opts...).TryLock(t.Context())
				require.NoError(t, err)
				f.do(t, "DEL", "lock7")
				f.do(t, "SADD", "lock7", "foreign")
				f.do(t, "SET", "lock11", "foreign")

				log := logRenewals(f, nil)
				got := answers(c.deployment.runBatch(t.Context(), renewCalls(leases, 2*time.Minute)))
				assert.Equal(t, []int{12, 1, 1, 1, 1}, log.take(), "one request, and one for each that is gone")
				for i, err := range got {
					switch want := map[int]error{3: ErrAbsent, 5: ErrTaken, 7: ErrTaken, 11: ErrTaken}[i]; {
					case want != nil:
						assert.ErrorIs(t, err, want, "lease %d", i)
					default:
						assert.NoError(t, err, "lease %d", i)
						assert.Greater(t, f.pttl(t, fmt.Sprint("lock", i)), 110*time.Second, "lease %d", i)
						assert.NotEqual(t, leases[i].Token() > 0, f.pttl(t, leases[i].mutex.keys.fence) < 23*time.Hour, "fence of lease %d", i)
					}
				}
				assert.Equal(t, int64(0), f.do(t, "EXISTS", "lock3"), "a renewal makes no lock")
				assert.Less(t, f.pttl(t, "lock5"), time.Minute+time.Millisecond, "of another")
				assert.Equal(t, -time.Millisecond, f.pttl(t, "lock7"), "a foreign key")
			})
		})
	}
}

// It only lengthens, and heals a record that somebody took the TTL from.
func TestBundleOnlyLengthens(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": {Fenced()}, "reentrant": {Reentrant(), Fenced()}} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				leases := holdMany(t, c, 3, append(opts, TTL(time.Minute))...)
				f.do(t, "PERSIST", "lock1")
				f.do(t, "PERSIST", leases[1].mutex.keys.fence)
				for _, err := range answers(c.deployment.runBatch(t.Context(), renewCalls(leases, 20*time.Second))) {
					assert.NoError(t, err)
				}
				assert.Greater(t, f.pttl(t, "lock0"), 50*time.Second)
				assert.Greater(t, f.pttl(t, "lock1"), 50*time.Second, "of which it had lost the TTL")
				assert.Greater(t, f.pttl(t, leases[1].mutex.keys.fence), 10*time.Second)
			})
		})
	}
}

// Calls are put together as far as they are alike, in any order, and no further than
// the script allows.
func TestBundles(t *testing.T) {
	c, err := New(instant{})
	require.NoError(t, err)
	defer c.Close()
	plain, fenced, hold := c.Mutex("a"), c.Mutex("b", Fenced()), c.Mutex("c", Reentrant())
	var calls []call
	for i := range 400 {
		id := fmt.Sprint("id", i)
		switch i % 5 {
		case 0, 1:
			calls = append(calls, renewCall(plain, id, time.Second, false, 0))
		case 2:
			calls = append(calls, renewCall(plain, id, time.Minute, false, 0))
		case 3:
			calls = append(calls, renewCall(fenced, id, time.Second, true, 0))
		case 4:
			calls = append(calls, renewCall(hold, id, time.Second, false, 0))
		}
	}
	calls = append(calls, unattachCall(&request{mode: modeMutex, keys: &plain.keys}, "x", false), unattachCall(&request{mode: modeMutex, keys: &plain.keys}, "y", false))
	all := bundles(calls)
	assert.Len(t, all, 3+2+2+3+2)
	met := make([]bool, len(calls))
	for _, b := range all {
		n := len(b.places)
		joint := b.call()
		assert.LessOrEqual(t, n, max(joint.script.most, 1))
		for i, place := range b.places {
			c := calls[place]
			assert.False(t, met[place])
			met[place] = true
			each := len(c.keys())
			assert.Same(t, c.script, joint.script)
			assert.Equal(t, c.keys(), joint.keys()[i*each:(i+1)*each])
			assert.Equal(t, c.args()[0], joint.args()[i])
			assert.Equal(t, c.args()[1:], joint.args()[n:])
		}
		assert.True(t, slices.IsSorted(b.places))
	}
	assert.NotContains(t, met, false)
}

// A refusal of the whole may be about one of them: each is asked for alone. An error
// that all would get is that of each.
func TestBundleRefused(t *testing.T) {
	lost := errors.New("connection reset")
	for name, tt := range map[string]struct {
		fault error
		sizes []int
		want  error
	}{
		"forbidden": {driver.NewServerError("NOPERM No permissions to access a key"), []int{3, 1, 1, 1}, nil},
		"split":     {driver.NewServerError("CROSSSLOT Keys in request don't hash to the same slot"), []int{3, 1, 1, 1}, nil},
		"loading":   {driver.NewServerError("LOADING Redis is loading the dataset in memory"), []int{3}, driver.NewServerError("LOADING Redis is loading the dataset in memory")},
		"lost":      {lost, []int{3}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				calls := renewCalls(holdMany(t, c, 3, TTL(time.Minute)), time.Minute)
				log := logRenewals(f, func(cmd driver.Command) error {
					if renewals(cmd) > 1 {
						return tt.fault
					}
					return nil
				})
				for _, err := range answers(c.deployment.runBatch(t.Context(), calls)) {
					assert.Equal(t, tt.want, err)
				}
				assert.Equal(t, tt.sizes, log.take())
				c.deployment.runBatch(t.Context(), calls)
				again := tt.sizes
				if name == "split" {
					again = []int{1, 1, 1} // it is not tried again
				}
				assert.Equal(t, again, log.take())
			})
		})
	}
}

// A refusal that is about one of them is its alone.
func TestBundleRefusedForOneOfItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		calls := renewCalls(holdMany(t, c, 3, TTL(time.Minute)), time.Minute)
		forbidden := driver.NewServerError("NOPERM No permissions to access a key")
		logRenewals(f, func(cmd driver.Command) error {
			if slices.Contains(cmd.Keys(), "lock1") {
				return forbidden
			}
			return nil
		})
		assert.Equal(t, []error{nil, forbidden, nil}, answers(c.deployment.runBatch(t.Context(), calls)))
	})
}

// One that is gone is asked for alone, too, and the others go on together.
func TestALeaseThatIsGoneIsNoReasonToAskForEach(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		calls := renewCalls(holdMany(t, c, 3, TTL(time.Minute)), time.Minute)
		f.Del("lock1")
		log := logRenewals(f, nil)
		for range 2 {
			c.deployment.runBatch(t.Context(), calls)
			assert.Equal(t, []int{3, 1}, log.take())
		}
	})
}

// Where a client does not know what it talks to, and in a Cluster, each lease has a
// request of its own.
func TestNoBundlesInACluster(t *testing.T) {
	for name, wrap := range map[string]func(f *fakeDeployment) driver.Connector{
		"cluster":      func(f *fakeDeployment) driver.Connector { return sharded{f} },
		"undetermined": func(f *fakeDeployment) driver.Connector { f.noPubSub = true; return f },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c, err := New(wrap(f))
				require.NoError(t, err)
				defer c.Close()
				calls := renewCalls(holdMany(t, c, 3, TTL(time.Minute)), time.Minute)
				log := logRenewals(f, nil)
				for _, err := range answers(c.deployment.runBatch(t.Context(), calls)) {
					assert.NoError(t, err)
				}
				assert.Equal(t, []int{1, 1, 1}, log.take())
			})
		})
	}
}

// A server that has forgotten the script is sent its source with all leases.
func TestBundleNoScript(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		calls := renewCalls(holdMany(t, c, 3, TTL(time.Minute)), time.Minute)
		log := logRenewals(f, nil)
		f.do(t, "SCRIPT", "FLUSH")
		for _, err := range answers(c.deployment.runBatch(t.Context(), calls)) {
			assert.NoError(t, err)
		}
		assert.Equal(t, []int{3, 3}, log.take())
	})
}

// What is no list with an answer for each tells nothing about any lease.
func TestBundleOddReply(t *testing.T) {
	b := bundle{places: []int{1, 0}}
	for _, v := range []driver.Value{nil, int64(1), "OK", []any{}, []any{int64(1)}, []any{int64(1), int64(1), int64(1)}} {
		results := make([]driver.Result, 2)
		b.share(driver.Result{Value: v}, results)
		for _, err := range answers(results) {
			require.Error(t, err)
			assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", v)
			assert.NotErrorIs(t, err, ErrNotHeld)
		}
	}
	results := make([]driver.Result, 2)
	b.share(driver.Result{Value: []any{"OOM command not allowed", int64(1)}}, results)
	assert.Equal(t, []error{nil, driver.NewServerError("OOM command not allowed")}, answers(results))
}

// A spread is a proxy that keeps the locks on two servers, by their whole names, and goes by the
// first key of a script. It does not tell.
type spread struct {
	driver.Wrapper
	other driver.Conn
}

func (s spread) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.NumKeys > 0 && crc32.ChecksumIEEE([]byte(cmd.Args[cmd.FirstKey]))%2 == 1 {
		return s.other.Do(ctx, cmd)
	}
	return s.Conn.Do(ctx, cmd)
}

// Describe is that of a driver whose INFO was refused.
func (s spread) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{Mode: driver.ModeSingle}, nil
}

// What a proxy has sent to one server for locks that are on several costs no lease, and is
// not sent again.
func TestBundleBehindAProxyThatSpreads(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		other := newDeployment(t)
		proxy := driver.NewConnector(f.Driver(), func(ctx context.Context) (driver.Conn, error) {
			one, err := f.Connect(ctx)
			if err != nil {
				return nil, err
			}
			two, err := other.Connect(ctx)
			return spread{driver.Wrapper{Conn: one}, two}, err
		})
		c, err := New(proxy)
		require.NoError(t, err)
		defer c.Close()
		waiting, err := New(proxy)
		require.NoError(t, err)
		defer waiting.Close()
		for _, opts := range [][]Option{nil, {Fenced()}, {Reentrant()}} {
			leases := holdMany(t, c, 6, append(opts, TTL(10*time.Second))...)
			time.Sleep(time.Minute)
			for i, l := range leases {
				require.NoError(t, context.Cause(l.Context()), "lease %d", i)
			}
			log := logRenewals(f, nil)
			for _, err := range answers(c.deployment.runBatch(t.Context(), renewCalls(leases, 10*time.Second))) {
				require.NoError(t, err)
			}
			assert.NotContains(t, log.take(), 6)
			for _, l := range leases {
				had := make(chan error, 1)
				go func() {
					next, err := waiting.Mutex(l.Name(), opts...).Lock(t.Context())
					if err == nil {
						err = next.Unlock(t.Context())
					}
					had <- err
				}()
				synctest.Wait() // until it stands in the queue
				require.NoError(t, l.Unlock(t.Context()))
				require.NoError(t, <-had)
			}
		}
	})
}

// That a lease is gone stays so where it is asked for again, and there is no answer.
func TestBundleSaysThatALeaseIsGoneWhereAskingAgainFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		leases := holdMany(t, c, 3)
		f.do(t, "DEL", "lock1")
		logRenewals(f, func(cmd driver.Command) error {
			if renewals(cmd) == 1 {
				return errLostReply
			}
			return nil
		})
		got := answers(c.deployment.runBatch(t.Context(), renewCalls(leases, time.Minute)))
		require.NoError(t, got[0])
		assert.ErrorIs(t, got[1], ErrAbsent)
		require.NoError(t, got[2])
	})
}
