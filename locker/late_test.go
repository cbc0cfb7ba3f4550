package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// delayFirst has the first request by a script that takes a lock lost, and returns it, to
// be executed late.
func delayFirst(f *fakeDeployment) (arrive func(t *testing.T)) {
	var late *driver.Command
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			takes := cmd.Args[1] == mutexFamily.acquire.sha() || cmd.Args[1] == holdFamily.acquire.sha()
			if !takes || late != nil {
				return nil
			}
			cmd.Args = slices.Clone(cmd.Args)
			late = &cmd
			return errLostReply
		}
	})
	return func(t *testing.T) {
		require.NotNil(t, late)
		conn, err := f.Connect(t.Context())
		require.NoError(t, err)
		_, err = conn.Do(t.Context(), *late)
		require.NoError(t, err)
	}
}

// A request that arrives when its lease is over must not take the lock for nobody.
func TestLateRequestOfALeaseThatTheServerHasLost(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				arrive := delayFirst(f)
				l, err := f.client(t).Mutex("k", append(opts, TTL(10*time.Second))...).Lock(t.Context())
				require.NoError(t, err)
				f.Del("k")
				<-l.Context().Done()
				assert.ErrorIs(t, l.Unlock(t.Context()), ErrAbsent)
				synctest.Wait()
				arrive(t)
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
			})
		})
	}
}

// Nor one that arrives when it has been given up, to nobody or to who waits.
func TestLateRequestOfALeaseThatWasGivenUp(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}, "reading": {ForReading()}, "writing": {ForWriting()}} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, somebody waits: %v", name, waits), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					arrive := delayFirst(f)
					l := must(t, f.client(t).Mutex("k", opts...))
					var next <-chan *Lease
					if waits {
						m := f.client(t).Mutex("k", opts...)
						if l.Mode() == Reading {
							m = f.client(t).Mutex("k", ForWriting())
						}
						next = background(t, m)
						time.Sleep(time.Second) // it has its place
					}
					require.NoError(t, l.Unlock(t.Context()))
					if waits {
						assert.NoError(t, (<-next).Unlock(t.Context()))
					}
					arrive(t)
					assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
				})
			})
		}
	}
}

// Nor one that was answered, and that something on the way to the server delivers once more.
func TestRequestThatIsExecutedTwiceTakesNothing(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}, "writing": {ForWriting()}} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waits: %v", name, waits), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					m := f.client(t).Mutex("k", opts...)
					var held *Lease
					if waits {
						held = must(t, f.client(t).Mutex("k", opts...))
					}
					var again driver.Command
					f.set(func() {
						f.before = func(_ context.Context, cmd driver.Command) error {
							if isAcquire(cmd) {
								again = driver.Command{Args: slices.Clone(cmd.Args)}
							}
							return nil
						}
					})
					if waits {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						_, err := m.Lock(ctx)
						require.ErrorIs(t, err, context.DeadlineExceeded)
						synctest.Wait()
						require.NoError(t, held.Unlock(t.Context()))
					} else {
						require.NoError(t, must(t, m).Unlock(t.Context()))
					}
					require.NotEmpty(t, again.Args)
					f.do(t, again.Args...)
					assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
				})
			})
		}
	}
}

