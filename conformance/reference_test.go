package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// The reference driver: the contract on the standard library, as small as it
// goes, and with a switch for every way of getting it wrong. Without a bug it
// passes the whole suite, which shows that the suite asks for nothing that
// cannot be done.

// A bug is one way in which the reference driver breaks the contract. The list
// of them, with what each must fail, is in mutants_test.go.
type bug string

// What is no bug, although few drivers do it.
const (
	deadlineOnSocket bug = "(the socket has the deadline of the ctx)"
	batchIsSerial    bug = "(a batch is one call of Do after the other)"
	fillsItself      bug = "(the pool fills itself in the background)"
	beginsFull       bug = "(the pool has all its connections from the beginning)"
	keepsNone        bug = "(each call has a connection of its own)"
)

type refDriver struct{ bug bug }

func (d refDriver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if cfg.Mode != driver.ModeSingle || len(cfg.Addrs) != 1 {
		err := fmt.Errorf("reference: mode %v with %d addresses: %w", cfg.Mode, len(cfg.Addrs), driver.ErrUnsupported)
		if d.bug == "open-error-shows-password" {
			err = fmt.Errorf("reference: cannot use redis://:%s@%v", string(cfg.Password), cfg.Addrs)
		}
		return nil, err
	}
	if cfg.Network == "" && d.bug == "no-network-fails" {
		return nil, fmt.Errorf("reference: no network: %w", driver.ErrUnsupported)
	}
	switch host, _, _ := net.SplitHostPort(cfg.Addrs[0]); {
	case d.bug == "zero-is-no-timeout" && cfg.Timeout == 0:
		cfg.Timeout = time.Hour
	case d.bug == "zero-is-no-dial-timeout" && cfg.DialTimeout == 0:
		cfg.DialTimeout = time.Hour
	case d.bug == "tls-config-is-changed" && cfg.TLS != nil && cfg.TLS.ServerName == "":
		cfg.TLS.ServerName = host
	}
	cfg = cfg.WithDefaults()
	if cfg.Dial == nil || d.bug == "ignores-dial" {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &refConnector{driver: d, cfg: cfg, bug: d.bug}
	if c.bug == "open-dials" {
		if nc, err := cfg.Dial(context.Background(), cfg.Network, cfg.Addrs[0]); err == nil {
			_ = nc.Close()
		}
	}
	return c, nil
}

type refConnector struct {
	driver driver.Driver
	cfg    driver.Config
	bug    bug

	mu     sync.Mutex
	failed error    // bug "connect-remembers-error"
	shared *refConn // bugs "conns-are-shared", and while it connects "connects-are-shared"
}

// Format hides the Config.
func (c *refConnector) Format(f fmt.State, verb rune) {
	if c.bug == "connector-shows-password" {
		fmt.Fprintf(f, fmt.FormatString(f, verb), struct{ cfg driver.Config }{c.cfg})
		return
	}
	_, _ = io.WriteString(f, "reference")
}

func (c *refConnector) Driver() driver.Driver {
	if c.bug == "no-driver" {
		return nil
	}
	return c.driver
}

func (c *refConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return nil, c.failed
	}
	if c.shared != nil {
		return c.shared, nil
	}
	switch c.bug {
	case "connect-fails":
		return nil, errors.New("reference: not today")
	case "connect-gives-nil":
		return nil, nil
	}
	size := c.cfg.PoolSize
	if size == 0 {
		size = 10
	}
	rc := &refConn{cfg: c.cfg, bug: c.bug, slots: make(chan struct{}, size), closed: make(chan struct{}), live: map[io.Closer]struct{}{}, gate: make(chan struct{}, 1)}
	if c.bug == "connect-remembers-error" {
		l, err := rc.dial(ctx)
		if err != nil {
			c.failed = err
			return nil, err
		}
		rc.idle = append(rc.idle, l)
	}
	if c.bug == "connect-given-up-stays" {
		if err := rc.connectsAside(ctx); err != nil {
			return nil, err
		}
	}
	switch c.bug {
	case "conns-are-shared":
		c.shared = rc
	case "connects-are-shared":
		c.shared = rc
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
		c.mu.Lock()
		c.shared = nil
	case "hides-batcher":
		return struct {
			driver.Conn
			driver.Subscriber
			driver.Describer
		}{rc, rc, rc}, nil
	}
	for c.bug == beginsFull && len(rc.idle) < size {
		l, err := rc.dial(ctx)
		if err != nil {
			return nil, err
		}
		rc.idle = append(rc.idle, l)
	}
	if c.bug == fillsItself {
		go rc.fill()
	}
	return rc, nil
}

