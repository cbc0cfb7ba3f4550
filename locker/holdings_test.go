package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// own makes the lease's tenure one that "me" may re-enter.
func own(l *Lease) *Lease {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner = "me"
	t.client.holdings.add(t)
	return l
}

// owned takes the lock and lets "me" re-enter it.
func owned(t *testing.T, c *Client, opts ...Option) *Lease {
	t.Helper()
	l, err := c.Mutex("k", opts...).Lock(t.Context())
	require.NoError(t, err)
	return own(l)
}

// reenter is what a Lock by "me" does before it asks the server.
func reenter(c *Client, opts ...Option) (*Lease, bool) {
	m := c.Mutex("k", opts...)
	t, _ := c.holdings.find(m, Owner{name: "me"})
	if t == nil {
		return nil, false
	}
	return t.join(m)
}

func mustReenter(t *testing.T, c *Client, opts ...Option) *Lease {
	t.Helper()
	l, ok := reenter(c, opts...)
	require.True(t, ok)
	return l
}

// reenterable is how many tenures the client could re-enter.
func reenterable(c *Client) int {
	c.holdings.mu.Lock()
	defer c.holdings.mu.Unlock()
	return len(c.holdings.tenures)
}

func TestReentryCostsNoRequest(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, Fenced())
		f.reset()
		inner := mustReenter(t, c, Fenced())
		assert.NotSame(t, outer, inner)
		assert.Equal(t, outer.Token(), inner.Token())
		assert.Equal(t, outer.Deadline(), inner.Deadline())
		assert.Equal(t, "k", inner.Name())

		require.NoError(t, outer.Unlock(t.Context()))
		require.NoError(t, outer.Unlock(t.Context()), "again")
		assert.ErrorIs(t, context.Cause(outer.Context()), ErrReleased)
		assert.ErrorIs(t, outer.Err(), ErrReleased)
		assert.True(t, inner.Valid(), "in whatever order")
		assert.NoError(t, inner.Context().Err())
		assert.Empty(t, f.commands())
		assert.True(t, f.Exists("k"))

		require.NoError(t, inner.Unlock(t.Context()))
		require.NoError(t, outer.Unlock(t.Context()), "the outcome of all")
		assert.Equal(t, []string{"EVALSHA"}, f.commands(), "released once")
		assert.False(t, f.Exists("k"))
		assert.Zero(t, reenterable(c))
	})
}

func TestReentryOfWhatTheServerWouldKnowDifferently(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		owned(t, c, Metadata("job 1"))
		for what, opts := range map[string][]Option{
			"metadata": {Metadata("job 2")},
			"fenced":   {Metadata("job 1"), Fenced()},
			"too long": {Metadata("job 1"), TTL(time.Hour)},
		} {
			_, ok := reenter(c, opts...)
			assert.False(t, ok, what)
		}
		mustReenter(t, c, Metadata("job 1"))
	})
}

func TestReentryNeedsEnoughOfTheLease(t *testing.T) {
	const ttl = 10 * time.Second
	whole := ttl - margin(ttl)
	for name, c := range map[string]struct {
		opts []Option
		left time.Duration
		ok   bool
	}{
		"renewed":                 {[]Option{TTL(ttl)}, whole / 2, true},
		"renewed, too little":     {[]Option{TTL(ttl)}, whole/2 - 1, false},
		"not renewed":             {[]Option{TTL(ttl), NoRenewal()}, whole, true},
		"not renewed, too little": {[]Option{TTL(ttl), NoRenewal()}, whole - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				client := f.client(t)
				outer := owned(t, client, TTL(20*time.Second), NoRenewal())
				time.Sleep(time.Until(outer.Deadline()) - c.left)
				_, ok := reenter(client, c.opts...)
				assert.Equal(t, c.ok, ok)
			})
		})
	}
}

func TestNobodyJoinsWhileTheReleaseIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		silence(f)
		go outer.Unlock(context.Background())
		synctest.Wait()
		_, ok := reenter(c)
		assert.False(t, ok)
		_, ok = outer.tenure.join(outer.mutex)
		assert.False(t, ok)
		time.Sleep(time.Minute)
	})
}

