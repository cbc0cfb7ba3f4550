package wire

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// A Match selects requests. The zero Match selects every one.
type Match struct {
	// Name is the command's name in any case; empty is any command.
	Name string
	// Arg is a part of one of the arguments after the name; empty is any.
	Arg string
	// Skip is how many matching requests pass before the rule applies.
	Skip int
	// Times is how many requests the rule applies to then. 0 means one,
	// a negative number all that follow. A [Wire.Count] ignores Skip and Times.
	Times int
}

func (m Match) selects(args []string) bool {
	if m.Name != "" && !strings.EqualFold(m.Name, args[0]) {
		return false
	}
	return m.Arg == "" || slices.ContainsFunc(args[1:], func(a string) bool { return strings.Contains(a, m.Arg) })
}

// An Action is what happens to a request that a rule selects, or to its reply.
// A connection keeps its order: what follows a request or a reply that is held
// waits behind it.
type Action struct {
	kind  kind
	delay time.Duration
	reply string
}

type kind int

const (
	pass kind = iota
	cutRequest
	cutReply
	halfReply
	silence
	blackHole
	holdRequest
	holdReply
	holdLast
	delayReply
	duplicate
	answer
)

var (
	// CutRequest closes the connection and never passes the request on: the
	// server does not execute it.
	CutRequest = Action{kind: cutRequest}
	// CutReply passes the request on, waits for the server's reply, drops it and
	// closes the connection: the server has executed the command.
	CutReply = Action{kind: cutReply}
	// HalfReply is CutReply, but the first half of the reply arrives.
	HalfReply = Action{kind: halfReply}
	// Silence passes the request on and from its reply on swallows everything
	// the server sends on this connection, which stays open.
	Silence = Action{kind: silence}
	// BlackHole swallows the request and from then on everything on this
	// connection, in both directions. It stays open.
	BlackHole = Action{kind: blackHole}
	// HoldRequest keeps the request until Release and passes it on then, even if
	// the client has given up and closed its connection: a late request.
	HoldRequest = Action{kind: holdRequest}
	// HoldReply passes the request on and keeps the reply until Release.
	HoldReply = Action{kind: holdReply}
	// HoldLast is HoldReply, but of a reply in several parts, as SUBSCRIBE of several
	// channels has, all but the last pass.
	HoldLast = Action{kind: holdLast}
	// Duplicate passes the request on twice. The server executes it twice, the
	// client gets the first reply only.
	Duplicate = Action{kind: duplicate}
)

// Delay passes the request on and its reply after d.
func Delay(d time.Duration) Action { return Action{kind: delayReply, delay: d} }

// Answer does not pass the request on; the client gets reply, which is in the
// format of the protocol, such as "-LOADING not yet\r\n".
func Answer(reply string) Action { return Action{kind: answer, reply: reply} }

// A Rule is an Action under way, made by [Wire.On].
type Rule struct {
	wire   *Wire
	match  Match
	action Action

	seen, applied int // guarded by wire.mu

	happened    chan struct{}
	happen      sync.Once
	released    chan struct{}
	releaseOnce sync.Once
}

// Happened returns a channel that is closed when the action has happened for
// the first time. For actions on a reply this is when the reply has come from
// the server; the command is executed by then.
func (r *Rule) Happened() <-chan struct{} { return r.happened }

// Release lets go what the rule holds, and holds nothing from then on. It is
// idempotent.
func (r *Rule) Release() { r.releaseOnce.Do(func() { close(r.released) }) }

// Remove ends the rule: no further request is selected. What it holds stays held
// until Release.
func (r *Rule) Remove() {
	r.wire.mu.Lock()
	defer r.wire.mu.Unlock()
	r.wire.rules = slices.DeleteFunc(r.wire.rules, func(o *Rule) bool { return o == r })
}

// Applied returns how many requests the rule has been applied to.
func (r *Rule) Applied() int {
	r.wire.mu.Lock()
	defer r.wire.mu.Unlock()
	return r.applied
}

func (r *Rule) done() { r.happen.Do(func() { close(r.happened) }) }

// applies reports whether the rule is for this request, and counts it.
// The caller holds wire.mu.
func (r *Rule) applies(args []string) bool {
	if !r.match.selects(args) {
		return false
	}
	r.seen++
	if r.seen <= r.match.Skip || r.match.Times >= 0 && r.applied >= max(1, r.match.Times) {
		return false
	}
	r.applied++
	return true
}
