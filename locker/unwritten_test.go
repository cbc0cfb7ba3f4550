package locker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A server that takes no writes cannot note that an attempt is over. Whoever gives it up must
// know, and say so again: a request of it that comes late would take a lock for nobody.
func TestGiveUpThatCannotBeNotedIsNotDone(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	c := f.client(t)
	since7 := f.do(t, "EVAL", "return (redis.REDIS_VERSION_NUM or 0) >= 0x070000 and 1 or 0", "0") == int64(1)
	for _, test := range []struct {
		name       string
		held       bool // by somebody else
		begin, end []string
	}{
		{"held, too few replicas", true, []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"free, too few replicas", false, []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"held, replica", true, []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		{"free, replica", false, []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
	} {
		for name, opts := range map[string][]Option{"fenced": {Fenced()}, "writer": {ForWriting(), Fenced()}} {
			t.Run(test.name+", "+name, func(t *testing.T) {
				if test.begin[0] == "CONFIG" && !since7 {
					t.Skip("before 7.0 a script writes also with too few replicas")
				}
				m := c.Mutex("k", opts...)
				if test.held {
					held, err := m.TryLock(t.Context())
					require.NoError(t, err)
					defer func() { require.NoError(t, held.Unlock(t.Context())) }()
				}
				r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: newID(), tail: m.tail, ttl: m.ttl, fenced: true}
				f.do(t, test.begin...)
				_, err := c.store.link.run(t.Context(), c.store.giveUpCall(r, "", time.Minute))
				f.do(t, test.end...)
				assert.ErrorIs(t, requestError(m.name, err), ErrUnavailable)

				_, err = c.store.link.run(t.Context(), c.store.giveUpCall(r, "", time.Minute))
				require.NoError(t, err)
				_, _, err = c.store.acquire(t.Context(), r, place{})
				require.Error(t, err, "the late request")
			})
		}
	}
}

// What a former master knows, where the lock is not ours or not there, says nothing about it.
func TestServerThatTakesNoWritesDoesNotSayThatTheLeaseIsGone(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	for name, opts := range map[string][]Option{"plain": nil, "fenced": {Fenced()}, "writer": {ForWriting(), Fenced()}} {
		another := []Option{Reentrant()}
		if name == "writer" {
			another = nil // a mutex
		}
		for others, by := range map[string][]Option{"": nil, "taken by the same kind of lock": opts, "taken by another kind": another} {
			c := f.client(t)
			m := c.Mutex(name, append(opts, NoRenewal())...)
			lease, err := m.TryLock(t.Context())
			require.NoError(t, err)
			detached, err := c.Mutex(name+" detached", opts...).TryLock(t.Context())
			require.NoError(t, err)
			id, err := detached.Detach(t.Context(), time.Minute)
			require.NoError(t, err)
			f.do(t, "DEL", name, name+" detached")
			if others != "" {
				other := f.client(t)
				for _, k := range []string{name, name + " detached"} {
					_, err := other.Mutex(k, by...).TryLock(t.Context())
					require.NoError(t, err)
				}
			}
			f.do(t, "REPLICAOF", "127.0.0.1", "1")
			soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			err = lease.Unlock(soon)
			cancel()
			assert.ErrorIs(t, err, ErrUnavailable, "%s %s", name, others)
			assert.NotErrorIs(t, err, ErrLost)
			_, err = c.Mutex(name+" detached", opts...).Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrUnavailable, "%s %s", name, others)
			f.do(t, "REPLICAOF", "NO", "ONE")
			f.do(t, "FLUSHALL")
		}
	}
}

// A formerMaster is a server that can be had to take no writes for a while.
type formerMaster struct {
	*fakeDeployment
	begin, end func()
}

