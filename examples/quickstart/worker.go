package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

// work is a worker process.
func work(ctx context.Context, p *demo.Part) error {
	client, err := p.Open(p.Name, locker.Fenced())
	if err != nil {
		return err
	}
	defer client.Close()
	w := worker{name: p.Name, ledger: p.Args[0]}

	for done := false; !done; {
		err := client.Do(ctx, "lottery", func(ctx context.Context) error {
			var err error
			done, err = w.draw(ctx)
			return err
		})
		// A worker that lost the lock has done nothing: it tries again.
		if err != nil && !errors.Is(err, locker.ErrLost) {
			return err
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // applause
	}
	return client.Do(ctx, "market", w.buy)
}

type worker struct{ name, ledger string }

// draw is done under the lock. It tells whether all winners are drawn.
func (w worker) draw(ctx context.Context) (done bool, err error) {
	lease, _ := locker.FromContext(ctx)
	at := entry{Worker: w.name, Job: "lottery", Token: lease.Token()}
	state, err := w.post("/enter", at)
	if err != nil {
		return false, err
	}
	defer w.post("/leave", at)
	if len(state.Winners) == prizes {
		return true, nil
	}
	drawn := map[string]bool{}
	for _, name := range state.Winners {
		drawn[name] = true
	}
	for at.Name = ""; at.Name == "" || drawn[at.Name]; {
		at.Name = fmt.Sprintf("visitor %d", 1+rand.IntN(100))
	}
	at.Prize = len(state.Winners) + 1
	time.Sleep(20 * time.Millisecond) // drum roll
	// Here, between reading and writing, is where the accidents happen.
	if _, err := w.post("/pause", at); err != nil {
		return false, err
	}
	// A careful worker asks lease.Valid() before it writes. This one does not:
	// the ledger refuses a late write by its fencing token all the same.
	_, err = w.post("/write", at)
	return false, err
}

// buy is done under another lock.
func (w worker) buy(ctx context.Context) error {
	lease, _ := locker.FromContext(ctx)
	at := entry{Worker: w.name, Job: "market", Token: lease.Token()}
	state, err := w.post("/enter", at)
	if err != nil {
		return err
	}
	defer w.post("/leave", at)
	if state.Buyer != "" {
		return nil // sold out
	}
	time.Sleep(20 * time.Millisecond) // looking for the purse
	at.Name = w.name
	_, err = w.post("/write", at)
	return err
}

// post sends an entry to the ledger and returns its state.
func (w worker) post(path string, e entry) (state, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return state{}, err
	}
	reply, err := http.Post("http://"+w.ledger+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return state{}, err
	}
	defer reply.Body.Close()
	var s state
	if reply.StatusCode == http.StatusConflict {
		return s, fmt.Errorf("the ledger refused token %v: %w", e.Token, locker.ErrLost)
	}
	return s, json.NewDecoder(reply.Body).Decode(&s)
}
