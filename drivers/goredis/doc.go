// Package goredis is the locker driver for go-redis v9. It is written for the developer of an
// application that uses go-redis or wants to; an author of a driver for another client reads
// package [github.com/golocker/golocker/locker/driver].
//
// Around a client that the application already has:
//
//	locks, err := locker.New(goredis.Wrap(rdb))
//
// or by name, with a client of its own:
//
//	import _ "github.com/golocker/golocker/drivers/goredis"
//
//	locks, err := locker.Open("goredis", "redis://localhost:6379/0")
//
// # What is supported
//
//	                    Wrap                            Open
//	single server       *redis.Client                   yes
//	Sentinel            *redis.Client                   mode=sentinel
//	                    (NewFailoverClient)
//	Cluster             *redis.ClusterClient            mode=cluster
//	TLS                 as the client is set up         rediss://
//	unix socket         as the client is set up         unix://, single server
//	batches             one pipeline; in a Cluster      same
//	                    one for each node
//	pub/sub             one connection of its own;      same
//	                    SUBSCRIBE, in a Cluster too
//	describe            mode, run id if not a Cluster   same
//	Ring, AutoPipeliner refused, see [Wrap]             -
//	reading replicas    refused where that can be seen, never done
//	                    see [Wrap]
//
// # What differs from go-redis
//
// For the commands of locks, whatever the settings of a wrapped client: a command is sent once
// (MaxRetries is not heeded; MOVED and ASK are followed, and in a Cluster a command refused
// with READONLY is tried at another node); a call returns as soon as its context ends, also by
// cancellation and with ContextTimeoutEnabled false; what go-redis has not begun to write by
// then is not sent any more; client-side caching is bypassed. All other use of the client stays
// as it was.
//
// In a Cluster, a call that was not answered, or was answered by CLUSTERDOWN, LOADING, BUSY or
// READONLY, makes go-redis ask the nodes who serves which slots, twice a second at most: a
// master that is dead, hangs or was started again sends nobody to its successor, and go-redis,
// which would find the successor by sending the command again, looks by itself only once a
// minute (ClusterStateReloadInterval, which may stay as it is).
//
// All this takes a goroutine for the time of a call, which is kept for the next call: about 2
// µs on a round trip of 10 µs over the loopback interface.
//
// # Which settings matter
//
// A call that has returned because its context ended, or because of Close, leaves behind a
// goroutine with a connection, until go-redis is done with it: that takes up to ReadTimeout,
// and before that PoolTimeout or the time for dialing (DialTimeout × DialerRetries, by default
// 25 seconds). Shorter timeouts give connections of a hung server back sooner. With
// ContextTimeoutEnabled a context's deadline does that, too. And after as many dials have
// failed as PoolSize says, a goroutine of go-redis dials once a second, and notices up to a
// second late that the client is closed. Until a dial succeeds calls fail at once with the
// error of the last one, also for up to a second after the server is back.
//
// ReadTimeout (of a DSN, timeout) bounds a whole batch, and not the silence between two of its replies.
//
// Connections can be dead without saying so: their host has died and its name leads to another
// one, or a NAT has forgotten them. go-redis finds that out for each connection separately, by
// a call that fails. Once a connection to a host has broken or a reply is 400 ms late (half of
// timeout, if that is less), the client that Open makes drops the idle connections to that host
// that have brought nothing since the break, or since the request whose reply is late. So one
// call fails; but a server that is only slow costs idle connections, too. A wrapped client
// cannot be made to do that: set its ConnMaxIdleTime, by default half an hour, to some seconds,
// so that after these and a timeout no such connection is left. With sixteen such connections
// and without that setting, a lease of ten seconds was lost, and a free lock was acquired after
// 21.
//
// With Sentinel, go-redis asks for the master only when it connects. It hears of another master
// by a message, and if that gets lost it stays with the former master for as long as that can
// be reached, even if the former master was cut off and others have its locks elsewhere. So set
// ConnMaxLifetime of a NewFailoverClient to ten seconds, as Open does; but without any
// Sentinel, no lock can then be acquired after that time.
//
// The first call that connects, and the first one after the Sentinel in use has failed, asks
// all Sentinels at once and waits for each. A Sentinel that takes connections and says nothing,
// such as one on a frozen host, delays the call by ReadTimeout, or by three times that if it
// was the one in use; a Sentinel that takes no connections delays it by DialTimeout. So both
// timeouts should be short, well below the TTL of leases: in a DSN, timeout=1s and
// dial_timeout=1s. With the default of five seconds, twelve seconds without locks were measured
// when the Sentinel in use had frozen.
//
// The address of a single server may be a name that leads to the master. A connection on which
// a former master answers READONLY is closed, and the next one is made to the server that the
// name leads to then. This is so with a wrapped client, too, and for any command of a batch.
// (In a pipeline of the application's own, go-redis looks at the first reply alone.) The client
// that Open makes drops all its other connections as well, so that one call is refused, and
// those that are under way. With a wrapped client each idle connection costs one more call,
// unless ConnMaxIdleTime has dropped it by then.
//
// Hooks see the commands of locks. A hook that sends a command twice breaks locks. Where
// nothing was sent and a hook returns no error, or where it hides an error, redis.Nil among
// them, the outcome is unknown. Hooks, and functions in the options, are called in a goroutine
// other than the caller's, where a panic ends the program. The arguments that they see behind a
// command's name are not strings, but have the method String; how many keys a script has is an
// int, as with go-redis' own Eval. A hook that changes keys has to change all of them, or a
// lock is granted twice: rather give locks a prefix by locker.Prefix.
//
// A connection stays as it was left. After a SELECT on what Client.Conn returns, the connection
// goes back to the pool with the other database, and a lock that is taken there excludes nobody
// else. EphemeralConn does not give its connection back.
//
// The client that Open makes has MaxRetries -1, DialerRetries 1,
// ContextTimeoutEnabled, RESP2, no dedicated pool for pipelines, timeouts
// and pool size from the DSN, and with Sentinel a ConnMaxLifetime of ten seconds.
// go-redis logs dials that fail; redis.SetLogger changes that.
//
// A server that does not take a connection, because it is in protected mode or has too many
// clients, says so. With the client that Open makes, errors tell what it says. With a wrapped
// client they tell of a connection that broke: go-redis takes what the server says for the
// reply to HELLO, and goes on.
//
// A node of a Cluster may be replaced by another one under its name, as managed services do.
// The former node then sends commands to that very name as long as it goes on. The client that
// Open makes no longer uses its connections to the former node then. With a wrapped client each
// idle connection may cost a call or a batch, which is told as ErrUnavailable and made again.
//
// Redis Cloud and Redis Software tell clients that speak RESP3 when a connection is about to be
// closed. go-redis then makes another one in its place, and in 9.23.0 the race detector finds
// that it uses a connection for that while a call does. Replies that were seen were right all
// the same, but a client that is wrapped should have MaintNotificationsConfig with
// maintnotifications.ModeDisabled, as the client that Open makes has.
//
// # Limits of go-redis
//
// go-redis cannot read an array that contains an error reply for which it has a type (such as
// OOM, NOPERM or READONLY). Such a command, and all commands behind it in its batch, fail with
// an error of unknown outcome, and the connection is no longer used. With a wrapped client the
// latter is certain only for a batch outside a Cluster; otherwise go-redis sees to it itself,
// unless it uses the connection again before the rest of the array has come. No script of
// package locker replies in that way.
//
// In a Cluster, a node that does not know its own address (one that is alone and has no
// cluster-announce-ip) has none in its answer. A wrapped go-redis client then takes this
// machine for the node, and whatever server listens here at that port has the locks; the client
// that Open makes takes the host of the addresses that it was given, if they have one. Where
// nodes tell no address on purpose (cluster-preferred-endpoint-type unknown-endpoint) go-redis
// cannot use the Cluster at all; rueidis can.
//
// Before go-redis uses an idle connection, it looks whether the server, or a proxy, has closed
// it. With a wrapped client it does not look where the connection has TLS, and under Windows it
// looks at no connection at all. Then the first call on each such connection fails, with an
// unknown outcome, and a lock asks again: the first time at once, then, as a renewal does,
// after a fortieth to a twentieth of the TTL (a second at most). Let the ConnMaxIdleTime of
// such a client be shorter than the time after which a proxy cuts connections.
//
// Where a StreamingCredentialsProvider brings credentials while a connection is still being
// told of the previous ones, go-redis 9.23 may use the connection for a call and for AUTH at
// the same time: the call gets no reply, or, which was not seen yet, the reply to AUTH.
// Credentials that change minutes apart do not bring that about, nor does a
// CredentialsProviderContext, with a ConnMaxLifetime that is shorter than the time for which
// its credentials are good.
//
// A double has its shortest form (3.14) where a wrapped client speaks RESP3, and the form that
// the server gives it (3.1400000000000001) with RESP2. No script of package locker replies with
// a double.
//
// In tests: go-redis keeps the timers of calls that wait for a connection of a pool, and a
// timer from another testing/synctest bubble ends the program. Avoid waiting for the pool in
// more than one bubble, or call runtime.GC twice in between.
package goredis
