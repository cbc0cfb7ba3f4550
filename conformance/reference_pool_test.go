package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/locker/driver"
)

func failAll(n int, err error) []driver.Result { return slices.Repeat([]driver.Result{{Err: err}}, n) }

// exchange sends commands on one connection and reads their replies.
func (c *refConn) exchange(ctx context.Context, cmds []driver.Command) []driver.Result {
	if err := ctx.Err(); err != nil && c.bug != "sends-with-ended-ctx" {
		switch c.bug {
		case "ctx-error-hidden":
			err = driver.NotSent(errors.New("reference: too late"))
		case "not-sent-is-unknown":
		default:
			err = driver.NotSent(err)
		}
		return failAll(len(cmds), err)
	}
	if slices.ContainsFunc(cmds, func(cmd driver.Command) bool { return cmd.Name() == "" }) {
		switch c.bug {
		case "no-name-is-sent":
		case "no-name-has-no-reply":
			return make([]driver.Result, len(cmds))
		default:
			return failAll(len(cmds), driver.NotSent(errors.New("reference: a command without a name")))
		}
	}
	waiting := ctx
	if c.bug == "batch-waits-without-ctx" && len(cmds) > 1 {
		waiting = context.WithoutCancel(ctx)
	}
	l, fresh, err := c.acquire(waiting)
	if err != nil {
		switch c.bug {
		case "no-connection-is-nil":
			err = nil
		case "not-sent-is-unknown", "dial-error-is-reply", "handshake-error-is-reply":
		default:
			err = driver.NotSent(err)
		}
		return failAll(len(cmds), err)
	}
	results, broken := c.pipeline(ctx, l, cmds)
	resends := c.bug == "resends-on-stale" && !fresh && errors.Is(results[0].Err, io.EOF) ||
		c.bug == "resends-failed-write" && errors.Is(results[0].Err, syscall.EPIPE)
	if broken && resends && ctx.Err() == nil {
		c.release(l, true)
		if l, _, err = c.acquire(ctx); err != nil {
			return failAll(len(cmds), err)
		}
		results, broken = c.pipeline(ctx, l, cmds)
	}
	broken = broken || c.demoted(results)
	switch c.bug {
	case "pool-keeps-broken":
		broken = false
	case "pool-keeps-pending":
		broken = broken && ctx.Err() == nil
	case "error-reply-loses-slot":
		if _, ok := errors.AsType[*driver.ServerError](results[0].Err); ok {
			return results
		}
	}
	if c.bug == "abandoned-leaks-slot" && ctx.Err() != nil {
		return results
	}
	c.release(l, broken)
	return results
}

// demoted reports whether the server only reads. Its name may be that of another one by now.
func (c *refConn) demoted(results []driver.Result) bool {
	switch c.bug {
	case "keeps-former-master":
		return false
	case "sees-former-master-in-first-reply":
		results = results[:min(1, len(results))]
	}
	return slices.ContainsFunc(results, func(r driver.Result) bool {
		e, ok := errors.AsType[*driver.ServerError](r.Err)
		if c.bug == "knows-former-master-by-first-word" {
			return ok && strings.HasPrefix(e.Message, "READONLY ")
		}
		return ok && e.Code == "READONLY"
	})
}

// queues is the bug that what could not be sent is sent later.
func (c *refConn) queues(ctx context.Context, results []driver.Result, cmds []driver.Command) {
	if driver.OutcomeOf(results[0].Err) != driver.OutcomeNotSent {
		return
	}
	switch c.bug {
	case "queues-when-refused", "batch-queues-when-refused":
		if ctx.Err() != nil {
			return
		}
	case "queues-when-dial-hangs", "batch-queues-when-dial-hangs":
		if ctx.Err() == nil {
			return
		}
	}
	go func() {
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			r := c.exchange(context.Background(), cmds)[0]
			if driver.OutcomeOf(r.Err) != driver.OutcomeNotSent || errors.Is(r.Err, driver.ErrClosed) {
				return
			}
		}
	}()
}

