package locker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// has tells whether the node has the lease in the record.
func (f *fakeDeployment) has(l *Lease, key string) bool {
	if value, err := f.Get(key); err == nil {
		return strings.Contains(value, l.tenure.id)
	}
	return f.HGet(key, l.tenure.id) != ""
}

func (q fakeQuorum) have(l *Lease, key string) int {
	n := 0
	for _, f := range q {
		if f.has(l, key) {
			n++
		}
	}
	return n
}

// soonAgain is how long it takes until a node that has refused has been asked again.
const soonAgain = 6 * againPause

// eachContended runs test with a lease of each kind that all nodes but one have. Another contender has
// the lock there until test calls lose: at a node that was asked first, or last, or that answers
// late.
func eachContended(t *testing.T, test func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()), more ...Option) {
	for i, c := range []struct {
		kind, where  string
		opts, theirs []Option
	}{
		{"mutex", "first", nil, nil},
		{"mutex", "late", nil, nil},
		{"fenced mutex", "last", []Option{Fenced()}, nil},
		{"reentrant", "first", []Option{Reentrant(), Fenced()}, nil},
		{"writing", "late", []Option{ForWriting()}, nil},
		{"reading", "last", []Option{ForReading()}, []Option{ForWriting()}},
	} {
		if underRace && i%3 != 0 {
			continue // it makes them slow, and make histories tests all of them without it
		}
		t.Run(c.kind+", "+c.where, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				meetAt(t, client, "k")
				order := client.quorum.order("k")
				refusing := nodes[order[0]]
				if c.where == "last" {
					refusing = nodes[order[2]]
				}
				theirs := append(c.theirs, TTL(time.Hour))
				if c.theirs == nil {
					theirs = append(c.opts, theirs...)
				}
				other := must(t, refusing.client(t).Mutex("k", theirs...))
				if c.where == "late" {
					refusing.answersLate(3 * time.Millisecond)
				}
				lease := must(t, client.Mutex("k", append(c.opts, more...)...))
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				refusing.heal()
				require.Equal(t, 2, nodes.have(lease, "k"))
				test(t, nodes, refusing, lease, func() { assert.NoError(t, other.Unlock(t.Context())) })
			})
		})
	}
}

// givenNow has the turn come of the node, and returns for how long it gives the lease.
func givenNow(t *testing.T, f *fakeDeployment, l *Lease) time.Duration {
	given := make(chan time.Duration, 1)
	f.set(func() {
		f.after = func(_ context.Context, cmd driver.Command) error {
			if isAcquire(cmd) {
				given <- f.pttl(t, "k") // before a renewal lengthens it, which may come at once
			}
			return nil
		}
	})
	r := l.tenure.rest
	r.mu.Lock()
	r.again.at = time.Now()
	r.mu.Unlock()
	l.tenure.replan()
	select {
	case d := <-given:
		return d
	case <-time.After(time.Millisecond):
		require.Fail(t, "the node is not asked again")
		return 0
	}
}

// acquires counts the requests for a lock that come to the node from now on.
func (f *fakeDeployment) acquires() *atomic.Int32 {
	n := new(atomic.Int32)
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			if isAcquire(cmd) {
				n.Add(1)
			}
			return nil
		}
	})
	return n
}

func isAcquire(cmd driver.Command) bool {
	return mutexFamily.acquire.runs(cmd) || holdFamily.acquire.runs(cmd) || takeScript.runs(cmd) || isSet(cmd)
}

// A contender that lost the vote has had one node for a moment. Soon the lease stands on all nodes,
// so that the loss of a minority costs it nothing.
func TestQuorumContendedLeaseIsNotLostWithAMinority(t *testing.T) {
	for name, trouble := range map[string]func(f *fakeDeployment){
		"hung": (*fakeDeployment).hang, "down": (*fakeDeployment).down, "empty": func(f *fakeDeployment) { f.FlushAll() },
	} {
		t.Run(name, func(t *testing.T) {
			eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
				deadline, left := lease.Deadline(), time.Duration(0)
				lose()
				time.Sleep(soonAgain)
				assert.Equal(t, 3, nodes.have(lease, "k"))
				assert.Equal(t, deadline, lease.Deadline(), "nobody waits for the answer")
				for _, f := range nodes {
					if f != refusing {
						left = max(left, f.pttl(t, "k"))
					}
				}
				assert.LessOrEqual(t, refusing.pttl(t, "k"), left+10*time.Millisecond, "it lasts no longer than elsewhere")
				for _, f := range nodes {
					if f != refusing {
						trouble(f)
						break
					}
				}
				time.Sleep(2 * time.Minute)
				require.True(t, lease.Valid(), "%v", lease.Err())
				token := lease.Token()
				require.NoError(t, lease.Unlock(t.Context()))
				synctest.Wait()
				assert.False(t, refusing.Exists("k"))
				if token != 0 {
					next := must(t, lease.mutex)
					assert.Greater(t, next.Token(), token)
					require.NoError(t, next.Unlock(t.Context()))
				}
			})
		})
	}
}

