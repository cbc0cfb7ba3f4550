package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	redigoclient "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A confessional prints what it is given in every way there is, and remembers
// what showed the password.
type confessional struct {
	mu    sync.Mutex
	shown map[string]string
}

func (c *confessional) hear(what string, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T"} {
		c.judge(what+" as "+verb, fmt.Sprintf(verb, v), fmt.Sprintf(verb, []any{v}), fmt.Sprintf(verb, struct{ V any }{v}))
	}
	if text, err := json.Marshal(v); err == nil {
		c.judge(what+" as JSON", string(text))
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "v", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "v", v)
	c.judge(what+" in a log", log.String())
}

func (c *confessional) judge(what string, texts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range texts {
		for _, secret := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary))} {
			if i := strings.Index(text, secret); i >= 0 {
				c.shown[what] = text[max(0, i-60):i] + "***"
			}
		}
	}
}

// The errors of all clients' URL parsers print the password. Ours are made from a
// DSN with a mistake behind the password, and from servers that refuse in every
// way.
func TestNoPasswordIsShown(t *testing.T) {
	logged := captureStderr(t)
	dsns := map[string]string{}
	secured := servertest.Single(t, servertest.Password("right"), servertest.Config("user", "ann", "on", ">"+canary, "~*", "&*", "+@all", "-set"))
	plain := servertest.Single(t)
	down := servertest.Single(t)
	down.Kill()
	dsns["wrong password"] = "redis://:" + canary + "@" + secured.Addr
	dsns["wrong user"] = "redis://bob:" + canary + "@" + secured.Addr
	dsns["right password"] = "redis://ann:" + canary + "@" + secured.Addr
	dsns["no password wanted"] = "redis://:" + canary + "@" + plain.Addr
	dsns["no such user"] = "redis://bob:" + canary + "@" + plain.Addr
	dsns["no such database"] = "redis://ann:" + canary + "@" + secured.Addr + "/99"
	dsns["refused"] = "redis://:" + canary + "@" + down.Addr
	dsns["no TLS there"] = "rediss://:" + canary + "@" + plain.Addr + "?dial_timeout=1s&timeout=1s"
	dsns["no socket"] = "unix://:" + canary + "@" + filepath.Join(t.TempDir(), "none")
	dsns["no Sentinel"] = "redis://:" + canary + "@" + plain.Addr + "?mode=sentinel&master=m&sentinel_password=" + canary + "&dial_timeout=1s"
	dsns["Sentinel down"] = "redis://:" + canary + "@" + down.Addr + "?mode=sentinel&master=m&sentinel_password=" + canary + "&dial_timeout=1s"
	dsns["no Cluster"] = "redis://:" + canary + "@" + plain.Addr + "?mode=cluster&dial_timeout=1s"
	dsns["Cluster down"] = "redis://:" + canary + "@" + down.Addr + "?mode=cluster&dial_timeout=1s"
	// A server of before AUTH and HELLO had a user quotes what it does not know.
	quoting, quotingAddr := newWire(t, plain.Addr)
	answerUnknown(quoting)
	dsns["quotes"] = "redis://bob:" + canary + "@" + quotingAddr
	bad := []string{
		"redis://:" + canary + "@host:port/0",
		"redis://:" + canary + "@host/x",
		"redis://:" + canary + "@host?nonsense=1",
		"redis://:" + canary + "@host?timeout=x",
		"redis://:" + canary + "%zz@host",
		"redis://" + canary + "@host",
		"redis://host?mode=sentinel&sentinel_password=" + canary,
		"http://:" + canary + "@host",
		" redis://:" + canary + "@host",
		"redis://:" + canary + "/@host",
		"redis://a:" + canary + "@host?mode=cluster&db=" + canary,
		"rediss://:" + canary + "@host?tls_ca=/none/" + canary,
		"rediss://host?tls_cert=/none/" + canary + "&tls_key=/none/" + canary,
		"rediss://host?tls_key=/none/" + canary,
		"rediss://host?tls_insecure_skip_verify=" + canary,
		"redis://host/" + canary,
		"redis://" + canary + ":" + canary + "@/",
		"redis://ann:" + canary + "@host:" + canary,
		"redis://ann:" + canary + "@host?mode=" + canary,
		canary,
	}

	t.Run("all", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d driverUnderTest) {
			t.Parallel()
			c := &confessional{shown: map[string]string{}}
			for _, dsn := range bad {
				_, err := locker.Open(d.name, dsn)
				require.Error(t, err, "driver %s took a bad DSN", d.name)
				c.hear("error of Open", err)
			}
			var all sync.WaitGroup
			for what, dsn := range dsns {
				all.Go(func() { confess(t, c, d, what, dsn) })
			}
			all.Wait()
			wrapped := wrapWithPassword(t, d.name, secured.Addr)
			c.hear("wrapped Connector", wrapped)
			for what, text := range c.shown {
				assert.Fail(t, "the password is shown", "%s: %s", what, text)
			}
		})
	})
	assert.NotContains(t, logged(), canary, "something was written to standard error")
	assert.NotContains(t, said.String(), canary, "something was logged")
}

