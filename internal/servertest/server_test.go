//go:build unix

package servertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// do sends a command and requires a reply.
func do(t *testing.T, s *Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// overTCP sends a command to an address, as an application would.
func overTCP(t *testing.T, addr string, args ...string) (any, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return exchange(t, conn, args...)
}

func exchange(t *testing.T, conn net.Conn, args ...string) (any, error) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(commandTimeout)))
	if _, err := conn.Write(appendCommand(nil, args)); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(conn))
}

func TestReplies(t *testing.T) {
	s := Single(t)
	assert.Equal(t, "PONG", do(t, s, "PING"))
	assert.Nil(t, do(t, s, "GET", "k"))
	assert.Equal(t, int64(-2), do(t, s, "PTTL", "k"))
	binary := "a\r\n\x00\xff"
	assert.Equal(t, "OK", do(t, s, "SET", "k", binary))
	assert.Equal(t, binary, do(t, s, "GET", "k"))
	assert.Equal(t, "", do(t, s, "ECHO", ""))
	assert.Equal(t, []any{int64(1), nil, []any{"x"}, ReplyError("ERR inner")},
		do(t, s, "EVAL", "return {1, false, {'x'}, redis.error_reply('ERR inner')}", "0"))
	assert.Nil(t, do(t, s, "BLPOP", "empty", "0.01"))

	_, err := s.Do("INCR", "k")
	var refusal ReplyError
	require.ErrorAs(t, err, &refusal)
	assert.Contains(t, refusal.Error(), "ERR value is not an integer")
	assert.Equal(t, "PONG", do(t, s, "PING"), "an error reply must not spoil the connection")

	s.Flush()
	assert.Equal(t, int64(0), do(t, s, "DBSIZE"))
}

func TestAddrAndSocketReachTheSameProcess(t *testing.T) {
	s := Single(t)
	info, err := overTCP(t, s.Addr, "INFO", "server")
	require.NoError(t, err)
	assert.Contains(t, info, fmt.Sprintf("process_id:%d\r\n", s.PID()))
	conn, err := net.Dial("unix", s.Socket)
	require.NoError(t, err)
	defer conn.Close()
	reply, err := exchange(t, conn, "PING")
	require.NoError(t, err)
	assert.Equal(t, "PONG", reply)
}

func TestDoIsOneConnection(t *testing.T) {
	s := Single(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := s.Do("INCR", "n")
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Equal(t, "20", do(t, s, "GET", "n"))
	clients := do(t, s, "CLIENT", "LIST").(string)
	assert.Equal(t, 1, strings.Count(clients, "\n"), clients)
	assert.Contains(t, clients, "name="+ControlUser)

	do(t, s, "MULTI")
	do(t, s, "SET", "k", "v")
	assert.Equal(t, []any{"OK"}, do(t, s, "EXEC"))
}

func TestDoReconnectsAfterItsConnectionWasKilled(t *testing.T) {
	s := Single(t)
	do(t, s, "PING")
	conn, err := net.Dial("unix", s.Socket)
	require.NoError(t, err)
	defer conn.Close()
	killed, err := exchange(t, conn, "CLIENT", "KILL", "USER", ControlUser)
	require.NoError(t, err)
	require.Equal(t, int64(1), killed)
	assert.Equal(t, "PONG", do(t, s, "PING"))
}

func TestDoWorksWhateverTheUsersAre(t *testing.T) {
	s := Single(t, Password("secret"), Config("user", "ann", "on", ">pw", "~a:*", "+get"))
	assert.Equal(t, "OK", do(t, s, "SET", "a:1", "v"))
	reply, err := overTCP(t, s.Addr, "GET", "a:1")
	require.NoError(t, err)
	assert.Equal(t, ReplyError("NOAUTH Authentication required."), reply)

	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	reply, err = exchange(t, conn, "AUTH", "ann", "pw")
	require.NoError(t, err)
	assert.Equal(t, "OK", reply)
	reply, err = exchange(t, conn, "SET", "a:1", "w")
	require.NoError(t, err)
	assert.ErrorContains(t, reply.(ReplyError), "NOPERM")

	off := Single(t, Config("user", "default", "off"))
	assert.Equal(t, "PONG", do(t, off, "PING"))
}

func TestPauseFreezesUntilResume(t *testing.T) {
	s := Single(t)
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	reply, err := exchange(t, conn, "PING")
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)

	s.Pause()
	_, err = conn.Write(appendCommand(nil, []string{"SET", "k", "v"}))
	require.NoError(t, err, "a paused server's connections stay open")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	s.Resume()
	require.NoError(t, conn.SetDeadline(time.Now().Add(commandTimeout)))
	reply, err = readReply(bufio.NewReader(conn))
	require.NoError(t, err)
	assert.Equal(t, "OK", reply)
	s.Resume() // does nothing
}