// Where clients contend for a lock for good, each lease comes to stand on all nodes.
func TestQuorumContendedLeasesStandOnAllNodes(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		const n = 3
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				for i, f := range nodes {
					f.jittery(rand.New(rand.NewPCG(1, uint64(i))))
				}
				few := atomic.Int32{}
				var wg sync.WaitGroup
				for range 3 {
					c := nodes.client(t, QuorumConfig{})
					wg.Go(func() {
						for range 3 {
							lease, err := c.Mutex("k", opts...).Lock(t.Context())
							if !assert.NoError(t, err) {
								return
							}
							time.Sleep(10 * time.Millisecond)
							if nodes.have(lease, "k") < n {
								few.Add(1)
							}
							time.Sleep(3 * time.Second) // nodes have been asked again three times by then
							assert.Equal(t, n, nodes.have(lease, "k"))
							assert.NoError(t, lease.Unlock(t.Context()))
						}
					})
				}
				wg.Wait()
				assert.NotZero(t, few.Load(), "leases that were contended for")
			})
		})
	}
}

// jittery makes a node one in a network where a request takes 0.2 to 1.2 ms.
func (f *fakeDeployment) jittery(r *rand.Rand) {
	var mu sync.Mutex
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			mu.Lock()
			d := 200*time.Microsecond + time.Duration(r.IntN(1000))*time.Microsecond
			mu.Unlock()
			return wait(d)(ctx, cmd)
		}
	})
}

// A node restarts just when it is asked again, or is silent, or was for so long that it is asked only now and
// then. It gives the lease as soon as it is back.
func TestQuorumNodeThatIsBackAfterAFailedAskingGivesTheLease(t *testing.T) {
	back := func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease) {
		t.Helper()
		time.Sleep(2 * time.Minute)
		require.Equal(t, 3, nodes.have(lease, "k"))
		for _, f := range nodes {
			if f != refusing {
				f.hang() // what the lease would be lost with
				break
			}
		}
		time.Sleep(time.Minute)
		assert.NoError(t, lease.Err())
	}
	for name, trouble := range map[string]func(f *fakeDeployment){
		"down": (*fakeDeployment).down,
		"loading": func(f *fakeDeployment) {
			f.set(func() {
				f.before = func(context.Context, driver.Command) error {
					return driver.NewServerError("LOADING Redis is loading the dataset in memory")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
				lose()
				trouble(refusing)
				time.Sleep(soonAgain)
				refusing.heal()
				back(t, nodes, refusing, lease)
			})
		})
	}
	t.Run("suspect", func(t *testing.T) {
		eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
			n := lease.tenure.client.quorum.nodes[slices.Index(nodes, refusing)]
			long := &span{until: time.Now().Add(-time.Minute)}
			n.behind.Store(patience + 1)
			n.owed.Store(long)
			n.asked.Add(maxProbes)
			asks := refusing.acquires()
			time.Sleep(soonAgain)
			require.Zero(t, asks.Load())
			lease.tenure.rest.mu.Lock()
			assert.Zero(t, lease.tenure.rest.owed, "nothing was sent")
			lease.tenure.rest.mu.Unlock()
			n.asked.Add(-maxProbes)
			n.behind.Store(0)
			n.owed.Store(nil)
			lose()
			back(t, nodes, refusing, lease)
		})
	})
}

