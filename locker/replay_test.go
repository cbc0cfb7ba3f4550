package locker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A replay runs a history on a server and holds every reply against the model's.
type replay struct {
	client *Client
	conn   driver.Conn
	sub    driver.Subscription
	name   string
	keys   keys
	begun  time.Time
	pace   time.Duration // of a step
	// slack is how late a request may be, and how far what the server says of times may
	// lie from what is foretold.
	slack time.Duration

	crew   crew
	model  model
	tokens map[int]Token  // by the number that the model has for it
	places map[int]string // likewise
	lines  []string
}

// errDelayed tells that the machine was too slow for a history to mean anything.
var errDelayed = errors.New("delayed")

// newReplay prepares a history about the lock called name, with steps of that length. The
// replay is to be closed.
func newReplay(ctx context.Context, f *fakeDeployment, name string, step, slack time.Duration) (*replay, error) {
	client, err := New(f)
	if err != nil {
		return nil, err
	}
	conn, err := client.store.link.get(ctx)
	if err != nil {
		return nil, err
	}
	sub, err := conn.(driver.Subscriber).Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	r := &replay{
		client: client, conn: conn, sub: sub, name: name, keys: newKeys(name), pace: step, slack: slack,
		tokens: map[int]Token{0: 0}, places: map[int]string{0: ""},
	}
	for _, c := range channelsHeard {
		if err := sub.Add(ctx, r.channel(c)); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// channel returns the name that one of the channels has on the server.
func (r *replay) channel(c string) string {
	if c == "" {
		return ""
	}
	return sidePrefix + "c:" + r.name + ":" + c
}

func (r *replay) close() {
	r.sub.Close()
	r.client.Close()
}

// run replays h. Its error shows the history up to where the server did not do what
// the model does.
func (r *replay) run(ctx context.Context, h history) error {
	r.crew = crew{modes: h.modes, pace: r.pace}
	r.model = model{counted: h.counted, over: map[string]bool{}}
	r.client.store.link.counts.Store(h.counted)
	r.begun = time.Now()
	at := time.Duration(0)
	for _, d := range h.doings {
		at += time.Duration(d.pause) * r.pace
		s, again := r.crew.next(d)
		if s == nil {
			continue
		}
		if err := r.step(ctx, at, s, again); err != nil {
			return err
		}
	}
	// Whatever has happened, the lock can be had when all is over.
	at += longest * r.pace
	for _, m := range h.modes {
		d := doing{verb: ask, worker: 0, life: -1}
		r.crew.modes, r.crew.claims[0] = []mode{m}, nil
		s, _ := r.crew.next(d)
		if err := r.step(ctx, at, s, false); err != nil {
			return err
		}
		if r.model.hold(s.claim.name) == nil {
			return r.failure("", "the model does not let it have the lock in the end")
		}
		status, err := r.client.Inspect(ctx, r.name)
		if r.delayed(at) {
			return errDelayed
		}
		if err != nil || len(status.Holders) != 1 || status.Holders[0].Metadata != s.claim.name {
			return r.failure("", fmt.Sprintf("Inspect shows %+v, %v", status, err))
		}
		s, _ = r.crew.next(doing{verb: end})
		if err := r.step(ctx, at, s, false); err != nil {
			return err
		}
	}
	return nil
}

// step makes one request at its time and compares.
func (r *replay) step(ctx context.Context, at time.Duration, s *sending, again bool) error {
	time.Sleep(time.Until(r.begun.Add(at)))
	r.model.advance(at)
	want := r.expect(s)
	line := fmt.Sprintf("%6v  %v", at, s)
	if again {
		line = fmt.Sprintf("%6v  once more: %v", at, s)
	}
	got, err := r.send(ctx, s)
	if err == nil {
		err = r.compare(want, got)
	}
	if err == nil {
		line += " → " + got.String()
		err = r.checkMessages(ctx)
	}
	if err == nil {
		err = r.checkState(ctx)
	}
	if r.delayed(at) {
		return errDelayed
	}
	if err != nil {
		return r.failure(line, err.Error())
	}
	r.lines = append(r.lines, line)
	r.learn(s, want, again)
	return nil
}

// delayed tells whether what was to happen at that time is too late to have been foretold.
func (r *replay) delayed(at time.Duration) bool { return time.Since(r.begun)-at > r.slack }

// learn tells the workers what they hold, by replies and messages.
func (r *replay) learn(s *sending, want modelReply, again bool) {
	if want.finding == isHeld && !again {
		s.claim.believed = true
	}
	for _, m := range r.model.published {
		m.claim.believed = m.claim.believed || m.grant
	}
}

func (r *replay) failure(line, problem string) error {
	return fmt.Errorf("PUBLISH counts: %v\n%s\n%s\n%s", r.model.counted, strings.Join(r.lines, "\n"), line, problem)
}
