package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	_ "github.com/golocker/golocker/drivers/goredis"
	_ "github.com/golocker/golocker/drivers/redigo"
	_ "github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A Server is where an example runs, and the settings of its locks.
type Server struct {
	Driver string
	URL    string
	TTL    time.Duration
	Prefix string // so that runs on one server do not meet
	where  string // for people to read
}

var errFlags = errors.New("wrong flags")

// setUp reads the flags that all examples have, and starts the embedded server if they
// name no other. stop ends it.
func setUp(p Program, args []string, errs io.Writer) (s Server, stop func(), err error) {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&s.Driver, "driver", "goredis", "the client to use: "+strings.Join(locker.Drivers(), ", "))
	flags.StringVar(&s.URL, "url", "", "the server, for example redis://localhost:6379/0 (default: an embedded one)")
	flags.DurationVar(&s.TTL, "ttl", p.TTL, "lease time: how long a dead holder delays the others")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, nil, err
		}
		return s, nil, errFlags
	}
	if flags.NArg() > 0 {
		return s, nil, fmt.Errorf("there is no argument %q, only flags: -h lists them", flags.Arg(0))
	}
	s.Prefix = p.Name + ":" + rand.Text()[:8] + ":"
	s.where, stop = "the server given by -url", func() {}
	if s.URL == "" {
		embedded, err := miniredis.Run()
		if err != nil {
			return s, nil, fmt.Errorf("cannot start the embedded server: %w", err)
		}
		embedded.ClockTTL(true)
		s.URL, s.where, stop = "redis://"+embedded.Addr(), "an embedded miniredis", embedded.Close
	}
	return s, stop, nil
}

// Open is all it takes to choose a client: its name and the server's URL. The label is
// what others see of it in locker.Holder.
func (s Server) Open(label string, opts ...locker.ClientOption) (*locker.Client, error) {
	common := []locker.ClientOption{locker.Label(label), locker.Prefix(s.Prefix), locker.TTL(s.TTL)}
	return locker.Open(s.Driver, s.URL, append(common, opts...)...)
}

// check finds out early whether the server can be reached.
func (s Server) check(ctx context.Context) error {
	client, err := s.Open("check")
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lease, err := client.Mutex("check").TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// Data returns a client for the data that an example keeps beside its locks, under keys
// with the Prefix. It can be had of a single server only.
func (s Server) Data() (*redis.Client, error) {
	cfg, err := driver.ParseDSN(s.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Mode != driver.ModeSingle {
		return nil, errors.New("this example keeps data beside its locks: give it the -url of a single server")
	}
	return redis.NewClient(&redis.Options{
		Network: cfg.Network, Addr: cfg.Addrs[0], DB: cfg.DB, TLSConfig: cfg.TLS,
		Username: cfg.Username, Password: string(cfg.Password), ContextTimeoutEnabled: true,
	}), nil
}