// What a node asks for once more is overtaken by what ends the lease, or comes to it again. It keeps
// nothing.
func TestQuorumNodeThatIsAskedAgainLateKeepsNothing(t *testing.T) {
	ends := map[string]func(t *testing.T, l *Lease){
		"Unlock": func(t *testing.T, l *Lease) { require.NoError(t, l.Unlock(t.Context())) },
		"Close":  func(t *testing.T, l *Lease) { require.NoError(t, l.tenure.client.Close()) },
		"Detach": func(t *testing.T, l *Lease) {
			id, err := l.Detach(t.Context(), 10*time.Second)
			require.NoError(t, err)
			taken, err := l.mutex.Attach(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, taken.Unlock(t.Context()))
		},
	}
	for how, late := range map[string]time.Duration{"in time": 300 * time.Millisecond, "unanswered": 30 * time.Second, "again": 0} {
		for name, end := range ends {
			t.Run(name+", "+how, func(t *testing.T) {
				eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
					lose()
					asked := make(chan driver.Command, 1)
					refusing.set(func() {
						refusing.before = func(ctx context.Context, cmd driver.Command) error {
							switch {
							case !isAcquire(cmd):
							case late == 30*time.Second: // the driver gives up, and the request goes on
								asked <- cmd
								return errLostReply
							default:
								select {
								case asked <- cmd:
								default:
								}
								return wait(late)(ctx, cmd)
							}
							return nil
						}
					})
					var cmd driver.Command
					select {
					case cmd = <-asked:
					case <-time.After(soonAgain):
						require.Fail(t, "the node is not asked again")
					}
					if late == 0 {
						synctest.Wait()
						require.True(t, refusing.has(lease, "k"))
					}
					end(t, lease)
					refusing.heal()
					switch how {
					case "unanswered":
						time.Sleep(late)
						refusing.do(t, cmd.Args...)
					case "again":
						time.Sleep(echoLife - time.Second)
						refusing.do(t, cmd.Args...)
					default:
						time.Sleep(time.Second)
					}
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"))
				})
			})
		}
	}
}

// Once the lease is over, however that is, no node is asked again.
func TestQuorumNodeIsNotAskedAgainForALeaseThatIsOver(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, nodes fakeQuorum, l *Lease){
		"Unlock": func(t *testing.T, _ fakeQuorum, l *Lease) { require.NoError(t, l.Unlock(t.Context())) },
		"Close":  func(t *testing.T, _ fakeQuorum, l *Lease) { require.NoError(t, l.tenure.client.Close()) },
		"Detach": func(t *testing.T, _ fakeQuorum, l *Lease) {
			_, err := l.Detach(t.Context(), 20*time.Second)
			require.NoError(t, err)
		},
		"loss": func(t *testing.T, nodes fakeQuorum, l *Lease) {
			for _, f := range nodes {
				if f.has(l, "k") {
					f.Del("k")
				}
			}
			require.ErrorIs(t, l.Extend(t.Context(), time.Second), ErrNotHeld)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
				lose()
				end(t, nodes, lease)
				synctest.Wait()
				asks := refusing.acquires()
				time.Sleep(5 * time.Minute)
				assert.Zero(t, asks.Load())
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
	t.Run("deadline", func(t *testing.T) {
		eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
			ended := lease.Context()
			time.Sleep(time.Until(lease.Deadline()))
			lose()
			synctest.Wait()
			assert.Error(t, ended.Err(), "it does not wait until the node is to be asked again")
			asks := refusing.acquires()
			time.Sleep(5 * time.Minute)
			assert.Zero(t, asks.Load())
			assert.Zero(t, nodes.holding("k"))
		}, NoRenewal(), TTL(time.Second))
	})
}

// What a node gives late ends with what the others have given, so that nobody has to wait for
// longer where the holder dies.
func TestQuorumNodeThatIsAskedAgainGivesNoMoreThanIsLeft(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
		time.Sleep(time.Second)
		lose()
		for !refusing.has(lease, "k") {
			require.True(t, lease.Valid(), "the node is not asked again")
			time.Sleep(100 * time.Millisecond)
		}
		for _, f := range nodes {
			assert.LessOrEqual(t, f.pttl(t, "k"), time.Until(lease.Deadline())+margin(30*time.Second)+10*time.Millisecond)
		}
		time.Sleep(time.Until(lease.Deadline()) + margin(30*time.Second) + time.Second)
		assert.Zero(t, nodes.holding("k"))
	}, NoRenewal(), TTL(30*time.Second))
}

// Extend by less than the lease has left shortens nothing, at a node that is asked again either.
func TestQuorumNodeThatIsAskedAgainAfterAShortExtendKeepsTheLease(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
		require.NoError(t, lease.Extend(t.Context(), MinTTL))
		lose()
		time.Sleep(soonAgain)
		require.True(t, refusing.has(lease, "k"))
		assert.InDelta(t, time.Until(lease.Deadline()), refusing.pttl(t, "k"), float64(time.Millisecond))
		for range 100 {
			time.Sleep(time.Second)
			require.Equal(t, 3, nodes.have(lease, "k"), "%v are left", time.Until(lease.Deadline()))
		}
	})
}