// So it is where the server itself has ended the lease in between, or it was left there and nobody took it up.
func TestRequestThatIsExecutedTwiceTakesNothingOfALeaseThatHasRunOut(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}, "reading": {ForReading()}, "writing": {ForWriting()}} {
		take := func(t *testing.T, f *fakeDeployment) (l *Lease, again driver.Command) {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if isAcquire(cmd) {
						again = driver.Command{Args: slices.Clone(cmd.Args)}
					}
					return nil
				}
			})
			l = must(t, f.client(t).Mutex("k", append(opts, TTL(3*time.Second))...))
			require.NotEmpty(t, again.Args)
			return l, again
		}
		t.Run(name+", lost", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				l, again := take(t, f)
				f.Del("k")
				<-l.Context().Done()
				assert.ErrorIs(t, l.Unlock(t.Context()), ErrAbsent)
				synctest.Wait()
				f.do(t, again.Args...)
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
			})
		})
		t.Run(name+", left", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				l, again := take(t, f)
				id, err := l.Detach(t.Context(), time.Second)
				require.NoError(t, err)
				synctest.Wait()
				mark, err := f.Get(l.mutex.keys.over(id))
				require.NoError(t, err)
				assert.Equal(t, "2", mark, "the lease goes on under another id")
				time.Sleep(4 * time.Second)
				f.do(t, again.Args...)
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
				_, err = l.mutex.Attach(t.Context(), id)
				assert.ErrorIs(t, err, ErrAbsent, "others may have had it since")
			})
		})
	}
}

// The look of a waiter that arrives when its lease has run out gives it a place in the queue once
// more. That ends with the lease, or nobody would be granted the lock there.
func TestLateLookOfALeaseThatWasGivenUp(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writing": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				holder := must(t, f.client(t).Mutex("k", opts...))
				got := background(t, f.client(t).Mutex("k", append(opts, TTL(10*time.Second))...))
				arrive := delayFirst(f)
				time.Sleep(time.Second) // it looks
				require.NoError(t, holder.Unlock(t.Context()))
				l := granted(got)
				require.NotNil(t, l)
				f.Del("k")
				<-l.Context().Done()
				other := must(t, f.client(t).Mutex("k", opts...))
				arrive(t)
				assert.ErrorIs(t, l.Unlock(t.Context()), ErrAbsent)
				synctest.Wait()
				require.NoError(t, other.Unlock(t.Context()))
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
			})
		})
	}
}

func TestLateRequestOfADetachedLease(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		take := func(t *testing.T, f *fakeDeployment) (m *Mutex, l *Lease) {
			m = f.client(t).Mutex("k", append(opts, TTL(10*time.Second))...)
			l, err := m.Lock(t.Context())
			require.NoError(t, err)
			return m, l
		}
		t.Run(name+", taken up", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				arrive := delayFirst(f)
				m, l := take(t, f)
				id, err := l.Detach(t.Context(), 2*time.Second)
				require.NoError(t, err)
				synctest.Wait()
				arrive(t)
				again, err := m.Attach(t.Context(), id)
				require.NoError(t, err, "while it is there it changes nothing")
				id, err = again.Detach(t.Context(), time.Second)
				require.NoError(t, err)
				time.Sleep(11 * time.Second)
				_, err = m.Attach(t.Context(), id)
				require.ErrorIs(t, err, ErrAbsent)
				arrive(t)
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
			})
		})
		t.Run(name+", left", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				arrive := delayFirst(f)
				_, l := take(t, f)
				_, err := l.Detach(t.Context(), time.Second)
				require.NoError(t, err)
				time.Sleep(11 * time.Second)
				arrive(t)
				assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
			})
		})
	}
}

// A request that takes a lease up arrives when its caller has given up, and the lease has been given back: it
// is good for others still.
func TestLateAttachThatWasGivenUp(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}, "reading": {ForReading()}, "writing": {ForWriting(), Fenced()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				id, err := must(t, f.client(t).Mutex("k", opts...)).Detach(t.Context(), time.Minute)
				require.NoError(t, err)
				m := f.client(t).Mutex("k", opts...)
				var late driver.Command
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if m.mode.family().attach.runs(cmd) {
							late = driver.Command{Args: slices.Clone(cmd.Args)}
							return errLostReply
						}
						return nil
					}
				})
				_, err = m.Attach(t.Context(), id)
				require.ErrorIs(t, err, ErrUnavailable)
				synctest.Wait()
				f.heal()
				f.do(t, late.Args...)
				lease, err := f.client(t).Mutex("k", opts...).Attach(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

// Requests of several detached leases go out together.
func TestLateRequestsOfSeveralDetachedLeases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lost := map[string]bool{}
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if key := cmd.Keys()[0]; cmd.Args[1] == mutexFamily.acquire.sha() && !lost[key] {
					lost[key] = true
					return errLostReply
				}
				return nil
			}
		})
		var leases []*Lease
		for _, name := range []string{"a", "b", "c"} {
			l, err := c.Mutex(name, Fenced(), TTL(10*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			leases = append(leases, l)
		}
		f.heal()
		for _, l := range leases {
			_, err := l.Detach(t.Context(), 10*time.Second)
			require.NoError(t, err)
		}
		synctest.Wait()
		for _, l := range leases {
			assert.True(t, f.Exists(l.mutex.keys.over(l.tenure.id)), l.Name())
		}
		renewal, over := renewCall(leases[0].mutex, newID(), time.Second, true, 0), native("SET", "x", "1")
		require.Len(t, bundles([]call{over, renewal, over, renewal}), 3)
	})
}

