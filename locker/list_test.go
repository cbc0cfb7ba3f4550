package locker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// listed returns what List yields, by name.
func listed(t *testing.T, c *Client, prefix string) map[string]Status {
	t.Helper()
	all := map[string]Status{}
	for found, err := range c.List(t.Context(), prefix) {
		require.NoError(t, err)
		require.NotContains(t, all, found.Name, "it is listed twice")
		all[found.Name] = found.Status
	}
	return all
}

func TestListFindsWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"), Prefix("app[1]:"))
		for i := range 300 {
			_, err := c.Mutex(fmt.Sprintf("jobs*%d", i)).TryLock(t.Context())
			require.NoError(t, err)
		}
		_, err := c.Mutex("jobs*rw", ForReading(), Metadata("x")).TryLock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("jobs-other", Fenced()).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Set("app[1]:jobs*cached", "for ever"))
		require.NoError(t, f.Set("app1:jobs*", "a pattern that is not quoted would match this"))
		f.SetTTL("app1:jobs*", time.Minute)
		require.NoError(t, f.Set("app[1]:jobs*redsync", "theirs"))
		f.SetTTL("app[1]:jobs*redsync", time.Minute)
		_, err = f.Push("app[1]:jobs*list", "x")
		require.NoError(t, err)

		all := listed(t, c, "jobs*")
		assert.Len(t, all, 302)
		assert.Equal(t, "me", all["jobs*299"].Holders[0].Label)
		assert.Equal(t, Reading, all["jobs*rw"].Holders[0].Mode)
		assert.Equal(t, "x", all["jobs*rw"].Holders[0].Metadata)
		assert.True(t, all["jobs*redsync"].Holders[0].Foreign)
		assert.Len(t, listed(t, c, ""), 303, "and not the side keys of the fenced one")
		assert.Empty(t, listed(t, f.client(t), "__golocker:"), "which no prefix makes locks of")
	})
}

// putLocks has all nodes know n locks, whose names are numbers.
func (nodes fakeQuorum) putLocks(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		name, value := fmt.Sprintf("%03d", i), record(newID(), "30000", "me|")
		for _, f := range nodes {
			require.NoError(t, f.Set(name, value))
			f.SetTTL(name, time.Minute)
		}
	}
}

// Whoever has seen enough is shown nothing more, and nothing more is asked for.
func TestListCanBeLeft(t *testing.T) {
	administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
		nodes.putLocks(t, 3*listBatch)
		c, n := client(), 0
		for _, err := range c.List(t.Context(), "") {
			require.NoError(t, err)
			if n++; n == 3 {
				synctest.Wait()
				for _, f := range nodes {
					f.reset()
				}
				break
			}
		}
		assert.Equal(t, 3, n)
		synctest.Wait()
		for _, f := range nodes {
			assert.Zero(t, len(f.commands()))
		}
	})
}

// What comes after an error, and could be looked at, does not hide it.
func TestListEndsWithTheFirstError(t *testing.T) {
	administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
		c, names := client(), []string(nil)
		nodes.putLocks(t, 3*listBatch)
		for _, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if keys := cmd.Keys(); len(keys) > 0 && keys[0] == "000" {
						return errLostReply
					}
					return nil
				}
			})
		}
		var last error
		for found, err := range c.List(t.Context(), "") {
			require.NoError(t, last)
			if last = err; err == nil {
				names = append(names, found.Name)
			}
		}
		assert.ErrorIs(t, last, ErrUnavailable)
		_, voted := errors.AsType[*QuorumError](last)
		assert.Equal(t, len(nodes) > 1, voted, "%v", last)
		assert.Empty(t, names)
	})
}

// A walked deployment answers in its own way what List goes by, and does not tell what it is.
type walked struct {
	*fakeDeployment
	scan  func(cursor string) driver.Value // nil: what is there
	slots func() (driver.Value, error)
}

func (w *walked) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.fakeDeployment.Connect(ctx)
	return walkedConn{driver.Wrapper{Conn: conn}, w}, err
}

type walkedConn struct {
	driver.Wrapper
	*walked
}

func (c walkedConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	switch name := cmd.Name(); {
	case name == "CLUSTER":
		return c.slots()
	case name == "SCAN" && c.scan != nil:
		return c.scan(cmd.Args[1]), nil
	}
	return c.Wrapper.Do(ctx, cmd)
}

// noCluster is what a server says that is none.
func noCluster() (driver.Value, error) {
	return nil, driver.NewServerError("ERR This instance has cluster support disabled")
}

