package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

const (
	stateTTL  = quorumTTL
	phaseTime = stateTTL/3 + 500*time.Millisecond // within which a renewal falls
)

// A phase is a time in which a server cannot serve.
type phase struct {
	code  string // of its replies; empty if it does not reply
	opts  []servertest.Option
	begin func(t *testing.T, srv *servertest.Server)
	end   func(t *testing.T, srv *servertest.Server)
	alone *sync.Mutex // if not nil, held by the one server that is in this phase
}

var phases = map[string]phase{
	"READONLY": {
		code:  "READONLY",
		begin: func(t *testing.T, srv *servertest.Server) { do(t, srv, "REPLICAOF", "127.0.0.1", "1") },
		end:   func(t *testing.T, srv *servertest.Server) { do(t, srv, "REPLICAOF", "NO", "ONE") },
	},
	"NOREPLICAS": {
		code:  "NOREPLICAS",
		begin: func(t *testing.T, srv *servertest.Server) { do(t, srv, "CONFIG", "SET", "min-replicas-to-write", "1") },
		end:   func(t *testing.T, srv *servertest.Server) { do(t, srv, "CONFIG", "SET", "min-replicas-to-write", "0") },
	},
	"MISCONF": {
		code:  "MISCONF",
		begin: failToSave,
		end: func(t *testing.T, srv *servertest.Server) { // as an operator helps himself, and quickly
			do(t, srv, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
	},
	"BUSY": {
		code:  "BUSY",
		opts:  []servertest.Option{servertest.Config("lua-time-limit", "20")},
		begin: beBusy,
		end:   func(t *testing.T, srv *servertest.Server) { do(t, srv, "SCRIPT", "KILL") },
		alone: new(sync.Mutex), // a processor is not for others meanwhile
	},
	"CLIENT PAUSE": {
		begin: func(t *testing.T, srv *servertest.Server) { do(t, srv, "CLIENT", "PAUSE", "60000", "WRITE") },
		end:   func(t *testing.T, srv *servertest.Server) { do(t, srv, "CLIENT", "UNPAUSE") },
	},
	"SIGSTOP": {
		begin: func(t *testing.T, srv *servertest.Server) { srv.Pause() },
		end:   func(t *testing.T, srv *servertest.Server) { srv.Resume() },
	},
}

// failToSave makes a snapshot fail, after which the server refuses writes.
func failToSave(t *testing.T, srv *servertest.Server) {
	do(t, srv, "CONFIG", "SET", "save", "3600 1")
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(srv.Socket), "dump.rdb", "in the way"), 0o700))
	do(t, srv, "BGSAVE")
	eventually(t, "the snapshot has failed", func() bool {
		return strings.Contains(do(t, srv, "INFO", "persistence").(string), "rdb_last_bgsave_status:err")
	})
}

// beBusy has the server run a script without end.
func beBusy(t *testing.T, srv *servertest.Server) {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Socket, ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	go c.Eval(t.Context(), "while true do end", nil)
	eventually(t, "the server is busy", func() bool {
		_, err := srv.Do("GET", "any")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
}

// Each of them is transient until the lease's deadline: who holds a lock keeps it,
// who wants one gets it afterwards, and who does not want to wait is told.
func TestATransientStateShorterThanTheLeaseLosesNothing(t *testing.T) {
	t.Parallel()
	for name, p := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "CLIENT PAUSE" {
				servertest.SkipBefore(t, 6, 2, "CLIENT UNPAUSE")
			}
			eachDriver(t, func(t *testing.T, d driverUnderTest) {
				t.Parallel()
				testPhase(t, d, p)
			})
		})
	}
}

func testPhase(t *testing.T, d driverUnderTest, p phase) {
	if p.alone != nil {
		p.alone.Lock()
		defer p.alone.Unlock()
	}
	srv := servertest.Single(t, p.opts...)
	attempt := locker.AttemptTimeout(stateTTL / 3)
	c, other := d.client(t, srv.Addr, locker.TTL(stateTTL), attempt), d.client(t, srv.Addr, attempt)
	connect(t, c)
	connect(t, other)
	lease := mustTryLock(t, c.Mutex("held", locker.Fenced()))
	plain := mustTryLock(t, c.Mutex("plain"))
	waiting := goLockWaiting(t, soon(t), other.Mutex("plain"), c)

	p.begin(t, srv)
	over := false
	end := func() {
		if !over {
			over = true
			p.end(t, srv)
		}
	}
	t.Cleanup(end) // or the server could not be stopped in peace
	begun := time.Now()
	ctx := soon(t)
	if p.code == "" {
		ctx = within(t, time.Second) // nothing is said
	}
	_, err := other.Mutex("free").TryLock(ctx)
	require.Error(t, err)
	assert.NotErrorIs(t, err, locker.ErrLocked)
	if p.code != "" {
		assert.ErrorIs(t, err, locker.ErrUnavailable)
		requireCode(t, err, p.code)
	}
	patient := goLock(soon(t), other.Mutex("free"))
	lasts(t, phaseTime-time.Since(begun), func() {
		require.NoError(t, lease.Err())
		require.NoError(t, plain.Err())
	})
	end()

	assert.NoError(t, had(t, patient).lease.Unlock(soon(t)))
	assert.True(t, survivesRenewals(lease, 2), "it is not renewed any more: %v", lease.Err())
	assert.NoError(t, plain.Unlock(soon(t)))
	assert.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
	assert.NoError(t, lease.Unlock(soon(t)))
	assert.False(t, exists(t, srv, "held"))
	assertMortal(t, srv)
}

