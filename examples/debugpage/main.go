// Debugpage shows the locks that a process holds and waits for, on a page that it serves
// itself. It runs a shop's background jobs on an embedded server, with some trouble, and
// logs what becomes of their locks.
//
//	go run ./examples/debugpage
//
// Then open http://localhost:6060/debug/locks. The command ends with Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/alicebob/miniredis/v2"

	_ "github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/lockdebug"
)

func main() {
	listen := flag.String("listen", "localhost:6060", "where to serve the page")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "debugpage: there is no argument %q, only flags: -h lists them\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "debugpage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string) error {
	server, err := miniredis.Run()
	if err != nil {
		return err
	}
	server.ClockTTL(true)
	defer server.Close()
	client, err := locker.Open("goredis", "redis://"+server.Addr(),
		locker.Logger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	defer client.Close()

	if err := work(ctx, client); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/locks", lockdebug.Handler(client))
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/debug/locks\n", listener.Addr())
	page := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { page.Close() })()
	if err := page.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// work holds some locks, and waits for others that are held.
func work(ctx context.Context, client *locker.Client) error {
	settlement := client.Mutex("settlement:2026-11", locker.Fenced(), locker.TTL(time.Minute))
	catalogue := client.Mutex("catalogue", locker.ForReading(), locker.As(locker.NamedOwner("search")))
	for _, m := range []*locker.Mutex{
		settlement, catalogue,
		client.Mutex("orders:42"), client.Mutex("orders:43", locker.TTL(10*time.Second)),
		client.Mutex("report:weekly", locker.Reentrant(), locker.As(locker.NamedOwner("reports"))),
		client.Mutex("<b>names are shown, not obeyed</b>", locker.TTL(5*time.Minute), locker.NoRenewal()),
	} {
		if _, err := m.Lock(ctx); err != nil {
			return err
		}
	}
	for _, m := range []*locker.Mutex{
		settlement, settlement, client.Mutex("orders:42"),
		client.Mutex("catalogue", locker.ForWriting(), locker.As(locker.NamedOwner("import"))),
	} {
		go m.Lock(ctx)
	}
	return nil
}
