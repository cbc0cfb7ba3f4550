package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// A driver for an imaginary client. A real one has a client in place of the
// map, and nothing else is different.
type memoryDriver struct{}

var _ driver.Driver = memoryDriver{}

func (memoryDriver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if err := cfg.Check(driver.ModeSingle); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return driver.NewConnector(memoryDriver{}, func(context.Context) (driver.Conn, error) {
		return &memoryConn{data: map[string]string{}}, nil
	}), nil
}

type memoryConn struct{ data map[string]string }

var (
	_ driver.Conn      = (*memoryConn)(nil)
	_ driver.Describer = (*memoryConn)(nil)
)

func (c *memoryConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	switch cmd.Name() {
	case "SET":
		c.data[cmd.Args[1]] = cmd.Args[2]
		return "OK", nil
	case "GET":
		if value, ok := c.data[cmd.Args[1]]; ok {
			return value, nil
		}
		return nil, nil
	default:
		return nil, driver.NewServerError("ERR unknown command")
	}
}

func (c *memoryConn) Close() error { return nil }

func (c *memoryConn) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{Mode: driver.ModeSingle, RunID: "1"}, nil
}

func ExampleDriver() {
	ctx := context.Background()
	cfg, err := driver.ParseDSN("redis://localhost")
	if err != nil {
		fmt.Println(err)
		return
	}
	connector, err := memoryDriver{}.OpenConnector(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for _, args := range [][]string{{"SET", "k", "v"}, {"GET", "k"}, {"GET", "none"}, {"FLY"}} {
		value, err := conn.Do(ctx, driver.Command{Args: args})
		fmt.Println(value, err)
	}
	// Output:
	// OK <nil>
	// v <nil>
	// <nil> <nil>
	// <nil> ERR unknown command
}

func ExampleParseDSN() {
	cfg, err := driver.ParseDSN("rediss://bob:s3cret@one.example,two.example/0?mode=cluster&timeout=2s")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg)
	fmt.Println(cfg.Mode, cfg.Addrs, cfg.Timeout, cfg.TLS != nil)

	_, err = driver.ParseDSN("redis://one.example,two.example")
	fmt.Println(err)
	// Output:
	// rediss://bob:REDACTED@one.example:6379,two.example:6379/0?mode=cluster&timeout=2s
	// cluster [one.example:6379 two.example:6379] 2s true
	// driver: invalid DSN: there are several hosts for one server: keep one, or add mode=sentinel or mode=cluster
}

func ExampleSecret() {
	password := driver.Secret("s3cret")
	fmt.Printf("%v %+v %q\n", password, password, password)
	fmt.Println(len(string(password)))
	// Output:
	// REDACTED REDACTED "REDACTED"
	// 6
}

func ExampleCommand() {
	cmd := driver.Command{
		Args:     []string{"EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff831", "1", "orders:42", "secret argument"},
		FirstKey: 3,
		NumKeys:  1,
	}
	fmt.Println(cmd, cmd.Keys(), driver.Slot(cmd.Keys()[0]))
	// Output: EVALSHA[4 args] [orders:42] 11414
}

func ExampleOutcomeOf() {
	lost := errors.New("connection reset while the reply was due")
	for _, err := range []error{
		driver.NewServerError("WRONGTYPE Operation against a key holding the wrong kind of value"),
		driver.NotSent(errors.New("connection refused")),
		lost,
	} {
		var outcome driver.Outcome = driver.OutcomeOf(err)
		fmt.Println(outcome)
	}
	// Output:
	// replied
	// not sent
	// unknown
}

func ExampleServerError() {
	err := fmt.Errorf("taking the lock: %w", driver.NewServerError("NOSCRIPT No matching script."))
	if reply, ok := errors.AsType[*driver.ServerError](err); ok {
		fmt.Println(reply.Code)
	}
	// Output: NOSCRIPT
}