// A server that loads its data back: what was held is held still.
func TestALoadingServerIsTransientAndTheLeaseSurvives(t *testing.T) {
	t.Parallel()
	servertest.SkipBefore(t, 7, 0, "to be slow in loading")
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Persist(),
			servertest.Config("key-load-delay", "5000"), servertest.Config("rdbcompression", "no"),
			servertest.Config("loading-process-events-interval-bytes", "1024"))
		c := d.client(t, srv.Addr, locker.TTL(9*time.Second), locker.AttemptTimeout(time.Second))
		connect(t, c)
		lease := mustTryLock(t, c.Mutex("k", locker.Fenced()))
		for i := range 200 { // a second
			do(t, srv, "SET", numbered("ballast", i), strings.Repeat("x", 1100))
		}
		// Clients are served while a snapshot is loaded, and hardly while a log is.
		do(t, srv, "BGREWRITEAOF")
		eventually(t, "the log is a snapshot", func() bool {
			return strings.Contains(do(t, srv, "INFO", "persistence").(string), "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0")
		})
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			srv.Restart()
		}()
		loading := false
		for up := false; !up; {
			select {
			case <-restarted:
				up = true
			case <-time.After(5 * time.Millisecond):
				_, err := c.Mutex("free").TryLock(within(t, time.Second))
				if reply, ok := asServerError(err); ok && reply.Code == "LOADING" {
					loading = true
					assert.ErrorIs(t, err, locker.ErrUnavailable)
				}
				require.NoError(t, lease.Err())
			}
		}
		assert.True(t, loading, "nobody met the server while it was loading")
		assert.True(t, survivesRenewals(lease, 1), "%v", lease.Err())
		assert.NoError(t, lease.Unlock(soon(t)))
	})
}

// OOM is no state that passes by itself: acquiring says so at once, while renewal
// and release, which need no memory, go on.
func TestOutOfMemoryAcquireIsTypedWhileRenewalAndUnlockWork(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Config("maxmemory-policy", "noeviction"))
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		plain, fenced := mustTryLock(t, c.Mutex("plain")), mustTryLock(t, c.Mutex("fenced", locker.Fenced()))
		do(t, srv, "CONFIG", "SET", "maxmemory", "1")
		for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
			for _, attempt := range []func() error{
				func() error { _, err := c.Mutex("free", opts...).TryLock(soon(t)); return err },
				func() error { _, err := c.Mutex("free", opts...).Lock(soon(t)); return err },
			} {
				var err error
				took := timed(func() { err = attempt() })
				requireCode(t, err, "OOM")
				assert.NotErrorIs(t, err, locker.ErrLocked)
				assert.Less(t, took, refusalTime)
			}
		}
		assert.False(t, exists(t, srv, "free"))
		assert.True(t, survivesRenewals(plain, 3), "plain: %v", plain.Err())
		assert.True(t, survivesRenewals(fenced, 3), "fenced: %v", fenced.Err())
		assert.NoError(t, plain.Unlock(soon(t)))
		assert.NoError(t, fenced.Unlock(soon(t)))
		assert.False(t, exists(t, srv, "plain"))
		assert.False(t, exists(t, srv, "fenced"))
		assertMortal(t, srv)
	})
}

// A server before 7.0 knows no way to be told that a script is to run all the same.
func TestOutOfMemoryHoldsAreRenewedByTheScriptThatServersOfAllVersionsRun(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Config("maxmemory-policy", "noeviction"))
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		kinds := []locker.Option{locker.Reentrant(), locker.ForReading(), locker.ForWriting()}
		var leases []*locker.Lease
		for i, kind := range kinds {
			leases = append(leases, mustTryLock(t, c.Mutex(fmt.Sprint("k", i), kind, locker.Fenced())))
		}
		assert.True(t, survivesRenewals(leases[0], 1), "%v", leases[0].Err()) // the server has the script now
		do(t, srv, "CONFIG", "SET", "maxmemory", "1")
		do(t, srv, "CONFIG", "RESETSTAT")
		for i, lease := range leases {
			_, err := c.Mutex("free", kinds[i]).TryLock(soon(t))
			requireCode(t, err, "OOM")
			assert.True(t, survivesRenewals(lease, 2), "%v", lease.Err())
		}
		assert.NotContains(t, do(t, srv, "INFO", "commandstats"), "cmdstat_eval:")
		for _, lease := range leases {
			assert.NoError(t, lease.Unlock(soon(t)))
		}
		assertMortal(t, srv)
	})
}

