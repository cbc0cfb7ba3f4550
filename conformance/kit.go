package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
	bubble   string
	time     timing

	prefix string // of every key, channel and value that identifies this case
	wire   *wire.Wire
	addr   string // what the driver connects to
	server *server
	ctx    context.Context // ends with the case
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	skip     string
	cleanups []func()
	keys     []string
	calls    map[string]int // by command: how often it was given to the driver and not marked NotSent
}

// timing holds the waits of a case. In a bubble they cost nothing and are exact.
type timing struct {
	dial, reply time.Duration // Config.DialTimeout and Config.Timeout
	short       time.Duration // a ctx deadline within which nothing slow ends
	slack       time.Duration // what "prompt" may take
	pause       time.Duration // for something that must not happen
	bound       time.Duration // what a call without a deadline may take
	settle      time.Duration // what the client's background work may take
	budget      time.Duration // for the whole case
}

var (
	bubbleTiming = timing{
		dial: 2 * time.Second, reply: 2 * time.Second, short: 300 * time.Millisecond, slack: 100 * time.Millisecond, pause: 100 * time.Millisecond,
		bound: 9 * time.Second, settle: 15 * time.Second, budget: 5 * time.Minute,
	}
	realTiming = timing{
		dial: time.Second, reply: time.Second, short: 150 * time.Millisecond, slack: 2 * time.Second, pause: 50 * time.Millisecond,
		bound: 5 * time.Second, settle: 10 * time.Second, budget: time.Minute,
	}
)

// canary is the password on miniredis. No text of the driver may show it.
const canary = "c4n4ry-pa55word"

func newKit(s *suite, c testCase) *kit {
	k := &kit{suite: s, testCase: c, time: bubbleTiming, calls: map[string]int{}}
	if s.realTime() {
		k.time = realTiming
	}
	k.prefix = "conformance:{" + rand.Text()[:12] + "}:"
	return k
}

func (k *kit) start() error {
	k.ctx, k.cancel = context.WithCancel(context.Background())
	srv, err := startServer(k.suite, k.prefix)
	if err != nil {
		return err
	}
	k.server = srv
	if err := srv.addNodes(k.suite, k.o.quorum); err != nil {
		return err
	}
	k.wire = wire.New(srv.dial)
	k.addr = "127.0.0.1:6379" // never dialed, but parsed by some clients
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
	k.failures = append(k.failures, fmt.Sprintf(format, args...))
}

// Fatalf records a failure and ends the calling goroutine.
func (k *kit) Fatalf(format string, args ...any) {
	k.Errorf(format, args...)
	runtime.Goexit()
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
	if err != nil || conn == nil {
		k.Fatalf("Connect gave (%v, %v) with a server that answers", conn, err)
	}
	k.closeLater(conn)
	return conn
}

func (k *kit) closeLater(conn driver.Conn) {
	k.cleanup(func() { _ = conn.Close() })
}

// warm opens a Conn and uses it once, so that its first connection is there.
func (k *kit) warm(edit ...func(*driver.Config)) driver.Conn {
	conn := k.open(edit...)
	k.must(conn, cmd("SET", k.key("warm"), "1"))
	return conn
}
