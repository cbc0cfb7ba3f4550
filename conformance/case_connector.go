package conformance

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// connectorCases: opening does nothing, connecting can be repeated, and the
// Config is honoured.
var connectorCases = []testCase{
	{name: "Connector/NoIO", run: func(k *kit) {
		k.connector()
		if n := k.wire.Dials(); n != 0 {
			k.Errorf("OpenConnector dialed %d times; it does no I/O", n)
		}
	}},
	{name: "Connector/Driver", run: func(k *kit) {
		if k.connector().Driver() == nil {
			k.Errorf("Connector.Driver gave nil; want the driver that the connector belongs to")
		}
	}},
	{name: "Connector/ConnectAgain", run: func(k *kit) {
		c := k.connector()
		k.wire.Refuse(true)
		if conn := k.connectMaybe(c); conn != nil {
			ctx, cancel := k.within(k.time.short)
			defer cancel()
			if _, err := k.do(ctx, conn, cmd("GET", k.key("s"))); err == nil {
				k.Errorf("Do succeeded although every dial is refused")
			}
		}
		k.wire.Refuse(false)
		k.recovers(k.connect(c))
	}},
	{name: "Connector/Concurrent", run: func(k *kit) {
		// Who connects beside others has a Conn of its own.
		c := k.connector()
		conns := make([]driver.Conn, 8)
		k.parallel(len(conns), func(i int) {
			conns[i] = k.connect(c)
			k.reply(conns[i], plain("ECHO", k.prefix), k.prefix)
		})
		if k.failed() {
			return
		}
		_ = k.shut(conns[0])
		for _, conn := range conns[1:] {
			k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		}
	}},
	{name: "Connector/GivenUp", run: func(k *kit) {
		// A Conn that a constructor brings when nobody waits for it any more is closed.
		c := k.connector()
		for _, newCtx := range []ctxMaker{deadlineAfter, cancelAfter} {
			k.wire.HangDials()
			ctx, cancel := newCtx(k)
			conn, err := c.Connect(ctx)
			<-ctx.Done()
			cancel()
			k.checkText(err)
			k.wire.ResumeDials()
			time.Sleep(k.time.pause)       // so that no connection counts as closed that is yet to come
			if err == nil && conn != nil { // the driver dials when it likes
				_ = k.shut(conn)
				continue
			}
			if !k.eventually(k.time.settle, func() bool { return k.wire.Open() == 0 }) {
				k.Errorf("%d connections are open of a Connect whose ctx ended while it dialed (it gave %v), and there is no Conn to close: they must not stay", k.wire.Open(), err)
			}
		}
	}},
	{name: "Config/Auth", run: func(k *kit) {
		if k.credentials().password == "" {
			k.Skipf("the server asks for no password")
		}
		k.reply(k.open(), plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Config/Username", run: func(k *kit) {
		// The password is the user's, and nobody else's.
		as := k.user("on", "~*", "&*", "+@all")
		conn := k.open(as)
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		k.wire.KillAll() // new connections are of the same user
		k.recovers(conn)
		for _, fault := range []func(){func() { k.refuseHandshakes() }, func() { k.wire.Refuse(true) }} {
			fault()
			k.wire.KillAll()
			for range 3 { // no error shows that password either
				ctx, cancel := k.within(k.time.short)
				_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
				cancel()
			}
		}
	}},
	{name: "Config/DB", run: func(k *kit) {
		conn := k.open(func(c *driver.Config) { c.DB = 1 })
		k.must(conn, cmd("SET", k.key("s"), "x", "PX", "60000"))
		if got := k.direct("GET", k.key("s")); got != nil {
			k.Errorf("the driver ignores Config.DB: what it wrote is in database 0")
		}
		k.wire.KillAll() // new connections select the database again
		k.recovers(conn)
		k.reply(conn, cmd("DEL", k.key("s")), int64(1))
	}},
	{name: "Config/DB/Refused", run: func(k *kit) {
		// A server that does not have as many databases as the one before it: a client that goes
		// on all the same has its locks in database 0, where the others do not look for them.
		conn := k.open(func(c *driver.Config) { c.DB = 1 })
		k.must(conn, cmd("GET", k.key("n")))
		k.wire.On(wire.Match{Name: "SELECT", Times: -1}, wire.Answer("-ERR DB index is out of range\r\n"))
		k.wire.KillAll()
		k.notLetIn("Do whose SELECT was refused", conn, k.doOne)
		if conn := k.connectMaybe(k.connector(func(c *driver.Config) { c.DB = 1 })); conn != nil {
			k.notLetIn("Do whose SELECT was refused", conn, k.doOne)
		}
		if n := k.wire.Count(wire.Match{Name: "INCR"}); n != 0 {
			k.never("a command was written %d times, into another database than that of the Config, whose SELECT was refused", n)
		}
	}},
	{name: "Config/ClientName", run: func(k *kit) {
		conn := k.open(func(c *driver.Config) { c.ClientName = "conformance-test" })
		k.reply(conn, plain("CLIENT", "GETNAME"), "conformance-test")
		k.wire.KillAll() // and new connections have the name
		k.recovers(conn)
		k.reply(conn, plain("CLIENT", "GETNAME"), "conformance-test")
	}},
	{name: "Config/Network", run: func(k *kit) {
		// An application that makes a Config without ParseDSN may leave Network out.
		c, err := k.h.Open(k.config(func(c *driver.Config) { c.Network = "" }))
		if err != nil {
			k.Fatalf("OpenConnector of a Config without Network, which means tcp, gave %v", err)
		}
		k.reply(k.connect(c), plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Config/IPv6", run: func(k *kit) {
		conn := k.open(k.onlyAt("tcp", "[2001:db8::1]:6379"))
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Config/Unix", run: func(k *kit) {
		conn := k.open(k.unixSocket())
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Config/TLS", run: func(k *kit) {
		// A server that hangs up, whatever it is told. What it is told first is a
		// handshake, and nothing is ever told in the clear.
		server := k.eavesdrop()
		// Several servers may share one such tls.Config. Then the driver has to say which name a
		// certificate must have, as it has to where a data source name does not say it.
		shared := &tls.Config{MinVersion: tls.VersionTLS12}
		c := k.connector(server.edit, func(c *driver.Config) { c.TLS = shared })
		var last error
		for range 3 {
			ctx, cancel := k.within(k.time.bound)
			conn, err := c.Connect(ctx)
			if err == nil {
				_, err = k.do(ctx, conn, cmd("GET", k.key("n")))
				_ = k.shut(conn)
			}
			cancel()
			k.checkText(err)
			if err == nil {
				k.Errorf("Do succeeded although the TLS handshake fails")
			}
			k.notReplied("Do whose TLS handshake fails", err)
			last = err
		}
		server.heardTLS(last)
		if shared.ServerName != "" {
			k.Errorf("the driver has set the ServerName of the Config's TLS to %q: another server may have the same *tls.Config, so that it takes a Clone", shared.ServerName)
		}
	}},
	{name: "Config/TLS/Hung", run: func(k *kit) {
		// A server that takes what a client sends of a handshake, and says nothing.
		server := k.eavesdropInSilence()
		c := k.connector(server.edit, encrypted)
		for _, newCtx := range []ctxMaker{cancelAfter, deadlineAfter} {
			ctx, cancel := newCtx(k)
			k.promptCall(ctx, "Connect and Do, the TLS handshake unanswered,", func() error { return k.connectAndDo(ctx, c, k.doOne) })
			cancel()
		}
		c = k.connector(server.edit, encrypted, shortDials)
		var last error
		k.endsEarly("Connect and Do with a short Config.DialTimeout, the TLS handshake unanswered,",
			func() error { last = k.connectAndDo(k.ctx, c, k.doOne); return last })
		server.heardTLS(last)
	}},
	{name: "Config/TLS/Verify", run: func(k *kit) {
		if k.realTime() {
			k.Skipf("the wire cannot read TLS; in a bubble Config.Dial puts a server with TLS before it")
		}
		cert, roots := k.certify(serverName)
		forged, _ := k.certify(serverName)
		misnamed, itsRoots := k.certify("other.invalid")
		for whose, edit := range map[string]func(*driver.Config){
			"another authority": overTLS(forged, roots), "another name": overTLS(misnamed, itsRoots),
		} {
			conn := k.connectMaybe(k.connector(edit))
			if conn == nil {
				continue
			}
			k.notLetIn("Do with a server whose certificate is of "+whose, conn, k.doOne)
			if k.h.Capabilities.Subscriber {
				ctx, cancel := k.within(k.time.short)
				if sub, err := k.subscription(ctx, conn); err == nil {
					_ = sub.Add(ctx, k.channel("a"))
				}
				cancel()
			}
			if n := k.wire.Count(wire.Match{}); n != 0 {
				k.Errorf("a server whose certificate is of %s was told %d commands", whose, n)
			}
			_ = k.shut(conn)
		}
		conn := k.open(overTLS(cert, roots))
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		if k.h.Capabilities.Subscriber {
			sub := k.subscribe(conn, k.channel("a"))
			k.publish(k.channel("a"), "x")
			k.receive(sub, k.channel("a"), "x")
		}
	}},
	{name: "Config/Timeout", run: func(k *kit) {
		// A reply that takes less than the timeout is waited for.
		conn := k.warm(func(c *driver.Config) { c.Timeout = 4 * k.time.reply })
		k.wire.On(wire.Match{Name: "ECHO"}, wire.Delay(4*k.time.reply*6/10))
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Config/Timeout/Short", run: func(k *kit) {
		conn := k.warm(func(c *driver.Config) { c.Timeout = shortTimeout })
		k.wire.On(wire.Match{Name: "INCR"}, wire.Silence)
		k.endsEarly("Do with a short Config.Timeout, the server silent", func() error {
			_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
			return err
		})
	}},
	{name: "Config/Timeout/Default", run: func(k *kit) {
		// An application that makes a Config leaves the timeouts out as a rule, as most data
		// source names do.
		if k.realTime() {
			k.Skipf("it takes the default timeouts")
		}
		conn := k.warm(func(c *driver.Config) { c.Timeout, c.DialTimeout = 0, 0 })
		k.wire.On(wire.Match{Name: "INCR"}, wire.Silence)
		k.bounded("Do without a deadline, the Config without timeouts and the server silent,", func() error {
			_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
			return err
		})
		k.wire.HangDials()
		k.wire.KillAll()
		for range 2 { // the first may be for a connection that is gone
			k.bounded("Do without a deadline, the Config without timeouts and dialing hangs,", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				return err
			})
		}
	}},
	{name: "Config/DialTimeout/Short", run: func(k *kit) {
		conn := k.warm(shortDials, greeting)
		k.wire.HangDials()
		k.wire.KillAll()
		for range 3 { // the first may be for a connection that is gone
			k.endsEarly("Do with a short Config.DialTimeout, dialing hangs", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				return err
			})
		}
	}},
	{name: "Config/DialTimeout/Handshake", run: func(k *kit) {
		// The server accepts connections and says nothing, ever.
		k.wire.On(wire.Match{Times: -1}, wire.BlackHole)
		k.endsEarly("Connect and Do with a short Config.DialTimeout, the handshake unanswered,",
			func() error { return k.connectAndDo(k.ctx, k.connector(shortDials, greeting), k.doOne) })
	}},
}

