// Catalogue guards a catalogue, which consists of two files that must fit each other, by
// a read-write lock: eight readers use it all the time, and an editor rebuilds it now and
// then.
//
//	go run ./examples/catalogue
//	go run ./examples/catalogue -driver redigo -url redis://localhost:6379/0
//
// Without a lock, a reader that comes while one file is new and the other old reads what
// never was. A mutex would help, and make readers wait for each other for nothing.
// [rwlock.Lock] lets readers in together and the editor alone:
//
//   - A reader that comes while the editor waits stands behind it. So the editor gets its
//     turn although there is no moment without a reader.
//   - Each reader has a lease of its own: one that crashes delays the editor by what is
//     left of it, set by [locker.ReadTTL], and not for as long as others read.
//   - When the files are written, [locker.Lease.Downgrade] turns the editor into a
//     reader: it verifies its work while the others read it already, and knows that no
//     other editor has been at it in between.
//
// A read-write lock costs each reader two requests. It pays where reading takes longer
// than that; for one small value, a version number is enough.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

const (
	hosts    = 3
	readers  = 8
	editions = 5
	page     = 2 * time.Millisecond // to read or write a file
)

var program = demo.Program{
	Name:  "catalogue",
	Title: fmt.Sprintf("%d readers, one editor", readers),
	TTL:   10 * time.Second,
	Play:  play,
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	clients, err := s.Hosts(hosts)
	if err != nil {
		return err
	}
	for _, locked := range []bool{false, true} {
		c, err := newCatalogue(s)
		if err != nil {
			return err
		}
		guards := make([]guard, hosts)
		for i, client := range clients {
			guards[i] = unguarded{}
			if locked {
				guards[i] = guarded{rwlock.New(client, "catalogue", locker.ReadTTL(s.TTL/2))}
			}
		}
		if err := c.use(ctx, guards); err != nil {
			return err
		}
		name := map[bool]string{false: "no lock:", true: "read-write lock:"}[locked]
		s.Say("%-16s %4d reads, up to %d at a time, %3d of a catalogue that never was; the editor waited %v at most",
			name, c.reads.Load(), c.crowd.Load(), c.torn.Load(), time.Duration(c.waited.Load()).Round(time.Millisecond))
		if locked {
			s.Promise(c.torn.Load() == 0, "every reader saw the two files of one edition")
			s.Promise(c.crowd.Load() > 1, "readers did not wait for each other")
			s.Promise(c.written == editions, "%d of %d editions came out while others never stopped to read", c.written, editions)
		}
	}
	return nil
}

// A guard keeps readers and the editor apart.
type guard interface {
	Read(ctx context.Context, read func(context.Context) error) error
	// Edit runs edit alone, and then verify like a reader.
	Edit(ctx context.Context, edit, verify func(context.Context) error) error
}

type unguarded struct{}

func (unguarded) Read(ctx context.Context, read func(context.Context) error) error { return read(ctx) }

func (unguarded) Edit(ctx context.Context, edit, verify func(context.Context) error) error {
	return errors.Join(edit(ctx), verify(ctx))
}

type guarded struct{ lock *rwlock.Lock }

func (g guarded) Read(ctx context.Context, read func(context.Context) error) error {
	return g.lock.RDo(ctx, read)
}

func (g guarded) Edit(ctx context.Context, edit, verify func(context.Context) error) error {
	return g.lock.Do(ctx, func(alone context.Context) error {
		if err := edit(alone); err != nil {
			return err
		}
		writing, _ := locker.FromContext(alone)
		reading, err := writing.Downgrade(alone)
		if err != nil {
			return err
		}
		return reading.Do(ctx, verify) // alone has ended with the writing
	})
}

// A catalogue is two files with the number of the edition in each.
type catalogue struct {
	products, index string // paths
	written         int

	reads, torn   atomic.Int64
	inside, crowd atomic.Int64 // readers now, and at most
	waited        atomic.Int64 // nanoseconds, the editor, at most
}

func newCatalogue(s *demo.Stage) (*catalogue, error) {
	products, err := s.Journal()
	if err != nil {
		return nil, err
	}
	index, err := s.Journal()
	return &catalogue{products: string(products), index: string(index)}, err
}

// use lets readers read until the editor has brought out all editions.
func (c *catalogue) use(ctx context.Context, guards []guard) error {
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	results := make(chan error, readers)
	for i := range readers {
		go func() {
			g := guards[i%len(guards)]
			for ctx.Err() == nil {
				if err := g.Read(context.WithoutCancel(ctx), c.read); err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	err := c.publish(ctx, guards[0])
	finish()
	for range readers {
		err = errors.Join(err, <-results)
	}
	return err
}

func (c *catalogue) publish(ctx context.Context, g guard) error {
	for range editions {
		asked := time.Now()
		edit := func(ctx context.Context) error {
			c.waited.Store(max(c.waited.Load(), int64(time.Since(asked))))
			return c.write(ctx)
		}
		if err := g.Edit(ctx, edit, c.read); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // until the next edition
	}
	return nil
}

// write writes the next edition, one file after the other.
func (c *catalogue) write(ctx context.Context) error {
	edition := []byte(fmt.Sprintf("edition %d", c.written+1))
	for _, path := range []string{c.products, c.index} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := os.WriteFile(path, edition, 0o600); err != nil {
			return err
		}
		time.Sleep(page)
	}
	c.written++
	return nil
}

// read reads both files, and counts if they are of different editions.
func (c *catalogue) read(context.Context) error {
	n := c.inside.Add(1)
	defer c.inside.Add(-1)
	for most := c.crowd.Load(); n > most && !c.crowd.CompareAndSwap(most, n); {
		most = c.crowd.Load()
	}
	products, err := os.ReadFile(c.products)
	if err != nil {
		return err
	}
	time.Sleep(page)
	index, err := os.ReadFile(c.index)
	if err != nil {
		return err
	}
	c.reads.Add(1)
	if string(products) != string(index) {
		c.torn.Add(1)
	}
	return nil
}
