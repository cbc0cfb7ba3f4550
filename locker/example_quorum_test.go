package locker_test

import (
	"errors"
	"log"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func ExampleNewQuorum() {
	var connectors []driver.Connector // three or five, from the Wrap functions of drivers
	client, err := locker.NewQuorum(connectors, locker.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleQuorumConfig() {
	var connectors []driver.Connector // three or five, from the Wrap functions of drivers
	client, err := locker.NewQuorum(connectors, locker.QuorumConfig{
		NodeTimeout: 200 * time.Millisecond,
		LongestTTL:  10 * time.Second, // so long is a node that was restarted left out
	}, locker.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleQuorumError() {
	var err error // from Lock
	if q, ok := errors.AsType[*locker.QuorumError](err); ok {
		for _, vote := range q.Votes {
			log.Printf("node %d: %s", vote.Node, vote.Answer)
		}
	}
}

func ExampleVote() {
	var q *locker.QuorumError
	for _, vote := range q.Votes {
		if errors.Is(vote.Err, locker.ErrLocked) {
			log.Printf("node %d has given the lock to somebody else", vote.Node)
		}
	}
}

func ExampleNodeHealth() {
	var client *locker.Client // from NewQuorum or package redlock
	for _, node := range client.Nodes() {
		if node.Suspect {
			log.Printf("node %d has not answered since %v: %v", node.Node, node.Answered, node.Err)
		}
	}
}
