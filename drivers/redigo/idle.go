package redigo

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

const (
	// A connection idle for checkAfter is asked whether it still works before
	// a command is risked on it, and given checkTimeout to answer.
	checkAfter   = time.Second
	checkTimeout = time.Second
	// A silence that lasted for telling says something about the connection, although
	// the caller that waited for the reply gave up: it is longer than any network takes for a reply, and
	// shorter than what requests about a lease of a second are given.
	telling = 250 * time.Millisecond
)

var errSuspect = errors.New("redigo: another connection broke or fell silent after this one was last used")

// distrust makes the pool drop the connections that are idle and were last used before
// since. A server that restarted or was demoted, or a network that has forgotten all
// connections, then costs one failed call, not one per connection.
func (o *opener) distrust(since time.Time) {
	for {
		last := o.trusted.Load()
		if last != nil && !since.After(*last) || o.trusted.CompareAndSwap(last, &since) {
			return
		}
	}
}

// check decides whether an idle connection may be used again.
func (o *opener) check(ctx context.Context, rc redis.Conn, lastUsed time.Time) error {
	if since := o.trusted.Load(); since != nil && lastUsed.Before(*since) {
		return errSuspect
	}
	asked := time.Now()
	if asked.Sub(lastUsed) < checkAfter {
		return nil
	}
	question, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var err error
	if o.cfg.Mode == driver.ModeSentinel {
		err = askRole(question, rc)
	} else {
		_, err = ask(question, rc, "PING")
	}
	switch {
	case err == nil, driver.OutcomeOf(err) == driver.OutcomeReplied:
		return nil // it works
	case aside.Ended(ctx) == nil:
		o.distrust(time.Now())
		return err
	case time.Since(asked) >= telling:
		o.distrust(asked) // otherwise each call would find that out anew, and have no time left
	}
	return nil // otherwise the pool would close one connection after another; the call will notice that its ctx has ended
}