// eachFormerMaster runs test with a replica, and with a node that is cut off from its Cluster and
// lets read all the same.
func eachFormerMaster(t *testing.T, test func(t *testing.T, f formerMaster)) {
	t.Run("replica", func(t *testing.T) {
		f := &fakeDeployment{dial: startRedis(t)}
		test(t, formerMaster{f, func() { f.do(t, "REPLICAOF", "127.0.0.1", "1") }, func() { f.do(t, "REPLICAOF", "NO", "ONE") }})
	})
	t.Run("cut off", func(t *testing.T) {
		f := &fakeDeployment{dial: startRedis(t, "--cluster-enabled", "yes", "--cluster-allow-reads-when-down", "yes")}
		const missing = "0" // a slot of none of the locks
		await := func(state string) {
			require.Eventually(t, func() bool { return strings.Contains(f.do(t, "CLUSTER", "INFO").(string), "cluster_state:"+state) }, 10*time.Second, 10*time.Millisecond)
		}
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := range driver.Slots {
			add = append(add, strconv.Itoa(slot))
		}
		f.do(t, add...)
		await("ok")
		test(t, formerMaster{f,
			func() { f.do(t, "CLUSTER", "DELSLOTS", missing); await("fail") },
			func() { f.do(t, "CLUSTER", "ADDSLOTS", missing); await("ok") }})
	})
}

// forgets has the server know nothing of the lock "k", or that others have it, and take
// no writes until it is mended.
func (f formerMaster) forgets(t *testing.T, others bool, opts []Option) (mend func()) {
	t.Helper()
	f.do(t, "DEL", "k")
	if others {
		_, err := f.client(t).Mutex("k", opts...).TryLock(t.Context())
		require.NoError(t, err)
	}
	f.begin()
	return func() {
		f.end()
		f.do(t, "FLUSHALL")
	}
}

// Nor does it when a lease is renewed, extended, or asked for its turn: its holder would stop at
// once, and the lock would stay taken at the master for nobody.
func TestServerThatTakesNoWritesEndsNoLease(t *testing.T) {
	eachFormerMaster(t, func(t *testing.T, f formerMaster) {
		for name, opts := range map[string][]Option{"plain": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting(), Fenced()}} {
			for _, others := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, others %v", name, others), func(t *testing.T) {
					c := f.client(t)
					m := c.Mutex("k", append(opts, NoRenewal())...)
					lease, err := m.TryLock(t.Context())
					require.NoError(t, err)
					defer f.forgets(t, others, opts)()

					renewal := renewCall(m, lease.tenure.id, m.ttl, m.cfg.fenced, 0)
					for _, r := range c.deployment.runBatch(t.Context(), []call{renewal, renewal}) {
						require.ErrorIs(t, requestError("k", r.Err), ErrUnavailable, "answered %v", r.Value)
					}
					if m.mode == modeMutex {
						v, err := c.deployment.run(t.Context(), turnCall(m, lease.tenure.id, 0))
						require.ErrorIs(t, requestError("k", err), ErrUnavailable, "answered %v", v)
					}
					soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, lease.Extend(soon, time.Minute), ErrUnavailable)
					require.NoError(t, lease.Err())
				})
			}
		}
	})
}

// Nor when a lease is broken: who believes that it is gone does not break it at the master.
func TestServerThatTakesNoWritesDoesNotSayThatThereIsNothingToBreak(t *testing.T) {
	eachFormerMaster(t, func(t *testing.T, f formerMaster) {
		for name, opts := range map[string][]Option{"fenced": {Fenced()}, "writer": {ForWriting(), Fenced()}} {
			for _, others := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, others %v", name, others), func(t *testing.T) {
					c := f.client(t)
					_, err := c.Mutex("k", opts...).TryLock(t.Context())
					require.NoError(t, err)
					dead, err := c.Inspect(t.Context(), "k")
					require.NoError(t, err)
					defer f.forgets(t, others, opts)()
					_, err = c.ForceRelease(t.Context(), "k")
					require.ErrorIs(t, err, ErrUnavailable)
					_, err = c.ForceReleaseFrom(t.Context(), "k", dead.Holders...)
					require.ErrorIs(t, err, ErrUnavailable)
				})
			}
		}
	})
}

