package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// decoded returns the JSON that lockctl writes.
func decoded[T any](t *testing.T, url string, args ...string) T {
	t.Helper()
	code, out, errs := lockctl(t, url, append(args, "--json")...)
	require.Zero(t, code, errs)
	var v T
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	return v
}

func TestLsShowAndBreak(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	url := "redis://" + server.Addr
	c, err := locker.Open("goredis", url, locker.Prefix("app:"), locker.Label("me"))
	require.NoError(t, err)
	defer c.Close()
	lease := hold(t, c, "orders:1", locker.Fenced(), locker.Metadata("x"))
	hold(t, c, "orders:2", locker.ForReading())
	hold(t, c, "other")
	_, err = server.Do("SET", "app:orders:cached", "x", "EX", "100")
	require.NoError(t, err)

	locks := decoded[[]lockView](t, url, "ls", "orders:", "--prefix", "app:")
	require.Len(t, locks, 2)
	assert.Equal(t, "orders:1", locks[0].Name)
	assert.Equal(t, holderView{Label: "me", Mode: "exclusive", Holds: 1, Token: uint64(lease.Token()), RemainingMS: locks[0].Holders[0].RemainingMS, Metadata: "x"}, locks[0].Holders[0])
	assert.Equal(t, "reading", locks[1].Holders[0].Mode)
	assert.Len(t, decoded[[]lockView](t, url, "ls", "orders:", "--prefix", "app:", "--foreign"), 3)
	assert.Empty(t, decoded[[]lockView](t, url, "ls", "none"))

	code, out, errs := lockctl(t, url, "ls", "--prefix", "app:")
	require.Zero(t, code, errs)
	assert.Regexp(t, `(?m)^orders:1 +me +exclusive +\S+s +0 +\d+ +x$`, out)
	code, out, errs = lockctl(t, url, "show", "app:orders:1")
	require.Zero(t, code, errs)
	assert.Regexp(t, regexp.MustCompile(`Holder: +me\n +Mode: +exclusive`), out)
	assert.False(t, decoded[lockView](t, url, "show", "free").Held)

	code, _, errs = lockctl(t, url, "break", "app:orders:1")
	assert.Equal(t, exitUsage, code, "there is nobody to ask: %s", errs)
	assert.True(t, lease.Valid())
	broken := decoded[struct{ Broken []holderView }](t, url, "break", "app:orders:1", "-y")
	assert.Equal(t, "me", broken.Broken[0].Label)
	code, _, errs = lockctl(t, url, "break", "app:orders:1", "--yes")
	assert.Equal(t, exitNotHeld, code, errs)
}

// Bytes that are not UTF-8 neither disturb the table nor reach the terminal, and what is shown
// for them is enough to break the lock.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	hold(t, c, "aa", locker.Metadata("\xff"))
	hold(t, c, "bb")
	odd := "\x9b2J\xff2\t\u202e'\"é"
	hold(t, c, odd)
	hold(t, c, `"bb"`) // as bb would look if it were quoted
	quoted := `"\x9b2J\xff2\t\xe2\x80\xae'\"é"`
	code, out, errs := lockctl(t, url, "ls")
	require.Zero(t, code, errs)
	assert.Regexp(t, `(?m)^aa +\S+ +exclusive +\S+s +0 +- +"\\xff"$`, out)
	assert.Regexp(t, `(?m)^bb +\S+ +exclusive +\S+s +0 +-`, out)
	assert.Regexp(t, `(?m)^"\\"bb\\"" +\S+ +exclusive`, out)
	assert.Contains(t, out, quoted+"  ")
	code, out, errs = lockctl(t, url, "show", odd)
	require.Zero(t, code, errs)
	assert.Contains(t, out, quoted+"\n")
	p := start(t, url, "watch", "--interval", "100ms")
	eventually(t, "a look", func() bool { return strings.Contains(p.out.String(), quoted) })
	assert.NotContains(t, p.out.String(), "\x9b2J")
	_, out, _ = lockctl(t, url, "__complete", "break", "")
	assert.Contains(t, out, "aa\nbb\n")
	assert.NotContains(t, out, "2J", "a shell would take the quoted form for a name")

	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the rest needs a shell with $'…'")
	}
	inShell := "$'" + strings.ReplaceAll(strings.Trim(quoted, `"`), "'", `\'`) + "'"
	cmd := program(t, url)
	for _, locale := range []string{"C.UTF-8", "C"} { // the latter where LANG is not set
		if s, err := c.Inspect(t.Context(), odd); assert.NoError(t, err) && !s.Held() {
			hold(t, c, odd)
		}
		script := exec.Command(bash, "-c", `"$0" break --yes `+inShell, cmd.Path)
		script.Env = append(slices.Clone(cmd.Env), "LC_ALL="+locale)
		b := startCmd(t, script)
		require.Zero(t, b.code(t), "%s: %s", locale, b.err)
		s, err := c.Inspect(t.Context(), odd)
		require.NoError(t, err)
		assert.False(t, s.Held(), locale)
	}
}

