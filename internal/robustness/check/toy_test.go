package check_test

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A toy is a small lock of the same kind as the project's: read-write, fenced, fair,
// renewed, with deadlines counted from the sending. Its purpose is to be broken.
type toy struct {
	flaw
	client                  *redis.Client
	acquire, renew, release *redis.Script

	mu    sync.Mutex
	bells map[string]chan struct{} // closed when the lock of that name is released
}

// A flaw is what is wrong with a toy; the zero flaw is none.
type flaw struct {
	// in names the script in which the text old is replaced by new.
	in, old, new string
	// In the client:
	countsFromReply bool // the deadline, and not from the request
	ignoresDeadline bool // a lease is valid until the server says that it is not
	armsLater       bool // the record gets its TTL by a second command
	looksThenTakes  bool // in two commands
	sleepsDeaf      bool // a waiter does not poll, and hears only what comes after its attempt
	releaseSucceeds bool // whatever the server says
}

const (
	toyTTL    = 60 * time.Millisecond
	toyMargin = 12 * time.Millisecond
	toyPoll   = 10 * time.Millisecond
	// toyWait is how long a waiter waits.
	toyWait = 2500 * time.Millisecond
)

//go:embed testdata/acquire.lua
var acquireLua string

//go:embed testdata/renew.lua
var renewLua string

//go:embed testdata/release.lua
var releaseLua string

func newToy(t *testing.T, client *redis.Client, f flaw) *toy {
	t.Helper()
	script := func(name, source string) *redis.Script {
		if f.in == name {
			require.Equal(t, 1, strings.Count(source, f.old), "the flaw is not in the script")
			source = strings.Replace(source, f.old, f.new, 1)
		}
		return redis.NewScript(source)
	}
	return &toy{
		flaw: f, client: client, acquire: script("acquire", acquireLua), renew: script("renew", renewLua), release: script("release", releaseLua),
		bells: map[string]chan struct{}{},
	}
}

// next returns what is closed by the next release of a lock.
func (t *toy) next(name string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bells[name] == nil {
		t.bells[name] = make(chan struct{})
	}
	return t.bells[name]
}

// ring wakes all who wait for the lock.
func (t *toy) ring(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bell := t.bells[name]; bell != nil {
		close(bell)
		delete(t.bells, name)
	}
}

var (
	errUnknown = errors.New("the reply is lost")
	errGone    = errors.New("the lease is gone from the server")
	errLocked  = errors.New("locked")
	errCrash   = errors.New("crashed")
)

// A line is the way of one worker to the server, on which requests and replies may be
// late, and replies be lost.
type line struct {
	*toy
	rand *rand.Rand
}

func (l line) oneIn(n int) bool { return l.rand.IntN(n) == 0 }

func (l line) lag() {
	if l.oneIn(25) {
		time.Sleep(time.Duration(l.rand.Int64N(int64(3 * toyTTL / 2))))
	}
}

func (l line) do(script *redis.Script, name string, args ...any) ([]string, error) {
	l.lag()
	reply, err := script.Run(context.Background(), l.client, []string{name, name + ":fence", name + ":queue"}, args...).Result()
	if err != nil {
		return nil, err
	}
	l.lag()
	if l.oneIn(30) {
		return nil, errUnknown
	}
	if n, ok := reply.(int64); ok {
		return []string{strconv.FormatInt(n, 10)}, nil
	}
	list := reply.([]any)
	return []string{strconv.FormatInt(list[0].(int64), 10), list[1].(string)}, nil
}

// A toyLease is a hold of a toy lock.
type toyLease struct {
	line
	name, id string
	token    uint64
	sent     time.Time // the request that armed it
	deadline time.Time
	lost     error
}

// lock takes the lock, or returns errLocked if it is not had now, or in toyWait.
func (l line) lock(name, id, mode string, try bool) (*toyLease, error) {
	lease := &toyLease{line: l, name: name, id: id}
	for begun := time.Now(); ; {
		heard := l.next(name)
		reply, err := lease.attempt(mode, try)
		switch {
		case errors.Is(err, errUnknown):
			continue // the same id once more, counted from the first sending
		case err != nil:
			return nil, err
		case reply[0] == "1":
			if lease.token, err = strconv.ParseUint(reply[1], 10, 64); err != nil {
				return nil, err
			}
			if lease.err() == nil {
				return lease, nil
			}
			lease.giveUp()
			return nil, errUnknown
		case try:
			return nil, errLocked
		}
		lease.sent = time.Time{}
		poll := time.After(toyPoll)
		if l.sleepsDeaf {
			time.Sleep(toyPoll) // what rings now is not heard
			heard, poll = l.next(name), nil
		}
		select {
		case <-heard:
		case <-poll:
		case <-time.After(toyWait - time.Since(begun)):
		}
		if time.Since(begun) > toyWait {
			lease.giveUp()
			return nil, errLocked
		}
	}
}

func (l *toyLease) attempt(mode string, try bool) ([]string, error) {
	if l.looksThenTakes {
		if n, err := l.client.HLen(context.Background(), l.name).Result(); err != nil || n > 0 {
			return []string{"0", "0"}, err
		}
		l.lag()
	}
	waits := "1"
	if try {
		waits = "0"
	}
	sent := time.Now()
	if l.sent.IsZero() {
		l.sent = sent
	}
	reply, err := l.do(l.acquire, l.name, l.id, mode, toyTTL.Milliseconds(), waits)
	if err == nil && reply[0] == "1" {
		if l.armsLater {
			if l.oneIn(10) {
				return nil, errCrash
			}
			l.client.PExpire(context.Background(), l.name, toyTTL)
		}
		l.armed(l.sent)
	}
	return reply, err
}

func (l *toyLease) armed(sent time.Time) {
	if l.countsFromReply {
		sent = time.Now()
	}
	l.sent, l.deadline = sent, sent.Add(toyTTL-toyMargin)
}

// err returns why the lease is lost; once lost it is so for ever.
func (l *toyLease) err() error {
	if l.lost == nil && !l.ignoresDeadline && !time.Now().Before(l.deadline) {
		l.lost = errors.New("its deadline passed")
	}
	return l.lost
}

// keep renews the lease when it is time.
func (l *toyLease) keep() {
	if time.Since(l.sent) < toyTTL/3 {
		return
	}
	sent := time.Now()
	reply, err := l.do(l.renew, l.name, l.id, toyTTL.Milliseconds())
	switch {
	case l.err() != nil || err != nil:
	case reply[0] == "1":
		l.armed(sent)
	default:
		l.lost = errGone
	}
}

// unlock returns nil if the lock was held until then.
func (l *toyLease) unlock() error {
	defer l.ring(l.name)
	reply, err := l.do(l.release, l.name, l.id, l.token)
	if err == nil && reply[0] != "1" && !l.releaseSucceeds {
		return errGone
	}
	return err
}

func (l *toyLease) giveUp() {
	for {
		if _, err := l.do(l.release, l.name, l.id, l.token); !errors.Is(err, errUnknown) {
			l.ring(l.name)
			return
		}
	}
}

func (l *toyLease) until() history.Time { return history.Of(l.deadline) }
