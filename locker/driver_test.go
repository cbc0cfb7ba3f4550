package locker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// fakeDeployment is an embedded server and a connector to it whose faults a test
// can set. It works inside a synctest bubble.
type fakeDeployment struct {
	*miniredis.Miniredis
	dial func() (net.Conn, error)

	mu sync.Mutex
	// before and after are asked about every command, before it is sent and
	// after the server has executed it. An error is what Do returns then.
	before, after func(ctx context.Context, cmd driver.Command) error
	connectErr    error
	noPubSub      bool
	subscribeErr  error
	unheard       bool     // what is subscribed to meanwhile hears nothing, for good
	sent          []string // names of commands executed
	subscribed    int      // how often anybody has subscribed

	// unused are the scripts that the server is to know when they are used, by SHA-1. It is
	// here while nobody loads one.
	unused chan map[string]*script
}

func newDeployment(t *testing.T) *fakeDeployment {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	f := &fakeDeployment{Miniredis: m, dial: m.Dial}
	f.load(t)
	return f
}

// load lets the server know all scripts, so that a fault meets a script's execution, and
// not the NOSCRIPT before it. It has to know one only when that is first used: to compile all of
// them for each test took a third of the time of all tests.
func (f *fakeDeployment) load(t *testing.T) {
	t.Helper()
	unused := map[string]*script{}
	for _, s := range allScripts() {
		unused[s.sha()] = s
	}
	f.unused = make(chan map[string]*script, 1)
	f.unused <- unused
}

// loadFor has the server know the script that cmd uses for the first time.
func (f *fakeDeployment) loadFor(w *wire, cmd driver.Command) error {
	if f.unused == nil {
		return nil
	}
	unused := <-f.unused
	defer func() { f.unused <- unused }()
	switch {
	case cmd.Name() == "SCRIPT":
		clear(unused) // it is forgotten, as if it had been loaded
	case cmd.Name() == "EVALSHA" && unused[cmd.Args[1]] != nil:
		if _, err := w.Client.Do("SCRIPT", "LOAD", unused[cmd.Args[1]].source()); err != nil {
			return err
		}
		delete(unused, cmd.Args[1])
	}
	return nil
}

func allScripts() []*script {
	all := []*script{turnScript, inspectScript, breakScript, scanScript, bootScript, markScript, takeScript}
	for _, f := range []family{mutexFamily, holdFamily} {
		all = append(all, f.acquire, f.renew, f.release, f.giveUp, f.attach, f.unattach, f.fence)
	}
	return all
}

// client returns a client on the deployment that is closed with the test.
func (f *fakeDeployment) client(t *testing.T, opts ...ClientOption) *Client {
	t.Helper()
	c, err := New(f, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func (f *fakeDeployment) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// commands returns the names of the commands executed since the last call of reset.
func (f *fakeDeployment) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.sent...)
}

func (f *fakeDeployment) reset() { f.set(func() { f.sent = nil }) }

func (f *fakeDeployment) Driver() driver.Driver { return fakeDriver{f} }

func (f *fakeDeployment) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connectErr != nil {
		return nil, f.connectErr
	}
	c := &fakeConn{f: f}
	if f.noPubSub {
		return driver.Wrapper{Conn: c}, nil
	}
	return c, nil
}

type fakeDriver struct{ f *fakeDeployment }

func (d fakeDriver) OpenConnector(driver.Config) (driver.Connector, error) { return d.f, nil }

type fakeConn struct {
	f      *fakeDeployment
	mu     sync.Mutex
	idle   []*wire
	closed bool
}

type wire struct {
	net.Conn
	*proto.Client
}

func (w *wire) Close() error { return w.Conn.Close() }

func (c *fakeConn) take() (*wire, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, driver.NotSent(driver.ErrClosed)
	}
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return w, nil
	}
	conn, err := c.f.dial()
	if err != nil {
		return nil, driver.NotSent(err)
	}
	return &wire{conn, proto.NewClient(conn)}, nil
}

func (c *fakeConn) give(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		w.Close()
		return
	}
	c.idle = append(c.idle, w)
}

