package locker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// administered runs a test on one server and on a quorum. client makes clients of it.
func administered(t *testing.T, test func(t *testing.T, nodes fakeQuorum, client func(opts ...ClientOption) *Client)) {
	t.Helper()
	t.Run("one server", func(t *testing.T) {
		quorumBubble(t, 1, func(t *testing.T, nodes fakeQuorum) {
			test(t, nodes, func(opts ...ClientOption) *Client { return nodes[0].client(t, opts...) })
		})
	})
	t.Run("quorum", func(t *testing.T) {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			test(t, nodes, func(opts ...ClientOption) *Client {
				c := nodes.client(t, QuorumConfig{}, opts...)
				meet(t, c)
				return c
			})
		})
	})
}

// exclusive are the ways to hold a lock alone.
var exclusive = map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}}

// The reply to ForceRelease is lost. Whoever waited has the lock, and keeps it when the
// administrator asks again.
func TestForceReleaseFromAskedAgainSparesTheNextHolder(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
				must(t, client().Mutex("k", opts...))
				everywhere()
				waiter := background(t, client(Label("the next")).Mutex("k", opts...))
				admin := client()
				seen, err := admin.Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.Len(t, seen.Holders, 1)
				for _, f := range nodes {
					f.set(func() {
						f.after = func(_ context.Context, cmd driver.Command) error {
							if breakScript.runs(cmd) {
								return errLostReply
							}
							return nil
						}
					})
				}
				_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
				require.ErrorIs(t, err, ErrUnknown)
				next := <-waiter
				everywhere()
				for _, f := range nodes {
					f.heal()
				}
				_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
				assert.ErrorIs(t, err, ErrTaken)
				locked, ok := errors.AsType[*LockedError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, "k", locked.Name)
				assert.Equal(t, "the next", locked.Holder.Label)
				assert.NoError(t, next.Extend(t.Context(), DefaultTTL))
				require.NoError(t, next.Unlock(t.Context()))
				synctest.Wait()
				_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
				assert.ErrorIs(t, err, ErrAbsent)
			})
		})
	}
}

// A holder that has let go and got the lock again is not the one that was seen.
func TestForceReleaseFromSparesALaterLeaseOfTheSameClient(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
				m, admin := client().Mutex("k", append(opts, As(NamedOwner("me")))...), client()
				if kind == "mutex" || kind == "fenced" {
					m = client().Mutex("k", opts...)
				}
				first := must(t, m)
				everywhere()
				seen, err := admin.Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.NoError(t, first.Unlock(t.Context()))
				synctest.Wait()
				second := must(t, m)
				everywhere()
				_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
				assert.ErrorIs(t, err, ErrTaken)
				assert.NoError(t, second.Extend(t.Context(), DefaultTTL))
			})
		})
	}
}

// One of several readers is dead. The others go on reading, and keep a writer out.
func TestForceReleaseFromOneReaderSparesTheOthers(t *testing.T) {
	administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
		dead, alive, admin := client(Label("dead")), client(Label("alive")), client()
		name := As(NamedOwner("report"))
		first := must(t, dead.Mutex("k", ForReading(), name))
		again := must(t, client(Label("dead")).Mutex("k", ForReading(), name))
		other := must(t, alive.Mutex("k", ForReading()))
		everywhere()
		writer := background(t, client().Mutex("k", ForWriting()))
		seen, err := admin.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, seen.Holders, 2)
		for _, h := range seen.Holders {
			if h.Label != "dead" {
				continue
			}
			assert.Equal(t, 2, h.Holds)
			ended, err := admin.ForceReleaseFrom(t.Context(), "k", h)
			require.NoError(t, err)
			require.Len(t, ended, 1)
			assert.Equal(t, "dead", ended[0].Label)
			assert.Equal(t, 2, ended[0].Holds)
			_, err = admin.ForceReleaseFrom(t.Context(), "k", ended...)
			assert.ErrorIs(t, err, ErrTaken)
		}
		assert.ErrorIs(t, first.Extend(t.Context(), DefaultTTL), ErrNotHeld)
		assert.ErrorIs(t, again.Extend(t.Context(), DefaultTTL), ErrNotHeld)
		require.NoError(t, other.Extend(t.Context(), DefaultTTL))
		assert.Nil(t, granted(writer))
		require.NoError(t, other.Unlock(t.Context()))
		assert.NoError(t, (<-writer).Unlock(t.Context()))
	})
}

// A writer that reads, too, loses the one and keeps the other. Readers may come in.
func TestForceReleaseFromAWriterLetsReadersIn(t *testing.T) {
	administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
		c, admin := client(), client()
		reading := must(t, c.Mutex("k", ForReading()))
		_, err := c.Mutex("k", ForWriting()).Lock(reading.Context())
		require.NoError(t, err)
		everywhere()
		reader := background(t, client().Mutex("k", ForReading()))
		require.Nil(t, granted(reader))
		seen, err := admin.Inspect(t.Context(), "k")
		require.NoError(t, err)
		for _, h := range seen.Holders {
			if h.Mode == Writing {
				_, err = admin.ForceReleaseFrom(t.Context(), "k", h)
				require.NoError(t, err)
			}
		}
		for _, f := range nodes {
			assert.Empty(t, f.HGet("k", "w"))
			assert.Positive(t, f.TTL("k"))
		}
		assert.NoError(t, (<-reader).Unlock(t.Context()))
		assert.NoError(t, reading.Extend(t.Context(), DefaultTTL))
	})
}

