package goredis

import (
	"bytes"

	"github.com/golocker/golocker/locker/driver"
)

// turnedAway is the error of a connection that the server has refused: it says so, and closes it. go-redis
// takes that for the reply of an old server to HELLO, goes on, and reports a connection that broke.
//
// It is no *driver.ServerError, which would be taken for the reply to the command. Code that knows that the
// command was not sent puts the reply in its place.
type turnedAway struct{ reply *driver.ServerError }

func (e *turnedAway) Error() string { return e.reply.Error() }

// turnsAway returns an error if the server refuses the connection during the handshake: it is in protected
// mode, or has too many clients.
func turnsAway(said []byte) error {
	for _, words := range []string{"-DENIED ", "-ERR max number of clients "} {
		if bytes.HasPrefix(said, []byte(words)) {
			reply, _, _ := bytes.Cut(said[1:], []byte("\r\n"))
			return &turnedAway{driver.NewServerError(string(reply))}
		}
	}
	return nil
}