// What show and break say of a lock of another library agrees: it may be held, and nobody
// is told to delete it, nor asked whether to break what break does not touch.
func TestShowAndBreakOfALockOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	url := "redis://" + server.Addr
	_, err := server.Do("SET", "k", "token", "EX", "1000")
	require.NoError(t, err)
	code, out, errs := lockctl(t, url, "show", "k")
	require.Zero(t, code, errs)
	assert.Regexp(t, `Holder: +\(not golocker\)\n +Mode: +exclusive\n +Remaining: +16m\d+s unless renewed\n`, out)
	for _, args := range [][]string{{"break", "k", "-y"}, {"break", "k"}} {
		code, _, errs = lockctl(t, url, args...)
		assert.Equal(t, exitForeign, code, "%v: %s", args, errs)
		assert.Regexp(t, `expires in 16m\S+s unless renewed`, errs, "%v", args)
		assert.NotContains(t, errs, "delete", "%v", args)
	}
	left, err := server.Do("PTTL", "k")
	require.NoError(t, err)
	assert.Positive(t, left)
}

// shown gives what the terminal shows, and tells when that is all.
func shown(tty *os.File) (out *safeBuffer, all <-chan struct{}) {
	out = &safeBuffer{}
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(out, tty) }()
	return out, read
}

// answered runs break at a terminal, and answers its question after meanwhile. It returns what
// it said, and its exit code.
func answered(t *testing.T, url, name, answer string, meanwhile func()) (string, int) {
	t.Helper()
	cmd := program(t, url, "break", name)
	tty, err := pty.Start(cmd)
	require.NoError(t, err)
	defer tty.Close()
	out, read := shown(tty)
	eventually(t, "the question", func() bool { return strings.Contains(out.String(), "[y/N]") })
	meanwhile()
	_, err = tty.WriteString(answer)
	require.NoError(t, err)
	_ = cmd.Wait()
	<-read
	return out.String(), cmd.ProcessState.ExitCode()
}

// In a shell the answer decides.
func TestBreakAsks(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	for _, test := range []struct {
		answer string
		held   bool
		code   int
	}{{"\n", true, exitDeclined}, {"no\n", true, exitDeclined}, {"\x04", true, exitDeclined}, {"y\n", false, 0}} {
		name := "k" + test.answer
		hold(t, c, name)
		out, code := answered(t, url, name, test.answer, func() {})
		s, err := c.Inspect(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, test.held, s.Held(), "%q: %s", test.answer, out)
		assert.Equal(t, test.code, code, "%q: %s", test.answer, out)
		assert.Equal(t, test.held, strings.Contains(out, "nothing was done"), "%q: %s", test.answer, out)
	}
}

// Who gets the lock while the question stands is not the one that was shown.
func TestBreakSparesWhoGotTheLockWhileItAsked(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	next, err := locker.Open("goredis", url, locker.Label("the next"))
	require.NoError(t, err)
	defer next.Close()
	shown := hold(t, observer(t, url), "k")
	var lease *locker.Lease
	out, code := answered(t, url, "k", "y\n", func() {
		require.NoError(t, shown.Unlock(t.Context()))
		lease = hold(t, next, "k")
	})
	assert.Equal(t, exitNotHeld, code, out)
	assert.Contains(t, out, "nothing was done")
	assert.Contains(t, out, `held by somebody else now (by the next, for `)
	assert.NoError(t, lease.Extend(t.Context(), locker.DefaultTTL))
}

