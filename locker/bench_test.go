package locker

import (
	"context"
	"testing"

	"github.com/golocker/golocker/locker/driver"
)

// instant is a deployment that costs nothing: what is measured is the core.
type instant struct{ driver.Conn }

func (instant) Driver() driver.Driver                          { return nil }
func (c instant) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (instant) Close() error                                   { return nil }
func (instant) Do(_ context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.Name() == "SET" {
		return "OK", nil
	}
	return int64(1), nil
}

func BenchmarkPair(b *testing.B) {
	c, err := New(instant{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	benchmarkPair(b, c)
}

func benchmarkPair(b *testing.B, c *Client) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := c.Mutex("orders:42").Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// What observers cost: nothing where there is none, which is BenchmarkPair.
func BenchmarkPairObserved(b *testing.B) {
	c, err := New(instant{}, Observe(Observer{
		LockStart: func(ctx context.Context, _ LockStart) context.Context { return ctx },
		LockEnd:   func(context.Context, LockEnd) {},
		HoldEnd:   func(context.Context, HoldEnd) {},
	}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	benchmarkPair(b, c)
}

// instantNode says yes to whoever wants the lock.
type instantNode struct {
	instant
	id string
}

func (c instantNode) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{RunID: c.id}, nil
}

func (c instantNode) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c instantNode) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if cmd.Args[1] == mutexFamily.acquire.sha() {
		return []any{int64(1), cmd.Args[len(cmd.Args)-4]}, nil
	}
	return c.instant.Do(ctx, cmd)
}

func BenchmarkPairOnQuorum(b *testing.B) {
	c, err := NewQuorum([]driver.Connector{
		instantNode{id: "a"}, instantNode{id: "b"}, instantNode{id: "c"}, instantNode{id: "d"}, instantNode{id: "e"},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	benchmarkPair(b, c)
}
