package pubsub

import "slices"

type verb string

const (
	subscribe   verb = "SUBSCRIBE"
	unsubscribe verb = "UNSUBSCRIBE"
	ping        verb = "PING"
)

// A request is one command on its way, for an Add or Remove or for ourselves
// (PING, and subscribing again after a reconnect). The server answers requests
// in order, which is how a reply finds its own.
type request struct {
	verb     verb
	channels []string
	unacked  []string   // of channels, on the present connection
	sent     bool       // handed to Send, on any connection
	gone     bool       // whoever asked has stopped waiting
	result   chan error // has room for the one result; nil for our own
}

// newRequest makes a request of a caller, which keeps channels.
func newRequest(v verb, channels []string) *request {
	return &request{verb: v, channels: slices.Clone(channels), result: make(chan error, 1)}
}

func (r *request) own() bool { return r.result == nil }

func (r *request) args() []string {
	return append([]string{string(r.verb)}, r.channels...)
}

// ack notes the acknowledgement of one channel and reports whether it was due.
func (r *request) ack(channel string) bool {
	i := slices.Index(r.unacked, channel)
	switch {
	case i < 0:
		return false
	case i == 0: // the usual order
		r.unacked = r.unacked[1:]
	default:
		r.unacked = slices.Delete(r.unacked, i, i+1)
	}
	return true
}

// finish gives the caller its result. It is called once at most.
func (r *request) finish(err error) {
	if r.result != nil {
		r.result <- err
	}
}