// A server that executes what it was sent when it goes on has taken the lock away after all. A
// script must not take that for "nothing was done", and break the lock of who has it by then.
func TestBreakWithoutAnAnswerMayHaveBeenDone(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	url := "redis://" + server.Addr
	c := observer(t, url)
	_, err := c.ForceRelease(t.Context(), "k")
	require.ErrorIs(t, err, locker.ErrAbsent, "and the server knows the script, which is asked for once")
	_, err = c.Mutex("k", locker.TTL(time.Hour), locker.NoRenewal()).Lock(t.Context())
	require.NoError(t, err)
	out, code := answered(t, url, "k", "y\n", server.Pause)
	assert.Equal(t, exitFailed, code, out)
	assert.Contains(t, out, "outcome unknown")
	assert.Contains(t, out, "look who holds it before you try again")
	server.Resume()
	eventually(t, "the lock is taken away", func() bool {
		s, err := c.Inspect(t.Context(), "k")
		return err == nil && !s.Held()
	})
}

func TestLsOfAClusterAndOfAQuorum(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	url := "redis://" + cluster.Addrs()[0] + "?mode=cluster"
	c := observer(t, url)
	for i := range 20 {
		hold(t, c, fmt.Sprint("k", i))
	}
	for _, driver := range []string{"goredis", "rueidis"} {
		assert.Len(t, decoded[[]lockView](t, url, "ls", "--driver", driver), 20, driver)
	}
	d := decoded[diagnosis](t, url, "doctor")
	assert.Len(t, d.Patients, 4, "three masters, and all together")
	assert.Zero(t, d.Problems)

	urls := threeServers(t)
	code, out, errs := lockctl(t, strings.Join(urls, "\n"), "--bootstrap", "run", "q", "--", "sh", "-c", "echo held; read x; exit 0") // its standard input is at its end
	require.Zero(t, code, errs)
	assert.Equal(t, "held\n", out)
	d = decoded[diagnosis](t, strings.Join(urls, " "), "doctor")
	assert.Len(t, d.Patients, 4)
	assert.Zero(t, d.Problems)
}