func (c *fakeConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	c.f.mu.Lock()
	before, after := c.f.before, c.f.after
	c.f.mu.Unlock()
	if before != nil {
		if err := before(ctx, cmd); err != nil {
			return nil, err
		}
	}
	w, err := c.take()
	if err != nil {
		return nil, err
	}
	if err := c.f.loadFor(w, cmd); err != nil {
		w.Close()
		return nil, driver.NotSent(err)
	}
	stop := context.AfterFunc(ctx, func() { w.SetDeadline(time.Unix(1, 0)) })
	reply, err := w.Client.Do(cmd.Args...)
	if !stop() || err != nil {
		w.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	c.give(w)
	c.f.set(func() { c.f.sent = append(c.f.sent, cmd.Name()) })
	if after != nil {
		if err := after(ctx, cmd); err != nil {
			return nil, err
		}
	}
	if text, err := proto.ReadError(reply); err == nil {
		return nil, driver.NewServerError(text)
	}
	return parse(reply)
}

// parse reads a reply; proto.Parse takes a nil for an empty string.
func parse(reply string) (driver.Value, error) {
	if strings.HasPrefix(reply, "$-1") || strings.HasPrefix(reply, "*-1") {
		return nil, nil
	}
	v, err := proto.Parse(reply)
	return value(v), err
}

func value(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = value(v[i])
		}
	}
	return v
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, w := range c.idle {
		w.Close()
	}
	c.idle = nil
	return nil
}

func (c *fakeConn) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{}, nil
}

func (c *fakeConn) Subscribe(context.Context) (driver.Subscription, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.subscribeErr != nil {
		return nil, c.f.subscribeErr
	}
	c.f.subscribed++
	sub := pubsub.New(func(context.Context) (pubsub.Conn, error) {
		conn, err := c.f.dial()
		if err != nil {
			return nil, err
		}
		return &fakePubSub{&wire{conn, proto.NewClient(conn)}}, nil
	})
	if c.f.unheard {
		return deafSubscription{sub}, nil
	}
	return sub, nil
}

// A deafSubscription is at a server that answers, and to which nobody publishes.
type deafSubscription struct{ driver.Subscription }

func (s deafSubscription) Receive(ctx context.Context) (driver.Message, error) {
	for {
		if m, err := s.Subscription.Receive(ctx); err != nil {
			return m, err
		}
	}
}

type fakePubSub struct{ *wire }

func (p *fakePubSub) Send(_ context.Context, args ...string) error {
	return proto.Write(p.Conn, args)
}

func (p *fakePubSub) Receive(context.Context) (pubsub.Event, error) {
	reply, err := p.Client.Read()
	if err != nil {
		return pubsub.Event{}, err
	}
	if text, err := proto.ReadError(reply); err == nil {
		return pubsub.Event{}, driver.NewServerError(text)
	}
	v, err := proto.Parse(reply)
	if err != nil {
		return pubsub.Event{}, err
	}
	list, ok := v.([]any)
	if !ok || len(list) < 2 {
		return pubsub.Event{}, fmt.Errorf("odd push %v", v)
	}
	kinds := map[any]pubsub.Kind{"message": pubsub.Message, "subscribe": pubsub.Subscribed, "unsubscribe": pubsub.Unsubscribed, "pong": pubsub.Pong}
	e := pubsub.Event{Kind: kinds[list[0]]}
	e.Channel, _ = list[1].(string)
	if e.Kind == pubsub.Message {
		e.Payload, _ = list[2].(string)
	}
	return e, nil
}

// errLostReply is the error of a command whose reply was lost.
var errLostReply = errors.New("connection reset")

// once returns a fault for the first command with that name.
func once(name string, err error) func(context.Context, driver.Command) error {
	var done atomic.Bool
	return func(_ context.Context, cmd driver.Command) error {
		if strings.EqualFold(cmd.Name(), name) && done.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

// onceScript refuses the first call of a script, unsent.
func onceScript(sha string) func(context.Context, driver.Command) error {
	var done atomic.Bool
	return func(_ context.Context, cmd driver.Command) error {
		if cmd.Args[1] == sha && done.CompareAndSwap(false, true) {
			return driver.NotSent(errors.New("no route"))
		}
		return nil
	}
}
