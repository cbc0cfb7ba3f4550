// Package pubsub turns a plain pub/sub connection into the
// [driver.Subscription] that the contract asks for: acknowledged Add and Remove,
// reconnecting with a gap, and a PING that notices a silently dead connection.
//
// It is written for the author of a driver whose client has no such thing by
// itself. A driver supplies a [Dialer]; everything else is here.
package pubsub

import (
	"context"
	"time"
)

// A Dialer opens one pub/sub connection, ready for SUBSCRIBE: authenticated, with its name set.
// It is called again after each failure, with growing pauses, until the Subscription is closed,
// and never while the previous connection is open.
//
// It bounds itself by the client's dial timeout and returns promptly when ctx ends, which
// happens at Close and after [DialTimeout]. Its error shows no password.
type Dialer func(ctx context.Context) (Conn, error)

// A Conn is one network connection in pub/sub mode. Send and Receive are called
// from two goroutines, each never concurrently with itself; Close may be called
// while they run and makes them return. After any error of Send, or one of
// Receive that is no *driver.ServerError, the Conn is closed and not used again.
//
// It must not reconnect by itself: a subscription that comes back unnoticed
// hides a gap.
type Conn interface {
	// Send writes one command, SUBSCRIBE, UNSUBSCRIBE or PING, and does not
	// wait for its reply.
	Send(ctx context.Context, args ...string) error
	// Receive returns what the server sent next, however long that takes; a
	// read timeout would break the connection for nothing. An error means that
	// the connection is broken; an error reply is a *driver.ServerError and
	// does not mean that.
	Receive(ctx context.Context) (Event, error)
	// Close closes the network connection. It is called once, and what it returns is ignored.
	Close() error
}

// An Event is one thing that arrives on a pub/sub connection.
type Event struct {
	Kind    Kind   // what it is
	Channel string // of a message, subscribe or unsubscribe
	Payload string // of a message
}

// A Kind tells Events apart. The zero Kind is ignored, so that a driver may pass
// on what it does not know.
type Kind int

// The kinds of [Event].
const (
	Other        Kind = iota
	Message           // a published message
	Subscribed        // the acknowledgement of SUBSCRIBE for one channel
	Unsubscribed      // the acknowledgement of UNSUBSCRIBE for one channel
	Pong              // the reply to PING
)

// What a [Subscription] waits for, and how much it keeps.
const (
	// PingAfter is how long a connection may be silent before it is sent a
	// PING.
	PingAfter = 5 * time.Second
	// DeadAfter is how long a connection may be silent, PING or not, before it
	// is given up as dead. What is left of the 15 seconds that the contract
	// allows is for reconnecting.
	DeadAfter = 13 * time.Second
	// DialTimeout bounds one call of the Dialer.
	DialTimeout = 30 * time.Second
	// MinPause and MaxPause bound the pause before connecting again: a random time up to
	// MinPause after the first failure, up to twice that after each further one, never more
	// than MaxPause. The pauses begin anew after a connection that lived for MaxPause.
	MinPause = 10 * time.Millisecond
	MaxPause = time.Second
	// MaxBuffered is how many messages wait for Receive. What arrives when
	// there is no room is dropped, and an ErrGap reported in its place.
	MaxBuffered = 1024
)