// INFO and CONFIG may be forbidden: doctor says what it could not see, and nothing worse.
func TestDoctorWithoutInfo(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t, servertest.Config("user", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-config"))
	d := decoded[diagnosis](t, "redis://app:secret@"+server.Addr, "doctor")
	seen := map[string]level{}
	for _, f := range d.Patients[0].Findings {
		seen[f.Check] = f.Level
		if f.Level != fine {
			assert.NotEmpty(t, f.Means, f.Check)
		}
	}
	assert.Equal(t, map[string]level{
		"connection": fine, "version": unseen, "eviction": unseen, "persistence": unseen, "replication": unseen, "clock": fine,
		"subscribing": fine, "publishing": fine, "listing": fine,
	}, seen)
	assert.Zero(t, d.Problems)
}

// A server that refuses everything says nothing of its settings, nor of what an ACL forbids.
func TestDoctorOfAServerThatRefusesEverything(t *testing.T) {
	t.Parallel()
	busy := servertest.Single(t, servertest.Config("lua-time-limit", "20"))
	line, err := net.Dial("tcp", busy.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })
	_, err = fmt.Fprint(line, "EVAL \"while true do end\" 0\r\n") // until the server is killed
	require.NoError(t, err)
	eventually(t, "the server is busy", func() bool {
		_, err := busy.Do("PING")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	crowded := servertest.Single(t)
	_, err = crowded.Do("CONFIG", "SET", "maxclients", "1") // on a connection that stays
	require.NoError(t, err)
	for name, server := range map[string]*servertest.Server{"busy": busy, "crowded": crowded} {
		for _, driver := range []string{"goredis", "rueidis", "redigo"} {
			code, out, errs := lockctl(t, "redis://"+server.Addr, "doctor", "--json", "--driver", driver)
			assert.Equal(t, exitFindings, code, errs)
			var d diagnosis
			require.NoError(t, json.Unmarshal([]byte(out), &d), out)
			require.Len(t, d.Patients[0].Findings, 1, "%s, %s: %+v", name, driver, d.Patients[0].Findings)
			assert.Equal(t, "connection", d.Patients[0].Findings[0].Check)
			assert.Equal(t, problem, d.Patients[0].Findings[0].Level)
		}
	}
}

// Where no answer came nothing is known of permissions, nor of the time that one takes.
func TestDoctorTellsSilenceFromARefusal(t *testing.T) {
	silence := errors.New("i/o timeout")
	for _, f := range (facts{infoErr: silence, timeErr: silence}).assess(false) {
		switch f.Level {
		case fine:
			assert.NotContains(t, f.Found, "0 µs", f.Check)
		case unseen:
			assert.Contains(t, f.Found, "i/o timeout", f.Check)
		}
	}
}

// A proxy may not know TIME, which scripts have all the same. What an ACL forbids they have not.
func TestDoctorBlamesNoClockThatAProxyHides(t *testing.T) {
	for want, err := range map[level]error{
		unseen:  io.EOF,
		problem: driver.NewServerError("NOPERM this user has no permissions to run the 'time' command"),
	} {
		assert.Equal(t, want, facts{timeErr: err}.clock().Level)
	}
	assert.Equal(t, unseen, facts{timeErr: driver.NewServerError("ERR unsupported command 'time'")}.clock().Level)
}

// Nor is a Sentinel, whose address was given as that of a server, one with a bad ACL.
func TestDoctorKnowsASentinel(t *testing.T) {
	t.Parallel()
	code, out, errs := lockctl(t, "redis://"+servertest.Sentinel(t).Sentinels[0].Addr, "doctor")
	assert.Equal(t, exitFindings, code, errs)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "Give mode=sentinel&master=") // it is wrapped
	assert.NotContains(t, out, "TIME")
}

// withoutQueues returns who and where a user is that may do all but wait for a lock.
func withoutQueues(t *testing.T) string {
	t.Helper()
	server := servertest.Single(t, servertest.Config("user", "hasty", "on", ">x", "~*", "&*", "+@all", "-zadd"))
	return "hasty:x@" + server.Addr
}

func TestDoctorFindsProblems(t *testing.T) {
	t.Parallel()
	cache := servertest.Single(t, servertest.Config("maxmemory", "100mb"), servertest.Config("maxmemory-policy", "volatile-ttl"))
	code, out, errs := lockctl(t, "redis://"+cache.Addr, "doctor")
	assert.Equal(t, exitFindings, code, errs)
	assert.Contains(t, out, "volatile-ttl")
	assert.Contains(t, out, "deletes locks that are held")

	code, out, _ = lockctl(t, "redis://:hunter2@127.0.0.1:1", "doctor")
	assert.Equal(t, exitFindings, code)
	assert.NotContains(t, out, "hunter2")
	assert.Contains(t, out, "connection refused")

	weak := servertest.Single(t, servertest.Config("user", "weak", "on", ">x", "~*", "resetchannels", "+@all", "-eval", "-scan"))
	code, out, _ = lockctl(t, "redis://weak:x@"+weak.Addr, "doctor")
	assert.Equal(t, exitFindings, code)
	assert.Regexp(t, `problem +mutex`, out)
	assert.Regexp(t, `note +listing`, out)
	if !servertest.Before(t, 6, 2) { // channels have rules
		assert.Regexp(t, `warning +subscribing`, out)
	}
}

// A server that speaks no TLS does not answer, like one that hangs, but doctor tells that it was
// the handshake, with each driver.
func TestDoctorFindsThatAServerSpeaksNoTLS(t *testing.T) {
	t.Parallel()
	plain := servertest.Single(t)
	for _, driver := range []string{"goredis", "rueidis", "redigo"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			code, out, errs := lockctl(t, "rediss://"+plain.Addr+"?dial_timeout=3s", "--driver", driver, "doctor", "--timeout", "30s")
			assert.Equal(t, exitFindings, code, errs)
			assert.Regexp(t, `problem +connection .*does the server speak TLS\?`, out)
		})
	}
}

// It is the connection that fails, which tells why, and not the time of doctor that is over.
func TestDoctorOutwaitsItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for set, want := range map[time.Duration]time.Duration{0: 400 * time.Millisecond, time.Minute: 400 * time.Millisecond, time.Second / 10: time.Second / 10} {
			assert.Equal(t, want, impatient(ctx, driver.Config{DialTimeout: set}).DialTimeout)
		}
	})
}

// Whoever cannot wait for a lock is stuck when it is held: to take a free one is not enough.
func TestDoctorFindsThatNobodyCanWait(t *testing.T) {
	t.Parallel()
	code, out, errs := lockctl(t, "redis://"+withoutQueues(t), "doctor")
	assert.Equal(t, exitFindings, code, errs)
	for _, kind := range []string{"mutex", "fenced mutex", "read-write lock"} {
		assert.Regexp(t, `problem +`+kind+` +taken, but not passed on to who waits: .*\+zadd`, out)
	}
}