// One process of an owner is dead, and another writes still.
func TestForceReleaseFromOneOfAnOwnersHoldsKeepsTheOtherAlone(t *testing.T) {
	administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
		owner := As(NamedOwner("import"))
		must(t, client(Label("dead")).Mutex("k", ForWriting(), owner))
		alive := must(t, client(Label("alive")).Mutex("k", ForWriting(), owner))
		everywhere()
		admin := client()
		seen, err := admin.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, seen.Holders, 2)
		dead := seen.Holders[0]
		if dead.Label != "dead" {
			dead = seen.Holders[1]
		}
		ended, err := admin.ForceReleaseFrom(t.Context(), "k", dead)
		require.NoError(t, err)
		require.Len(t, ended, 1)
		assert.Equal(t, "dead", ended[0].Label)
		_, err = admin.Mutex("k", ForReading()).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		assert.NoError(t, alive.Unlock(t.Context()))
		assert.NoError(t, must(t, admin.Mutex("k", ForReading())).Unlock(t.Context()))
	})
}

// The one that writes still reads, too. Which of its holds the server meets last is left to chance.
func TestForceReleaseFromOneOfAnOwnersHoldsKeepsOneThatReadsTooAlone(t *testing.T) {
	administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
		owner := As(NamedOwner("import"))
		dead, writes, reads, admin := client(Label("dead")), client(), client(), client()
		for range 10 {
			must(t, dead.Mutex("k", ForWriting(), owner))
			holds := []*Lease{must(t, writes.Mutex("k", ForWriting(), owner)), must(t, reads.Mutex("k", ForReading(), owner))}
			everywhere()
			seen, err := admin.Inspect(t.Context(), "k")
			require.NoError(t, err)
			for _, h := range seen.Holders {
				if h.Label == "dead" {
					_, err = admin.ForceReleaseFrom(t.Context(), "k", h)
					require.NoError(t, err)
				}
			}
			_, err = admin.Mutex("k", ForReading()).TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
			for _, l := range holds {
				require.NoError(t, l.Unlock(t.Context()))
			}
			everywhere()
		}
	})
}

// Who could not get a lock knows who has it, and may be told that it is dead.
func TestForceReleaseFromTheHolderOfALockedError(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
				c := client()
				must(t, client().Mutex("k", opts...))
				everywhere()
				short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				_, tried := c.Mutex("k", opts...).TryLock(t.Context())
				_, waited := c.Mutex("k", opts...).Lock(short)
				var holders []Holder
				for _, err := range []error{tried, waited} {
					locked, ok := errors.AsType[*LockedError](err)
					require.True(t, ok, "%v", err)
					locked.Holder.Remaining = 0
					holders = append(holders, locked.Holder)
				}
				assert.Equal(t, holders[0], holders[1])
				_, err := c.ForceReleaseFrom(t.Context(), "k", holders[0])
				require.NoError(t, err)
				synctest.Wait()
				must(t, c.Mutex("k", opts...))
			})
		})
	}
}

// Nobody is robbed of a lock by a list of holders that turns out to be empty, or was not told.
func TestForceReleaseFromNobodyEndsNothing(t *testing.T) {
	administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
		lease, admin := must(t, client().Mutex("k")), client()
		everywhere()
		_, err := admin.ForceReleaseFrom(t.Context(), "k")
		assert.ErrorIs(t, err, ErrAbsent)
		_, err = admin.ForceReleaseFrom(t.Context(), "k", Holder{Mode: Exclusive, Holds: 1})
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "use those that Inspect")
		for _, f := range nodes {
			require.NoError(t, f.Set("s", "of another library"))
			f.SetTTL("s", time.Minute)
		}
		seen, err := admin.Inspect(t.Context(), "s")
		require.NoError(t, err)
		require.True(t, seen.Holders[0].Foreign)
		_, err = admin.ForceReleaseFrom(t.Context(), "s", seen.Holders...)
		assert.ErrorIs(t, err, ErrForeign)
		_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
		assert.ErrorIs(t, err, ErrTaken)
		assert.NoError(t, lease.Extend(t.Context(), DefaultTTL))
	})
}

// A hold that has run out is not ended once more, and others are no reason to say that it was.
func TestForceReleaseFromAHoldThatHasRunOut(t *testing.T) {
	administered(t, func(t *testing.T, _ fakeQuorum, client func(...ClientOption) *Client) {
		admin := client()
		must(t, client(Label("dead")).Mutex("k", ForReading(), TTL(time.Second), NoRenewal()))
		other := must(t, client().Mutex("k", ForReading()))
		everywhere()
		seen, err := admin.Inspect(t.Context(), "k")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		for _, h := range seen.Holders {
			if h.Label == "dead" {
				_, err = admin.ForceReleaseFrom(t.Context(), "k", h)
				assert.ErrorIs(t, err, ErrTaken)
			}
		}
		require.NoError(t, other.Unlock(t.Context()))
		synctest.Wait()
		_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
		assert.ErrorIs(t, err, ErrAbsent)
	})
}

