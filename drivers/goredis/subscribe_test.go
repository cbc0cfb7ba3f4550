package goredis

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A redis.PubSub connects again by itself, behind the back of the subscription.
// Here it must not, whether it is reading or writing when the connection ends.
func TestPubSubConnIsOneConnection(t *testing.T) {
	server := servertest.Single(t)
	for name, use := range map[string]func(pubsub.Conn) error{
		"Receive": func(c pubsub.Conn) error {
			_, err := c.Receive(t.Context())
			return err
		},
		"Send": func(c pubsub.Conn) error {
			return c.Send(t.Context(), "PING")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := wire.New(wire.TCP(server.Addr))
			defer w.Close()
			client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
			defer client.Close()
			c := wrapClient(client)
			defer c.Close()
			ps, err := c.dialPubSub(t.Context())
			require.NoError(t, err)
			defer ps.Close()
			event, err := ps.Receive(t.Context()) // to the PING that made it connect
			require.NoError(t, err)
			require.Equal(t, pubsub.Pong, event.Kind)
			require.NoError(t, ps.Send(t.Context(), "SUBSCRIBE", "a", "b"))
			for _, channel := range []string{"a", "b"} {
				event, err := ps.Receive(t.Context())
				require.NoError(t, err)
				require.Equal(t, pubsub.Event{Kind: pubsub.Subscribed, Channel: channel}, event)
			}
			hello := wire.Match{Name: "HELLO"}
			require.Equal(t, 1, w.Count(hello))

			w.KillAll()
			assert.Error(t, use(ps))
			assert.Error(t, use(ps), "it goes on")
			assert.Equal(t, 1, w.Count(hello), "it has connected again")
			assert.Equal(t, 1, w.Count(wire.Match{Name: "SUBSCRIBE"}))
		})
	}
}

// go-redis' own dialer for TLS looks at no context, and redis.PubSub is locked while it
// dials. Close must not wait for that, nor what is under way when it comes.
func TestCloseWhilePubSubRedials(t *testing.T) {
	server := servertest.Single(t)
	w := wire.New(wire.TCP(server.Addr))
	defer w.Close()
	dials := make(chan struct{}, 10)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials <- struct{}{}
			return w.Dial(context.WithoutCancel(ctx), network, addr)
		},
	})
	defer client.Close()
	c := wrapClient(client)
	sub, err := c.Subscribe(t.Context())
	require.NoError(t, err)
	require.NoError(t, sub.Add(t.Context(), "a"))
	<-dials

	w.HangDials()
	defer w.ResumeDials()
	w.KillAll()
	<-dials
	calls := make(chan error)
	go func() { calls <- sub.Add(context.WithoutCancel(t.Context()), "b") }()
	go func() { calls <- c.Close() }()
	for range 2 {
		select {
		case err := <-calls:
			if err != nil {
				assert.ErrorIs(t, err, driver.ErrClosed)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Close waits for the dial")
		}
	}
}

// What is given up while it connects is closed when it has, for nobody else would.
func TestPubSubConnThatIsGivenUpIsClosed(t *testing.T) {
	server := servertest.Single(t)
	w := wire.New(wire.TCP(server.Addr))
	defer w.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
	defer client.Close()
	c := wrapClient(client)
	defer c.Close()
	held := w.On(wire.Match{Name: "HELLO"}, wire.HoldReply)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := c.dialPubSub(ctx)
		result <- err
	}()
	<-held.Happened()
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	held.Release()
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, servertest.Await(bounded, func() error {
		if n := w.Open(); n > 0 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	}))
}

func TestPubSubConnRefusesOtherCommands(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	c := wrapClient(client)
	defer c.Close()
	p := &pubsubConn{conn: c, ps: client.Subscribe(t.Context())}
	assert.ErrorIs(t, p.Send(t.Context(), "PSUBSCRIBE", "*"), driver.ErrUnsupported)
}
