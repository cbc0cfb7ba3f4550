package customdriver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A conn is one network connection. It belongs to one goroutine at a time;
// interrupt and close may be called by any.
type conn struct {
	raw net.Conn      // what the dialer returned
	nc  net.Conn      // raw, or TLS over it
	br  *bufio.Reader // reads through Read below

	timeout time.Duration // see progress; 0 means that silence is no failure
	spent   bool          // must not be used again: replies may still be under way
	alive   chan bool     // how watch ended

	mu          sync.Mutex
	interrupted bool // guards the deadline: once in the past, it stays there
}

// dial connects and greets the server, within cfg.DialTimeout. If it fails
// because ctx has ended, its error need not say so.
func dial(ctx context.Context, cfg driver.Config) (*conn, error) {
	limit := cfg.DialTimeout
	dialCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := open(dialCtx, cfg)
	if err != nil && (dialCtx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		// The deadline is ours: it must not look like the end of the caller's
		// ctx. A net.Dialer notices it a little before dialCtx does.
		err = fmt.Errorf("no connection to %s within %v", cfg.Addrs[0], limit)
	}
	return c, err
}

func open(ctx context.Context, cfg driver.Config) (*conn, error) {
	netDial := cfg.Dial
	if netDial == nil {
		netDial = new(net.Dialer).DialContext
	}
	raw, err := netDial(ctx, cfg.Network, cfg.Addrs[0])
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, nc: raw, timeout: cfg.Timeout}
	c.br = bufio.NewReader(c)
	if cfg.TLS != nil {
		t := tls.Client(raw, tlsConfig(cfg))
		if err := t.HandshakeContext(ctx); err != nil {
			c.close()
			return nil, err
		}
		c.nc = t
	}
	if err := c.greet(ctx, cfg); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// tlsConfig returns cfg.TLS with the host's name to verify where it names none.
func tlsConfig(cfg driver.Config) *tls.Config {
	conf := cfg.TLS.Clone()
	if host, _, err := net.SplitHostPort(cfg.Addrs[0]); err == nil && conf.ServerName == "" {
		conf.ServerName, _, _ = strings.Cut(host, "%") // certificates have addresses without zones
	}
	return conf
}

// greet authenticates, selects the database and names the connection, in one
// round trip.
func (c *conn) greet(ctx context.Context, cfg driver.Config) error {
	var cmds []driver.Command
	add := func(args ...string) { cmds = append(cmds, driver.Command{Args: args}) }
	switch {
	case cfg.Username != "":
		add("AUTH", cfg.Username, string(cfg.Password))
	case cfg.Password != "":
		add("AUTH", string(cfg.Password))
	}
	if cfg.DB != 0 {
		add("SELECT", fmt.Sprint(cfg.DB))
	}
	if cfg.ClientName != "" {
		add("CLIENT", "SETNAME", cfg.ClientName)
	}
	if len(cmds) == 0 {
		return nil
	}
	replies, err := c.exchange(ctx, cmds)
	if err != nil {
		return err
	}
	for i, reply := range replies {
		refusal, ok := reply.(*driver.ServerError)
		if !ok {
			continue
		}
		if cmds[i].Name() == "AUTH" {
			// A server that does not know AUTH repeats the arguments of the
			// unknown command in its error: the password.
			refusal = driver.NewServerError(refusal.Code + " (text withheld, it may repeat the password)")
		}
		return fmt.Errorf("%s: %w", cmds[i].Name(), refusal)
	}
	if c.spent {
		return ctx.Err()
	}
	return nil
}

// exchange writes cmds once and reads one reply for each. Where the connection
// breaks or ctx ends it returns the replies before that and an error; what
// happened to the other commands is unknown. Afterwards c.spent tells whether
// the connection can still be used.
func (c *conn) exchange(ctx context.Context, cmds []driver.Command) ([]driver.Value, error) {
	var request []byte
	for _, cmd := range cmds {
		request = appendCommand(request, cmd.Args)
	}
	// ctx has no deadline that the connection could share: its end moves the
	// connection's deadline into the past, and Read and Write return.
	stop := context.AfterFunc(ctx, c.interrupt)
	defer func() {
		if !stop() {
			c.spent = true // interrupt runs now or soon
		}
	}()

	var writer sync.WaitGroup
	defer writer.Wait()
	if len(cmds) == 1 {
		_ = c.write(request)
	} else {
		// Beside the reader: a server that cannot get rid of its replies
		// stops reading, and both sides would wait for one another.
		writer.Go(func() { _ = c.write(request) })
	}

	replies := make([]driver.Value, 0, len(cmds))
	for range cmds {
		reply, err := readReply(c.br)
		if err != nil {
			c.spent = true
			c.interrupt() // the writer
			return replies, fmt.Errorf("no reply: %w", err)
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// write writes a request. A write that fails has no reply, which is what the
// reader reports: how much of it arrived cannot be known.
func (c *conn) write(request []byte) error {
	for chunk := range slices.Chunk(request, 64<<10) {
		c.progress()
		if _, err := c.nc.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader for c.br.
func (c *conn) Read(p []byte) (int, error) {
	c.progress()
	return c.nc.Read(p)
}

// progress gives the peer another timeout to answer. It is called before every
// read and write, so that the timeout bounds silence and not the time that a
// large value takes.
func (c *conn) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return
	}
	var deadline time.Time
	if c.timeout > 0 {
		deadline = time.Now().Add(c.timeout)
	}
	c.nc.SetDeadline(deadline)
}

// interrupt makes reads and writes return, those under way and all later ones.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	c.nc.SetDeadline(time.Unix(1, 0))
}

// watch waits, while c is idle, for the only thing that can happen: that the
// server closes the connection. Anything it says unasked is as bad, because it
// would be taken for the reply to the next command.
func (c *conn) watch() {
	timeout := c.timeout
	c.timeout = 0
	c.alive = make(chan bool, 1)
	go func() {
		_, err := c.br.Peek(1)
		alive := errors.Is(err, os.ErrDeadlineExceeded) // wake did that
		if !alive {
			c.close()
		}
		c.timeout = timeout
		c.alive <- alive
	}()
}

// wake ends watch and reports whether the connection can be used.
func (c *conn) wake() bool {
	c.interrupt()
	if !<-c.alive {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = false
	return true
}

// close closes the connection below TLS, whose own Close would wait for a dead
// peer to take its farewell.
func (c *conn) close() { c.raw.Close() }