// walk runs a test with a client of w, on which the locks a, b and c are held.
func (w *walked) walk(t *testing.T, test func(t *testing.T, c *Client)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		w.fakeDeployment = f
		c, err := New(w)
		require.NoError(t, err)
		defer c.Close()
		for _, name := range []string{"a", "b", "c"} {
			must(t, c.Mutex(name))
		}
		test(t, c)
	})
}

// SCAN may come by a key more than once, in a step and in several.
func TestListGoesThroughAllStepsAndTellsALockOnce(t *testing.T) {
	steps := map[string]driver.Value{
		"0":  []any{"17", []any{"b", "a", "gone", "b"}},
		"17": []any{"5", []any{}},
		"5":  []any{"0", []any{"a", "c"}},
	}
	w := &walked{slots: noCluster, scan: func(cursor string) driver.Value { return steps[cursor] }}
	w.walk(t, func(t *testing.T, c *Client) { assert.Len(t, listed(t, c, ""), 3) })
}

func TestListOfAnUnknownFormFails(t *testing.T) {
	for _, odd := range []driver.Value{
		nil, "0", []any{}, []any{"0"}, []any{int64(0), []any{"a"}}, []any{"0", "a"}, []any{"0", []any{"a"}, ""},
	} {
		w := &walked{slots: noCluster, scan: func(string) driver.Value { return odd }}
		w.walk(t, func(t *testing.T, c *Client) { assert.ErrorContains(t, failure(t, t.Context(), c), "list", "%v", odd) })
	}
}

// Where the driver does not tell what it leads to the server is asked, and only its word that it is no Cluster
// makes it none.
func TestListWhereTheDriverDoesNotTellOfACluster(t *testing.T) {
	master := []any{"host", int64(6379), "id"}
	for name, test := range map[string]struct {
		slots func() (driver.Value, error)
		want  error
	}{
		"no Cluster": {noCluster, nil},
		"a Cluster":  {func() (driver.Value, error) { return []any{[]any{int64(0), int64(16383), master}}, nil }, nil},
		"no reply":   {func() (driver.Value, error) { return nil, errLostReply }, ErrUnavailable},
		"no master":  {func() (driver.Value, error) { return []any{}, nil }, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := &walked{slots: test.slots}
			w.walk(t, func(t *testing.T, c *Client) {
				if test.want != nil {
					assert.ErrorIs(t, failure(t, t.Context(), c), test.want)
					return
				}
				assert.Len(t, listed(t, c, ""), 3)
			})
		})
	}
}

// failure returns the error with which List ends.
func failure(t *testing.T, ctx context.Context, c *Client) (last error) {
	t.Helper()
	for _, err := range c.List(ctx, "") {
		require.NoError(t, last, "it goes on after an error")
		last = err
	}
	return last
}

func TestListTellsWhyItEnds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		refuse := func(name string, err error) {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if strings.EqualFold(cmd.Name(), name) {
						return err
					}
					return nil
				}
			})
		}
		refuse("SCAN", driver.NewServerError("NOPERM no SCAN for you"))
		refusal, ok := errors.AsType[*driver.ServerError](failure(t, t.Context(), c))
		require.True(t, ok)
		assert.Equal(t, "NOPERM", refusal.Code)

		refuse("EVALSHA", errLostReply)
		assert.ErrorIs(t, failure(t, t.Context(), c), ErrUnavailable)

		refuse("EVALSHA", driver.NewServerError("NOPERM not this key"))
		assert.NoError(t, failure(t, t.Context(), c), "what the user may not look at is left out")

		for _, refusal := range []string{
			"NOPERM this user has no permissions to run the 'evalsha' command",                           // before Redis 7.2
			"NOPERM ACL failure in script: User locks has no permissions to run the 'hgetall' command",   // since then
			"ERR The user executing the script can't run this command or subcommand script: abc, on @1.", // of 7.0
		} {
			refuse("EVALSHA", driver.NewServerError(refusal))
			assert.ErrorIs(t, failure(t, t.Context(), c), ErrPermission, refusal)
		}

		refuse("", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, failure(t, ctx, c), context.Canceled)

		for _, command := range []string{"SCAN", "EVALSHA"} {
			why := errors.New("no time left")
			ctx, end := context.WithCancelCause(t.Context())
			f.set(func() {
				f.before = func(ctx context.Context, cmd driver.Command) error {
					if !strings.EqualFold(cmd.Name(), command) {
						return nil
					}
					end(why)
					<-ctx.Done()
					return ctx.Err()
				}
			})
			err = failure(t, ctx, c)
			assert.ErrorIs(t, err, why, command)
			assert.ErrorIs(t, err, context.Canceled, command)
			assert.EqualError(t, err, "locker: list: no time left: context canceled", command)
		}
		// A request that has had its time is no end of ctx.
		for _, command := range []string{"SCAN", "EVALSHA"} {
			f.set(func() {
				f.before = func(ctx context.Context, cmd driver.Command) error {
					if !strings.EqualFold(cmd.Name(), command) {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
			})
			err = failure(t, t.Context(), c)
			assert.ErrorIs(t, err, ErrUnavailable, command)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, command)
		}
		refuse("", nil)
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun), "no request is left")
		assert.ErrorIs(t, failure(t, t.Context(), c), ErrClosed)
	})
}