// connectsAside makes the first connection, and does not ask what became of it once ctx has ended.
func (c *refConn) connectsAside(ctx context.Context) error {
	dialed := make(chan error, 1)
	go func() {
		l, err := c.dial(context.WithoutCancel(ctx))
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.idle = append(c.idle, l)
		}
		dialed <- err
	}()
	select {
	case err := <-dialed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fill is a pool that opens connections before they are needed.
func (c *refConn) fill() {
	for {
		select {
		case <-c.closed:
			return
		case <-time.After(20 * time.Millisecond):
		}
		c.mu.Lock()
		full := len(c.idle) >= 3
		c.mu.Unlock()
		if full {
			continue
		}
		l, err := c.dial(context.Background())
		if err != nil {
			continue
		}
		c.mu.Lock()
		c.idle = append(c.idle, l)
		c.mu.Unlock()
	}
}

var (
	_ driver.Batcher    = (*refConn)(nil)
	_ driver.Subscriber = (*refConn)(nil)
	_ driver.Describer  = (*refConn)(nil)
)

// A refConn is a pool of connections, each used by one call at a time.
type refConn struct {
	cfg    driver.Config
	bug    bug
	slots  chan struct{} // one for each connection in use
	closed chan struct{}

	mu      sync.Mutex
	done    bool
	idle    []*link
	live    map[io.Closer]struct{} // every connection and subscription
	tripped bool                   // bugs "breaker-stays-open" and "refused-handshake-is-for-good"
	calls   sync.WaitGroup         // bug "close-waits"
	one     sync.Mutex             // bugs "holds-mutex" and "close-hangs-in-mutex"

	dialing   chan error    // bugs "dials-are-shared" and "first-dial-is-shared"
	first     sync.Once     // bug "first-dial-is-for-good"
	never     error         // what it failed with
	gate      chan struct{} // has room for one; bugs "dial-holds-the-pool" and "sub-dial-holds-the-pool"
	described driver.Value  // bug "describe-asks-once"
	met       atomic.Bool   // whether there was a connection; bugs "introduces-itself-once" and those of the first dial
}

// A link is one network connection.
type link struct {
	net.Conn
	r     *bufio.Reader
	array []any // bug "arrays-are-used-again"
}

func (c *refConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	switch c.bug {
	case "panics":
		panic("a bug")
	case "hangs":
		select {}
	case "spins":
		for ctx.Err() == nil {
			runtime.Gosched()
		}
	case "holds-mutex":
		c.one.Lock()
		defer c.one.Unlock()
	case "upper-cases-in-place":
		cmd.Args[0] = strings.ToUpper(cmd.Args[0])
	case "key-is-first-argument":
		if cmd.NumKeys > 0 && cmd.FirstKey != 1 {
			return nil, errors.New("reference: the key is not the first argument")
		}
	case "close-waits":
		c.calls.Add(1)
		defer c.calls.Done()
	case "ignores-cancel":
		if d, ok := ctx.Deadline(); ok && ctx.Err() == nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), d)
			defer cancel()
		} else if ctx.Err() == nil {
			ctx = context.WithoutCancel(ctx)
		}
	case "ignores-deadline":
		if ctx.Err() == nil {
			outer := ctx
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			defer context.AfterFunc(outer, func() {
				if errors.Is(outer.Err(), context.Canceled) {
					cancel()
				}
			})()
		}
	}
	switch c.bug {
	case "keeps-args":
		r := c.later(ctx, []driver.Command{cmd})[0]
		return r.Value, r.Err
	case "sends-after-close":
		r := c.beyondClose(ctx, []driver.Command{cmd})[0]
		return r.Value, r.Err
	}
	live := ctx.Err() == nil
	r := c.exchange(ctx, []driver.Command{cmd})[0]
	switch c.bug {
	case "queues-when-refused", "queues-when-dial-hangs":
		if live {
			c.queues(ctx, []driver.Result{r}, []driver.Command{cmd})
		}
	case "script-nil-is-empty":
		if strings.HasPrefix(cmd.Name(), "EVAL") && r.Value == nil && r.Err == nil {
			r.Value = ""
		}
	case "publish-counts-nothing":
		if cmd.Name() == "PUBLISH" && r.Err == nil {
			r.Value = int64(0)
		}
	case "resends":
		for range 3 {
			if r.Err == nil || driver.OutcomeOf(r.Err) == driver.OutcomeReplied || ctx.Err() != nil {
				break
			}
			r = c.exchange(ctx, []driver.Command{cmd})[0]
		}
	case "resends-reads":
		if errors.Is(r.Err, io.EOF) && (cmd.Name() == "GET" || cmd.Name() == "PTTL") {
			r = c.exchange(ctx, []driver.Command{cmd})[0]
		}
	case "resends-transient":
		if e, ok := errors.AsType[*driver.ServerError](r.Err); ok && (e.Code == "LOADING" || e.Code == "READONLY") {
			r = c.exchange(ctx, []driver.Command{cmd})[0]
		}
	}
	return r.Value, r.Err
}

