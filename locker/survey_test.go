package locker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// An informed deployment answers INFO, which the embedded server does not.
type informed struct {
	*fakeDeployment
	info driver.Value
	err  error
}

func (i *informed) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := i.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &informedConn{conn.(*fakeConn), i}, nil
}

type informedConn struct {
	*fakeConn
	in *informed
}

func (c *informedConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.Name() == "INFO" {
		return c.in.info, c.in.err
	} else if cmd.Name() == "CONFIG" {
		return nil, driver.NewServerError("NOPERM this user has no permissions to run the 'config|get' command")
	}
	return c.fakeConn.Do(ctx, cmd)
}

const soundInfo = "# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
	"# Persistence\r\naof_enabled:1\r\nrdb_saves:0\r\n# Replication\r\nrole:master\r\n"

// evictingInfo is what a server says that may evict locks.
var evictingInfo = strings.Replace(soundInfo, "noeviction", "allkeys-lru", 1)

func kinds(warnings []Warning) []string {
	var kinds []string
	for _, w := range warnings {
		kinds = append(kinds, w.Kind)
	}
	return kinds
}

func TestWarningsAtTheFirstContact(t *testing.T) {
	for name, c := range map[string]struct {
		change []string // old, new
		err    error
		want   []string
	}{
		"all is well":                {},
		"volatile":                   {change: []string{"noeviction", "volatile-lru"}, want: []string{"eviction"}},
		"all keys":                   {change: []string{"noeviction", "allkeys-lfu"}, want: []string{"eviction"}},
		"a replica":                  {change: []string{"role:master", "role:slave"}, want: []string{"replica"}},
		"two":                        {change: []string{"role:master", "role:slave", "noeviction", "allkeys-random"}, want: []string{"eviction", "replica"}},
		"a replica, in a later word": {change: []string{"role:master", "role:replica"}, want: []string{"replica"}},
		"no append-only file":        {change: []string{"aof_enabled:1", "aof_enabled:0"}},
		"snapshots instead":          {change: []string{"aof_enabled:1", "aof_enabled:0", "rdb_saves:0", "rdb_saves:3"}},
		"INFO forbidden":             {err: driver.NewServerError("NOPERM this user has no permissions to run the 'info' command")},
		"the connection is lost":     {err: errors.New("connection reset")},
		"a service that says less":   {change: []string{soundInfo, "# Server\r\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				s := &seen{}
				client, err := New(&informed{f, strings.NewReplacer(c.change...).Replace(soundInfo), c.err}, s.observer())
				require.NoError(t, err)
				defer client.Close()
				for range 3 {
					lease, err := client.Mutex("k").Lock(t.Context())
					require.NoError(t, err)
					require.NoError(t, lease.Unlock(t.Context()))
				}
				synctest.Wait()
				assert.Equal(t, c.want, kinds(s.warnings))
			})
		})
	}
}

// Commands find their way to a master there, whichever node was looked at.
func TestNoWarningOfAReplicaInACluster(t *testing.T) {
	assert.Empty(t, warnings(map[string]string{"role": "slave"}, true, false))
}

// A server that does not let itself be looked at is not asked again at every turn.
func TestServerThatForbidsToBeSurveyedIsAskedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		asked := 0
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() != "INFO" {
					return nil
				}
				asked++
				return driver.NewServerError("NOPERM this user has no permissions to run the 'info' command")
			}
		})
		c := f.client(t, Observe(Observer{}))
		for range 3 {
			mustPair(t, c.Mutex("k"))
			time.Sleep(2 * surveyLimit)
		}
		assert.Equal(t, 1, asked)
	})
}

// Most clients connect at the first command, so that there may be no server yet.
func TestWarningsOfAServerThatIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.down()
		s := &seen{}
		client, err := New(&informed{f, evictingInfo, nil}, s.observer())
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		synctest.Wait()
		assert.Empty(t, s.warnings, "nothing can be known yet")
		f.heal()
		must(t, client.Mutex("k"))
		synctest.Wait()
		assert.Equal(t, []string{"eviction"}, kinds(s.warnings))
	})
}

// A server that is busy when it is met is looked at again until it tells.
func TestWarningsOfAServerThatIsBusyAtFirst(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var busy, shy atomic.Int32
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if busy.Add(1) <= 6 {
					return driver.NewServerError("BUSY Redis is busy running a script.")
				}
				return nil
			}
		})
		s := &seen{}
		client, err := New(&shyInformed{informed{f, evictingInfo, nil}, &shy}, s.observer())
		require.NoError(t, err)
		defer client.Close()
		for range 3 {
			mustPair(t, client.Mutex("k"))
			time.Sleep(surveyPause)
		}
		assert.Equal(t, []string{"eviction"}, kinds(s.warnings))
	})
}

// A proxy that breaks the connection at INFO is not asked at every turn, nor does Close wait
// for the next one.
func TestServerThatNeverTellsIsSeldomSurveyed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var infos atomic.Int32
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "INFO" {
					infos.Add(1)
					return errLostReply
				}
				return nil
			}
		})
		c := f.client(t, Observe(Observer{}))
		pairs := func(d time.Duration) {
			for begun := time.Now(); time.Since(begun) < d; time.Sleep(10 * time.Millisecond) {
				mustPair(t, c.Mutex("k"))
			}
		}
		pairs(surveyPause)
		assert.EqualValues(t, 1, infos.Load())
		time.Sleep(10 * surveyLimit)
		assert.EqualValues(t, 1, infos.Load(), "it may have gone")
		for range 8 {
			mustPair(t, c.Mutex("k"))
			time.Sleep(surveyLimit)
		}
		soFar := infos.Load()
		for range 10 {
			mustPair(t, c.Mutex("k"))
			time.Sleep(2 * surveyPause)
		}
		assert.LessOrEqual(t, infos.Load()-soFar, int32(1), "with a pause that has grown")
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
	})
}

