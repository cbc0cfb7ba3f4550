package rueidis

import (
	"context"
	"slices"
	"sync"

	rue "github.com/redis/rueidis"
)

// A dedicator takes dedicated connections from a client, one after the other. Dedicate
// has no ctx, and waits for as long as the application has all of its BlockingPoolSize
// in use: what a caller has given up cannot be taken back, so the next one waits for
// what comes of it. The zero dedicator is ready for use.
type dedicator struct {
	mu      sync.Mutex
	waiting []chan<- rue.DedicatedClient // in order of arrival; each has room for one
	asking  bool                         // a Dedicate is under way
}

// take returns a dedicated connection, or ctx's error when that ends. Whether the
// connection works is not known yet.
func (d *dedicator) take(ctx context.Context, client rue.Client) (rue.DedicatedClient, error) {
	mine := make(chan rue.DedicatedClient, 1)
	d.enter(mine, client)
	select {
	case got := <-mine:
		return got, nil
	case <-ctx.Done():
		d.leave(mine)
		return nil, ctx.Err()
	}
}

func (d *dedicator) enter(mine chan<- rue.DedicatedClient, client rue.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, mine)
	if !d.asking {
		d.asking = true
		go d.ask(client)
	}
}

// leave ends what has come at the same moment.
func (d *dedicator) leave(mine chan rue.DedicatedClient) {
	d.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(c chan<- rue.DedicatedClient) bool { return c == mine })
	d.mu.Unlock()
	select {
	case got := <-mine:
		go got.Close()
	default:
	}
}

// ask serves those who wait, until there are none. What nobody wants is closed: before
// rueidis takes a connection back it sends commands, and may panic at the replies of a server
// that is busy, see probe.
func (d *dedicator) ask(client rue.Client) {
	for {
		got, _ := client.Dedicate()
		wanted, more := d.give(got)
		if !wanted {
			got.Close()
		}
		if !more {
			return
		}
	}
}

func (d *dedicator) give(got rue.DedicatedClient) (wanted, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) > 0 {
		d.waiting[0] <- got
		d.waiting, wanted = d.waiting[1:], true
	}
	d.asking = len(d.waiting) > 0
	return wanted, d.asking
}
