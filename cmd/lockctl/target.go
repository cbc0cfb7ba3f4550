package main

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// Environment variables that lockctl reads. What it passes to a command has other names,
// see [heldVariables].
const (
	urlVariable    = "LOCKCTL_URL"
	driverVariable = "LOCKCTL_DRIVER"
	prefixVariable = "LOCKCTL_PREFIX"
)

// A target is where the locks are.
type target struct {
	urls   []string
	driver string
	prefix string
	quorum redlock.Config

	flags *pflag.FlagSet // which of them were given
}

// isQuorum tells whether there are several servers, which is known once settle has returned.
func (t *target) isQuorum() bool { return len(t.urls) > 1 }

// within returns ttl, or what a quorum allows if that is less.
func (t *target) within(ttl time.Duration) time.Duration {
	if longest := t.quorum.LongestTTL; t.isQuorum() && longest >= locker.MinTTL { // else longest is what is wrong, and not the TTL
		return min(ttl, longest)
	}
	return ttl
}

func (t *target) addFlags(flags *pflag.FlagSet) {
	t.flags = flags
	flags.StringArrayVar(&t.urls, "url", nil, "the server, such as redis://localhost:6379/0; several make a quorum (default $"+urlVariable+")")
	flags.StringVar(&t.driver, "driver", "", "the client to use: "+strings.Join(locker.Drivers(), ", ")+" (default $"+driverVariable+" or goredis)")
	flags.StringVar(&t.prefix, "prefix", "", "what all clients put before the names of locks (default $"+prefixVariable+" or none)")
	flags.DurationVar(&t.quorum.NodeTimeout, "node-timeout", locker.DefaultNodeTimeout, "how long one server of a quorum is waited for")
	flags.DurationVar(&t.quorum.LongestTTL, "longest-ttl", locker.DefaultLongestTTL, "the longest TTL of any client of a quorum")
	flags.BoolVar(&t.quorum.Bootstrap, "bootstrap", false, "use the servers of a quorum at once, which must never have kept a lock")
}

func (t *target) completeFlags(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions(locker.Drivers(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"url", "prefix"} {
		_ = root.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// settle fills in from the environment what no flag has said.
func (t *target) settle() error {
	if len(t.urls) == 0 {
		t.urls = strings.Fields(os.Getenv(urlVariable))
	}
	if t.driver == "" {
		t.driver = os.Getenv(driverVariable)
	}
	if t.driver == "" {
		t.driver = "goredis"
	}
	if !t.flags.Changed("prefix") { // an empty --prefix says that there is none
		t.prefix = os.Getenv(prefixVariable)
	}
	switch n := len(t.urls); {
	case n == 0:
		return usage("no server: give --url redis://host:6379/0, or set %s", urlVariable)
	case n == 2 || n > 2 && n%2 == 0:
		return usage("%d servers make no quorum: give one --url, or an odd number of independent servers", n)
	case !slices.Contains(locker.Drivers(), t.driver):
		// The name is not shown: the two variables may have been swapped, and a URL may have a password.
		return usage("unknown driver, by --driver or %s: use one of %s", driverVariable, strings.Join(locker.Drivers(), ", "))
	}
	return nil
}

// open returns a client on the target.
func (t *target) open(opts ...locker.ClientOption) (*locker.Client, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	opts = append(opts, locker.Prefix(t.prefix))
	var client *locker.Client
	var err error
	if t.isQuorum() {
		client, err = redlock.Open(t.driver, t.urls, append(opts, t.quorum)...)
	} else {
		client, err = locker.Open(t.driver, t.urls[0], opts...)
	}
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return client, nil
}

// configs returns how each server is reached.
func (t *target) configs() ([]driver.Config, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	var all []driver.Config
	for _, url := range t.urls {
		cfg, err := driver.ParseDSN(url)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		all = append(all, cfg)
	}
	return all, nil
}
