package conformance

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// silentCases: no error text shows a password.
var silentCases = []testCase{
	{name: "Silent/WrongPassword", run: func(k *kit) {
		if k.server.memory == nil && k.credentials().password == "" {
			k.Skipf("the server asks for no password")
		}
		const wrong = "wr0ng-pa55word"
		conn, err := k.connector(func(c *driver.Config) { c.Password = wrong }).Connect(k.ctx)
		if err == nil {
			k.closeLater(conn)
			ctx, cancel := k.within(k.time.bound)
			defer cancel()
			_, err = k.do(ctx, conn, cmd("GET", k.key("s")))
		}
		if err == nil {
			k.Errorf("a wrong password was accepted")
		}
		k.hides(err, wrong)
	}},
	{name: "Silent/Faults", run: func(k *kit) {
		// Every text is checked by the kit; here are those most likely to show
		// how a connection is made.
		pw := func(c *driver.Config) {
			if c.Password == "" {
				c.Password = canary
			}
		}
		for _, fault := range []func(){
			func() { k.wire.Refuse(true) },
			func() { k.wire.Refuse(false); k.wire.HangDials() },
			func() {
				k.wire.ResumeDials()
				k.wire.On(wire.Match{Times: -1}, wire.Answer("-ERR not today\r\n"))
			},
		} {
			fault()
			ctx, cancel := k.within(k.time.short)
			conn, err := k.connector(pw).Connect(ctx)
			if err == nil {
				k.closeLater(conn)
				_, err = k.do(ctx, conn, cmd("GET", k.key("s")))
			}
			cancel()
			k.hides(err, string(k.config(pw).Password))
		}
	}},
	{name: "Silent/Printed", run: func(k *kit) {
		// Applications hold Connectors, and print what they hold. Package fmt calls no method of a
		// Config that is in an unexported field. (A Conn is in use by other goroutines.)
		const password = "pr1nted-pa55word"
		c := k.connector(func(c *driver.Config) { c.Password, c.SentinelPassword = password, password })
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(verb, c)
			if strings.Contains(text, password) || strings.Contains(text, hex.EncodeToString([]byte(password))) {
				k.Errorf("the Connector shows the password when it is printed by %s: keep the Config in a function, as driver.NewConnector does", verb)
			}
		}
	}},
	{name: "Silent/OpenConnector", run: func(k *kit) {
		// Configurations that no driver can use: whatever it says about them,
		// it does not say the password.
		for _, edit := range []func(*driver.Config){
			func(c *driver.Config) { c.Addrs = nil },
			func(c *driver.Config) { c.Addrs = []string{"no port"} },
			func(c *driver.Config) { c.Addrs = []string{"\x00:6379"} },
			func(c *driver.Config) { c.Network = "carrier-pigeon" },
			func(c *driver.Config) { c.Mode, c.DB = driver.ModeCluster, 7 },
			func(c *driver.Config) { c.Mode, c.Master = driver.ModeSentinel, "" },
			func(c *driver.Config) { c.Mode = driver.Mode(99) },
		} {
			cfg := k.config(edit)
			cfg.Password, cfg.SentinelPassword = "unu5ual-pa55word", "unu5ual-pa55word"
			c, err := k.h.Open(cfg)
			if err == nil && c == nil {
				k.Errorf("OpenConnector gave neither a Connector nor an error")
			}
			k.hides(err, "unu5ual-pa55word")
		}
	}},
}
