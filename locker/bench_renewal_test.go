package locker

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// renewing is a deployment that renews everything at once, and counts it.
type renewing struct {
	instant
	leases   *atomic.Int64
	requests *atomic.Int64
}

func (c renewing) Connect(context.Context) (driver.Conn, error) { return c, nil }

func (renewing) Describe(context.Context) (driver.Topology, error) { return driver.Topology{}, nil }

func (c renewing) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	n := renewals(cmd)
	c.leases.Add(int64(n))
	if n > 0 {
		c.requests.Add(1)
	}
	if n < 2 {
		return c.instant.Do(ctx, cmd)
	}
	list := make([]any, n)
	for i := range list {
		list[i] = int64(1)
	}
	return list, nil
}

// BenchmarkRenewals is what the core spends on the renewal of each of 100 000 leases, and
// what memory a lease takes, with the Mutex that it was taken by.
func BenchmarkRenewals(b *testing.B) {
	const n = 100_000
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	conn := renewing{leases: &atomic.Int64{}, requests: &atomic.Int64{}}
	c, err := New(conn, TTL(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	leases := make([]*Lease, n)
	before := heap()
	for i := range leases {
		if leases[i], err = c.Mutex(fmt.Sprint("held:", i)).Lock(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	memory := (heap() - before) / n
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		// Those that are due next come in random order, as they do in life.
		t := leases[i*7919%n].tenure
		i++
		t.mu.Lock()
		t.renewAt = monoTimeOf(time.Now())
		t.plan()
		t.mu.Unlock()
		for int64(i)-conn.leases.Load() > 8*batchSize {
			runtime.Gosched()
		}
	}
	for conn.leases.Load() < int64(i) {
		runtime.Gosched()
	}
	b.ReportMetric(memory, "B/lease")
	b.ReportMetric(float64(conn.leases.Load())/float64(conn.requests.Load()), "leases/request")
	runtime.KeepAlive(leases)
}