// Without messages who waits gets the lock by asking, which takes longer than anything else.
func TestDoctorFindsThatNobodyIsWokenUp(t *testing.T) {
	late := (&probe{taken: true, took: lateWakeUp}).assess("mutex", false)
	assert.Equal(t, warning, late.Level)
	assert.Contains(t, late.Means, "is not told in time")
	assert.Equal(t, fine, (&probe{taken: true, took: lateWakeUp / 2}).assess("mutex", false).Level)
}

// An address that leads to several servers, as by a proxy that spreads connections, is found by a
// lock that two clients have.
func TestDoctorFindsAnAddressOfSeveralServers(t *testing.T) {
	var clients []*locker.Client
	for range 2 {
		c, err := locker.Open("goredis", "redis://"+servertest.Single(t).Addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	p := probe{holder: clients[0], mutex: clients[0].Mutex("k"), next: clients[1].Mutex("k")}
	p.try(t.Context(), 10*time.Second)
	twice := p.assess("mutex", false)
	assert.Equal(t, problem, twice.Level)
	assert.Contains(t, twice.Means, "Does the address lead to several servers")
}

// Nor are messages to blame where a node of a quorum hangs, for which who waits may have to wait.
func TestDoctorBlamesNoMessagesForANodeThatHangs(t *testing.T) {
	late := (&probe{taken: true, took: lateWakeUp}).assess("mutex", true)
	assert.Equal(t, note, late.Level)
	assert.NotContains(t, late.Means, "messages")
	assert.Contains(t, late.Means, "see the servers above")
}

// An ACL is blamed for what it forbids, and for nothing else.
func TestDoctorBlamesTheACLForWhatItForbids(t *testing.T) {
	t.Parallel()
	hung := servertest.Single(t)
	hung.Pause()
	full := servertest.Single(t, servertest.Config("maxmemory", "1"))
	locked := servertest.Single(t, servertest.Password("secret"))
	single := servertest.Single(t)
	strict := servertest.Single(t, servertest.Config("user", "strict", "on", ">x", "~app:*", "~__golocker:*", "&*", "+@all"))
	deserted := servertest.Single(t, servertest.Config("min-replicas-to-write", "1"))
	const acl, above = "choose a name that an ACL allows", "see the servers above"
	for name, test := range map[string]struct{ url, means string }{
		"hung":           {"redis://" + hung.Addr, above},
		"down":           {"redis://127.0.0.1:1", above},
		"wrong password": {"redis://:wrong@" + locked.Addr, above},
		"no password":    {"redis://" + locked.Addr, above},
		"wrong mode":     {"redis://" + single.Addr + "?mode=cluster", above},
		"no replicas":    {"redis://" + deserted.Addr, "Bring the replicas back"},
		"full":           {"redis://" + full.Addr, "memory is full"},
		"other names":    {"redis://strict:x@" + strict.Addr, acl},
	} {
		timeout := "30s"
		if name == "hung" {
			timeout = "500ms"
		}
		code, out, errs := lockctl(t, test.url, "doctor", "--timeout", timeout)
		assert.Equal(t, exitFindings, code, "%s: %s", name, errs)
		out = strings.Join(strings.Fields(out), " ") // it is wrapped
		assert.Contains(t, out, test.means, name)
		if test.means != acl {
			assert.NotContains(t, out, acl, name)
		}
	}
}

// Servers of which nothing bad is said are not what an operator is sent to. New ones of a quorum
// are in quarantine, as they are when it is set up and looked at for the first time.
func TestDoctorDoesNotBlameServersThatAreWell(t *testing.T) {
	t.Parallel()
	code, out, errs := lockctl(t, strings.Join(threeServers(t), " "), "doctor")
	assert.Equal(t, exitFindings, code, errs)
	out = strings.Join(strings.Fields(out), " ") // it is wrapped
	assert.Contains(t, out, "takes no part until --longest-ttl has passed; --bootstrap uses new ones at once")
	assert.NotContains(t, out, "see the servers above")
	well := []facts{{}, {}, {down: errors.New("down")}}
	assert.NotContains(t, noLocks("MISCONF", well[:1], false).Means, "above")
	assert.NotContains(t, noLocks("no majority", well, true).Means, "above", "two of three would do")
	assert.Contains(t, noLocks("a shard is down", well, false).Means, "above")
}

// Nodes that do not tell their hosts are where they were asked, and not on this machine.
func TestDoctorOfAClusterThatDoesNotTellItsHosts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there may be no 127.0.0.2")
	}
	for _, how := range [][2]string{{"cluster-announce-ip", ""}, {"cluster-preferred-endpoint-type", "unknown-endpoint"}} {
		node := servertest.Cluster(t, 1, servertest.Config(how[0], how[1]), servertest.Config("bind", "127.0.0.2")).Nodes[0]
		addr := "127.0.0.2:" + node.Port()
		code, out, errs := lockctl(t, "redis://"+addr+"?mode=cluster", "doctor", "--driver", "rueidis")
		assert.Zero(t, code, "%s: %s", out, errs)
		assert.Contains(t, out, addr+"\n")
	}
}

