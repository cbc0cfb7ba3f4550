package locker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// A history is what several workers do with one lock: data, drawn at random, that
// can be shrunk and replayed on any server.
//
// What is done happens at multiples of a step, and all times for which the server is to
// keep something are odd multiples of half of it. So nothing runs out within half a step
// of a request, and every reply can be foretold. How long a step is does not matter to it.
type history struct {
	modes   []mode
	counted bool // PUBLISH tells whether anybody listens
	doings  []doing
}

const (
	historyStep = 40 * time.Millisecond // where the machine can keep up
	workers     = 5
	owners      = 3
	longest     = 12
)

// doing is one thing that a worker does. Which request that makes depends on what
// the worker has done before.
type doing struct {
	pause  int // steps that pass before it
	verb   verb
	worker int
	other  int // whose lease is taken up, or which earlier request arrives once more
	// Of a lock that is asked for:
	owner, mode int
	fenced      bool
	within      bool
	alone       bool // by an owner of its own
	ttl, life   int
	channel     string
	late        bool // a request was not answered
}

type verb int

const (
	idle     verb = iota // what a history shrinks to
	ask                  // acquire; the first time, or once more under the same id
	set                  // the native SET NX
	renew                // by the claim's TTL or another
	end                  // release, or give up what is not had yet
	crash                // never do anything again about it
	attach               // take up what another has detached
	unattach             // give that back
	repeat               // an earlier request arrives once more
	force                // end all leases
	turnOver             // pass the lock on among the goroutines of a client
	verbs
)

var weights = [verbs]int{idle: 1, ask: 27, set: 3, renew: 5, end: 9, crash: 3, attach: 4, unattach: 2, repeat: 9, force: 1, turnOver: 4}

// The waiters' clients listen to channelsHeard. Nobody hears what is published to
// channelDeaf: a connection that is half open.
var channelsHeard = []string{"near", "far"}

const channelDeaf = "deaf"

func drawHistory(modes []mode) *rapid.Generator[history] {
	var list []verb
	for v, n := range weights {
		list = append(list, slices.Repeat([]verb{verb(v)}, n)...)
	}
	return rapid.Custom(func(t *rapid.T) history {
		h := history{modes: modes, counted: !rapid.Bool().Draw(t, "a cluster")}
		crowd, families := 2+below(t, workers-1), 2+below(t, owners-1)
		h.doings = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) doing {
			d := doing{
				pause: among(t, 0, 0, 0, 0, 1, 1, 1, 3), verb: among(t, list...),
				worker: below(t, crowd), other: below(t, 16),
			}
			switch d.verb {
			case ask, set, attach:
				d.owner, d.mode, d.fenced, d.within = below(t, families), below(t, len(modes)), below(t, 4) > 0, below(t, 2) > 0
				d.alone = below(t, 4) == 0
				d.ttl, d.life, d.channel = below(t, longest), max(below(t, longest+3)-4, -1), among(t, "near", "near", "far", "", "", channelDeaf)
			case renew:
				d.ttl, d.fenced = below(t, longest), below(t, 2) > 0
			case end:
				d.late = below(t, 2) > 0
			}
			return d
		}), 16, 36).Draw(t, "doings")
		return h
	})
}

// below draws a number from 0 to n-1. Unlike rapid's own, which prefer small ones, it
// is uniform.
func below(t *rapid.T, n int) int {
	bits := 0
	for range 8 {
		bits *= 2
		if rapid.Bool().Draw(t, "") {
			bits++
		}
	}
	return bits * n / 256
}

func among[T any](t *rapid.T, list ...T) T { return list[below(t, len(list))] }

// GoString keeps rapid's log short: a history that fails is shown as it went.
func (h history) GoString() string { return fmt.Sprintf("a history of %d doings", len(h.doings)) }

// A claim is one attempt at the lock, and the lease that comes of it.
type claim struct {
	name   string // such as "B2": the second one of the worker B
	number int
	mode   mode
	owner  string
	alone  bool // it says that its owner has no other hold
	ttl    time.Duration
	fenced bool
	within *claim // that it re-enters
	from   *claim // the detached lease that it takes up
	unsure *claim // that may have taken it up before

	believed bool // its worker knows that it holds the lock
	scripted bool // asked for by a script, so that it may be asked for once more
	asked    bool
	queued   bool // it may have a place in the queue
}

// id is what the claim is called on the server.
func (c *claim) id() string { return fmt.Sprintf("%032x", c.number) }

func (c *claim) reservation() string { return fmt.Sprintf("ee%030x", c.number) }

func (c *claim) String() string {
	if c == nil {
		return "nothing"
	}
	s := c.name
	if c.mode.owned() {
		s += " of " + c.owner
	}
	return s
}

// describe tells what is asked for.
func (c *claim) describe() string {
	what := map[mode]string{modeMutex: "the mutex", modeReentrant: "the reentrant lock", modeRead: "to read", modeWrite: "to write"}[c.mode]
	var b strings.Builder
	fmt.Fprintf(&b, "%s for %v", what, c.ttl)
	if c.fenced {
		b.WriteString(", fenced")
	}
	if c.alone {
		b.WriteString(", alone")
	}
	if c.within != nil {
		fmt.Fprintf(&b, ", within %s", c.within.name)
	}
	return b.String()
}

// wanted is the place in the queue that is asked for; none if life is 0.
type wanted struct {
	channel string
	life    time.Duration
}

func (w wanted) String() string {
	switch {
	case w.life == 0:
		return ""
	case w.channel == "":
		return fmt.Sprintf(", or a place for %v, polling", w.life)
	}
	return fmt.Sprintf(", or a place for %v, listening to %q", w.life, w.channel)
}

// A sending is one request, as it goes to the server.
type sending struct {
	verb     verb
	claim    *claim
	want     wanted
	ttl      time.Duration
	fenced   bool
	remember time.Duration
	queued   bool
	release  bool
}

func (s *sending) String() string {
	c := s.claim
	switch s.verb {
	case ask:
		return fmt.Sprintf("%v asks %s%v", c, c.describe(), s.want)
	case set:
		return fmt.Sprintf("%v sets %s", c, c.describe())
	case renew:
		return fmt.Sprintf("%v renews for %v", c, s.ttl)
	case end:
		if s.release {
			return fmt.Sprintf("%v releases", c)
		}
		return fmt.Sprintf("%v gives up", c)
	case attach:
		return fmt.Sprintf("%v takes up %v, or %v: %s", c, c.from, c.unsure, c.describe())
	case unattach:
		return fmt.Sprintf("%v is given back to %v", c, c.from)
	case force:
		return "all are forced to release"
	case turnOver:
		return fmt.Sprintf("%v passes the lock on", c)
	}
	return "nothing is done"
}

func kindOf(m mode) string {
	switch m {
	case modeMutex:
		return "mutex"
	case modeReentrant:
		return "reentrant lock"
	}
	return "read-write lock"
}