// The holds of one holder are told as one, which is good for as long as the longest of them.
func TestHoldsOfOneHolderAreToldTogether(t *testing.T) {
	first, last := []any{newID(), "w|1000|30000|3|me|label|x"}, []any{newID(), "w|5000|30000|7|me|label|x"}
	lapsed, other := []any{newID(), "w|100|30000|9|me|label|x"}, []any{newID(), "w|2000|30000|5|me|label|y"}
	for _, fields := range [][]any{slices.Concat(first, last, lapsed, other), slices.Concat(last, lapsed, first, other)} {
		holders := parseHolds(fields, 100)
		require.Len(t, holders, 2)
		for i := range holders {
			holders[i].leases = ""
		}
		assert.Equal(t, []Holder{
			{Mode: Writing, Owner: "me", Label: "label", Metadata: "x", Holds: 2, Token: 7, Remaining: 4900 * time.Millisecond},
			{Mode: Writing, Owner: "me", Label: "label", Metadata: "y", Holds: 1, Token: 5, Remaining: 1900 * time.Millisecond},
		}, holders)
	}
}

// What is told of a holder can be printed and compared, and is not what Attach wants.
func TestAHolderDoesNotTellTheIDsOfItsLeases(t *testing.T) {
	id, second := newID(), newID()
	hold := func(id string) []any { return []any{id, "r|99999|30000|0|me|label|"} }
	holders := parseHolds(append(hold(id), hold(second)...), 0)
	assert.Equal(t, holders, parseHolds(append(hold(second), hold(id)...), 0), "a hash has no order")
	holders = append(holders, parseRecord(record(id, "30000", "label|"), time.Second))
	text, err := json.Marshal(holders)
	require.NoError(t, err)
	for _, said := range []string{
		string(text), fmt.Sprintf("%v %+v %#v", holders, holders, holders), fmt.Sprintf("%+v %#v", struct{ h []Holder }{holders}, struct{ h Holder }{holders[0]}),
	} {
		assert.Contains(t, said, "label")
		assert.NotContains(t, said, id)
		assert.NotContains(t, said, second)
	}
}

// Something that is no queue stands where the waiters of a lock should be.
func TestForceReleaseBesideAForeignQueueTouchesNothing(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c, k := f.client(t), newKeys("k")
				lease := must(t, c.Mutex("k", opts...))
				seen, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				for _, key := range []string{k.queue, k.entries} {
					require.NoError(t, f.Set(key, "foreign"))
					for _, err := range []error{
						failureOf(c.ForceRelease(t.Context(), "k")), failureOf(c.ForceReleaseFrom(t.Context(), "k", seen.Holders...)),
					} {
						foreign, ok := errors.AsType[*ForeignError](err)
						require.True(t, ok, "%v", err)
						assert.Equal(t, "side key", foreign.Type)
					}
					assert.True(t, f.Exists("k"))
					assert.NoError(t, lease.Extend(t.Context(), DefaultTTL))
					f.Del(key)
				}
				_, err = c.ForceRelease(t.Context(), "k")
				assert.NoError(t, err)
			})
		})
	}
}

func failureOf[T any](_ T, err error) error { return err }

// An oddDeployment answers looks at locks with what no script of ours says, once it has made them.
type oddDeployment struct{ *fakeDeployment }

func (d oddDeployment) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := d.fakeDeployment.Connect(ctx)
	return oddConn{c}, err
}

type oddConn struct{ driver.Conn }

func (c oddConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	v, err := c.Conn.Do(ctx, cmd)
	if err == nil && (breakScript.runs(cmd) || inspectScript.runs(cmd)) {
		return "odd", nil
	}
	return v, err
}

// What cannot be read does not say that nobody has the lock, nor that its leases were let be.
func TestAnswersOfAnUnknownFormTellNothing(t *testing.T) {
	administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
		lease := must(t, client().Mutex("k"))
		everywhere()
		seen, err := client().Inspect(t.Context(), "k")
		require.NoError(t, err)
		var odd []driver.Connector
		for _, f := range nodes {
			odd = append(odd, oddDeployment{f})
		}
		admin, err := New(odd[0])
		if len(nodes) > 1 {
			admin, err = NewQuorum(odd)
		}
		require.NoError(t, err)
		defer admin.Close()

		status, err := admin.Inspect(t.Context(), "k")
		assert.Error(t, err, "%+v", status)
		assert.True(t, lease.Valid())
		_, err = admin.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
		assert.ErrorIs(t, err, ErrUnknown)
		assert.NotErrorIs(t, err, ErrNotHeld)
		assert.Zero(t, nodes.holding("k"))
	})
}