// confess has c hear all that is made of a DSN and the errors of using it.
func confess(t *testing.T, c *confessional, d driverUnderTest, what, dsn string) {
	cfg, err := driver.ParseDSN(dsn)
	if !assert.NoError(t, err, what) {
		return
	}
	c.hear("Config, "+what, cfg)
	connector, err := connectorOf(d.name, cfg)
	if err != nil {
		c.hear("error of OpenConnector, "+what, err)
		return
	}
	c.hear("Connector, "+what, connector)
	if conn, err := connector.Connect(within(t, 3*time.Second)); err == nil {
		_, err := conn.Do(within(t, 3*time.Second), driver.Command{Args: []string{"PING"}})
		c.hear("error of PING, "+what, err)
		_ = conn.Close()
		c.hear("Conn, "+what, conn)
	} else {
		c.hear("error of Connect, "+what, err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := locker.Open(d.name, dsn, locker.Logger(logger))
	if !assert.NoError(t, err, what) {
		return
	}
	m := client.Mutex("k", locker.Fenced())
	_, err = m.TryLock(within(t, 3*time.Second))
	c.hear("error of TryLock, "+what, err)
	_, err = m.Lock(within(t, 100*time.Millisecond))
	c.hear("error of Lock, "+what, err)
	c.hear("error of Close, "+what, client.Close())
	c.hear("log, "+what, log.String())
	c.hear("Client, "+what, client)
	c.hear("Mutex, "+what, m)
}

func connectorOf(name string, cfg driver.Config) (driver.Connector, error) {
	switch name {
	case "goredis":
		return goredis.Driver{}.OpenConnector(cfg)
	case "rueidis":
		return rueidis.Driver{}.OpenConnector(cfg)
	default:
		return redigo.Driver{}.OpenConnector(cfg)
	}
}

// wrapWithPassword wraps a client that has a password.
func wrapWithPassword(t *testing.T, name, addr string) driver.Connector {
	t.Helper()
	switch name {
	case "goredis":
		c := redis.NewClient(&redis.Options{Addr: addr, Username: "ann", Password: canary})
		t.Cleanup(func() { _ = c.Close() })
		return goredis.Wrap(c)
	case "rueidis":
		c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{addr}, Username: "ann", Password: canary})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return rueidis.Wrap(c)
	default:
		pool := &redigoclient.Pool{DialContext: func(ctx context.Context) (redigoclient.Conn, error) {
			return redigoclient.DialContext(ctx, "tcp", addr, redigoclient.DialUsername("ann"), redigoclient.DialPassword(canary))
		}}
		t.Cleanup(func() { _ = pool.Close() })
		return redigo.Wrap(pool)
	}
}

// captureStderr collects what is written to os.Stderr until the test ends.
func captureStderr(t *testing.T) (text func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	real := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = real
		_ = file.Close()
	})
	return func() string {
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(text)
	}
}

// answerUnknown has w answer as a server does that knows neither HELLO nor AUTH.
func answerUnknown(w *wire.Wire) {
	for _, name := range []string{"HELLO", "AUTH"} {
		w.On(wire.Match{Name: name, Times: -1},
			wire.Answer("-ERR unknown command `"+name+"`, with args beginning with: `bob`, `"+canary+"`, \r\n"))
	}
}
