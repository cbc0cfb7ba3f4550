// Package driver is the contract between the lock algorithms of package
// [github.com/golocker/golocker/locker] and a Redis or Valkey client. It is written for the
// author of a driver; a program that only takes locks imports package locker and an existing
// driver, and never this package.
//
// # What a driver is
//
// A driver sends commands and returns replies. It knows nothing of locks: all
// scripts, retries, deadlines and formats are the core's. Three small types are
// required:
//
//   - [Conn] sends one [Command] and returns its [Value];
//   - [Connector] makes a Conn, either from a [Config] or around a client that
//     the application already has (by custom, the driver's Wrap function);
//   - [Driver] makes a Connector from a [Config]. It is what
//     [github.com/golocker/golocker/locker.Register] takes.
//
// Everything else is optional. The core asks for each optional interface by a
// type assertion on the outermost Conn, and has a fallback:
//
//   - [Batcher]: commands of concurrent callers share batches. Without it, each is
//     sent by Do, and [DoBatch] sends one after another.
//   - [Subscriber]: without it, or while it fails, waiters poll.
//   - [Listener], of a Subscription: without it, [Listen] calls Receive.
//   - [Describer]: without it, the core takes the deployment for one that it knows nothing
//     about: it does not trust the receiver count of PUBLISH, and a quorum has to write a key
//     to notice that two of its nodes are the same server.
//
// # The three outcomes
//
// A lock is only as good as what is known about its requests. Every error of a
// Conn therefore says which of three things happened; see [Outcome].
//
//   - The server replied with an error: a [*ServerError].
//   - The request provably never left this process: an error marked by
//     [NotSent]. Mark only what you can prove.
//   - Anything else is unknown: the server may or may not have executed the
//     command. This is what an unmarked error means, so that forgetting to mark
//     an error is safe.
//
// # What a Conn must guarantee
//
//   - At most once. A command is written to the network once. Switch off the
//     retries of your client: a SET NX that is sent again after a lost reply
//     answers "taken" although the first one took the lock. Following MOVED and
//     ASK is allowed, because the server that sent them did not execute the
//     command.
//   - Prompt. Do returns as soon as its ctx ends, even if the server hangs, and the error
//     matches the ctx's error with errors.Is: what ctx.Err returns, not the ctx's cause. With a
//     ctx that had already ended, nothing is sent and the error is marked NotSent. The end of
//     one call's ctx does not end another call.
//   - Bounded. A ctx without a deadline, or with one that is far away, must not make Do
//     wait for ever on a dead connection; apply the client's own timeouts.
//   - Recovering. A Conn outlives the loss of its connections, and closes those that are of no
//     more use. A connection on which the server answers READONLY is given up: the address may
//     be a name that leads to another server since a failover. (With a client that was passed
//     in, this is done where that is possible.)
//   - Binary safe. Arguments and replies carry any bytes.
//   - Concurrent. All methods may be called from many goroutines. A call that has a connection
//     does not wait for a connection that another call is making.
//   - Closed is closed. After Close, Do returns an error for which errors.Is(err, ErrClosed)
//     holds, marked NotSent. errors.Is(err, ErrClosed) also holds for calls that Close
//     interrupts, which return at once. Before Close it holds only where the application has
//     closed the client that it passed in: after such an error the core does not try again.
//     Close ends what Connect opened, including subscriptions and their goroutines, and never
//     closes a client that the application passed in. It may be called twice.
//   - Silent. No error text shows a password, nor does a Connector that is printed.
//
// # Help
//
// What most clients lack is provided here: package pubsub makes a Subscription from a plain
// connection and closes it with its Conn, package aside returns from a call when its ctx ends
// even if the client does not, package netdial dials as a Config says, and [DescribeByInfo]
// asks for the run id.
//
// # Wrappers
//
// A Conn may wrap another: a tracer, a fault injector. The core asks only the outermost Conn
// for optional interfaces and never unwraps. A wrapper therefore forwards those that it wants
// to keep, each through itself, so that no command goes around it. [Wrapper] is a base that
// keeps none. Forward none that the Conn inside does not have: the core would leave out its
// fallback. Commands are passed on as they are, keys included; locker.Prefix is the way to put
// something before the names of locks.
//
// # Versions
//
// This contract grows only by optional interfaces and by fields whose zero
// value means what was true before. A driver written today compiles tomorrow.
//
// # Proof
//
// Package github.com/golocker/golocker/conformance tests all of the above on a single server,
// and the locks on top of it; the names of its cases are the clauses of this page. What a
// driver does with Sentinels and in a Cluster is left to tests of its own;
// docs/writing-a-driver.md says what these should ask.
package driver