// Nor does it give more than the others have given while renewals fail: nobody could have the lock when
// it runs out there.
func TestQuorumNodeThatIsAskedAgainWhileRenewalsFailGivesNoMore(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
		for _, f := range nodes {
			if f != refusing {
				f.hang()
			}
		}
		time.Sleep(20 * time.Second)
		lose()
		assert.LessOrEqual(t, givenNow(t, refusing, lease), time.Until(lease.Deadline())+margin(30*time.Second))
	}, TTL(30*time.Second))
}

// The time that the machine slept has passed for the nodes.
func TestQuorumNodeThatIsAskedAgainAfterASuspensionGivesNoMore(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
		machine := newLaptop(t, nodes[0])
		lose()
		machine.suspend(20 * time.Second)
		for _, f := range nodes[1:] {
			f.FastForward(20 * time.Second)
		}
		given := givenNow(t, refusing, lease)
		assert.Positive(t, time.Until(lease.Deadline()))
		assert.LessOrEqual(t, given, time.Until(lease.Deadline())+margin(30*time.Second))
	}, NoRenewal(), TTL(30*time.Second))
}

// What the machine slept has passed for the holder, too, whose context is to end although a node is asked again only
// after that.
func TestQuorumContextEndsInTimeWhereANodeRefusesAgainAfterASuspension(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, _ func()) {
		machine, ctx := newLaptop(t, nodes[0]), lease.Context()
		asked, goesOn := make(chan struct{}), make(chan struct{})
		refusing.set(func() {
			refusing.before = func(_ context.Context, cmd driver.Command) error {
				if isAcquire(cmd) && cmd.Keys()[0] == "k" {
					close(asked)
					<-goesOn
				}
				return nil
			}
		})
		r := lease.tenure.rest
		r.mu.Lock()
		r.again.at, r.again.tries = time.Now(), 4
		r.mu.Unlock()
		lease.tenure.replan()
		<-asked
		machine.suspend(40 * time.Second)
		for _, f := range nodes[1:] {
			f.FastForward(40 * time.Second)
		}
		<-must(t, lease.tenure.client.Mutex("other", NoRenewal(), TTL(MinTTL))).Context().Done() // the watchdog has looked at the clocks
		refusing.heal()
		close(goesOn)
		synctest.Wait()
		r.mu.Lock()
		again := time.Until(r.again.at)
		r.mu.Unlock()
		left := 20*time.Second - margin(time.Minute)
		require.Greater(t, again, left)
		time.Sleep(left)
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(ctx), ErrLost)
	}, NoRenewal(), TTL(time.Minute))
}

// Who has waited for the lock waits no more, whatever node is asked again. A writer that seems to wait
// keeps readers out, also when it has detached the lease and others have given it up.
func TestQuorumHolderThatIsAskedForAgainDoesNotWait(t *testing.T) {
	withoutRaceDetector(t)
	for name, kind := range map[string]struct{ opts, theirs []Option }{
		"mutex": {}, "reentrant": {[]Option{Reentrant()}, []Option{Reentrant()}}, "writing": {[]Option{ForWriting()}, []Option{ForReading()}},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meetAt(t, c, "k")
				refusing := nodes[c.quorum.order("k")[0]]
				must(t, refusing.client(t).Mutex("k", append(kind.theirs, TTL(time.Hour))...)) // what is left of somebody's lock
				before := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", kind.theirs...))
				got := background(t, c.Mutex("k", kind.opts...))
				time.Sleep(time.Second)
				require.NoError(t, before.Unlock(t.Context()))
				lease := <-got
				require.Equal(t, 2, nodes.have(lease, "k"))
				time.Sleep(10 * time.Second) // its place has gone by then
				for range 200 {
					time.Sleep(time.Second)
					status, err := c.Inspect(t.Context(), "k")
					require.NoError(t, err)
					require.Zero(t, status.Waiters)
				}
			})
		})
	}
}

// A node where somebody's lock stays is asked again a few times only.
func TestQuorumNodeThatKeepsRefusingIsAskedSeldom(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, _ func()) {
		asks := refusing.acquires()
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 6, asks.Load())
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, 1, nodes.holding("k"))
	})
}

