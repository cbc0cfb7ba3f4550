package driver

import "context"

// A Subscriber is a Conn with publish/subscribe.
//
// Without it, and while it fails, the core polls: waiters are slower by up to
// their poll interval, nothing else is lost. Messages are hints and never decide
// who holds a lock.
type Subscriber interface {
	// Subscribe opens a Subscription without channels. The Subscription uses one network
	// connection of its own, opened now or by the first Add, and lives until it or the Conn is
	// closed; ctx bounds only this call.
	//
	// It leads to where commands go at the time of the call: the core subscribes anew when it
	// hears nothing of what it publishes itself, as happens at a former master.
	Subscribe(ctx context.Context) (Subscription, error)
}

// A Subscription is one pub/sub connection on which channels come and go. Add
// and Remove may be called from many goroutines and while one goroutine is in
// Receive; they make progress whether or not anybody calls Receive.
//
// A Subscription reconnects by itself, subscribes to all its channels again and
// then reports [ErrGap]. It notices a connection that is silently dead (a black
// hole that swallows packets and sends no reset) within a bounded time, 15
// seconds or less, usually by a PING.
//
// Package pubsub beside this one makes a Subscription from a plain connection.
type Subscription interface {
	// Add subscribes to channels. It returns nil only after the server has
	// acknowledged each of them: every message published after that is
	// delivered or covered by a later ErrGap. Adding a channel twice is no
	// error. After an error the channels may or may not be subscribed; the
	// caller may Add or Remove them again. A reply such as NOPERM is returned
	// as the *ServerError it is.
	Add(ctx context.Context, channels ...string) error

	// Remove unsubscribes from channels and returns after the server's
	// acknowledgement. Removing what was never added is no error.
	Remove(ctx context.Context, channels ...string) error

	// Receive waits for the next message. It returns [ErrGap] when messages
	// may have been missed: after every reconnect, and when the caller was so
	// slow that the driver had to drop some. It returns an error that matches
	// ErrClosed after Close, and the ctx's error when ctx ends; no message is
	// lost by that. Only one goroutine at a time may be in Receive.
	Receive(ctx context.Context) (Message, error)

	// Close unsubscribes, closes the connection and makes Receive, Add and
	// Remove return. It is idempotent and leaves no goroutine behind.
	Close() error
}

// A Message is what was published on a channel.
type Message struct {
	Channel string // under the name by which it was added
	Payload string // any bytes
}