func TestRestartKeepsThePortAndLosesTheData(t *testing.T) {
	s := Single(t)
	do(t, s, "SET", "k", "v")
	addr, pid := s.Addr, s.PID()
	s.Kill()
	assert.Zero(t, s.PID())
	_, err := net.Dial("tcp", addr)
	assert.Error(t, err)
	_, err = s.Do("PING")
	assert.Error(t, err)
	s.Kill() // does nothing
	s.Resume()

	s.Restart()
	assert.Equal(t, addr, s.Addr)
	assert.NotEqual(t, pid, s.PID())
	assert.Nil(t, do(t, s, "GET", "k"))

	pid = s.PID()
	s.Pause()
	s.Restart()
	assert.NotEqual(t, pid, s.PID(), "a paused server must be restarted too")
	reply, err := overTCP(t, addr, "PING")
	require.NoError(t, err)
	assert.Equal(t, "PONG", reply)
}

func TestPersistKeepsTheData(t *testing.T) {
	s := Single(t, Persist())
	for i := range 20 {
		do(t, s, "SET", fmt.Sprint("k", i), "v")
	}
	s.Kill()
	s.Restart()
	assert.Equal(t, int64(20), do(t, s, "DBSIZE"))
}

func TestConfig(t *testing.T) {
	s := Single(t, Config("maxmemory", "3mb"))
	assert.Equal(t, []any{"maxmemory", "3145728"}, do(t, s, "CONFIG", "GET", "maxmemory"))
	assert.Equal(t, []any{"save", ""}, do(t, s, "CONFIG", "GET", "save"))
}

func TestEnv(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	script := fmt.Sprintf("#!/bin/sh\necho $INHERITED $GIVEN >%s\nexec %s \"$@\"\n", out, Require(t))
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o700))
	t.Setenv(EnvServer, wrapper)
	t.Setenv("INHERITED", "yes")
	Single(t, Env("GIVEN=too"))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "yes too\n", string(text))
}

func TestTwentyServersAtOnce(t *testing.T) {
	t.Parallel()
	servers := Servers(t, 20)
	ports := map[string]bool{}
	for i, s := range servers {
		ports[s.Port()] = true
		_, err := overTCP(t, s.Addr, "SET", "k", fmt.Sprint(i))
		require.NoError(t, err)
	}
	assert.Len(t, ports, len(servers))
	for i, s := range servers {
		assert.Equal(t, fmt.Sprint(i), do(t, s, "GET", "k"))
	}
}

// A port can be taken between the moment it was found free and the server's start.
func TestATakenPortIsTakenForWhatItIs(t *testing.T) {
	first := Single(t)
	second := newServer(t, kindData, newSettings(nil))
	second.port, second.Addr = first.port, first.Addr
	assert.ErrorIs(t, second.run(nil), errPortTaken)
	require.NoError(t, second.start())
	assert.NotEqual(t, first.Addr, second.Addr)
}

func TestFreePortSkipsATakenOne(t *testing.T) {
	pid := int64(os.Getpid())
	next := firstPort + int((pid*perTest+portsTaken.Load()+1)%portCount)
	l, err := net.Listen("tcp", address(next))
	if err != nil {
		t.Skip("something else listens there:", err)
	}
	defer l.Close()
	port, err := freePort()
	require.NoError(t, err)
	assert.NotEqual(t, next, port)
}

func TestRestartLosesWhatAReplicaHasWritten(t *testing.T) {
	servers := Servers(t, 2)
	master, replica := servers[0], servers[1]
	do(t, master, "SET", "k", "v")
	do(t, replica, "REPLICAOF", "127.0.0.1", master.Port())
	ctx, cancel := context.WithTimeout(t.Context(), agreeTimeout)
	defer cancel()
	require.NoError(t, Await(ctx, func() error { return replica.InfoSays("replication", "master_link_status:up") }))
	assert.Equal(t, "v", do(t, replica, "GET", "k"))
	replica.Restart()
	assert.Nil(t, do(t, replica, "GET", "k"))
}

