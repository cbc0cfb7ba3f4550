// Package demo is what the examples have in common: the server they run on, the
// processes that play in them, and how they end.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// A Program is an example.
type Program struct {
	Name  string        // of its folder
	Title string        // begins the first line of the output
	TTL   time.Duration // the default of -ttl

	// Play is the example. It says what happens and ends with Promises.
	Play func(ctx context.Context, s *Stage) error
	// Parts are played by processes of their own, see Stage.Start.
	Parts map[string]func(ctx context.Context, p *Part) error
}

// Main is the main function of the program.
func (p Program) Main() {
	p.PlayPart()
	os.Exit(p.Run(os.Args[1:], os.Stdout, os.Stderr))
}

// PlayPart plays a part and exits, if that is what this process was started for. Tests
// call it first in TestMain, so that the test binary can be its own parts.
func (p Program) PlayPart() {
	if description, ok := os.LookupEnv(partVariable); ok {
		os.Exit(p.playPart(description))
	}
}

// Run runs the program and returns its exit status: 0 if all promises were kept.
func (p Program) Run(args []string, out, errs io.Writer) int {
	server, stop, err := setUp(p, args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		if !errors.Is(err, errFlags) { // which the flag package has told
			fmt.Fprintf(errs, "%s: %v\n", p.Name, err)
		}
		return 2
	}
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.check(ctx); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", p.Name, err)
		return 1
	}
	fmt.Fprintf(out, "%s, through %s on %s. A lease lasts %v.\n\n", p.Title, server.Driver, server.where, server.TTL)

	s := &Stage{Server: server, out: out, errs: errs, begun: time.Now()}
	err = p.Play(ctx, s)
	s.leave()
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", p.Name, err)
		return 1
	}
	if s.broken {
		return 1
	}
	return 0
}
