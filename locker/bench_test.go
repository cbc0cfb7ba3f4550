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
