// Quickstart shows what a distributed lock is for. Five worker processes compete to
// draw ten lottery winners, each exactly once, and to sell the last ticket of a
// concert exactly once. Both jobs are read, think, write, and go wrong as soon as
// two workers do them at the same time; a lock keeps them apart.
//
// On the way one worker is killed while it holds the lock, and another is paused
// past the end of its lease and wakes up to write: the fencing token of its lease
// is out of date by then, and the ledger refuses it.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -driver rueidis -url redis://localhost:6379/0
//
// Without -url it runs on an embedded server. It ends with the number of
// violations, and with exit status 1 if there was any.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	_ "github.com/golocker/golocker/drivers/goredis"
	_ "github.com/golocker/golocker/drivers/redigo"
	_ "github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
)

func main() {
	if isWorker() {
		os.Exit(workerMain())
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the parent process. It returns the exit status.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(errs)
	driver := flags.String("driver", "goredis", "the client to use: "+strings.Join(locker.Drivers(), ", "))
	url := flags.String("url", "", "the server, for example redis://localhost:6379/0 (default: an embedded one)")
	ttl := flags.Duration("ttl", 1500*time.Millisecond, "lease time: how long a dead holder delays the others")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	where := "the server given by -url"
	if *url == "" {
		server, err := miniredis.Run()
		if err != nil {
			fmt.Fprintln(errs, "quickstart: cannot start the embedded server:", err)
			return 1
		}
		server.ClockTTL(true)
		defer server.Close()
		*url, where = "redis://"+server.Addr(), "an embedded miniredis"
	}
	job := job{Driver: *driver, URL: *url, TTL: *ttl, Prefix: "quickstart:" + rand.Text()[:8] + ":"}
	if err := job.check(); err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 1
	}
	fmt.Fprintf(out, "Five workers, one lock, through %s on %s. A lease lasts %v.\n\n", *driver, where, *ttl)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := newLedger(out)
	if err := play(ctx, job, l); err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 1
	}
	if !l.summary() {
		return 1
	}
	return 0
}