// later returns when ctx ends and sends the commands all the same, when a
// connection is free.
func (c *refConn) later(ctx context.Context, cmds []driver.Command) []driver.Result {
	if err := ctx.Err(); err != nil {
		return failAll(len(cmds), driver.NotSent(err))
	}
	done := make(chan []driver.Result, 1)
	go func() { done <- c.exchange(context.WithoutCancel(ctx), cmds) }()
	select {
	case results := <-done:
		return results
	case <-ctx.Done():
		return failAll(len(cmds), ctx.Err())
	}
}

// goesOn returns when ctx ends and puts the replies that come later into what it has returned.
func (c *refConn) goesOn(ctx context.Context, cmds []driver.Command) []driver.Result {
	if err := ctx.Err(); err != nil {
		return failAll(len(cmds), driver.NotSent(err))
	}
	cmds = slices.Clone(cmds)
	for i := range cmds {
		cmds[i].Args = slices.Clone(cmds[i].Args)
	}
	results := failAll(len(cmds), context.Canceled)
	done := make(chan struct{})
	go func() {
		defer close(done)
		copy(results, c.exchange(context.WithoutCancel(ctx), cmds))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for i := range results {
			results[i].Err = ctx.Err()
		}
	}
	return results
}

// beyondClose returns at Close and sends the commands all the same, when it has a connection.
func (c *refConn) beyondClose(ctx context.Context, cmds []driver.Command) []driver.Result {
	done := make(chan []driver.Result, 1)
	go func() { done <- c.exchange(ctx, cmds) }()
	select {
	case results := <-done:
		return results
	case <-c.closed:
		return failAll(len(cmds), driver.NotSent(driver.ErrClosed))
	}
}

func (c *refConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	switch c.bug {
	case "batch-panics-when-empty":
		_ = cmds[0]
	case "batch-forgets-one":
		if len(cmds) == 1 {
			return failAll(1, nil)
		}
	case "batch-has-one-too-many":
		return append(c.exchange(ctx, cmds), driver.Result{})
	case "batch-keeps-args":
		return c.later(ctx, cmds)
	case "sends-after-close":
		return c.beyondClose(ctx, cmds)
	case "batch-goes-on":
		return c.goesOn(ctx, cmds)
	case "batch-in-parts":
		if len(cmds) > 128 { // the second one may be faster
			last := c.exchange(ctx, cmds[128:])
			return append(c.exchange(ctx, cmds[:128]), last...)
		}
	case "batch-that-fails-is-nil":
		results := c.exchange(ctx, cmds)
		for _, r := range results {
			if r.Err != nil && driver.OutcomeOf(r.Err) != driver.OutcomeReplied {
				return nil
			}
		}
		return results
	case "batch-upper-cases-in-place":
		for _, cmd := range cmds {
			cmd.Args[0] = strings.ToUpper(cmd.Args[0])
		}
	case "batch-reversed":
		cmds = slices.Clone(cmds)
		slices.Reverse(cmds)
		results := c.exchange(ctx, cmds)
		slices.Reverse(results)
		return results
	case "batch-stops-at-error":
		results := c.exchange(ctx, cmds)
		for i, r := range results {
			if r.Err != nil {
				return results[:i+1]
			}
		}
		return results
	case "batch-fails-as-one":
		results := c.exchange(ctx, cmds)
		for _, r := range results {
			if r.Err != nil {
				for i := range results {
					results[i] = driver.Result{Err: r.Err}
				}
			}
		}
		return results
	case "batch-resends":
		results := c.exchange(ctx, cmds)
		if n := len(results); n > 0 && driver.OutcomeOf(results[n-1].Err) == driver.OutcomeUnknown && results[n-1].Err != nil && ctx.Err() == nil {
			return c.exchange(ctx, cmds)
		}
		return results
	case "batch-queues-when-refused", "batch-queues-when-dial-hangs":
		results := c.exchange(ctx, cmds)
		if len(cmds) > 0 {
			c.queues(ctx, results, cmds)
		}
		return results
	case "batch-resends-transient":
		results := c.exchange(ctx, cmds)
		for _, r := range results {
			if e, ok := errors.AsType[*driver.ServerError](r.Err); ok && (e.Code == "LOADING" || e.Code == "TRYAGAIN") {
				return c.exchange(ctx, cmds)
			}
		}
		return results
	case "batch-empty-is-nil", "batch-numbers-are-integers":
		results := c.exchange(ctx, cmds)
		for i, r := range results {
			if n, err := strconv.ParseInt(fmt.Sprint(r.Value), 10, 64); err == nil && c.bug == "batch-numbers-are-integers" {
				results[i].Value = n
			}
			if r.Value == "" && c.bug == "batch-empty-is-nil" {
				results[i].Value = nil
			}
		}
		return results
	case "batch-hangs-at-close":
		results := c.exchange(ctx, cmds)
		if len(cmds) > 0 && errors.Is(results[0].Err, driver.ErrClosed) && driver.OutcomeOf(results[0].Err) == driver.OutcomeUnknown {
			<-ctx.Done()
		}
		return results
	case batchIsSerial:
		var results []driver.Result
		for _, cmd := range cmds {
			v, err := c.Do(ctx, cmd)
			results = append(results, driver.Result{Value: v, Err: err})
		}
		return results
	case "batch-limit":
		if len(cmds) > 500 {
			return append(c.exchange(ctx, cmds[:500]), slices.Repeat([]driver.Result{{Err: errors.New("reference: too many")}}, len(cmds)-500)...)
		}
	case "batch-ignores-ctx":
		if ctx.Err() == nil {
			ctx = context.WithoutCancel(ctx)
		}
	case "batch-in-parallel":
		results := make([]driver.Result, len(cmds))
		var all sync.WaitGroup
		for i := range cmds {
			all.Go(func() { results[i] = c.exchange(ctx, cmds[i:i+1])[0] })
		}
		all.Wait()
		return results
	}
	return c.exchange(ctx, cmds)
}