// Tokens go on from the last one for as long as that is known, which is for two TTLs at least
// of whoever holds the lock.
func TestLastTokenIsKeptForTheLongestLeaseThatLives(t *testing.T) {
	const long = 10 * 24 * time.Hour
	for name, use := range map[string]func(t *testing.T, f *fakeDeployment){
		"extended, and asked for its turn": func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			m := c.Mutex("k", Fenced())
			lease, err := m.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Extend(t.Context(), long))
			_, err = c.store.link.run(t.Context(), turnCall(lease.tenure.mutex, lease.tenure.id, lease.tenure.token))
			require.NoError(t, err)
		},
		"re-entered elsewhere for a shorter time": func(t *testing.T, f *fakeDeployment) {
			as := As(NamedOwner("me"))
			_, err := f.client(t).Mutex("k", Reentrant(), Fenced(), as, TTL(long), NoRenewal()).TryLock(t.Context())
			require.NoError(t, err)
			_, err = f.client(t).Mutex("k", Reentrant(), Fenced(), as).TryLock(t.Context())
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeDeployment{dial: startRedis(t)}
			use(t, f)
			assert.Greater(t, f.pttl(t, newKeys("k").fence), 2*long-time.Minute)
		})
	}
}

// Nor that the lock cannot be had at all: a reader that waited to write, or what others had put at
// the key, may be gone at the master, and whoever wants the lock would give up.
func TestServerThatTakesNoWritesDoesNotSayThatWaitingIsInVain(t *testing.T) {
	for name, test := range map[string]struct {
		stand func(t *testing.T, f *fakeDeployment)
		ask   func(t *testing.T, f *fakeDeployment) (call func() error)
		says  error // while the server is a master
	}{
		"another reader waits to write": {
			func(t *testing.T, f *fakeDeployment) {
				c, owner := f.client(t), NewOwner()
				must(t, c.Mutex("k", ForReading(), As(owner)))
				m := c.Mutex("k", ForWriting())
				r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: owner.name, tail: m.tail, ttl: m.ttl}
				_, _, err := c.store.acquire(t.Context(), r, place{reservation: newID(), life: time.Minute})
				require.ErrorIs(t, err, ErrLocked)
			},
			func(t *testing.T, f *fakeDeployment) func() error {
				reading := must(t, f.client(t).Mutex("k", ForReading()))
				return func() error { _, err := reading.TryUpgrade(t.Context()); return err }
			},
			ErrDeadlock,
		},
		"a reentrant lock, of a mutex": {
			func(t *testing.T, f *fakeDeployment) { must(t, f.client(t).Mutex("k", Reentrant())) },
			func(t *testing.T, f *fakeDeployment) func() error { return tries(t, f.client(t).Mutex("k")) },
			ErrForeign,
		},
		"a mutex, of a reader": {
			func(t *testing.T, f *fakeDeployment) { must(t, f.client(t).Mutex("k")) },
			func(t *testing.T, f *fakeDeployment) func() error {
				return tries(t, f.client(t).Mutex("k", ForReading()))
			},
			ErrForeign,
		},
		"a foreign string, of a mutex": {
			func(t *testing.T, f *fakeDeployment) { f.do(t, "SET", "k", "theirs") },
			func(t *testing.T, f *fakeDeployment) func() error { return tries(t, f.client(t).Mutex("k", Fenced())) },
			ErrForeign,
		},
		"a foreign list, of a forced release": {
			func(t *testing.T, f *fakeDeployment) { f.do(t, "RPUSH", "k", "theirs") },
			func(t *testing.T, f *fakeDeployment) func() error {
				c := f.client(t)
				return func() error { _, err := c.ForceRelease(t.Context(), "k"); return err }
			},
			ErrForeign,
		},
		"a foreign list, of a taking up": {
			func(t *testing.T, f *fakeDeployment) { f.do(t, "RPUSH", "k", "theirs") },
			func(t *testing.T, f *fakeDeployment) func() error {
				m := f.client(t).Mutex("k")
				return func() error { _, err := m.Attach(t.Context(), newID()); return err }
			},
			ErrForeign,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeDeployment{dial: startRedis(t)}
			call := test.ask(t, f)
			test.stand(t, f)
			require.ErrorIs(t, call(), test.says)
			f.do(t, "REPLICAOF", "127.0.0.1", "1")
			defer f.do(t, "REPLICAOF", "NO", "ONE")
			require.ErrorIs(t, call(), ErrUnavailable)
		})
	}
}

func tries(t *testing.T, m *Mutex) func() error {
	return func() error { _, err := m.TryLock(t.Context()); return err }
}
