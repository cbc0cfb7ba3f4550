package locker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startRedis starts the program that REDIS_SERVER names, else redis-server or
// valkey-server, and returns how to connect to it. Without one the test is skipped,
// unless REQUIRE_REDIS is set. This module has no dependency that only this repository
// has, so it does not use the servertest module. settings are added to its command line.
func startRedis(t testing.TB, settings ...string) (dial func() (net.Conn, error)) {
	t.Helper()
	path := os.Getenv("REDIS_SERVER")
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		require.Empty(t, os.Getenv("REQUIRE_REDIS"), "REQUIRE_REDIS is set and there is no redis-server or valkey-server")
		t.Skip("NOT TESTED AGAINST A REAL SERVER: there is no redis-server or valkey-server")
	}
	dir, err := os.MkdirTemp("", "locker") // t.TempDir may be too long for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, append([]string{"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir}, settings...)...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	dial = func() (net.Conn, error) { return net.Dial("unix", socket) }
	require.Eventually(t, func() bool {
		c, err := dial()
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "the server does not listen")
	return dial
}

// What holds on the embedded server holds on a real one, in real time. A history that
// the machine has delayed too much for its replies to be foretold says nothing; it is
// tried again, with longer steps.
func TestHistoriesOnARealServer(t *testing.T) {
	smallPortions(t)
	f := &fakeDeployment{dial: startRedis(t)}
	const (
		concurrent = 24
		longEnough = time.Second // a step that says something wherever the other tests can run
		budget     = time.Minute // after which it is enough that some have said something
	)
	var mu sync.Mutex
	said, delayed := 0, 0
	replayOne := func(name string, h history) {
		for step := historyStep; step < longEnough; step = step * 5 / 4 {
			r, err := newReplay(t.Context(), f, fmt.Sprintf("%s.%v", name, step), step, step*3/8)
			if err == nil {
				err = r.run(t.Context(), h)
				r.close()
			}
			mu.Lock()
			if errors.Is(err, errDelayed) {
				delayed++
			} else if said++; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Unlock()
			if !errors.Is(err, errDelayed) {
				return
			}
		}
	}
	begun := time.Now()
	var wg sync.WaitGroup
	turns := make(chan struct{}, concurrent)
	for i := range histories() / 30 {
		for name, modes := range kindsOfHistories {
			seed := int(begun.Unix()) + i
			h := drawHistory(modes).Example(seed)
			turns <- struct{}{}
			if time.Since(begun) > budget {
				<-turns
				continue
			}
			wg.Go(func() {
				defer func() { <-turns }()
				replayOne(fmt.Sprintf("%s.%d", name, seed), h)
			})
		}
	}
	wg.Wait()
	t.Logf("%d histories in %v, and %d that were delayed", said, time.Since(begun), delayed)
	require.NotZero(t, said, "the machine is too slow to tell anything")
}
