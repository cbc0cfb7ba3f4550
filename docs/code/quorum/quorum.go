// Package quorum is the code of docs/redlock.md.
package quorum

import (
	"context"
	"errors"
	"log"
	"time"

	_ "github.com/golocker/golocker/drivers/goredis" // for Open by name
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// Open opens a client on a quorum and takes a lock there.
func Open(ctx context.Context, work func(ctx context.Context) error) error {
	client, err := redlock.Open("goredis", []string{
		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
	})
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.Do(ctx, "orders:42", work, locker.Fenced())
	return err
}

// Configured sets all that can be set.
func Configured(connectors []driver.Connector) (*locker.Client, error) {
	client, err := redlock.New(connectors, redlock.Config{
		NodeTimeout: 200 * time.Millisecond,
		LongestTTL:  30 * time.Second,
		Bootstrap:   true,
	})
	return client, err
}

// LogVotes tells what each node said.
func LogVotes(err error) {
	var q *locker.QuorumError
	if errors.As(err, &q) {
		for _, v := range q.Votes {
			log.Printf("node %d: %s", v.Node, v.Answer)
		}
	}
}
