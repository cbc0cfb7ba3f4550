// Package goredis is the locker driver for go-redis v9. It is written for the
// developer of an application that uses go-redis or wants to; whoever writes a
// driver for another client reads package
// [github.com/golocker/golocker/locker/driver].
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
// For the commands of locks, whatever the settings of a wrapped client: a
// command is sent once (MaxRetries is not heeded; MOVED and ASK are followed, and
// in a Cluster a READONLY refusal tries another node); a call returns as soon as
// its context ends, also by cancellation and with ContextTimeoutEnabled false;
// what go-redis has not begun to write by then is not sent any more; client-side
// caching is bypassed. All other use of the client stays as it was.
//
// In a Cluster, a call that was not answered, or by CLUSTERDOWN, LOADING, BUSY or READONLY, has the nodes
// asked who serves which slots, twice a second at most: a master that is dead, hangs or was started again sends
// nobody to its successor, and go-redis, which would find that by sending the command again, looks by itself
// once a minute only (ClusterStateReloadInterval, which may stay as it is).
//
// This takes a goroutine for the time of a call, which is kept for the next one:
// about 2 µs on a round trip of 10 µs over the loopback interface.
//
// # Which settings matter
//
// A call that has returned because its context ended, or because of Close,
// leaves behind a goroutine with a connection, until go-redis is done with it:
// that takes up to ReadTimeout, before it PoolTimeout or the time for dialing
// (DialTimeout × DialerRetries, by default 25 seconds). Shorter timeouts give
// connections of a hung server back sooner. With ContextTimeoutEnabled a
// context's deadline does that, too. And after as many dials have failed as PoolSize says,
// a goroutine of go-redis dials once a second, and notices up to a second late that the client
// is closed. Until one succeeds calls fail at once with the error of the last, also for up to a second
// after the server is back.
//
// ReadTimeout (of a DSN, timeout) bounds a whole batch, and not the silence between two of its replies.
//
// Connections can be dead without saying so: their host has died and its name leads to another
// one, or a NAT has forgotten them. go-redis finds that out of each by a call of its own that
// fails. The client that Open makes drops those of a host that are idle once one has broken
// or a reply is 400 ms late (half of timeout, if that is less), and that have brought nothing since that
// or its request, so that one call fails; a server that is only slow costs idle connections, too. A wrapped client cannot be
// made to: set its ConnMaxIdleTime to some seconds, by default half an hour, so that after these
// and a timeout no such connection is left. With sixteen of them and without that, a lease
// of ten seconds was lost, and a free lock was had after 21.
//
// With Sentinel, only who connects asks for the master. Of another one go-redis hears by a
// message, and if that gets lost it stays with the former one for as long as that can be
// reached, though it was cut off and others have its locks elsewhere. So set ConnMaxLifetime of
// a NewFailoverClient to ten seconds, as Open does; but without any Sentinel, no lock can be
// had after that time.
//
// Who connects first, and first after the Sentinel in use has failed, asks all Sentinels at
// once and waits for each. One that takes connections and says nothing, such as that of a
// frozen host, delays it by ReadTimeout, or three times that if it was the one in use, and one
// that takes none by DialTimeout. So both should be short, well below the TTL of leases: in a
// DSN, timeout=1s and dial_timeout=1s. With the default of five seconds, twelve seconds without
// locks were measured when the Sentinel in use had frozen.
//
// The address of a single server may be a name that leads to the master. A connection on which
// a former master answers READONLY is closed, and the next one is made to whom the name leads
// then, also where the client is a wrapped one, and for any command of a batch. (Of a pipeline of
// the application's own, go-redis looks at the first reply alone.) The client that Open makes drops
// all others with it, so that one call is refused, and those that are under way. Of a wrapped client
// each that is idle costs one more call, unless its ConnMaxIdleTime has dropped it by then.
//
// Hooks see the commands of locks. One that sends a command twice breaks locks. Where nothing was sent
// and a hook returns no error, or where it hides one, redis.Nil among them, the outcome is unknown. Hooks,
// and functions in the options, are called in another goroutine than the caller's, where a panic ends the
// program. What they see of a command behind its name are no strings, but has the method String; how many
// keys a script has is an int, as with go-redis' own Eval. One that changes keys has to change all of
// them, or a lock is granted twice: rather give locks a prefix by locker.Prefix.
//
// A connection stays as it was left. After a SELECT on what Client.Conn returns it is back in the pool
// with the other database, and a lock that is taken there excludes nobody else. EphemeralConn does not
// give it back.
//
// The client that Open makes has MaxRetries -1, DialerRetries 1,
// ContextTimeoutEnabled, RESP2, no dedicated pool for pipelines, timeouts
// and pool size from the DSN, and with Sentinel a ConnMaxLifetime of ten seconds.
// go-redis logs dials that fail; redis.SetLogger changes that.
//
// What a server says that does not take a connection, as it is in protected mode or has too many clients, is told of the
// client that Open makes. Of a wrapped one it is a connection that broke: go-redis takes it for the reply to HELLO, and goes on.
//
// A node of a Cluster may be replaced by another one under its name, as managed services do, and send commands to
// that very name as long as it goes on. The client that Open makes uses its connections to it no more then. Of a wrapped
// client each that is idle may cost a call or a batch, which is told as ErrUnavailable and made again.
//
// Redis Cloud and Redis Software tell clients that speak RESP3 when a connection is about to be closed. go-redis makes
// another one in its place then, and in 9.23.0 the race detector finds it at that with a connection beside a call. Replies
// that were seen were right all the same, but a client that is wrapped should have MaintNotificationsConfig with
// maintnotifications.ModeDisabled. The one that Open makes does.
//
// # Limits of go-redis
//
// go-redis cannot read an array with an error reply in it that it has a type for
// (such as OOM, NOPERM or READONLY). Such a command, and all behind it in its
// batch, fail with an error of unknown outcome, and the connection is used no more. Of
// a wrapped client that is certain of a batch outside a Cluster alone; else go-redis sees to
// it itself, unless it uses the connection again before the rest of the array has come. No
// script of package locker replies in that way.
//
// In a Cluster, a node that does not know its own address (one that is alone and has no
// cluster-announce-ip) has none in its answer. A wrapped go-redis client takes this machine for it then, and
// whatever server listens there at that port has the locks; the client that Open makes takes the host of the addresses that
// it was given, if they have one. Where nodes tell none on purpose (cluster-preferred-endpoint-type unknown-endpoint)
// go-redis cannot use the Cluster at all; rueidis can.
//
// It looks whether the server, or a proxy, has closed an idle connection before it uses it, but
// of a wrapped client not where the connection has TLS, and on no connection at all under Windows: then
// the first call on each fails, with an unknown outcome, and a lock asks again: the first time at once, then,
// as a renewal does, after a fortieth to a twentieth of the TTL (a second at most).
// Let the ConnMaxIdleTime of such a client be shorter than what a proxy cuts after.
//
// Where a StreamingCredentialsProvider brings credentials while a connection is still told of those before, go-redis 9.23
// may use it for a call and for AUTH at once: the call gets no reply, or, which was not seen yet, that to AUTH. Credentials
// that change minutes apart do not bring that about, nor does a CredentialsProviderContext, with a ConnMaxLifetime
// that is shorter than they are good for.
//
// A double is in its shortest form (3.14) where a wrapped client speaks RESP3, and what the
// server makes of it (3.1400000000000001) with RESP2. No script of package locker replies so.
//
// In tests: go-redis keeps timers of those who wait for a connection of a pool,
// and one from another testing/synctest bubble ends the program. Avoid waiting
// for the pool in more than one bubble, or call runtime.GC twice in between.
package goredis
