// Package wire puts a line that can fail between a Redis client and its server.
// It is written for tests that ask what a client does when a reply is lost, a
// request is late or the network falls silent, at exactly one chosen moment.
//
// A [Wire] is reached through [Wire.Dial], which gives in-memory connections and
// works inside a testing/synctest bubble, or through [Wire.Listen], a TCP
// listener on the loopback interface. It understands the Redis protocol (RESP2
// and RESP3), so faults are tied to commands and not to bytes or to time:
//
//	w := wire.New(wire.TCP("127.0.0.1:6379"))
//	defer w.Close()
//	rule := w.On(wire.Match{Name: "SET"}, wire.CutReply)
//	… the next SET is executed, its reply lost, its connection closed …
//	<-rule.Happened()
//
// It never sleeps by itself; whatever it holds back waits for [Rule.Release],
// for [Wire.Heal] or for Close. It takes whatever is sent to it, without limit,
// like a socket with an endless buffer, so neither side ever blocks in a write.
//
// TLS cannot pass a Wire, because it has to read what passes.
package wire