// unixSocket makes a Config of the server's socket.
func (k *kit) unixSocket() func(*driver.Config) {
	return k.onlyAt("unix", "/run/conformance/server.sock")
}

// onlyAt makes a Config of an address of the server, to which the driver must connect and
// nowhere else.
func (k *kit) onlyAt(network, addr string) func(*driver.Config) {
	if k.realTime() {
		k.Skipf("it is seen by what Config.Dial is given")
	}
	return func(c *driver.Config) {
		c.Network, c.Addrs = network, []string{addr}
		c.Dial = func(ctx context.Context, n, a string) (net.Conn, error) {
			if n != network || a != addr {
				k.Errorf("Config.Dial was called with %q and %q; want %q and %q, as the Config has them", n, a, network, addr)
			}
			return k.wire.Dial(ctx, n, a)
		}
	}
}

// shortTimeout is a timeout that ends long before the defaults of a Config; earlyEnd is short
// of those defaults, too.
const shortTimeout, earlyEnd = 500 * time.Millisecond, 4 * time.Second

// shortDials makes a Config bound connecting by a short timeout, and a reply by one that is of no use here.
func shortDials(c *driver.Config) { c.DialTimeout, c.Timeout = shortTimeout, 2*earlyEnd }

// greeting makes a Config whose connections begin with something to be answered, also where the
// server asks for no password. A listener of the kernel accepts even a dial that is to hang, and without
// a handshake the first thing that waits is the command, for the timeout of replies.
func greeting(c *driver.Config) {
	if c.Password == "" {
		c.ClientName = "conformance-test"
	}
}

// endsEarly checks that a call without a deadline ends by a short timeout of the Config, and not
// by another timeout of the Config, nor by the client's own.
func (k *kit) endsEarly(what string, call func() error) {
	start := time.Now()
	k.bounded(what, call)
	if took := time.Since(start); took > earlyEnd {
		k.Errorf("%s took %v; want little more than the %v of the Config", what, took, shortTimeout)
	}
}