func (c *refConn) pipeline(ctx context.Context, l *link, cmds []driver.Command) (results []driver.Result, broken bool) {
	// When ctx ends or the Conn is closed the connection is given up at once.
	stop := context.AfterFunc(ctx, func() {
		if c.bug == "write-ignores-ctx" {
			_ = l.SetReadDeadline(time.Unix(1, 0))
			return
		}
		_ = l.SetDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			broken = true
		}
	}()
	results = make([]driver.Result, len(cmds))
	fail := func(i int, err error) ([]driver.Result, bool) {
		for ; i < len(results); i++ {
			results[i] = driver.Result{Err: c.broke(ctx, err)}
		}
		return results, true
	}
	c.arm(ctx, l)
	var request []byte
	for _, cmd := range cmds {
		request = resp.AppendCommand(request, c.manglesArgs(cmd)...)
	}
	if c.bug == "writes-nonsense" {
		request = []byte("hello?\r\n")
	}
	if _, err := l.Write(request); err != nil {
		if c.bug == "write-error-is-not-sent" && ctx.Err() == nil {
			return failAll(len(cmds), driver.NotSent(err)), true
		}
		return fail(0, err)
	}
	for i := range cmds {
		c.arm(ctx, l)
		frame, err := resp.ReadFrame(l.r)
		if err != nil {
			return fail(i, err)
		}
		if c.bug == "array-ends-at-error" || c.bug == "array-ends-at-error-in-batch" && len(cmds) > 1 {
			if code, rest := endsAtError(frame); rest != nil {
				l.r = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), l.r))
				results[i].Err = fmt.Errorf("reference: there is a %s in it", code)
				continue
			}
		}
		v, err := resp.Parse(frame)
		if err != nil {
			return fail(i, err)
		}
		results[i] = c.mangles(frame, v)
		if list, _ := results[i].Value.([]any); len(list) > 0 && c.bug == "arrays-are-used-again" && len(cmds) == 1 {
			l.array = append(l.array[:0], list...)
			results[i].Value = l.array
		}
	}
	return results, false
}

// endsAtError returns what is left of an array behind an error in it that has a type of its own.
func endsAtError(frame []byte) (code string, rest []byte) {
	head, rest, found := bytes.Cut(frame, []byte("\r\n-"))
	if !found || head[0] != '*' {
		return "", nil
	}
	line, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	code, _, _ = strings.Cut(string(line), " ")
	if !slices.Contains([]string{"OOM", "READONLY", "LOADING"}, code) {
		return "", nil
	}
	return code, rest
}

// arm sets the deadline for the next reply, unless ctx has ended.
func (c *refConn) arm(ctx context.Context, l *link) {
	d := c.cfg.Timeout
	switch c.bug {
	case "no-timeout":
		d = time.Hour
	case "timeout-halved":
		d /= 2
	case "timeout-ignored":
		d = driver.DefaultTimeout
	}
	end := time.Now().Add(d)
	if at, ok := ctx.Deadline(); ok && (c.bug == deadlineOnSocket && at.Before(end) || c.bug == "deadline-replaces-timeout") {
		end = at
	}
	switch at, ok := ctx.Deadline(); {
	case c.bug == "write-has-no-deadline":
		_ = l.SetReadDeadline(end)
	case c.bug == "stale-write-deadline":
		_ = l.SetReadDeadline(end)
		if ok {
			_ = l.SetWriteDeadline(at)
		}
	default:
		_ = l.SetDeadline(end)
	}
	if ctx.Err() != nil && c.bug != "sends-with-ended-ctx" {
		_ = l.SetDeadline(time.Unix(1, 0))
	}
}