// Many goroutines re-enter and unlock at once: the lock is released when the last is
// through, and a lease that was had is good until then.
func TestReentryRacesUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for range 30 {
			outer := owned(t, c)
			f.reset()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for {
						l, ok := reenter(c)
						if !ok {
							return
						}
						assert.True(t, l.Valid())
						assert.NoError(t, l.Unlock(context.Background()))
					}
				})
			}
			wg.Go(func() { assert.NoError(t, outer.Unlock(context.Background())) })
			wg.Wait()
			require.Equal(t, []string{"EVALSHA"}, f.commands())
			require.False(t, f.Exists("k"))
		}
		assert.Zero(t, reenterable(c))
	})
}

func TestHoldingsKeepTheLatestAndForgetAll(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		plain, err := c.Mutex("plain").Lock(t.Context())
		require.NoError(t, err)
		assert.Zero(t, reenterable(c), "nobody may re-enter it")
		require.NoError(t, plain.Unlock(t.Context()))

		first := owned(t, c)
		second := own(newLease(first.mutex, grant{id: newID(), sent: now(), ttl: DefaultTTL}))
		third := mustReenter(t, c)
		assert.Same(t, second.tenure, third.tenure)
		require.NoError(t, first.Unlock(t.Context()))
		assert.Equal(t, 1, reenterable(c), "the other is not forgotten")
		second.tenure.mu.Lock()
		second.tenure.lose(nil)
		second.tenure.mu.Unlock()
		own(second)
		assert.Zero(t, reenterable(c), "what is over does not get in")

		// Nobody unlocks it, nobody looks at it.
		owned(t, c, TTL(time.Second), NoRenewal())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, reenterable(c))
	})
}

// In whatever order the grants of an owner arrive and end, it re-enters the latest of those
// with the largest token, and none with a smaller one than it has had meanwhile.
func TestReentryIsOfTheLargestToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k", Reentrant(), Fenced())
		found := func() *tenure {
			t, joins := c.holdings.find(m, Owner{name: "me"})
			if !joins {
				return nil
			}
			return t
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			var held []*tenure // by token, then by arrival, the one to re-enter last
			largest := Token(0)
			for steps := 10; steps > 0 || len(held) > 0; steps-- {
				if steps > 0 && r.IntN(3) > 0 {
					tn := newLease(m, grant{id: newID(), token: Token(1 + r.IntN(4)), owner: "me", sent: now(), ttl: DefaultTTL}).tenure
					largest = max(largest, tn.token)
					at := slices.IndexFunc(held, func(other *tenure) bool { return other.token > tn.token })
					if at < 0 {
						at = len(held)
					}
					held = slices.Insert(held, at, tn)
					c.holdings.add(tn)
				} else if len(held) > 0 {
					at := r.IntN(len(held))
					c.holdings.remove(held[at])
					c.holdings.remove(held[at]) // no harm
					held = slices.Delete(held, at, at+1)
				}
				var want *tenure
				if len(held) == 0 {
					largest = 0
				} else if last := held[len(held)-1]; last.token == largest {
					want = last
				}
				require.Same(t, want, found())
			}
			require.Empty(t, c.holdings.tenures)
			require.Empty(t, c.holdings.tokens)
		}
	})
}

// A reader who writes and reads on has read what it wrote: the new lease has the
// writer's token, although the older one is still there.
func TestReadingAfterWritingHasTheWritersToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t, Fenced())
		ctx := WithOwner(t.Context(), NewOwner())
		before, err := read.Lock(ctx)
		require.NoError(t, err)
		writing, err := before.Upgrade(ctx)
		require.NoError(t, err)
		within, err := read.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, writing.Token(), within.Token())
		after, err := writing.Downgrade(ctx)
		require.NoError(t, err)
		assert.Equal(t, writing.Token(), after.Token())
		for _, lease := range []*Lease{before, within, after} {
			require.NoError(t, lease.Unlock(ctx))
		}
		assert.False(t, f.Exists("k"))
	})
}