// Nor is its port 0 where it has no port without TLS, which some servers tell with TLS as well.
func TestDoctorOfAClusterThatDoesNotTellItsTLSPort(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	node := servertest.Cluster(t, 1, servertest.Secure(certs), servertest.Config("tls-cluster", "no")).Nodes[0]
	code, out, errs := lockctl(t, "rediss://"+node.Addr+"?mode=cluster&tls_ca="+certs.CAFile, "doctor")
	assert.Zero(t, code, "%s: %s", out, errs)
	assert.Contains(t, out, node.Addr+"\n")
}

// A master that hangs uses up its own time, and not that of the others: nothing bad is said of those.
func TestDoctorOfAClusterOfWhichAMasterHangs(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	sorted := slices.SortedFunc(slices.Values(cluster.Nodes), func(a, b *servertest.Server) int { return strings.Compare(a.Addr, b.Addr) })
	sorted[0].Pause()
	url := "redis://" + sorted[1].Addr + "?mode=cluster"
	for _, driver := range []string{"goredis", "rueidis"} {
		code, out, errs := lockctl(t, url, "doctor", "--json", "--driver", driver, "--timeout", "2s")
		assert.Equal(t, exitFindings, code, errs)
		var d diagnosis
		require.NoError(t, json.Unmarshal([]byte(out), &d), out)
		require.Len(t, d.Patients, 4, "%s: three masters, and all together: %+v", driver, d)
		for i, p := range d.Patients[:3] {
			require.Equal(t, sorted[i].Addr, p.Server)
			want := fine
			if i == 0 {
				want = problem
			}
			assert.Equal(t, want, p.Findings[0].Level, "%s: %s: %+v", driver, p.Server, p.Findings)
		}
	}
}

// A server of a Cluster that is taken for one of its own is no outage.
func TestDoctorKnowsANodeOfACluster(t *testing.T) {
	p := probe{err: fmt.Errorf("%w: %w", locker.ErrUnavailable, driver.NewServerError("MOVED 1 10.0.0.1:6379"))}
	assert.False(t, p.silent())
	assert.Contains(t, p.assess("mutex", false).Means, "?mode=cluster")
}

// A timeout that nothing can meet says nothing of a server.
func TestDoctorNeedsTime(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for _, timeout := range []string{"0s", "-1s"} {
		code, out, errs := lockctl(t, url, "doctor", "--timeout", timeout)
		assert.Equal(t, exitUsage, code, errs)
		assert.Contains(t, errs, "--timeout "+timeout+": use a positive one")
		assert.Empty(t, out)
	}
}

// On a quorum of short leases doctor and bench take shorter ones themselves.
func TestDoctorAndBenchWithAShortLongestTTL(t *testing.T) {
	t.Parallel()
	quorum := strings.Join(threeServers(t), " ")
	d := decoded[diagnosis](t, quorum, "doctor", "--longest-ttl", "5s", "--bootstrap")
	assert.Zero(t, d.Problems, d)
	b := decoded[benchView](t, quorum, "bench", "--longest-ttl", "5s", "--duration", "20ms", "--goroutines", "1")
	assert.Positive(t, b.HandOff.Count)
	code, _, errs := lockctl(t, quorum, "doctor", "--longest-ttl", "5ms")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errs, "LongestTTL", "the TTL is not what was wrong")
}