// broke is the error of a command whose connection broke: the outcome is unknown.
func (c *refConn) broke(ctx context.Context, err error) error {
	select {
	case <-c.closed:
		switch c.bug {
		case "close-is-not-told":
		case "at-close-is-not-sent":
			return driver.NotSent(driver.ErrClosed)
		default:
			return fmt.Errorf("reference: %w", driver.ErrClosed)
		}
	default:
	}
	if at, ok := ctx.Deadline(); ok && (c.bug == deadlineOnSocket || c.bug == "deadline-replaces-timeout") && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	if ctx.Err() == nil && c.bug == "own-timeout-is-ctx-error" && isTimeout(err) {
		return context.DeadlineExceeded
	}
	if ctx.Err() != nil {
		if c.bug == "ctx-error-hidden" {
			return err
		}
		err = ctx.Err()
		if c.bug == "returns-the-cause-of-ctx" {
			err = context.Cause(ctx)
		}
		if c.bug == "abandoned-is-not-sent" {
			return driver.NotSent(err)
		}
	}
	if c.bug == "unknown-is-not-sent" && ctx.Err() == nil {
		return driver.NotSent(err)
	}
	if c.bug == "lost-reply-is-reply" && ctx.Err() == nil {
		return driver.NewServerError("ERR " + err.Error())
	}
	if c.bug == "lost-connection-is-closed" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)) {
		err = driver.ErrClosed
	}
	return fmt.Errorf("reference: the reply is lost: %w", err)
}