// Two attempts to take a lease up have ended without an answer. The first one had it.
func TestAttachKnowsEachOfItsEarlierAttempts(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "hold": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease, err := f.client(t).Mutex("k", opts...).Lock(t.Context())
				require.NoError(t, err)
				id, err := lease.Detach(t.Context(), time.Minute)
				require.NoError(t, err)
				c := f.client(t)
				mustPair(t, c.Mutex("warm"))
				attach := func() error {
					_, err := c.Mutex("k", opts...).Attach(t.Context(), id)
					return err
				}
				f.set(func() { // and what puts that right does not get through
					f.after = func(context.Context, driver.Command) error { return errLostReply }
					f.before = func(_ context.Context, cmd driver.Command) error {
						if mutexFamily.unattach.runs(cmd) || holdFamily.unattach.runs(cmd) {
							return driver.NotSent(errors.New("no route"))
						}
						return nil
					}
				})
				require.ErrorIs(t, attach(), ErrUnavailable)
				time.Sleep(30 * time.Millisecond)
				f.set(func() {
					f.before, f.after = func(context.Context, driver.Command) error { return errLostReply }, nil
				})
				require.ErrorIs(t, attach(), ErrUnavailable)
				time.Sleep(5 * time.Second)
				f.heal()
				assert.NoError(t, attach())
			})
		})
	}
}

// Of the ids under which a lease may have been taken up the latest are asked for first, and not more than a few: each is a
// request. An answer that says nothing of the lease ends that, as the server would not say more of the next.
func TestAttachAsksForTheLatestOfItsEarlierAttempts(t *testing.T) {
	var a attaching
	var forget []func()
	for i := range maxUnsure + 4 {
		forget = append(forget, a.unsure("old", strconv.Itoa(i)))
	}
	forget[3]()
	forget[11]()
	asked := func(answer error) (ids []string) {
		assert.ErrorIs(t, a.try("old", func(unsure string) error {
			ids = append(ids, unsure)
			return answer
		}), answer)
		return ids
	}
	assert.Equal(t, []string{"10", "9", "8", "7", "6", "5", "4", "2"}, asked(ErrTaken))
	assert.Equal(t, []string{"10"}, asked(ErrUnavailable))
}