func ExampleDoBatch() {
	conn := &memoryConn{data: map[string]string{"a": "1"}} // no Batcher: one after another
	for _, result := range driver.DoBatch(context.Background(), conn, []driver.Command{
		{Args: []string{"GET", "a"}, FirstKey: 1, NumKeys: 1},
		{Args: []string{"GET", "b"}, FirstKey: 1, NumKeys: 1},
	}) {
		fmt.Println(result.Value, result.Err)
	}
	// Output:
	// 1 <nil>
	// <nil> <nil>
}

// tracer prints every command. It keeps no optional interface of the Conn
// inside, so that no command goes around it.
type tracer struct {
	driver.Wrapper
	out *strings.Builder
}

func (t tracer) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	value, err := t.Wrapper.Do(ctx, cmd)
	fmt.Fprintln(t.out, cmd, err)
	return value, err
}

func ExampleWrapper() {
	var out strings.Builder
	conn := tracer{driver.Wrapper{Conn: &memoryConn{data: map[string]string{}}}, &out}
	_, _ = conn.Do(context.Background(), driver.Command{Args: []string{"GET", "k"}, FirstKey: 1, NumKeys: 1})
	fmt.Print(out.String())
	_, ok := driver.Conn(conn).(driver.Describer)
	fmt.Println("describes:", ok)
	// Output:
	// GET[1 args] <nil>
	// describes: false
}

// counter counts the commands of batches, and keeps batches: it is a Batcher itself.
type counter struct {
	driver.Wrapper
	commands int
}

var _ driver.Batcher = (*counter)(nil)

func (c *counter) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	c.commands += len(cmds)
	return driver.DoBatch(ctx, c.Conn, cmds)
}

func ExampleBatcher() {
	conn := &counter{Wrapper: driver.Wrapper{Conn: &memoryConn{data: map[string]string{}}}}
	driver.DoBatch(context.Background(), conn, make([]driver.Command, 3))
	fmt.Println(conn.commands)
	// Output: 3
}

// A Config's DialFunc opens every connection: through a tunnel, or in tests through one
// that can fail.
func ExampleDialFunc() {
	var dial driver.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return nil, errors.New("the tunnel is closed")
	}
	cfg := driver.Config{Addrs: []string{"redis.internal:6379"}, Dial: dial}.WithDefaults()
	_, err := cfg.Dial(context.Background(), cfg.Network, cfg.Addrs[0])
	fmt.Println(err)
	// Output: the tunnel is closed
}

// A subscription whose connection breaks after the first message.
type shortSubscription struct{ driver.Subscription }

var _ driver.Listener = shortSubscription{}

func (shortSubscription) Listen(_ context.Context, hear func(driver.Message, error)) error {
	hear(driver.Message{Channel: "news", Payload: "hello"}, nil)
	hear(driver.Message{}, driver.ErrGap) // reconnected
	return driver.ErrClosed
}

func ExampleListen() {
	err := driver.Listen(context.Background(), shortSubscription{}, func(m driver.Message, gap error) {
		fmt.Printf("%q %v\n", m.Payload, gap)
	})
	fmt.Println(err)
	// Output:
	// "hello" <nil>
	// "" driver: messages may have been missed
	// driver: closed
}

// How the core listens: what it learns is a hint, and a gap means to look for
// itself.
func ExampleSubscription() {
	listen := func(ctx context.Context, conn driver.Conn, channel string, look func()) error {
		subscriber, ok := conn.(driver.Subscriber)
		if !ok {
			return fmt.Errorf("listening: %w", driver.ErrUnsupported)
		}
		sub, err := subscriber.Subscribe(ctx)
		if err != nil {
			return err
		}
		defer sub.Close()
		if err := sub.Add(ctx, channel); err != nil {
			return err
		}
		for {
			switch _, err := sub.Receive(ctx); {
			case err == nil, errors.Is(err, driver.ErrGap):
				look()
			default:
				return err
			}
		}
	}
	err := listen(context.Background(), &memoryConn{}, "wake", func() {})
	fmt.Println(err)
	// Output: listening: driver: not supported
}

func ExampleDescriber() {
	var conn driver.Conn = &memoryConn{}
	if describer, ok := conn.(driver.Describer); ok {
		topology, err := describer.Describe(context.Background())
		fmt.Println(topology.Mode, topology.RunID, err)
	}
	// Output: single 1 <nil>
}