// A reader's grant may be older than that of a writer of the same owner, and arrive later,
// when that one has even given the lock up. It is good, but what is read from then on is
// what the writer wrote.
func TestReadersHaveTheTokenOfAWriterWhoseGrantHasOvertakenOne(t *testing.T) {
	for what, writes := range map[string]func(t *testing.T, read, write *Mutex, answer func()) (w, r *Lease){
		"and who reads on": func(t *testing.T, read, write *Mutex, answer func()) (w, r *Lease) {
			w = must(t, write)
			answer()
			r, err := w.Downgrade(t.Context())
			require.NoError(t, err)
			return w, r
		},
		"and who has left": func(t *testing.T, read, write *Mutex, answer func()) (w, r *Lease) {
			w = must(t, write)
			require.NoError(t, w.Unlock(t.Context()))
			answer()
			return w, must(t, read)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c, owner := f.client(t), As(NewOwner())
				read, write := c.Mutex("k", ForReading(), owner, Fenced()), c.Mutex("k", ForWriting(), owner, Fenced())
				var n atomic.Int32
				answer := make(chan struct{})
				f.set(func() {
					f.after = func(context.Context, driver.Command) error {
						if n.Add(1) == 1 {
							<-answer
						}
						return nil
					}
				})
				asked := background(t, read)
				var early *Lease
				w, r := writes(t, read, write, func() {
					close(answer)
					early = granted(asked)
					require.NotNil(t, early)
				})
				assert.Equal(t, w.Token(), r.Token())
				again := must(t, read)
				assert.Same(t, r.tenure, again.tenure, "this one is up to date")
				for _, l := range []*Lease{w, r, again, early} {
					require.NoError(t, l.Unlock(t.Context()))
				}
				assert.Empty(t, c.holdings.tokens, "nothing is kept that is of no use any more")
			})
		})
	}
}

// Two goroutines of an owner take the lock at the same time, and the grant of the first arrives
// late, when the second has used its larger token and given the lock up. A lease that is asked for
// then may not have the smaller one.
func TestLockAskedForAfterALargerTokenWasSeenHasALargerOne(t *testing.T) {
	for name, mode := range map[string]Option{"reentrant": Reentrant(), "writing": ForWriting()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				m := c.Mutex("k", mode, Fenced(), As(NewOwner()))
				var n atomic.Int32
				answer := make(chan struct{})
				f.set(func() {
					f.after = func(context.Context, driver.Command) error {
						if n.Add(1) == 1 {
							<-answer
						}
						return nil
					}
				})
				slow := background(t, m)
				fast := must(t, m)
				require.NoError(t, fast.Unlock(t.Context()))
				close(answer)
				first := granted(slow)
				require.NotNil(t, first)
				again := must(t, m)
				assert.Greater(t, again.Token(), fast.Token())
				assert.Same(t, again.tenure, must(t, m).tenure)
				assert.True(t, first.Valid())
			})
		})
	}
}

// An owner with a name may write on another client, of which this one knows nothing.
func TestANamedReaderHasTheTokenOfWhatItWroteOnAnotherClient(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		owner := As(NamedOwner("job"))
		read, _ := f.sides(t, Fenced(), owner)
		_, write := f.sides(t, Fenced(), owner)
		must(t, read)
		w := must(t, write)
		require.NoError(t, w.Unlock(t.Context()))
		assert.Equal(t, w.Token(), must(t, read).Token())
	})
}

// Where there is no token to be outdated, a reader with a name re-enters without a request.
func TestANamedReaderAsksForATokenOnly(t *testing.T) {
	owner := As(NamedOwner("job"))
	reenter := func(t *testing.T, read, write *Mutex) {
		must(t, write)
		first := must(t, read)
		assert.Same(t, first.tenure, must(t, read).tenure)
	}
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, owner)
		reenter(t, read, write)
	})
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		reenter(t, c.Mutex("k", ForReading(), Fenced(), owner), c.Mutex("k", ForWriting(), Fenced(), owner))
	})
}

func TestReentryAfterASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		outer.tenure.mu.Lock()
		outer.tenure.term.asleep -= time.Minute // the machine slept since
		outer.tenure.mu.Unlock()
		_, ok := reenter(c)
		assert.False(t, ok)
		assert.False(t, outer.Valid())
	})
}

func TestContextOfAReentryEndsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		inner := mustReenter(t, c)
		assert.NoError(t, outer.Context().Err())
		assert.NoError(t, inner.Context().Err())
		require.NoError(t, inner.Unlock(t.Context()))
		assert.NoError(t, outer.Context().Err())
		assert.Error(t, inner.Context().Err())
		got, _ := FromContext(inner.Context())
		assert.Same(t, inner, got)
	})
}

// However many come and go, in whatever order, while renewals fail now and then.
func TestManyReentries(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, TTL(3*time.Second))
		f.set(func() {
			var n atomic.Int32
			f.before = func(context.Context, driver.Command) error {
				if n.Add(1)%3 == 0 {
					return driver.NotSent(errors.New("no route"))
				}
				return nil
			}
		})
		var held []*Lease
		for i := range 100 {
			l, ok := reenter(c, []Option{TTL(time.Duration(i%3+1) * time.Second)}...)
			require.True(t, ok, fmt.Sprint(i))
			held = append(held, l)
			time.Sleep(50 * time.Millisecond)
			if i%2 == 0 {
				require.NoError(t, held[0].Unlock(t.Context()))
				held = held[1:]
			}
		}
		for _, l := range held {
			require.True(t, l.Valid())
			require.NoError(t, l.Unlock(t.Context()))
		}
		f.set(func() { f.before = nil })
		require.NoError(t, outer.Unlock(t.Context()))
		assert.Zero(t, reenterable(c))
	})
}

// What is known of the tokens of one lock stays while others are taken and given up.
func TestTokensOfEachLockAreKnownApart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lock := func(name string) *Lease { return must(t, c.Mutex(name, Reentrant(), Fenced(), As(NewOwner()))) }
		first := lock("first")
		second := lock("second")
		assert.Equal(t, map[string]known{
			"first": {uses: 1, largest: first.Token()}, "second": {uses: 1, largest: second.Token()},
		}, c.holdings.tokens)
		require.NoError(t, second.Unlock(t.Context()))
		assert.Equal(t, map[string]known{"first": {uses: 1, largest: first.Token()}}, c.holdings.tokens)
		require.NoError(t, first.Unlock(t.Context()))
		assert.Empty(t, c.holdings.tokens)
	})
}

// A tenure is looked at when the first of its handles ends, in whatever order they have come, and renewed within
// the time that the last one has.
func TestEachReentryEndsAtItsTimeAndTheRenewalHasThatOfTheLast(t *testing.T) {
	for name, limited := range map[string]int{"the first": 0, "the second": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c, leases := f.client(t), make([]*Lease, 2)
				for i := range leases {
					opts := []Option{Reentrant(), As(NamedOwner("me"))}
					if i == limited {
						opts = append(opts, MaxHold(time.Second))
					}
					leases[i] = must(t, c.Mutex("k", opts...))
				}
				tenure, short, long := leases[0].tenure, leases[limited], leases[1-limited]
				require.Same(t, tenure, leases[1].tenure)
				tenure.mu.Lock()
				last := tenure.lastDeadline()
				tenure.mu.Unlock()
				assert.Equal(t, long.Deadline(), last)
				ctx := short.Context()
				time.Sleep(time.Second)
				synctest.Wait()
				assert.ErrorIs(t, context.Cause(ctx), ErrMaxHold)
				assert.True(t, long.Valid())
			})
		})
	}
}

// Where no last token is known, tokens that goroutines passed along may have run ahead of the clock, also where the
// record of what was there before has to be looked at.
func TestEachFirstTokenRunsAheadOfTheClock(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": {Fenced()}, "reentrant": {Reentrant(), Fenced()}, "writer": {ForWriting(), Fenced()}} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, record of another: %v", name, over), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					if over {
						f.HSet("k", "gl1", "x", newID(), "x|1|1000|0|somebody||")
					}
					lease := must(t, f.client(t).Mutex("k", opts...))
					assert.Greater(t, lease.Token(), Token(time.Now().Add(2*time.Millisecond).UnixMicro()))
				})
			})
		}
	}
}
