// Package redigo makes locks through the client redigo (github.com/gomodule/redigo/redis). It
// is written for applications: those that have a redis.Pool wrap it; those that have none open
// one by a data source name.
//
//	client, err := locker.New(redigo.Wrap(pool))
//	client, err := locker.Open("redigo", "redis://localhost:6379/0")
//
// The import alone registers the name "redigo".
//
// It needs redigo 1.9.3 or later. A go.mod with redigo v2.0.0+incompatible has an older
// version, of 2019, that was withdrawn: this package does not compile with it ("undefined:
// redis.DoContext" and the like). Then
//
//	go get github.com/gomodule/redigo@v1
//
// brings the latest.
//
// # What is supported
//
//	                      Open                           Wrap
//	single server         yes                            yes
//	Sentinel              yes, every connection is       as far as the pool's Dial finds
//	                      to a server that says it       the master; a connection that
//	                      is the master                  answers READONLY is dropped
//	Cluster               no: take goredis or rueidis    no
//	TLS, unix sockets     yes                            as the pool's Dial does
//	pipelined batches     yes                            yes
//	publish/subscribe     yes, one connection each       yes, by the pool's Dial, outside
//	                                                     of the pool and its limits
//	mode and run id       yes (INFO)                     run id; the mode counts as single
//	RESP3                 no, nor is it needed           no
//
// # Timeouts
//
// redigo has none by default. Here every call ends as soon as its ctx does, and
// without a ctx that ends:
//
//   - Opened: a call waits for a connection of the pool no longer than
//     dial_timeout and timeout of the DSN together, connecting takes no longer
//     than dial_timeout, and each reply, writing included, no longer than
//     timeout (5 seconds by default).
//   - Wrapped: 5 seconds for a connection and 5 for each reply. Shorter
//     timeouts of the pool's connections (redis.DialReadTimeout,
//     redis.DialWriteTimeout) hold as well.
//
// A connection on which a call was abandoned is closed and never used again, so
// that its late reply answers nobody.
//
// # Open
//
// The pool has as many connections as the DSN says (pool_size), by default ten for each of
// GOMAXPROCS; further calls wait. A connection that has been idle for a second is asked by PING
// before it is used, and has a second to answer. With Sentinel it is asked by ROLE, or by INFO
// where that is refused, and new connections are asked, too. A user that may do neither is
// believed to be with the master until it is answered READONLY, so that a former master that
// was cut off together with its Sentinel, or is behind what a Sentinel knows, is not found out.
// When a connection breaks or answers READONLY, the connections that are idle at that time are
// dropped. So a server that restarted, or a master that was demoted, makes the calls in flight
// fail and as a rule one more. When a call is given up that has waited for its reply for a
// quarter of a second or more, the connections that have brought nothing since the call was
// sent are dropped: a network that has silently forgotten all connections costs one request,
// and as a rule no lease of a second or more.
//
// With Sentinel, connecting asks the Sentinels in turn. The dial timeout is shared out among
// them and the master, so that a Sentinel that hangs does not hide the others. One of them is
// listened to, on a connection of its own. When it says that another server has become the
// master, or when a connection to another master is made, the connections to the former master
// end, whatever they are used for: that server goes on granting locks until the Sentinels make
// it a replica. A call in flight there has an unknown outcome. Besides, no connection is used
// for longer than ten seconds. So a master that was cut off and still takes itself for the
// master is left within that time, if the Sentinel that is asked first has heard of another
// master: a Sentinel that was cut off together with the former master goes on naming it.
//
// # Wrap
//
// The pool remains the application's: closing the lock client closes only the
// connections on which a call was in flight. What matters in its settings:
//
//   - TestOnBorrow: without it, the first call on a connection that the server has closed
//     meanwhile fails, with an outcome that is unknown. Let it PING connections that were idle
//     for a second or more.
//   - MaxActive and Wait: without Wait, a call fails with redis.ErrPoolExhausted
//     when all connections are in use; with it, it waits until its ctx ends.
//     Locks hold no connection while they are held or waited for, but need one for each
//     renewal: where the application blocks connections for long, by BLPOP and the like,
//     MaxActive has to leave some over.
//   - MaxIdle: 0, the default, makes a new connection for every call.
//   - SELECT: redigo gives a connection back as it is. On one that the application has left in
//     another database, locks are taken there and exclude nobody else.
//   - Dial: it should have redis.DialConnectTimeout. A Dial or a test that hangs does not keep
//     a call from returning, but its goroutine and its place in the pool stay until it returns.
//     Rather set DialContext and TestOnBorrowContext. Because a Dial or a test may hang, each
//     call makes a detour through another goroutine, which costs a lone caller more than all
//     else that is done here.
//   - DialContext without a test: a call on a connection that is idle makes no such detour.
//     Where no connection turns out to be idle, DialContext is called with a deadline that has
//     passed; it must heed that, as redis.DialContext does, or the call waits for it whatever
//     becomes of its ctx.
//   - Functions that panic: the panic is not recovered, and ends the program where they run in
//     another goroutine. The pool has lost a place by then, and a pool that had no more places
//     to give would have calls wait for ever.
//   - Connections of another make than redigo's, such as those of tracers, must implement
//     redis.ConnWithContext, as all of redigo's do; otherwise every call fails without being
//     sent. A ReceiveContext whose ctx has ended must close the network connection, without
//     waiting for anything, as redigo's does: that is how a call is ended. Where it does not, a
//     call lasts until its reply or the connection's read timeout, whatever becomes of its ctx.
//     A connection whose Do gives up before that is closed in this way, too. A connection that
//     hides an error breaks locks: nil without an error is a reply. One that changes keys has
//     to change all of them, those of scripts, too: how many keys a script has is an int, as
//     with redigo's own Script. Rather give locks a prefix by locker.Prefix.
package redigo
