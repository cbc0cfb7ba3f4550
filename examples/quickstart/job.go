package main

import (
	"context"
	"time"

	"github.com/golocker/golocker/locker"
)

// A job is what a worker needs to know.
type job struct {
	Worker string
	Driver string
	URL    string
	TTL    time.Duration
	Prefix string // so that runs on one server do not meet
	Ledger string // the ledger's address
}

// open is all it takes to choose a client: its name and the server's URL.
func (j job) open() (*locker.Client, error) {
	return locker.Open(j.Driver, j.URL,
		locker.Label(j.Worker), locker.Prefix(j.Prefix), locker.TTL(j.TTL), locker.Fenced())
}

// check finds out early whether the server can be reached.
func (j job) check() error {
	client, err := j.open()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lease, err := client.Mutex("check").TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}