// Nothing is heard of a request that has taken the lock until the next one under the same id. The
// lease counts from the send of that, and so it does at the server.
func TestLeaseThatIsAskedForAgainLastsAsLongAtTheServer(t *testing.T) {
	const ttl = 10 * time.Second
	for name, opts := range map[string][]Option{"mutex": {Fenced()}, "hold": {Reentrant()}} {
		opts = append(opts, TTL(ttl))
		for call, take := range map[string]func(t *testing.T, m *Mutex, detached string) (*Lease, error){
			"Lock":   func(t *testing.T, m *Mutex, _ string) (*Lease, error) { return m.Lock(t.Context()) },
			"Attach": func(t *testing.T, m *Mutex, id string) (*Lease, error) { return m.Attach(t.Context(), id) },
		} {
			t.Run(name+" "+call, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					m, detached := f.client(t).Mutex("k", opts...), ""
					if call == "Attach" {
						lease, err := f.client(t).Mutex("k", opts...).Lock(t.Context())
						require.NoError(t, err)
						detached, err = lease.Detach(t.Context(), ttl)
						require.NoError(t, err)
						synctest.Wait() // the server knows that its id is over
					}
					lost := false
					f.set(func() {
						f.after = func(context.Context, driver.Command) error {
							if lost {
								return nil
							}
							lost = true
							time.Sleep(time.Second)
							return errLostReply
						}
					})
					begun := time.Now()
					lease, err := take(t, m, detached)
					require.NoError(t, err)
					require.True(t, lost)
					require.Equal(t, time.Second, time.Since(begun))
					assert.Equal(t, ttl-margin(ttl), time.Until(lease.Deadline()))
					status, err := lease.tenure.client.Inspect(t.Context(), "k")
					require.NoError(t, err)
					require.Len(t, status.Holders, 1)
					assert.Equal(t, ttl, status.Holders[0].Remaining)
					assert.Equal(t, ttl, f.TTL("k"))
				})
			})
		}
	}
}

// A lock whose answer comes when its lease is over, by a driver that heeds no end, is asked for again.
func TestLockWhoseAnswerComesWhenItsLeaseIsOverIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(time.Second))
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if isSet(cmd) {
					time.Sleep(2 * time.Second)
				}
				return nil
			}
		})
		assert.True(t, must(t, m).Valid())
	})
}

// noRouteAfterOne makes a server that cannot be reached after one request.
func noRouteAfterOne() func(context.Context, driver.Command) error {
	requests := 0
	return func(context.Context, driver.Command) error {
		if requests++; requests > 1 {
			return driver.NotSent(errors.New("no route"))
		}
		return nil
	}
}

// Where that cannot be done, what the server has given for so long is given up.
func TestLockWhoseAnswerComesWhenItsLeaseIsOverIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(10*time.Second))
		f.set(func() {
			f.before = noRouteAfterOne()
			f.after = func(context.Context, driver.Command) error {
				time.Sleep(9 * time.Second)
				f.SetTTL("k", 10*time.Second) // as if it were executed only now
				time.Sleep(2 * time.Second)
				return nil
			}
		})
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", err)
		require.True(t, f.Exists("k"))
		f.heal()
		time.Sleep(3 * time.Second)
		assert.False(t, f.Exists("k"))
	})
}

// Nor may one that arrives after an outage, in which the server could not be told that the id is over
// before everything taken under it had lapsed.
func TestLateRequestAfterAnOutage(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		for what, end := range map[string]func(*testing.T, *fakeDeployment, *Mutex){
			"unlocked": func(t *testing.T, f *fakeDeployment, m *Mutex) {
				l := must(t, m)
				f.hang()
				assert.ErrorIs(t, l.Unlock(t.Context()), ErrUnknown)
			},
			"lost and unlocked": func(t *testing.T, f *fakeDeployment, m *Mutex) {
				l := must(t, m)
				f.hang()
				<-l.Context().Done()
				assert.ErrorIs(t, l.Unlock(t.Context()), ErrUnknown)
			},
			"given up": func(t *testing.T, f *fakeDeployment, m *Mutex) {
				ctx, cancel := context.WithCancel(t.Context())
				before := f.before
				f.set(func() {
					f.before = func(ctx context.Context, cmd driver.Command) error {
						defer cancel()
						return before(ctx, cmd)
					}
				})
				_, err := m.Lock(ctx)
				assert.ErrorIs(t, err, context.Canceled)
				f.hang()
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					arrive := delayFirst(f)
					const ttl = 10 * time.Second
					end(t, f, f.client(t).Mutex("k", append(opts, TTL(ttl))...))
					time.Sleep(2 * ttl)
					require.False(t, f.Exists("k"))
					f.heal()
					time.Sleep(cleanupPause + DefaultAttemptTimeout)
					arrive(t)
					assert.False(t, f.Exists("k"), "it is held by nobody, for %v", f.TTL("k"))
				})
			})
		}
	}
}