// A shyInformed deployment fails to answer the first INFO.
type shyInformed struct {
	informed
	asked *atomic.Int32
}

func (i *shyInformed) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := i.informed.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &shyInformedConn{conn.(*informedConn), i.asked}, nil
}

type shyInformedConn struct {
	*informedConn
	asked *atomic.Int32
}

func (c *shyInformedConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.Name() == "INFO" && c.asked.Add(1) == 1 {
		return nil, errLostReply
	}
	return c.informedConn.Do(ctx, cmd)
}

func TestWarningsOfAQuorumNameTheNode(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		volatile := strings.Replace(soundInfo, "aof_enabled:1", "aof_enabled:0", 1)
		snapshots := strings.Replace(volatile, "rdb_saves:0", "rdb_saves:3", 1)
		s := &seen{}
		client, err := NewQuorum([]driver.Connector{
			&informed{nodes[0], soundInfo, nil}, &informed{nodes[1], volatile, nil}, &informed{nodes[2], snapshots, nil},
		}, s.observer(), Fenced())
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		texts := map[int]string{}
		for _, w := range s.warnings {
			assert.Equal(t, "persistence", w.Kind)
			texts[w.Node] = w.Text
		}
		require.Len(t, texts, 2)
		assert.Contains(t, texts[1], "fencing tokens")
		assert.Contains(t, texts[2], "snapshots")
	})
}

// Tokens may be of one mutex alone, and of one that is made when the nodes have long been
// looked at.
func TestWarningsOfAQuorumThatForgetsAtTheFirstFencedLock(t *testing.T) {
	volatile := strings.Replace(soundInfo, "aof_enabled:1", "aof_enabled:0", 1)
	for name, met := range map[string]bool{"the first lock is fenced": false, "a later one is": true} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				s := &seen{}
				client, err := NewQuorum([]driver.Connector{
					&informed{nodes[0], soundInfo, nil}, &informed{nodes[1], volatile, nil}, &informed{nodes[2], volatile, nil},
				}, s.observer())
				require.NoError(t, err)
				defer client.Close()
				if met {
					mustPair(t, client.Mutex("k"))
					synctest.Wait()
					assert.Empty(t, s.warnings, "there are no tokens")
				}
				for range 2 { // and told once
					mustPair(t, client.Mutex("k", Fenced()))
					synctest.Wait()
					assert.Equal(t, []string{"persistence", "persistence"}, kinds(s.warnings))
				}
				for _, w := range s.warnings {
					assert.Contains(t, w.Text, "fencing tokens")
					assert.Positive(t, w.Node)
				}
			})
		})
	}
}

// A node's first snapshot may be an hour away when it is looked at.
func TestWarningsOfSnapshotsThatAreToBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		info string
		save driver.Value
		want int
	}{
		"none is made, or to be":            {"aof_enabled:0\r\nrdb_saves:0\r\n", []any{"save", ""}, 0},
		"one is to be made":                 {"aof_enabled:0\r\nrdb_saves:0\r\n", []any{"save", "3600 1"}, 3},
		"one was made by hand":              {"aof_enabled:0\r\nrdb_saves:1\r\n", []any{"save", ""}, 3},
		"one was made, CONFIG is forbidden": {"aof_enabled:0\r\nrdb_saves:1\r\n", nil, 3},
		"CONFIG is forbidden":               {"aof_enabled:0\r\nrdb_saves:0\r\n", nil, 0},
		"6.0, one was made":                 {"aof_enabled:0\r\nrdb_last_bgsave_time_sec:0\r\n", nil, 3},
		"6.0, none was made":                {"aof_enabled:0\r\nrdb_last_bgsave_time_sec:-1\r\n", nil, 0},
		"6.0, one is to be made":            {"aof_enabled:0\r\nrdb_last_bgsave_time_sec:-1\r\n", []any{"save", "900 1"}, 3},
		"there is an append-only file, too": {"aof_enabled:1\r\nrdb_saves:1\r\n", []any{"save", "3600 1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				var connectors []driver.Connector
				for _, node := range nodes {
					connectors = append(connectors, &saving{informed{node, c.info, nil}, c.save})
				}
				s := &seen{}
				client, err := NewQuorum(connectors, s.observer())
				require.NoError(t, err)
				defer client.Close()
				mustPair(t, client.Mutex("k"))
				synctest.Wait()
				require.Len(t, s.warnings, c.want)
				for _, w := range s.warnings {
					assert.Contains(t, w.Text, "snapshots")
				}
			})
		})
	}
}

// A saving deployment tells when it makes snapshots, unless that is nil.
type saving struct {
	informed
	save driver.Value
}

func (i *saving) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := i.informed.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &savingConn{conn.(*informedConn), i.save}, nil
}

type savingConn struct {
	*informedConn
	save driver.Value
}

func (c *savingConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.Name() == "CONFIG" && c.save != nil {
		return c.save, nil
	}
	return c.informedConn.Do(ctx, cmd)
}

// Nobody listens: then nothing is asked, and a client costs the server what it did.
func TestNoSurveyWithoutObserver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"SET"}, f.commands())
	})
}

// The lock is not held up by a server that does not answer INFO, nor is Close.
func TestSurveyIsBesideTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() == "INFO" {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		c := f.client(t, Observe(Observer{}))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			lease, err := c.Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			assert.NoError(t, lease.Unlock(t.Context()))
			assert.NoError(t, c.Close())
		}()
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("somebody waits for INFO")
		}
	})
}