// A node that is restored from a snapshot passes the quarantine: such a quorum is not sound.
func TestDoctorFindsSnapshotsOfAQuorum(t *testing.T) {
	t.Parallel()
	var urls []string
	for _, option := range []servertest.Option{
		servertest.Config("save", "3600", "1"), servertest.Config("appendonly", "yes"), servertest.Persist(),
	} {
		urls = append(urls, "redis://"+servertest.Single(t, option).Addr)
	}
	code, out, errs := lockctl(t, strings.Join(urls, " "), "doctor", "--bootstrap")
	assert.Equal(t, exitFindings, code, errs)
	assert.Regexp(t, `problem +persistence +append-only file off, save 3600 1`, out)
	assert.Regexp(t, `warning +persistence +append-only file on, appendfsync everysec`, out)
	assert.Regexp(t, `ok +persistence +append-only file on, appendfsync always`, out)
	assert.Contains(t, out, "Problems: 1.")
}

// Without a terminal watch writes one list below the other.
func TestWatchWritesLines(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	hold(t, observer(t, url), "k")
	p := start(t, url, "watch", "--json", "--interval", "100ms")
	eventually(t, "three looks", func() bool { return strings.Count(p.out.String(), "\n") >= 3 })
	line, _, _ := strings.Cut(p.out.String(), "\n")
	var s snapshot
	require.NoError(t, json.Unmarshal([]byte(line), &s))
	assert.Equal(t, "k", s.Locks[0].Name)
	code, _, errs := lockctl(t, "redis://127.0.0.1:1", "watch")
	assert.Equal(t, exitUnreachable, code, errs)
}

// On a terminal it shows them in place until q is pressed, or a signal ends it.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	hold(t, c, "first")
	// What is in its place already is not written again: no two of the names have a letter in the same place.
	for later, end := range map[string]func(*os.Process, *os.File) error{
		"later": func(_ *os.Process, tty *os.File) error { _, err := tty.WriteString("q"); return err },
		"third": func(p *os.Process, _ *os.File) error { return p.Signal(os.Interrupt) },
	} {
		cmd := program(t, url, "watch", "--interval", "100ms")
		cmd.Env = append(cmd.Env, "TERM=xterm")
		tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
		require.NoError(t, err)
		defer tty.Close()
		out, read := shown(tty)
		eventually(t, "the first lock", func() bool { return strings.Contains(out.String(), "first") })
		hold(t, c, later)
		eventually(t, "the later lock", func() bool { return strings.Contains(out.String(), later) })
		require.NoError(t, end(cmd.Process, tty))
		assert.NoError(t, cmd.Wait(), out)
		<-read
	}
}

// While the server is down nobody knows how many locks there are: not none.
func TestWatchThroughAnOutage(t *testing.T) {
	t.Parallel()
	c, err := locker.Open("redigo", "redis://127.0.0.1:1") // which writes nothing of it by itself
	require.NoError(t, err)
	defer c.Close()
	w := &watcher{client: c}
	s, err := w.look(t.Context())
	require.Error(t, err)
	text := s.text("")
	assert.Contains(t, text, s.Error)
	assert.NotContains(t, text, "locks")
	assert.NotContains(t, text, "NAME")
	js, err := json.Marshal(s)
	require.NoError(t, err)
	assert.NotContains(t, string(js), `"locks"`)
	js, err = json.Marshal(snapshot{Locks: []lockView{}})
	require.NoError(t, err)
	assert.Contains(t, string(js), `"locks":[]`, "none, for certain")
}

// Of several errors, as of Sentinels that are all down, a driver makes one of several lines: where there
// is one line for it they are told one after the other, and are no text to be quoted.
func TestErrorsOfSeveralLinesAreShownInOne(t *testing.T) {
	const several, one = "\"k\" is lost: a is down\nb is down", `"k" is lost: a is down; b is down`
	var errs, out bytes.Buffer
	r := &runner{tool: &tool{streams: streams{err: &errs}}, flags: &runFlags{}, key: "k"}
	r.say(false, event{Event: "lost", Error: "it: " + several})
	assert.Equal(t, "lockctl: k: lost: it: "+one+"\n", errs.String())
	assert.Contains(t, snapshot{Error: "it: " + several}.text(""), "  it: "+one+"\n")
	require.NoError(t, diagnosisOf([]patient{{"s", []finding{{"connection", problem, "it: " + several, ""}}}}).write(&out))
	assert.Contains(t, out.String(), "  it: "+one+"\n")
}