func TestRestartWithIsForOnce(t *testing.T) {
	s := Single(t)
	s.RestartWith(Persist())
	do(t, s, "SET", "k", "v")
	s.RestartWith(Persist(), Config("maxclients", "77"))
	assert.Equal(t, "v", do(t, s, "GET", "k"))
	assert.Equal(t, []any{"maxclients", "77"}, do(t, s, "CONFIG", "GET", "maxclients"))
	s.Restart()
	assert.Nil(t, do(t, s, "GET", "k"))
	assert.NotEqual(t, []any{"maxclients", "77"}, do(t, s, "CONFIG", "GET", "maxclients"))
}

func TestRestartWaitsForItsPort(t *testing.T) {
	s := Single(t)
	s.Kill()
	l, err := net.Listen("tcp", s.Addr)
	require.NoError(t, err)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		s.Restart()
	}()
	// The first attempt failed when the log says so.
	require.NoError(t, Await(t.Context(), func() error {
		if !strings.Contains(string(s.logTail()), "already in use") {
			return fmt.Errorf("no attempt yet")
		}
		return nil
	}))
	require.NoError(t, l.Close())
	<-restarted
	assert.Equal(t, "PONG", do(t, s, "PING"))
}

func TestServerEndsWithItsTest(t *testing.T) {
	var running, paused, killed *Server
	fake := runFake(t, func(tb testing.TB) {
		servers := Servers(tb, 3)
		running, paused, killed = servers[0], servers[1], servers[2]
		paused.Pause()
		killed.Kill()
	})
	assert.False(t, fake.failed, fake.said)
	for _, s := range []*Server{running, paused, killed} {
		assert.Zero(t, s.PID())
		_, err := net.Dial("tcp", s.Addr)
		assert.Error(t, err)
		assert.NoDirExists(t, s.dir)
	}
}

func TestAFailedTestShowsTheLog(t *testing.T) {
	fake := runFake(t, func(tb testing.TB) {
		Single(tb)
		tb.Errorf("something")
	})
	assert.Contains(t, fake.said, "Ready to accept connections")
}

func TestWrongConfigurationFailsWithTheLog(t *testing.T) {
	fake := runFake(t, func(tb testing.TB) { Single(tb, Config("nonsense", "yes")) })
	assert.True(t, fake.failed)
	assert.Contains(t, fake.said, "nonsense")
}

// The server says "Error in user declaration", which is not that its port is in use.
func TestAUserThatTheServerRefusesFailsAtOnce(t *testing.T) {
	fake := runFake(t, func(tb testing.TB) { Single(tb, Config("user", "ann", "no-such-rule")) })
	assert.True(t, fake.failed)
	assert.Contains(t, fake.said, "no-such-rule")
}

func TestPauseOfADeadServerFailsTheTest(t *testing.T) {
	fake := runFake(t, func(tb testing.TB) {
		s := Single(tb)
		s.Kill()
		s.Pause()
	})
	assert.True(t, fake.failed)
	assert.Contains(t, fake.said, "not running")
}

// TestServerDiesWithItsProcess runs this test binary again, which starts a server
// and is killed.
func TestServerDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	if childAttr() == nil {
		t.Skip("the system cannot do that")
	}
	const role = "SERVERTEST_VICTIM"
	if out := os.Getenv(role); out != "" {
		s := Single(t)
		require.NoError(t, os.WriteFile(out+".new", []byte(s.Addr+" "+s.dir), 0o600))
		require.NoError(t, os.Rename(out+".new", out))
		<-t.Context().Done()
		return
	}
	Require(t)
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"="+out)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	var addr, dir string
	require.NoError(t, Await(t.Context(), func() error {
		text, err := os.ReadFile(out)
		addr, dir, _ = strings.Cut(string(text), " ")
		return err
	}))
	defer os.RemoveAll(dir)
	_, err := overTCP(t, addr, "PING")
	require.NoError(t, err)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, Await(t.Context(), func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		conn.Close()
		return fmt.Errorf("the server still accepts connections")
	}))
}
