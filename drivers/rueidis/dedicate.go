package rueidis

import (
	"context"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver/aside"
)

// A dedicator takes dedicated connections from a client, one after the other. Dedicate
// has no ctx, and waits for as long as the application uses all of its BlockingPoolSize.
// A call of it whose caller has given up cannot be taken back, so the next caller gets
// its result.
type dedicator struct {
	asking chan struct{}            // holds one while a Dedicate is under way
	spare  chan rue.DedicatedClient // the result of one that was given up
}

func newDedicator() dedicator {
	return dedicator{make(chan struct{}, 1), make(chan rue.DedicatedClient)}
}

// take returns a dedicated connection, or ctx's error when that ends. Whether the
// connection works is not known yet.
func (d dedicator) take(ctx context.Context, client rue.Client) (rue.DedicatedClient, error) {
	select {
	case spare := <-d.spare:
		return spare, nil
	case d.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	got, err := aside.Call(ctx, nil, func() rue.DedicatedClient {
		got, _ := client.Dedicate()
		return got
	}, d.pass)
	if err == nil {
		<-d.asking
	}
	return got, err
}

// pass gives a connection that has come late to a caller that waits for one. If none does, it is closed
// and not given back: before rueidis takes a connection back it sends commands, and may panic at the replies
// of a server that is busy, see probe.
func (d dedicator) pass(late rue.DedicatedClient) {
	select {
	case d.spare <- late:
	default:
		late.Close()
	}
	<-d.asking
}