func TestBench(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	v := decoded[benchView](t, url, "bench", "--duration", "100ms", "--goroutines", "1,4", "--fenced")
	require.Len(t, v.Free, 2)
	assert.Positive(t, v.Free[1].PerSecond)
	assert.Positive(t, v.HandOff.Median)
	code, out, errs := lockctl(t, url, "bench", "--duration", "50ms", "--goroutines", "1")
	assert.Zero(t, code, errs)
	assert.Contains(t, out, "hand-off")
}

// Who may take locks, but not wait for them, is told so.
func TestBenchWhereNobodyCanWait(t *testing.T) {
	t.Parallel()
	url := "redis://" + withoutQueues(t)
	code, out, errs := lockctl(t, url, "bench", "--duration", "10ms", "--goroutines", "1")
	assert.Equal(t, exitRefused, code, errs)
	assert.Contains(t, errs, "+zadd")
	assert.Empty(t, out)
}

// What could not be written was not said, so that a script must not go on as if it had been.
func TestAFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	url := "redis://" + servertest.Single(t).Addr
	hold(t, observer(t, url), "k")
	for _, args := range [][]string{
		{"version"}, {"version", "--json"}, {"--help"}, {"help", "run"}, {"run", "--help"}, {}, {"completion", "bash"}, {"__complete", "show", ""},
		{"ls"}, {"ls", "--json"}, {"show", "k"}, {"watch"}, {"doctor"}, {"bench", "--duration", "1ms", "--goroutines", "1"}, {"break", "k", "--yes"},
	} {
		cmd := program(t, url, args...)
		cmd.Stdout = full
		p := startCmd(t, cmd)
		assert.Equal(t, exitFailed, p.code(t), "%q: %s", args, p.err)
		assert.Contains(t, p.err.String(), "no space left", "%q", args)
	}
}

// What cobra's own commands do not know is no help that was asked for.
func TestHelpAndCompletionRefuseWhatThereIsNot(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "nosuch"}, {"help", "run", "nosuch"}, {"completion", "bsh"}, {"completion", "bash", "x"}} {
		code, out, errs := lockctl(t, "", args...)
		assert.Equal(t, exitUsage, code, "%q: %s", args, errs)
		assert.Empty(t, out, "%q", args)
		assert.Contains(t, errs, "Try lockctl --help", "%q", args)
	}
	for _, args := range [][]string{{"help"}, {"help", "run"}, {"help", "completion", "bash"}, {"completion"}} {
		code, out, errs := lockctl(t, "", args...)
		assert.Zero(t, code, "%q: %s", args, errs)
		assert.Contains(t, out, "Usage:", "%q", args)
	}
}

// Who wants JSON gets it wherever the flag stands.
func TestAWrongFlagIsToldAsJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--json", "ls", "--bad"}, {"ls", "--bad", "--json"}} {
		code, _, errs := lockctl(t, "", args...)
		assert.Equal(t, exitUsage, code)
		assert.True(t, json.Valid([]byte(errs)), errs)
	}
	_, _, errs := lockctl(t, "", "run", "--bad", "k", "--", "cmd", "--json")
	assert.False(t, json.Valid([]byte(errs)), "the command's flags are not lockctl's: %s", errs)
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	v := decoded[versionView](t, "", "version")
	assert.Equal(t, []string{"goredis", "redigo", "rueidis"}, v.Drivers)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, errs := lockctl(t, "", "completion", shell)
		assert.Zero(t, code, errs)
		assert.Contains(t, out, "lockctl", shell)
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		_, script, _ := lockctl(t, "", "completion", "bash")
		check := exec.Command(bash, "-n")
		check.Stdin = strings.NewReader(script)
		assert.NoError(t, check.Run())
	}
	url := "redis://" + servertest.Single(t).Addr
	hold(t, observer(t, url), "orders:1")
	_, out, _ := lockctl(t, url, "__complete", "break", "ord")
	assert.Contains(t, out, "orders:1", "names of locks are completed")
	_, out, _ = lockctl(t, url, "__complete", "run", "ord")
	assert.Contains(t, out, "orders:1")
	_, out, _ = lockctl(t, url, "__complete", "run", "orders:1", "ord")
	assert.NotContains(t, out, "orders:1", "the command's name is the shell's affair")
	assert.Contains(t, out, ":0", "which completes files")
	_, out, _ = lockctl(t, url, "__complete", "ls", "--driver", "")
	assert.Contains(t, out, "redigo")
}