func (c *refConn) acquire(ctx context.Context) (l *link, fresh bool, err error) {
	closed := func() (*link, bool, error) { return nil, false, fmt.Errorf("reference: %w", driver.ErrClosed) }
	wait := ctx.Done()
	switch c.bug {
	case "pool-ignores-ctx":
		wait = nil
	case "pool-fails-when-busy":
		if len(c.slots) == cap(c.slots) {
			return nil, false, errors.New("reference: no connection is free")
		}
	}
	patience := time.NewTimer(c.cfg.Timeout)
	defer patience.Stop()
	if _, ok := ctx.Deadline(); ok && c.bug == "deadline-replaces-pool-timeout" {
		patience.Stop()
	}
	switch c.bug {
	case "no-pool-timeout", "pool-ignores-ctx":
		patience.Stop()
	}
	select {
	case c.slots <- struct{}{}:
	case <-patience.C:
		if c.bug == "pool-timeout-is-ctx-error" {
			return nil, false, context.DeadlineExceeded
		}
		return nil, false, errors.New("reference: no connection is free in time")
	case <-wait:
		if c.bug == "cancel-beside-close-panics" {
			time.Sleep(time.Millisecond) // within which Close comes
			select {
			case <-c.closed:
				panic("a bug")
			default:
			}
		}
		return nil, false, ctx.Err()
	case <-c.closed:
		return closed()
	}
	if c.bug == "dial-holds-the-pool" || c.bug == "sub-dial-holds-the-pool" {
		select {
		case c.gate <- struct{}{}:
			if c.bug == "dial-holds-the-pool" {
				defer func() { <-c.gate }()
			} else {
				<-c.gate
			}
		case <-wait:
			<-c.slots
			return nil, false, ctx.Err()
		case <-c.closed:
			<-c.slots
			return closed()
		}
	}
	c.mu.Lock()
	if c.done && c.bug != "works-after-close" {
		c.mu.Unlock()
		<-c.slots
		return closed()
	}
	if n := len(c.idle); n > 0 {
		l = c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return l, false, nil
	}
	c.mu.Unlock()
	switch {
	case c.bug == "dials-are-shared", c.bug == "first-dial-is-shared" && !c.met.Load():
		err = c.dialOfAnother(ctx)
	case c.bug == "first-dial-is-for-good" && !c.met.Load():
		c.first.Do(func() { l, c.never = c.dial(ctx) })
		err = c.never
	}
	if err == nil && l == nil {
		l, err = c.dial(ctx)
	}
	if err != nil {
		<-c.slots
		if c.bug == "no-connection-is-closed" {
			err = driver.ErrClosed
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, false, err
	}
	return l, true, nil
}

// dialOfAnother is the bug that who comes while somebody dials has the error of that dial.
func (c *refConn) dialOfAnother(ctx context.Context) error {
	c.mu.Lock()
	other := c.dialing
	if other == nil {
		c.dialing = make(chan error, 1)
		other = c.dialing
		c.mu.Unlock()
		l, err := c.dial(ctx)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil {
			_ = l.Close()
		}
		c.mu.Lock()
		c.dialing = nil
		c.mu.Unlock()
		if err != nil {
			other <- err
		}
		close(other)
		return err
	}
	c.mu.Unlock()
	select {
	case err := <-other:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *refConn) release(l *link, broken bool) {
	c.mu.Lock()
	if broken || c.done || c.bug == keepsNone {
		switch c.bug {
		case "broken-connections-stay-open":
			delete(c.live, l)
		case "broken-connections-stay-open-until-close":
		default:
			delete(c.live, l)
			_ = l.Close()
		}
	} else {
		c.idle = append(c.idle, l)
	}
	c.mu.Unlock()
	<-c.slots
}

// dial opens a connection and does the handshake, within DialTimeout, ctx and
// the life of the Conn.
func (c *refConn) dial(ctx context.Context) (*link, error) { return c.dialFor(ctx, false) }

// dialFor is dial for commands or for a Subscription, of which bugs are.
func (c *refConn) dialFor(ctx context.Context, sub bool) (_ *link, err error) {
	if sub && c.bug == "sub-dial-holds-the-pool" {
		select {
		case c.gate <- struct{}{}:
			defer func() { <-c.gate }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	outer := ctx
	if c.bug == "dial-ignores-ctx" {
		ctx = context.WithoutCancel(ctx)
	}
	_, bounded := ctx.Deadline()
	if c.bug != "no-dial-timeout" && !(sub && c.bug == "sub-dial-has-no-timeout") && !(bounded && c.bug == "deadline-replaces-dial-timeout") {
		limit := c.cfg.DialTimeout
		if c.bug == "dial-timeout-ignored" {
			limit = driver.DefaultDialTimeout
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.bug != "close-leaves-dials" && c.bug != "sends-after-close" {
		release := make(chan struct{})
		defer close(release)
		go func() {
			select {
			case <-c.closed:
				cancel()
			case <-release:
			}
		}()
	}
	c.mu.Lock()
	tripped := c.tripped
	c.mu.Unlock()
	if tripped {
		return nil, errors.New("reference: the breaker is open")
	}
	if c.bug != "own-timeout-is-ctx-error" && c.bug != "dial-error-is-reply" {
		defer func() {
			if err != nil && outer.Err() == nil && ctx.Err() != nil {
				err = errors.New("reference: no connection in time")
				select {
				case <-c.closed:
					if c.bug != "dial-at-close-is-not-told" {
						err = fmt.Errorf("reference: %w", driver.ErrClosed)
					}
				default:
				}
			}
		}()
	}
	network := c.cfg.Network
	if c.bug == "unix-is-tcp" || sub && c.bug == "sub-unix-is-tcp" {
		network = "tcp"
	}
	addr := c.cfg.Addrs[0]
	if host, port, err := net.SplitHostPort(addr); err == nil && c.bug == "address-loses-brackets" {
		addr = host + ":" + port
	}
	nc, err := c.cfg.Dial(ctx, network, addr)
	for err != nil && c.bug == "redials-for-ever" && outer.Err() == nil {
		time.Sleep(time.Second)
		nc, err = c.cfg.Dial(outer, c.cfg.Network, c.cfg.Addrs[0])
	}
	if err != nil {
		switch c.bug {
		case "breaker-stays-open":
			c.mu.Lock()
			c.tripped = true
			c.mu.Unlock()
		case "dial-error-shows-password":
			return nil, fmt.Errorf("dial redis://:%s@%s: %w", string(c.cfg.Password), c.cfg.Addrs[0], err)
		case "dial-error-is-reply":
			return nil, driver.NewServerError("ERR " + err.Error())
		}
		return nil, err
	}
	if c.cfg.TLS != nil && c.bug != "drops-TLS" && !(sub && c.bug == "sub-drops-TLS") {
		secure, bound := tls.Client(nc, c.manglesTLS(c.cfg.TLS)), ctx
		switch {
		case sub:
		case c.bug == "tls-handshake-ignores-ctx":
			bound = context.WithoutCancel(ctx)
		case c.bug == "tls-handshake-has-no-timeout":
			bound = outer
		}
		if err := secure.HandshakeContext(bound); err != nil {
			_ = nc.Close()
			return nil, err
		}
		nc = secure
	}
	l := &link{Conn: nc, r: bufio.NewReader(nc)}
	bound := ctx
	switch {
	case sub && c.bug == "sub-handshake-no-timeout":
		bound = outer
	case c.bug == "handshake-has-the-timeout-of-replies":
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(outer, c.cfg.Timeout)
		defer cancel()
	case !sub && c.bug == "handshake-replies-have-no-timeout":
		bound = outer
		_ = l.SetWriteDeadline(time.Now().Add(c.cfg.DialTimeout))
	}
	if err := c.handshake(bound, l, sub); err != nil {
		if c.bug == "failed-handshake-leaves-connection" {
			return nil, err
		}
		_ = nc.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done && c.bug != "works-after-close" && c.bug != "sends-after-close" {
		_ = nc.Close()
		return nil, driver.ErrClosed
	}
	c.live[l] = struct{}{}
	return l, nil
}

func (c *refConn) manglesTLS(conf *tls.Config) *tls.Config {
	conf = conf.Clone()
	if conf.ServerName == "" && c.bug != "tls-has-no-name-of-the-host" {
		conf.ServerName, _, _ = net.SplitHostPort(c.cfg.Addrs[0])
	}
	switch c.bug {
	case "tls-is-not-verified":
		conf.InsecureSkipVerify = true
	case "tls-roots-are-dropped":
		conf.RootCAs = x509.NewCertPool()
	}
	return conf
}

func (c *refConn) handshake(ctx context.Context, l *link, sub bool) error {
	if c.bug == "handshake-ignores-ctx" {
		ctx = context.WithoutCancel(ctx)
		_ = l.SetDeadline(time.Now().Add(c.cfg.DialTimeout))
	}
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	user, name, db := c.cfg.Username, c.cfg.ClientName, c.cfg.DB
	if c.met.Swap(true) && c.bug == "introduces-itself-once" {
		user, name, db = "", "", 0
	}
	hello := []string{"HELLO", "3"}
	if c.cfg.Password != "" && c.bug != "no-auth" {
		if user == "" || c.bug == "drops-username" || sub && c.bug == "sub-drops-username" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, string(c.cfg.Password))
	}
	commands := [][]string{hello}
	if db != 0 && c.bug != "no-select" {
		commands = append(commands, []string{"SELECT", strconv.Itoa(db)})
	}
	if name != "" && c.bug != "no-client-name" {
		commands = append(commands, []string{"CLIENT", "SETNAME", name})
	}
	for _, args := range commands {
		if _, err := l.Write(resp.AppendCommand(nil, args...)); err != nil {
			return err
		}
		frame, err := resp.ReadFrame(l.r)
		if err != nil {
			return err
		}
		if frame[0] == '-' {
			if args[0] == "SELECT" && c.bug == "select-refused-is-ignored" {
				continue
			}
			err := fmt.Errorf("reference: handshake: %s", strings.TrimSpace(string(frame[1:])))
			switch c.bug {
			case "auth-error-shows-password":
				err = fmt.Errorf("reference: %q: %w", args, err)
			case "refused-handshake-is-for-good":
				c.mu.Lock()
				c.tripped = true
				c.mu.Unlock()
			case "handshake-error-is-reply":
				err = driver.NewServerError(strings.TrimSpace(string(frame[1:])))
			}
			return err
		}
	}
	return nil
}
