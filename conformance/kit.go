package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// A kit is what a case works with: a server, the wire to it, connections of the
// driver under test, and ways to complain. Every method may be called from the
// goroutines of the case; Fatalf and Skipf end the calling one.
type kit struct {
	*suite
	testCase testCase
	bubble   atomic.Value // string
	moved    atomic.Int64 // grows while something happens
	time     timing

	prefix string // of every key, channel and value that identifies this case
	wire   *wire.Wire
	addr   string // what the driver connects to
	server *server
	ctx    context.Context // ends with the case
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	grave    bool              // some of them cannot be excused
	repeated map[string]int    // how often a failure came again
	shutting map[io.Closer]int // how many Closes have begun and not returned; 0 if all have
	skip     string
	cleanups []func()
	keys     []string
	calls    map[string]int // by command: how often it was given to the driver and not marked NotSent
	given    []string       // the passwords in Configs of the driver
}

// timing holds the waits of a case. In a bubble they cost nothing and are exact.
type timing struct {
	dial, reply time.Duration // Config.DialTimeout and Config.Timeout
	short       time.Duration // a ctx deadline within which nothing slow ends
	flight      time.Duration // a ctx deadline within which a command is at the server, on a busy machine too; less than reply
	slack       time.Duration // what "prompt" may take
	pause       time.Duration // for something that must not happen
	bound       time.Duration // what a call without a deadline may take
	settle      time.Duration // what the client's background work may take
	budget      time.Duration // for the whole case
}

var (
	bubbleTiming = timing{
		dial: 2 * time.Second, reply: 2 * time.Second, short: 300 * time.Millisecond, flight: 300 * time.Millisecond, slack: 100 * time.Millisecond, pause: 100 * time.Millisecond,
		bound: 9 * time.Second, settle: 15 * time.Second, budget: 5 * time.Minute,
	}
	realTiming = timing{
		dial: time.Second, reply: time.Second, short: 150 * time.Millisecond, flight: 500 * time.Millisecond, slack: 2 * time.Second, pause: 50 * time.Millisecond,
		bound: 5 * time.Second, settle: 10 * time.Second, budget: time.Minute,
	}
)

// canary is the password on miniredis. No text of the driver may show it.
const canary = "c4n4ry-pa55word"

// nowhere is an address that clients parse and nobody can reach: a client that ignores Config.Dial
// must not meet a server that happens to run on this machine.
const nowhere = "255.255.255.255:6379"

func newKit(s *suite, c testCase) *kit {
	k := &kit{suite: s, testCase: c, time: bubbleTiming, calls: map[string]int{}, repeated: map[string]int{}, shutting: map[io.Closer]int{}}
	if s.realTime() {
		k.time = realTiming
	}
	k.prefix = "conformance:{" + rand.Text()[:12] + "}:"
	return k
}

func (k *kit) start() error {
	k.ctx, k.cancel = context.WithCancel(context.Background())
	srv, err := startServer(k.suite, k.prefix, &k.moved)
	if err != nil {
		return err
	}
	k.server = srv
	if err := srv.addNodes(k.suite, k.o.quorum); err != nil {
		return err
	}
	k.wire = wire.New(srv.dial)
	k.addr = nowhere
	if k.realTime() {
		k.addr, err = k.wire.Listen()
	}
	return err
}

// finish ends the case: the driver's connections first, then the checks that
// hold for every case, then wire and server.
func (k *kit) finish() {
	k.cancel()
	k.mu.Lock()
	cleanups := slices.Clone(k.cleanups)
	k.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		k.limit(k.time.settle, "cleaning up (Close?)", f)
	}
	if k.wire != nil {
		k.checkCalls()
		if !k.failed() {
			k.noneOpen("that the case has used")
		}
		for _, b := range k.wire.Broken() {
			k.Errorf("not the Redis protocol: %s", b)
		}
		_ = k.wire.Close()
	}
	if k.server != nil {
		k.mu.Lock()
		keys := slices.Clone(k.keys)
		k.mu.Unlock()
		k.server.close(keys)
	}
}

// Errorf records a failure.
func (k *kit) Errorf(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if slices.Contains(k.failures, text) {
		k.repeated[text]++
		return
	}
	k.failures = append(k.failures, text)
}

// never records a failure that [Harness.Known] does not excuse, in whatever case.
func (k *kit) never(format string, args ...any) {
	k.Errorf(format, args...)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.grave = true
}

