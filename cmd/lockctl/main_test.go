package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// The test binary is lockctl, its guardian, and the commands that it runs.
const asLockctl = "LOCKCTL_TEST_MAIN"

func TestMain(m *testing.M) {
	guard.Main()
	if len(os.Args) > 1 && os.Args[1] == beatCommand {
		beatMain(os.Args[2:])
		return
	}
	if os.Getenv(asLockctl) != "" {
		main()
	}
	// What was ignored by who runs the tests, as in the background of a script or under nohup, would be by all that
	// they start, and no shell can trap it.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// patienceOfTests is how long a test waits for what should happen soon, on a machine that may
// be overloaded. Nothing is measured by it.
const patienceOfTests = 30 * time.Second

// A proc is a process of lockctl.
type proc struct {
	*exec.Cmd
	out, err *safeBuffer
	ended    chan struct{}
}

// A safeBuffer may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// program returns this binary as lockctl, for the server at url.
func program(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKCTL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, asLockctl+"=1", "LOCKCTL_URL="+url)
	return cmd
}

// start starts lockctl, which is ended with the test.
func start(t *testing.T, url string, args ...string) *proc {
	t.Helper()
	return startCmd(t, program(t, url, args...))
}

func startCmd(t *testing.T, cmd *exec.Cmd) *proc {
	t.Helper()
	p := &proc{Cmd: cmd, out: &safeBuffer{}, err: &safeBuffer{}, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.err
	}
	cmd.WaitDelay = patienceOfTests
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("lockctl %q said: %s%s", cmd.Args[1:], p.out, p.err)
		}
	})
	return p
}

// code waits until lockctl has ended and returns its exit code, -1 if a signal has ended
// it.
func (p *proc) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(patienceOfTests):
		require.FailNow(t, "lockctl does not end", "%q: %s", p.Args[1:], p.err)
		return 0
	}
}

// threeServers starts servers of a quorum and returns their URLs.
func threeServers(t *testing.T) (urls []string) {
	t.Helper()
	for _, s := range servertest.Servers(t, 3) {
		urls = append(urls, "redis://"+s.Addr)
	}
	return urls
}

// lockctl runs it to its end.
func lockctl(t *testing.T, url string, args ...string) (code int, out, errs string) {
	t.Helper()
	p := start(t, url, args...)
	code = p.code(t)
	return code, p.out.String(), p.err.String()
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	end := time.After(patienceOfTests)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(t, "it never came to be: "+what)
		}
	}
}

// observer returns a client that looks at what lockctl does.
func observer(t *testing.T, url string) *locker.Client {
	t.Helper()
	c, err := locker.Open("goredis", url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitWaiters waits until so many stand in the queue.
func awaitWaiters(t *testing.T, c *locker.Client, key string, n int) {
	t.Helper()
	eventually(t, "there are waiters for "+key, func() bool {
		s, err := c.Inspect(t.Context(), key)
		return err == nil && s.Waiters >= n
	})
}

// hold takes a lock for the time of a test.
func hold(t *testing.T, c *locker.Client, key string, opts ...locker.Option) *locker.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	lease, err := c.Mutex(key, opts...).Lock(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := lease.Unlock(context.Background()); err != nil && !errors.Is(err, locker.ErrClosed) {
			t.Log(err)
		}
	})
	return lease
}
