// Package servertest starts real Redis or Valkey servers for tests and stops
// them again: a single server, several independent ones, a Cluster, or a primary
// with its replica and Sentinels. It is written for the tests of this
// repository; nothing that users import depends on it.
//
//	srv := servertest.Single(t)
//	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
//
//	srv.Pause()   // a frozen server: connections stay open, nothing answers
//	srv.Resume()
//	srv.Kill()    // a crash
//	srv.Restart() // on the same port
//
// A [Clock] sets the wall clock of a server while it runs.
//
// Servers listen on free ports of 127.0.0.1 and on a unix socket, keep nothing
// on disk unless [Persist] asks for it, and end with their test. Their state can
// be set and read with [Server.Do], whatever users and passwords the server was
// configured with.
//
// # Which server
//
// The program is the one that REDIS_SERVER names, else redis-server, else
// valkey-server from PATH; version 6.0 or later. Where there is none, the test is
// skipped, or fails if the environment has REQUIRE_REDIS=1. A Cluster needs 7.0, and a
// test of one is skipped before that; so is a test that calls [SkipBefore], before the
// version that it names.
//
// # Goroutines
//
// Each running server has one goroutine that waits for its process. A test that
// looks for leaked goroutines starts its servers before it takes the list of
// those to ignore (goleak.IgnoreCurrent).
//
// The package works on Linux and macOS. Only on Linux do the servers die with a
// test process that is killed.
package servertest