// A lease that lasts for longer than the server has to know of its end is released for as long as it lasts.
func TestReleaseOfALongLeaseThatWasAskedForTwiceGoesOnUntilItLapses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = 10 * time.Second
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		lease := must(t, f.client(t).Mutex("k", Fenced(), TTL(ttl)))
		require.Equal(t, voidLife(ttl), lease.tenure.remember)
		require.NoError(t, lease.Extend(t.Context(), time.Hour))
		f.hang()
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		time.Sleep(2 * voidLife(ttl))
		f.heal()
		time.Sleep(cleanupPause + DefaultAttemptTimeout)
		assert.False(t, f.Exists("k"))
	})
}

// A request may have taken the lock, as its reply was lost, and cannot be made again: it is not said that nothing was sent.
func TestTryWhoseRepetitionIsNotSentMayHaveBeenExecuted(t *testing.T) {
	for name, opts := range map[string][]Option{"SET": nil, "script": {Fenced()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				f.set(func() {
					f.before = noRouteAfterOne()
					f.after = func(context.Context, driver.Command) error { return errLostReply }
				})
				_, err := m.TryLock(t.Context())
				assert.ErrorIs(t, err, ErrUnavailable)
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", err)
				assert.ErrorContains(t, err, "no route")
				require.True(t, f.Exists("k"), "as it has been")
				f.heal()
				time.Sleep(time.Second)
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

// Nor is it by who goes on trying for a while, nor of what a lease is asked to.
func TestCallWhoseLastRequestIsNotSentMayHaveBeenExecuted(t *testing.T) {
	for call, run := range map[string]func(ctx context.Context, m *Mutex, l *Lease) error{
		"Lock": func(ctx context.Context, m *Mutex, _ *Lease) error { _, err := m.Lock(ctx); return err },
		"Lock, twice": func(ctx context.Context, m *Mutex, _ *Lease) error {
			_, err := m.client.Mutex("k", Fenced(), Retry(Attempts(2, Constant(time.Second)))).Lock(ctx)
			return err
		},
		"Extend": func(ctx context.Context, _ *Mutex, l *Lease) error { return l.Extend(ctx, time.Minute) },
		"Unlock": func(ctx context.Context, _ *Mutex, l *Lease) error { return l.Unlock(ctx) },
		"Detach": func(ctx context.Context, _ *Mutex, l *Lease) error { _, err := l.Detach(ctx, time.Minute); return err },
	} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, nodes: %d", call, nodes), func(t *testing.T) {
				quorumBubble(t, nodes, func(t *testing.T, q fakeQuorum) {
					q.established()
					c := q[0].client
					if nodes > 1 {
						c = func(t *testing.T, opts ...ClientOption) *Client { return q.client(t, QuorumConfig{}, opts...) }
					}
					m := c(t).Mutex("k", Fenced())
					lease := must(t, m)
					if call == "Lock" || call == "Lock, twice" {
						require.NoError(t, lease.Unlock(t.Context()))
					}
					for _, f := range q {
						requests := 0
						f.set(func() {
							f.before = func(context.Context, driver.Command) error {
								if requests++; requests > 3 {
									return driver.NotSent(errors.New("no route"))
								}
								return nil
							}
							f.after = func(context.Context, driver.Command) error { return errLostReply }
						})
					}
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					err := run(ctx, m, lease)
					assert.ErrorIs(t, err, ErrUnavailable)
					assert.ErrorContains(t, err, "no route")
					assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", err)
					for _, f := range q {
						f.heal()
					}
				})
			})
		}
	}
}

