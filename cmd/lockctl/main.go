// Lockctl uses and looks after the locks of golocker from a shell.
//
//	lockctl run nightly-report -- ./report.sh     run a command under a lock
//	lockctl ls orders:                            what is locked, and by whom
//	lockctl doctor                                what of the server matters for locks
//
// docs/lockctl.md is its manual.
package main

import (
	"context"
	"os"

	_ "github.com/golocker/golocker/drivers/goredis"
	_ "github.com/golocker/golocker/drivers/redigo"
	_ "github.com/golocker/golocker/drivers/rueidis"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
)

func main() {
	quietClients()
	guard.Main() // this process may be the guardian of a command
	os.Exit(execute(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