// A node that may have had the lease does not get it back: one that has given it and forgotten it,
// or whose answer was lost, or that is in quarantine when it is asked again.
func TestQuorumLeaseIsNotBroughtBackToANodeThatMayHaveHadIt(t *testing.T) {
	for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant()}} {
		setup := func(t *testing.T, test func(t *testing.T, nodes fakeQuorum, c *Client, order order)) {
			quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meetAt(t, c, "k")
				test(t, nodes, c, c.quorum.order("k"))
			})
		}
		never := func(t *testing.T, f *fakeDeployment, l *Lease) {
			t.Helper()
			asks := f.acquires()
			for range 100 {
				time.Sleep(time.Second)
				require.False(t, f.has(l, "k"))
				require.True(t, l.Valid())
			}
			assert.LessOrEqual(t, asks.Load(), int32(1))
		}
		t.Run("forgotten", func(t *testing.T) {
			setup(t, func(t *testing.T, nodes fakeQuorum, c *Client, order order) {
				lease := must(t, c.Mutex("k", opts...))
				everywhere()
				nodes[order[0]].Del("k")
				never(t, nodes[order[0]], lease)
			})
		})
		t.Run("unanswered", func(t *testing.T) {
			setup(t, func(t *testing.T, nodes fakeQuorum, c *Client, order order) {
				f := nodes[order[0]]
				f.set(func() {
					f.after = func(_ context.Context, cmd driver.Command) error {
						if isAcquire(cmd) {
							return errLostReply
						}
						return nil
					}
				})
				lease := must(t, c.Mutex("k", opts...))
				everywhere()
				f.heal()
				f.Del("k")
				never(t, f, lease)
			})
		})
		for name, late := range map[string]time.Duration{"unanswered and refused": 0, "unanswered and refused late": 3 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				setup(t, func(t *testing.T, nodes fakeQuorum, c *Client, order order) {
					// The first request is answered by nobody, and the next, under the same id, with no by a node
					// that has forgotten the lease meanwhile and given it to others.
					f, first := nodes[order[0]], atomic.Bool{}
					for _, other := range nodes {
						other.set(func() {
							asked := false
							other.before = func(_ context.Context, cmd driver.Command) error {
								if isAcquire(cmd) && !asked && other != f {
									asked = true
									return errLostReply
								}
								return nil
							}
							other.after = func(_ context.Context, cmd driver.Command) error {
								if !isAcquire(cmd) || other != f {
									return nil
								}
								if first.CompareAndSwap(false, true) {
									f.Del("k")
									must(t, f.client(t).Mutex("k", append(opts, TTL(10*time.Second), NoRenewal())...))
									return errLostReply
								}
								time.Sleep(late)
								return nil
							}
						})
					}
					lease := must(t, c.Mutex("k", opts...))
					everywhere()
					require.False(t, f.has(lease, "k"))
					never(t, f, lease)
				})
			})
		}
		t.Run("in quarantine", func(t *testing.T) {
			setup(t, func(t *testing.T, nodes fakeQuorum, c *Client, order order) {
				f := nodes[order[0]]
				must(t, f.client(t).Mutex("k", opts...))
				lease := must(t, c.Mutex("k", opts...))
				everywhere()
				f.FlushAll()
				never(t, f, lease)
			})
		})
	}
}

// Nor is one that has said so when it had been decided, and before anybody heeded it.
func TestQuorumNodeThatMayHaveHadTheLeaseIsNotHeededLate(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		late := only(1) | only(2)
		left := &rest{quorum: q, may: only(1)}
		left.hears(&round{quorum: q, asked: q.all(), answered: q.all(), refused: late}, late, only(1))
		require.NotNil(t, left.again)
		assert.Equal(t, only(2), left.again.nodes)
	})
}

// What has been answered between the decision and the moment when the answers are heeded counts as what comes later.
func TestQuorumRestKnowsWhatWasAnsweredSinceTheDecision(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		since := newRound(q, question{}, nil)
		since.over, since.asked = true, q.all()
		for i, answer := range []driver.Result{{Err: driver.NotSent(errLostReply)}, {Err: errLostReply}, {}, {Value: "OK"}} {
			since.hear(i, []driver.Result{answer})
		}
		left := &rest{quorum: q, may: q.all()}
		left.hears(since, q.all(), 0)
		assert.Equal(t, q.all()&^only(0), left.may, "one that was not reached has nothing")
		assert.Equal(t, only(1)|only(4), left.owed)
		assert.Equal(t, only(1), left.lost)
		require.NotNil(t, left.again)
		assert.Equal(t, only(2), left.again.nodes)
	})
}

// A node is asked again only where it has nothing of the lock for certain, and may do what it is asked.
func TestFailsNow(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{driver.NotSent(errors.New("no route")), true},
		{driver.NewServerError("LOADING Redis is loading the dataset in memory"), true},
		{driver.NewServerError("NOPERM this user has no permissions to run the 'evalsha' command"), false},
		{errors.New("timeout"), false},
	} {
		assert.Equal(t, test.want, failsNow(driver.Result{Err: test.err}), "%v", test.err)
	}
}
