package nemesis

import (
	"context"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/robustness/rig"
)

// lineFaults are those of the lines between workers and servers.
func lineFaults() []Fault {
	cut := func(shut func(*wire.Wire)) lineFault {
		return func(_ *Scene, w *wire.Wire) func() {
			shut(w)
			return w.Heal
		}
	}
	fault := func(name string, do lineFault) Fault {
		return Fault{Name: name, Kinds: everywhere, Inject: onLines(do)}
	}
	return []Fault{
		fault("wire-partition", cut((*wire.Wire).Partition)),
		fault("wire-requests-lost", cut((*wire.Wire).PartitionRequests)),
		fault("wire-replies-lost", cut((*wire.Wire).PartitionReplies)),
		fault("wire-half-open", halfOpen),
		fault("wire-reset", reset),
		fault("wire-refused", refuse),
		fault("wire-delay", delay),
		fault("wire-reply-lost-after-apply", rarely(wire.CutReply)),
		fault("wire-request-twice", twice),
		fault("wire-request-late", rarely(wire.HoldRequest)),
	}
}

// A lineFault does a fault to one line and returns how to undo it.
type lineFault func(s *Scene, w *wire.Wire) (undo func())

// onLines makes a fault's Inject of what is done to the lines of one or more workers: to
// some of them, or behind Sentinels to both, of which one is not used.
func onLines(do lineFault) func(context.Context, *Scene) (Heal, error) {
	return func(_ context.Context, s *Scene) (Heal, error) {
		running := s.Workers.Running()
		names, release, err := s.claim(1+s.intN(max(1, len(running))), running...)
		if err != nil {
			return nil, err
		}
		var undo []func()
		for _, name := range names {
			lines := s.Rig.Lines(name)
			if len(lines) == 0 { // it has just ended
				continue
			}
			if s.Rig.Kind != rig.Sentinel {
				s.shuffle(lines)
				lines = lines[:1+s.intN(len(lines))]
			}
			for _, w := range lines {
				undo = append(undo, do(s, w))
			}
		}
		if len(undo) == 0 {
			release()
			return nil, ErrBusy
		}
		return func(context.Context) error {
			defer release()
			for _, f := range undo {
				f()
			}
			return nil
		}, nil
	}
}

// halfOpen makes open connections swallow everything for ever, while new ones can be made.
func halfOpen(_ *Scene, w *wire.Wire) func() {
	w.Mute()
	return func() {}
}

// reset resets all connections now and when it is healed.
func reset(_ *Scene, w *wire.Wire) func() {
	w.Reset()
	return w.Reset
}

// refuse ends all connections and lets nobody make new ones.
func refuse(_ *Scene, w *wire.Wire) func() {
	w.Refuse(true)
	w.KillAll()
	return func() { w.Refuse(false) }
}

// delay makes replies arrive late, by up to a twentieth of a lease.
func delay(s *Scene, w *wire.Wire) func() {
	rule := w.On(wire.Match{Times: -1}, wire.Delay(s.between(time.Millisecond, s.TTL/20)))
	return rule.Remove
}

// lockCommands are those that locks consist of. To do to others what is done to them would
// only disturb the making of connections.
var lockCommands = []string{"EVALSHA", "EVAL", "SET"}

// twice has every command of a lock executed twice.
func twice(_ *Scene, w *wire.Wire) func() {
	var rules []*wire.Rule
	for _, name := range lockCommands {
		rules = append(rules, w.On(wire.Match{Name: name, Times: -1}, wire.Duplicate))
	}
	return func() {
		for _, rule := range rules {
			rule.Remove()
		}
	}
}

// rarely does something to the next command of a lock and then to one in a while. What is
// held is let go when that is healed: most have given up by then.
func rarely(a wire.Action) lineFault {
	const times, distance = 20, 50
	return func(s *Scene, w *wire.Wire) func() {
		var rules []*wire.Rule
		for _, name := range lockCommands {
			for i := range times {
				m := wire.Match{Name: name}
				if i > 0 {
					m.Skip = s.intN(distance * i)
				}
				rules = append(rules, w.On(m, a))
			}
		}
		return func() {
			for _, rule := range rules {
				rule.Remove()
				rule.Release()
			}
		}
	}
}