// A Cluster that does not tell its masters is not taken for one server, at which only some of the locks are.
func TestListOfAClusterThatDoesNotTellItsMastersFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(sharded{f})
		require.NoError(t, err)
		defer c.Close()
		must(t, c.Mutex("k"))
		for reply, want := range map[string]error{
			"NOPERM this user has no permissions to run the 'cluster|slots' command": ErrPermission,
			"LOADING Redis is loading the dataset in memory":                         ErrUnavailable,
		} {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if cmd.Name() == "CLUSTER" {
						return driver.NewServerError(reply)
					}
					return nil
				}
			})
			assert.ErrorIs(t, failure(t, t.Context(), c), want)
		}
	})
}

func TestListOnAQuorumGoesByTheMajority(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{}, Label("me"))
		for i := range 20 {
			_, err := c.Mutex(fmt.Sprint(i), Fenced()).Lock(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(time.Second) // until the nodes beyond a majority have them, too
		leftover := nodes[1].client(t, Label("leftover"))
		_, err := leftover.Mutex("minority").TryLock(t.Context())
		require.NoError(t, err)
		all := listed(t, c, "")
		assert.Len(t, all, 20)
		assert.Equal(t, "me", all["7"].Holders[0].Label)

		down := func(f *fakeDeployment) {
			f.set(func() { f.before = func(context.Context, driver.Command) error { return driver.NotSent(errLostReply) } })
		}
		down(nodes[0])
		assert.Len(t, listed(t, c, ""), 21, "the node that is down may have the other one, too")
		down(nodes[1])
		assert.ErrorIs(t, failure(t, t.Context(), c), ErrUnavailable)
	})
}

func TestMasterKeys(t *testing.T) {
	node := func(host string) []any { return []any{host, int64(6379), "id-" + host, []any{}} }
	reply := []any{
		[]any{int64(0), int64(99), node("a"), node("x")},
		[]any{int64(100), int64(9000), node("b")},
		[]any{int64(9001), int64(16383), node("a")},
	}
	keys, err := masterKeys(reply)
	require.NoError(t, err)
	require.Len(t, keys, 2, "one for each master")
	assert.Equal(t, 99/2, driver.Slot(keys[0]), "neither the first nor the last of a range")
	assert.Equal(t, 9100/2, driver.Slot(keys[1]))

	_, err = masterKeys([]any{})
	assert.ErrorIs(t, err, ErrUnavailable)
	for _, odd := range []driver.Value{[]any{"x"}, []any{[]any{int64(-1), int64(5), node("a")}}, []any{[]any{"0", int64(5), node("a")}}, []any{[]any{int64(0), "5", node("a")}},
		[]any{[]any{int64(5), int64(4), node("a")}}, []any{[]any{int64(5), int64(16384), node("a")}}} {
		_, err = masterKeys(odd)
		assert.Error(t, err)
	}
}

// A node of a quorum that hangs is waited for as it is by other calls, and leaves the others time
// to answer: that of a shell which completes names is two seconds.
func TestListIsNotKeptByANodeThatHangs(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		must(t, c.Mutex("k"))
		everywhere()
		nodes[0].hang()
		defer nodes[0].heal()
		begun, names := time.Now(), []string{}
		for found, err := range c.List(within(t, DefaultAttemptTimeout), "") {
			require.NoError(t, err)
			names = append(names, found.Name)
		}
		assert.Equal(t, []string{"k"}, names)
		// Once by itself, and once where the name is looked at.
		assert.LessOrEqual(t, time.Since(begun), 2*DefaultNodeTimeout)
	})
}

// Others have written to the key where the waiters of one lock should be. Nobody can wait there, which
// hides neither who holds it nor the other locks.
func TestAForeignQueueHidesNoLock(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
				c := client(Label("me"))
				for _, name := range []string{"a", "k", "z"} {
					must(t, c.Mutex(name, opts...))
				}
				everywhere()
				for _, f := range nodes {
					require.NoError(t, f.Set(newKeys("k").queue, "foreign"))
				}
				all := listed(t, c, "")
				assert.Len(t, all, 3)
				status, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.Len(t, status.Holders, 1)
				assert.Equal(t, "me", status.Holders[0].Label)
				assert.Zero(t, status.Waiters)
				assert.Equal(t, status, all["k"])
			})
		})
	}
}