// complaints returns the failures, each once. The caller holds mu.
func (k *kit) complaints() []string {
	list := slices.Clone(k.failures)
	for i, text := range list {
		if n := k.repeated[text]; n > 0 {
			list[i] = fmt.Sprintf("%s (%d times)", text, n+1)
		}
	}
	return list
}

// Fatalf records a failure and ends the calling goroutine.
func (k *kit) Fatalf(format string, args ...any) {
	k.Errorf(format, args...)
	runtime.Goexit()
}

// stop records a failure after which no case can tell anything more, and ends the
// calling goroutine.
func (k *kit) stop(format string, args ...any) {
	k.bar(&k.over, format, args...)
	k.Fatalf(format, args...)
}

// Skipf ends the case without a verdict.
func (k *kit) Skipf(format string, args ...any) {
	k.mu.Lock()
	k.skip = fmt.Sprintf(format, args...)
	k.mu.Unlock()
	runtime.Goexit()
}

func (k *kit) failed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.failures) > 0
}

// cleanup runs f at the end of the case, last added first.
func (k *kit) cleanup(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cleanups = append(k.cleanups, f)
}

// key returns a key of this case. It is deleted at the end.
func (k *kit) key(name string) string {
	key := k.prefix + name
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = append(k.keys, key)
	return key
}

// config returns the Config of this case, changed by edit.
func (k *kit) config(edit ...func(*driver.Config)) driver.Config {
	as := k.credentials()
	cfg := driver.Config{
		Network: "tcp", Addrs: []string{k.addr},
		Username: as.username, Password: driver.Secret(as.password),
		DialTimeout: k.time.dial, Timeout: k.time.reply,
	}
	if !k.realTime() {
		cfg.Dial = k.wire.Dial
	}
	for _, e := range edit {
		e(&cfg)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := string(cfg.Password); !slices.Contains(k.given, p) {
		k.given = append(k.given, p)
	}
	return cfg
}

// credentials are those of the driver under test.
func (k *kit) credentials() credentials {
	if k.o.as != nil {
		return *k.o.as
	}
	return credentials{k.server.username, k.server.password}
}

// connector opens a connector; a Config that the driver does not support skips
// the case.
func (k *kit) connector(edit ...func(*driver.Config)) driver.Connector {
	c, err := k.h.Open(k.config(edit...))
	k.checkText(err)
	if errors.Is(err, driver.ErrUnsupported) && len(edit) > 0 {
		k.Skipf("the driver does not support this configuration: %v", err)
	}
	if err != nil || c == nil {
		k.Fatalf("OpenConnector gave (%v, %v); it does no I/O and supports this configuration", c, err)
	}
	return c
}

// open connects. The Conn is closed at the end of the case.
func (k *kit) open(edit ...func(*driver.Config)) driver.Conn {
	return k.connect(k.connector(edit...))
}

func (k *kit) connect(c driver.Connector) driver.Conn {
	ctx, cancel := context.WithTimeout(k.ctx, k.time.bound)
	defer cancel()
	conn, err := c.Connect(ctx)
	k.checkText(err)
	switch {
	case err != nil:
		k.Fatalf("Connect gave %v with a server that answers", err)
	case conn == nil:
		k.Fatalf("Connect gave neither a Conn nor an error")
	}
	k.closeLater(conn)
	return conn
}

// closeLater closes a Conn or a Subscription at the end of the case.
func (k *kit) closeLater(conn io.Closer) {
	k.cleanup(func() {
		// Another Close could wait for the first in a mutex, which stops the clock.
		if !k.isShutting(conn) {
			_ = k.shut(conn)
		}
	})
}

// shut closes c, and keeps a note of it until Close has returned.
func (k *kit) shut(c io.Closer) error {
	if reflect.ValueOf(c).Comparable() {
		k.mu.Lock()
		k.shutting[c]++
		k.mu.Unlock()
		defer func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.shutting[c]--
		}()
	}
	return c.Close()
}

func (k *kit) isShutting(c io.Closer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return reflect.ValueOf(c).Comparable() && k.shutting[c] > 0
}

// isOpen reports whether no Close has begun.
func (k *kit) isOpen(c io.Closer) bool {
	if !reflect.ValueOf(c).Comparable() {
		return false // not known
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, shut := k.shutting[c]
	return !shut
}

// warm opens a Conn and uses it once, so that its first connection is there.
func (k *kit) warm(edit ...func(*driver.Config)) driver.Conn {
	conn := k.open(edit...)
	k.must(conn, cmd("SET", k.key("warm"), "1"))
	return conn
}