// What waiting cannot mend ends the call at once all the same, and is told whole.
func TestCallThatIsRefusedItsConnectionAfterALostReplyEnds(t *testing.T) {
	for reply, word := range map[string]error{
		"NOPERM this user has no permissions to run the 'client|setname' command": ErrPermission,
		"WRONGPASS invalid username-password pair or user is disabled.":           nil,
	} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k")
			requests := 0
			f.set(func() {
				f.before = func(context.Context, driver.Command) error {
					if requests++; requests > 1 {
						return driver.NotSent(driver.NewServerError(reply))
					}
					return nil
				}
				f.after = func(context.Context, driver.Command) error { return errLostReply }
			})
			begun := time.Now()
			_, err := m.Lock(within(t, time.Hour))
			refused, ok := errors.AsType[*driver.ServerError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, reply, refused.Message)
			assert.NotErrorIs(t, err, ErrUnavailable)
			if word != nil {
				assert.ErrorIs(t, err, word)
			}
			assert.Less(t, time.Since(begun), time.Second)
			f.heal()
		})
	}
}

// A request is executed twice while the lease lasts: it is that lease, by the token that it has, and lasts as long anew.
func TestHoldThatIsAskedForTwiceIsTheSame(t *testing.T) {
	for name, opt := range map[string]Option{"reentrant": Reentrant(), "reading": ForReading(), "writing": ForWriting()} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, others wait: %v", name, waits), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					m := f.client(t).Mutex("k", opt, Fenced())
					require.NoError(t, must(t, f.client(t).Mutex("k", opt, Fenced())).Unlock(t.Context()))
					r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "job", tail: "|", ttl: m.ttl, px: m.px, fenced: true}
					first, _, err := m.client.store.acquire(t.Context(), r, place{})
					require.NoError(t, err)
					if waits {
						kind := opt
						if m.mode == modeRead {
							kind = ForWriting()
						}
						_, err = come(t, f.client(t).Mutex("k", kind), newID())
						require.ErrorIs(t, err, ErrLocked)
					}
					time.Sleep(time.Second)
					second, _, err := m.client.store.acquire(t.Context(), r, place{})
					require.NoError(t, err)
					assert.Equal(t, first, second)
					h, ok := parseHold(f.HGet("k", r.id), time.Now().UnixMilli())
					require.True(t, ok)
					assert.Equal(t, m.ttl, h.Remaining)
				})
			})
		}
	}
}

// Giving up to take a lease up changes nothing of the lock that somebody else has by now.
func TestATakingUpThatIsGivenUpLeavesTheLockOfOthers(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				lease := must(t, m)
				r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), ttl: m.ttl}
				_, err := m.client.store.link.run(t.Context(), unattachCall(r, newID(), false))
				require.NoError(t, err)
				assert.NoError(t, lease.Extend(t.Context(), DefaultTTL))
			})
		})
	}
}

// That an attempt is over is remembered for the longest time that anybody has asked for.
func TestWhatIsOverIsRememberedForTheLongestTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		must(t, m)
		r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), ttl: m.ttl}
		for _, life := range []time.Duration{time.Minute, time.Second} {
			_, err := m.client.store.link.run(t.Context(), m.client.store.giveUpCall(r, "", life))
			require.NoError(t, err)
			assert.Equal(t, time.Minute, f.TTL(m.keys.over(r.id)))
		}
	})
}

// Who cannot learn that it has taken a lease up gives that up: the lease is one again, and stays for who takes it up next.
func TestATakingUpWhoseReplyIsLostLeavesOneLease(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}, "reader": {ForReading()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				id, err := must(t, m).Detach(t.Context(), time.Minute)
				require.NoError(t, err)
				f.set(func() {
					f.after = func(_ context.Context, cmd driver.Command) error {
						if isAttach(cmd) {
							return errLostReply
						}
						return nil
					}
				})
				_, err = m.Attach(t.Context(), id)
				require.ErrorIs(t, err, ErrUnavailable)
				f.heal()
				time.Sleep(time.Second)
				synctest.Wait()
				taken, err := m.Attach(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, taken.Unlock(t.Context()))
				assert.False(t, f.Exists("k"))
			})
		})
	}
}