func (c *refConn) Describe(ctx context.Context) (driver.Topology, error) {
	r := c.exchange(ctx, []driver.Command{{Args: []string{"INFO", "server"}}})[0]
	if c.bug == "describe-asks-once" {
		c.mu.Lock()
		if c.described == nil && r.Err == nil {
			c.described = r.Value
		} else if r.Err == nil {
			r.Value = c.described
		}
		c.mu.Unlock()
	}
	t := driver.Topology{Mode: driver.ModeSingle}
	switch c.bug {
	case "describe-says-cluster":
		t.Mode = driver.ModeCluster
	case "describe-invents-run-id":
		t.RunID = fmt.Sprint(time.Now().UnixNano())
	}
	if c.bug == "describe-swallows-errors" {
		r.Err = nil
	}
	reply, refused := errors.AsType[*driver.ServerError](r.Err)
	never := refused && reply.Code != "BUSY" && reply.Code != "LOADING" && !strings.Contains(reply.Message, "max number of clients")
	switch {
	case r.Err == nil, never && c.bug != "describe-fails-when-refused", refused && c.bug == "describe-takes-not-now-for-never":
	default:
		return driver.Topology{}, r.Err
	}
	text, _ := r.Value.(string)
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok && t.RunID == "" {
			t.RunID = id
		}
	}
	return t, nil
}

func (c *refConn) Close() error {
	if c.bug == "close-hangs-in-mutex" {
		c.one.Lock()
		select {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	hang := func() {
		c.mu.Unlock()
		defer c.mu.Lock()
		select {}
	}
	switch {
	case c.bug == "works-after-close":
		for _, l := range c.idle {
			_ = l.Close()
		}
		c.idle = nil
		return nil
	case c.done && c.bug == "close-twice-fails":
		return driver.ErrClosed
	case c.done && c.bug == "close-twice-panics":
		close(c.closed)
	case c.done && c.bug == "close-twice-hangs":
		hang()
	case c.done:
		return nil
	case c.bug == "close-unused-hangs" && len(c.live) == 0:
		hang()
	}
	c.done = true
	switch c.bug {
	case "close-waits":
		c.mu.Unlock()
		c.calls.Wait()
		c.mu.Lock()
	case "close-leaks-goroutine":
		go func() { select {} }()
	}
	close(c.closed)
	for l := range c.live {
		s, isSub := l.(*refSub)
		switch {
		case c.bug == "close-leaves-subscriptions-that-connect" && isSub && s.connecting():
		case c.bug == "close-leaves-connections" && !isSub:
		case c.bug == "close-leaves-subscriptions" && isSub:
		case c.bug == "close-leaves-calls" && !slices.ContainsFunc(c.idle, func(i *link) bool { return l == io.Closer(i) }) && !isSub:
		default:
			go func() { _ = l.Close() }()
		}
	}
	return nil
}
