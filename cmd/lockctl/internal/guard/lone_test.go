//go:build unix

package guard

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beginAlone starts a script as systems without a guardian do.
func beginAlone(t *testing.T, script string, times Times, lease time.Duration) *lone {
	t.Helper()
	p, err := startLone(Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()}, times, time.Now().Add(lease))
	require.NoError(t, err)
	return p
}

// endOf returns all events but the first.
func endOf(p *lone) (all []Event) {
	for e := range p.Events() {
		if e.Started == 0 {
			all = append(all, e)
		}
	}
	return all
}

func TestALoneCommandEndsByItself(t *testing.T) {
	for script, want := range map[string]Result{"exit 5": {Code: 5}, "kill -TERM $$": {Signal: syscall.SIGTERM}} {
		assert.Equal(t, []Event{{Result: &want}}, endOf(beginAlone(t, script, Times{}, time.Minute)), script)
	}
}

// A command that is stopped, by Ctrl-Z or since it has read from a terminal that it does not have
// yet, stays so unless somebody learns of it.
func TestALoneCommandThatIsStoppedSaysSo(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"TSTP": syscall.SIGTSTP, "STOP": syscall.SIGSTOP, "TTIN": syscall.SIGTTIN} {
		p := beginAlone(t, "kill -"+name+" $$; exit 3", Times{}, time.Minute)
		require.Positive(t, (<-p.Events()).Started)
		require.Equal(t, Event{Stopped: sig}, <-p.Events(), name)
		p.Signal(syscall.SIGCONT)
		assert.Equal(t, []Event{{Result: &Result{Code: 3}}}, endOf(p), name)
	}
}

func TestALoneCommandIsEndedBeforeItsLease(t *testing.T) {
	times := Times{Margin: 4 * time.Second, Grace: 3 * time.Second}
	for name, test := range map[string]struct {
		script string
		want   Result
	}{
		"politely": {"trap 'exit 4' TERM; while :; do sleep 0.01; done", Result{Code: 4, Ended: true}},
		"hard":     {"trap '' TERM; while :; do sleep 0.01; done", Result{Signal: syscall.SIGKILL, Ended: true}},
		"stopped":  {"trap 'exit 4' TERM; kill -STOP $$", Result{Code: 4, Ended: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			all := endOf(beginAlone(t, test.script, times, 9*time.Second))
			assert.Equal(t, Event{Result: &test.want}, all[len(all)-1])
			assert.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
			assert.Less(t, time.Since(begun), 9*time.Second)
		})
	}
}

func TestALoneCommandGoesOnWithItsLease(t *testing.T) {
	p := beginAlone(t, "sleep 5; exit 6", Times{}, 4*time.Second)
	p.Extend(time.Now().Add(time.Minute))
	p.Extend(time.Now()) // which comes late, and shortens nothing
	assert.Equal(t, []Event{{Result: &Result{Code: 6}}}, endOf(p))
}

func TestALoneCommandIsEndedByOrder(t *testing.T) {
	p := beginAlone(t, "sleep 60; exit 6", Times{Grace: 10 * time.Second}, time.Minute)
	p.End()
	assert.Equal(t, []Event{{Result: &Result{Signal: syscall.SIGTERM, Ended: true}}}, endOf(p))
}

// It is asked to end once, however often that is wanted: each time anew would put off that it is killed. When it
// has ended, its number may be another's.
func TestALoneCommandIsAskedToEndOnce(t *testing.T) {
	asked := func(p *lone) time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.asked
	}
	p := beginAlone(t, "trap '' TERM; while :; do sleep 0.01; done", Times{Grace: time.Second}, time.Minute)
	p.End()
	first := asked(p)
	require.False(t, first.IsZero())
	p.End()
	assert.Equal(t, first, asked(p))
	endOf(p)

	p = beginAlone(t, "exit 5", Times{}, time.Minute)
	endOf(p)
	p.End()
	assert.Zero(t, asked(p))
}

func TestWhatALoneCommandLeavesBehindIsEnded(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "alive")
	require.NoError(t, syscall.Mkfifo(alive, 0o600))
	gone := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(alive) // until nobody has it open who could write
		gone <- err
	}()
	endOf(beginAlone(t, "exec 3> "+alive+"; sleep 60 & exit 5", Times{}, time.Minute))
	select {
	case err := <-gone:
		assert.NoError(t, err)
	case <-time.After(30 * time.Second):
		assert.Fail(t, "it goes on")
	}
}

func TestWhenALoneCommandIsEnded(t *testing.T) {
	deadline := time.Now()
	at := func(asked time.Time) time.Duration {
		p := &lone{deadline: deadline, asked: asked, times: Times{Margin: 2 * time.Second, Grace: 5 * time.Second}}
		return deadline.Sub(p.next())
	}
	assert.Equal(t, 7*time.Second, at(time.Time{}), "it is asked to")
	assert.Equal(t, 2*time.Second, at(deadline.Add(-7*time.Second)), "it is killed")
	assert.Equal(t, 2*time.Second, at(deadline.Add(-3*time.Second)), "it was asked late")
	assert.Equal(t, 15*time.Second, at(deadline.Add(-20*time.Second)), "it was asked early, and has had its grace")
}

func TestALoneCommandIsNotStartedInVain(t *testing.T) {
	none := Command{Path: "/bin/true", Args: []string{"true"}}
	_, err := startLone(none, Times{Margin: time.Second}, time.Now().Add(time.Second))
	assert.ErrorIs(t, err, ErrTooLate)
	_, err = startLone(Command{Path: "/no/such/file"}, Times{}, time.Now().Add(time.Minute))
	assert.ErrorAs(t, err, new(*StartError))
	assert.ErrorIs(t, err, syscall.ENOENT)
}