// Who has waited since there was memory gets the lock although there is none left.
func TestOutOfMemoryAReleaseLetsTheNextWaiterIn(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Config("maxmemory-policy", "noeviction"))
		holder, waiter := d.client(t, srv.Addr), d.client(t, srv.Addr)
		for _, kind := range lockKinds {
			lease := mustTryLock(t, kind.against(holder, kind.name))
			waiting := goLockWaiting(t, soon(t), kind.on(waiter, kind.name), holder)
			fill(t, srv)
			unlocked := time.Now()
			require.NoError(t, lease.Unlock(soon(t)), kind.name)
			next := had(t, waiting)
			assert.Less(t, next.at.Sub(unlocked), pollBound, kind.name)
			require.NoError(t, next.lease.Unlock(soon(t)), kind.name)
			do(t, srv, "CONFIG", "SET", "maxmemory", "0")
			assertFree(t, srv, holder, kind.name)
		}
	})
}

// Nor does who waits lose the place to those behind, however long it lasts.
func TestOutOfMemoryWaitersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Config("maxmemory-policy", "noeviction"))
		holder, first, second := d.client(t, srv.Addr), d.client(t, srv.Addr), d.client(t, srv.Addr)
		exclusive := []lockKind{plainKind, fencedKind, reentrantKind, writeKind}
		leases := map[string]*locker.Lease{}
		waiting := map[string][]<-chan lockResult{}
		for _, kind := range exclusive {
			leases[kind.name] = mustTryLock(t, kind.on(holder, kind.name))
			for _, c := range []*locker.Client{first, second} {
				waiting[kind.name] = append(waiting[kind.name], goLockWaiting(t, soon(t), kind.on(c, kind.name), holder))
			}
		}
		fill(t, srv)
		lasts(t, 6*time.Second, func() {}) // longer than a place lasts that is not renewed
		for _, kind := range exclusive {
			require.NoError(t, leases[kind.name].Unlock(soon(t)), kind.name)
			for _, done := range waiting[kind.name] {
				require.NoError(t, had(t, done).lease.Unlock(soon(t)), kind.name)
			}
		}
		do(t, srv, "CONFIG", "SET", "maxmemory", "0")
	})
}

// fill makes the server's memory full.
func fill(t *testing.T, srv *servertest.Server) {
	t.Helper()
	do(t, srv, "CONFIG", "SET", "maxmemory", "1")
}

// A server that takes no further clients keeps those it has.
func TestTooManyClientsIsUnavailableNotLocked(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		lease := mustTryLock(t, c.Mutex("k"))
		do(t, srv, "CONFIG", "SET", "maxclients", "1")
		late := d.client(t, srv.Addr)
		var err error
		took := timed(func() { _, err = late.Mutex("free").TryLock(soon(t)) })
		assert.ErrorIs(t, err, locker.ErrUnavailable)
		assert.NotErrorIs(t, err, locker.ErrLocked)
		assert.Less(t, took, patience/2)
		assert.True(t, survivesRenewals(lease, 3), "%v", lease.Err())
		do(t, srv, "CONFIG", "SET", "maxclients", "1000")
		assert.NoError(t, mustLock(t, late.Mutex("free")).Unlock(soon(t)))
		assert.NoError(t, lease.Unlock(soon(t)))
	})
}

// A node of a Cluster says it in other words.
func TestClusterNodeWithTooManyClientsIsUnavailable(t *testing.T) {
	t.Parallel()
	node := servertest.Cluster(t, 1).Nodes[0]
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		if !d.cluster {
			return
		}
		do(t, node, "CONFIG", "SET", "maxclients", "1") // on a connection that stays
		late := d.clusterClient(t, []string{node.Addr})
		_, err := late.Mutex("free").TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable)
		do(t, node, "CONFIG", "SET", "maxclients", "1000")
		assert.NoError(t, mustLock(t, late.Mutex("free")).Unlock(soon(t)))
	})
}

// Replies that this server cannot be brought to give.
func TestEveryTransientReplyIsUnavailableAndLosesNoLease(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(2*time.Second))
		for _, reply := range []string{"LOADING Redis is loading the dataset in memory", "CLUSTERDOWN The cluster is down",
			"TRYAGAIN Multiple keys request during rehashing of slot", "BUSY Redis is busy running a script",
			"MASTERDOWN Link with MASTER is down", "MISCONF Redis is configured to save RDB snapshots",
			"READONLY You can't write against a read only replica.", "NOREPLICAS Not enough good replicas to write."} {
			code, _, _ := strings.Cut(reply, " ")
			lease := mustTryLock(t, c.Mutex(code))
			rules := []*wire.Rule{
				w.On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-"+reply+"\r\n")),
				w.On(wire.Match{Name: "EVALSHA", Times: -1}, wire.Answer("-"+reply+"\r\n")),
			}
			_, err := c.Mutex("free").TryLock(soon(t))
			assert.ErrorIs(t, err, locker.ErrUnavailable, code)
			requireCode(t, err, code)
			for _, rule := range rules {
				rule.Remove()
			}
			assert.NoError(t, lease.Unlock(soon(t)), code)
		}
	})
}

func asServerError(err error) (*driver.ServerError, bool) {
	return errors.AsType[*driver.ServerError](err)
}
