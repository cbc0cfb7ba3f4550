package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// A disaster is what may befall a lockctl whose command runs.
type disaster struct {
	strike func(t *testing.T, s scene)
	code   int // of the lockctl that was struck
}

// A scene is a lockctl that holds a lock, and one that waits for it.
type scene struct {
	server   *servertest.Server
	network  *wire.Wire // of the holder
	holder   *proc
	guardian int
	observer *locker.Client
}

const killed = -1 // there is no exit code then

var disasters = map[string]disaster{
	"lockctl is killed": {func(t *testing.T, s scene) {
		s.sent(t, s.holder.Process.Kill())
	}, killed},
	"lockctl is stopped": {func(t *testing.T, s scene) {
		s.sent(t, s.holder.Process.Signal(syscall.SIGSTOP))
	}, exitLost},
	"its process group is killed": {func(t *testing.T, s scene) {
		s.sent(t, syscall.Kill(-s.holder.Process.Pid, syscall.SIGKILL))
	}, killed},
	"the guardian is killed": {func(t *testing.T, s scene) {
		s.sent(t, syscall.Kill(s.guardian, syscall.SIGKILL))
	}, exitFailed},
	"the guardian is stopped and the network cut": {func(t *testing.T, s scene) {
		s.sent(t, syscall.Kill(s.guardian, syscall.SIGSTOP))
		s.network.Partition()
	}, exitLost},
	"the network is cut": {func(t *testing.T, s scene) {
		s.network.Partition()
	}, exitLost},
	"every connection is swallowed": {func(t *testing.T, s scene) {
		s.network.HangDials()
		s.network.Mute()
	}, exitLost},
	"the server is killed and comes back late": {func(t *testing.T, s scene) {
		s.server.Kill()
		<-s.holder.ended
		s.server.Restart()
	}, exitLost},
	"the server hangs": {func(t *testing.T, s scene) {
		s.server.Pause()
		<-s.holder.ended
		s.server.Resume()
	}, exitLost},
}

// sent looks at what came of a signal. The machine may have been too slow for the lease, so that nobody was there
// any more to get it.
func (s scene) sent(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		require.Equal(t, exitLost, s.holder.code(t), s.holder.err)
		return
	}
	require.NoError(t, err)
}

// besideTTL is short, for the tests to be.
const besideTTL = 3 * time.Second

// Whatever becomes of lockctl, its guardian, the server and the network: no process of a
// command runs when the next holder's command begins.
func TestNoCommandRunsBesideAnothers(t *testing.T) {
	t.Parallel()
	const times = 2
	// They mostly wait, so that more of them run than there are processors.
	berths := make(chan struct{}, 6)
	var all sync.WaitGroup
	defer all.Wait()
	for name, d := range disasters {
		for range times {
			all.Go(func() {
				berths <- struct{}{}
				defer func() { <-berths }()
				t.Run(name, func(t *testing.T) { striking(t, d) })
			})
		}
	}
}

// hold starts a lockctl whose command and its jobs run, and returns their ids. On a machine
// that is busy with other tests a lease of this length may be over before they do.
func (s *scene) hold(t *testing.T, url, dir string) (pids []int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for {
		cmd := program(t, url, "run", "--ttl", besideTTL.String(), "k", "--", self, beatCommand, dir, "first", "-job")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		s.holder = startCmd(t, cmd)
		eventually(t, "the command and its jobs run", func() bool {
			select {
			case <-s.holder.ended:
				return true
			default:
				pids = pulseOf(t, dir, "first").pids
				return len(pids) == 3
			}
		})
		if guardians := childrenOf(s.holder.Process.Pid); len(pids) == 3 && len(guardians) == 1 {
			s.guardian = guardians[0]
			return pids
		}
		require.Contains(t, []int{exitLost, exitUnreachable}, s.holder.code(t), s.holder.err)
		files, err := filepath.Glob(filepath.Join(dir, "first.*"))
		require.NoError(t, err)
		for _, f := range files {
			require.NoError(t, os.Remove(f))
		}
	}
}

func striking(t *testing.T, d disaster) {
	s := scene{server: servertest.Single(t, servertest.Persist())}
	direct := "redis://" + s.server.Addr
	s.network = wire.New(wire.TCP(s.server.Addr))
	t.Cleanup(func() { _ = s.network.Close() })
	through, err := s.network.Listen()
	require.NoError(t, err)
	s.observer = observer(t, direct)
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	pids := s.hold(t, "redis://"+through+"?timeout=1s", dir)

	second := start(t, direct, "run", "k", "--", self, beatCommand, dir, "second", "-after", "first", "-for", "50ms")
	eventually(t, "the second one waits, or has the lock already", func() bool {
		status, err := s.observer.Inspect(t.Context(), "k")
		return err == nil && status.Waiters > 0 || len(pulseOf(t, dir, "second").pids) > 0
	})
	d.strike(t, s)
	require.Zero(t, second.code(t), second.err.String())

	before, after := pulseOf(t, dir, "first"), pulseOf(t, dir, "second")
	assert.Less(t, before.last, after.first, "the first command has done something after the second one had begun")
	alive, err := filepath.Glob(filepath.Join(dir, "alive-*"))
	require.NoError(t, err)
	assert.Empty(t, alive, "processes of the first command were there when the second one began")
	for _, pid := range pids {
		assert.Contains(t, []string{"", "Z", "X"}, stateOf(pid), "a process of the first command is left")
	}

	_ = s.holder.Process.Signal(syscall.SIGCONT)
	s.network.Heal()
	// The machine may have been too slow for the lease before the disaster came.
	assert.Contains(t, []int{d.code, exitLost}, s.holder.code(t), s.holder.err.String())
	eventually(t, "the guardian is gone", func() bool {
		state := stateOf(s.guardian)
		return state == "" || state == "Z"
	})
}
