// Package rueidis lets package [github.com/golocker/golocker/locker] work through
// [github.com/redis/rueidis]. It is written for the developer of an application
// that takes locks.
//
// With a client that the application has already:
//
//	import (
//		"github.com/golocker/golocker/locker"
//		lockdriver "github.com/golocker/golocker/drivers/rueidis"
//		"github.com/redis/rueidis"
//	)
//
//	client, err := rueidis.NewClient(…)
//	locks, err := locker.New(lockdriver.Wrap(client))
//
// or by name, with a client of the driver's own:
//
//	import _ "github.com/golocker/golocker/drivers/rueidis"
//	locks, err := locker.Open("rueidis", "redis://localhost:6379/0")
//
// # What is supported
//
//	single server, Redis or Valkey    yes
//	Sentinel                          yes; the servers must permit ROLE
//	Cluster                           yes
//	TLS                               yes
//	unix sockets                      yes, for a single server
//	batches                           yes, as pipelines
//	publish/subscribe                 yes, through one connection; in a Cluster unsharded
//	describing the server             yes; INFO may be forbidden
//
// # Wrap or Open
//
// A client that is opened by name has options made for locks: nothing is ever retried or
// cached, one connection to each server is shared by all commands and takes about 0.16 MiB
// (rueidis' default is 1.4), and a connection that is silent is given up after 1.2 to 1.4 times
// the timeout of the data source name, 5 seconds if it has none. A connection on which a batch
// takes longer is given up, too, even if its replies come one by one: rueidis' PING is answered
// behind them. A shorter timeout, such as timeout=1s, replaces a broken connection sooner;
// leases should last several times as long. The setting pool_size has no meaning here, and a
// subscription has a connection of its own.
//
// A client that was opened by name is closed with its locks; only for a Cluster does rueidis
// itself keep a timer, with a goroutine, for up to 5 seconds more.
//
// A wrapped client keeps its options, and stays open when the locks are closed.
// Two options make rueidis send a command twice whatever else is set:
// ConnLifetime and Standalone.EnableRedirect. A client that has one of them is
// refused: make another without it for the locks. They cannot be seen through a
// decorator such as rueidishook or rueidisotel, under which they must not be set.
// The others matter as follows:
//
//	DisableRetry              no matter: what locks send is never marked retryable
//	DisableCache              true also saves memory, and the permission for CLIENT TRACKING,
//	                          without which rueidis gets no connection
//	DisableAutoPipelining     no matter: lock commands are pipelined all the same
//	AlwaysRESP2               should be true for a Cluster of Redis 8 or later, see below;
//	                          subscribing takes one connection more
//	ConnWriteTimeout,         how soon a dead connection is given up, 12 seconds
//	Dialer.KeepAlive          by default. A call ends after 30 in any case. Neither must be
//	                          negative: rueidis sends no PING then, and goes on with a
//	                          connection that is silently dead until TCP gives it up, which
//	                          may take a quarter of an hour. No client tells whether it is,
//	                          so that [Wrap] does not refuse it.
//	AuthCredentialsFn         must not bring what the server refuses while a connection is
//	                          open: calls in flight fail as not sent then, sent or not.
//	                          Where rueidis speaks RESP2, each RefreshAfter ends the
//	                          subscription, on which AUTH is refused; it is made anew
//	DialCtxFn                 must end by itself: a call's ctx does not end it, since
//	                          others wait for the same connection
//	SendToReplicas            must be false for what is not read-only. Where it is set, a
//	                          master that has become a replica may refuse scripts by
//	                          READONLY; then the driver sends HDEL of a key that does not
//	                          exist, by which rueidis finds the new master
//	ReplicaOnly               must be off
//	BlockingPoolSize          must leave one connection for the subscription. While there is
//	                          none, locks poll, and a goroutine waits for one, which ends
//	                          when there is one or the client is closed.
//	ClusterOption.            should be set, to 8 for instance: where two nodes send each other what
//	MaxMovedRedirections      is in a slot, as while a move of it is undone by hand, a call goes to and
//	                          fro between them, thousands of times a second, until it has no time left
//	Sentinel.                 should be set: without it one lost message binds
//	TopologyRefreshInterval   the client to a former master
//
// The application must not SELECT: all calls share the connections, and a lock that is taken in
// another database excludes nobody else. To choose a database, use SelectDB.
//
// # Decorators
//
// A decorator of the client (of rueidishook, rueidisotel, or of the application's own) sees the
// commands of locks. A decorator that sends a command twice, has something other than the
// server answer it, or hides an error breaks locks. Where it returns an empty result, or more
// or fewer results than there were commands, the outcome is unknown. It is called in a
// goroutine other than the caller's, where a panic ends the program.
//
// # A node that was removed from a Cluster
//
// From Redis 8 on, and with ClusterOption.PreferClusterShards from 7 on, rueidis asks the nodes
// of a Cluster for CLUSTER SHARDS, and believes the node that answers first. A node that was
// removed from the Cluster, and goes on running, answers that it is a Cluster of one shard
// without slots. If its address was given to rueidis, which then asks it for ever, calls fail
// now and then, or always if no other address was given, until the program is started with
// other addresses. With AlwaysRESP2 rueidis does not know the server's version and asks for
// CLUSTER SLOTS, to which such a node answers with nothing. A client that was opened by name
// has AlwaysRESP2.
//
// # Dead connections
//
// Until the first batch, or two calls at the same time, rueidis reads from a connection during
// calls only, which makes them faster. A connection that breaks between calls is noticed within
// a second, or by the next call, whose outcome is then unknown.
//
// # A name that leads to the master
//
// The address of a single server may be a name that leads to another one after a failover.
// rueidis keeps its connection to the former master for as long as that answers, if only with
// READONLY. With a client that was opened by name the driver then has the server close that
// connection, and the next call looks the name up again.
//
// It does not do that to a wrapped client, whose connections are the application's.
// No option that [Wrap] accepts makes rueidis do it either, so without Sentinels or
// a Cluster let the failover close the connections to the former master (CLIENT
// KILL TYPE normal), let DialCtxFn keep what it opens and close it when the
// application itself is answered READONLY, or open a client by name for the locks.
//
// # What errors tell
//
// A wrapped client does not prove that a command was not sent, so that even a
// failed dial is of unknown outcome (see
// [github.com/golocker/golocker/locker/driver.OutcomeOf]); except where the server
// refuses the connection with an error reply, such as WRONGPASS. Through a decorator,
// which may have made an error of a reply, that counts as the reply to the command,
// and "ERR" is put before it unless it begins with capitals. If the application
// closes the client, calls fail with [github.com/redis/rueidis.ErrClosing], of
// unknown outcome too.
//
// Keys in different slots of a Cluster, which make rueidis panic, give the
// server's own error, CROSSSLOT, marked as not sent.
package rueidis
