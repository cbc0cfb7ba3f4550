package worker

import (
	"fmt"
	"strings"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/locker"
)

// A Kind is what kind of lock stands at a name. All workers agree on it.
type Kind int

// The kinds of locks.
const (
	Mutex Kind = iota
	FencedMutex
	Reentrant
	ReadWrite
	kinds
)

// A Lock is a name and what stands there.
type Lock struct {
	Name string
	Kind Kind
}

// hostile are names that are hard on keys, slots, patterns and logs.
var hostile = []string{
	"a}b", "{", "}", "{}", "{}{x}", "x{tag}y", "{tag}", "nul\x00nul", "\xff\xfe not text",
	"line\r\nSET k v\r\n", " ", "*", "%s%d%!", "ünïcode 錠", "\x1b[31m", strings.Repeat("long{", 200),
}

// popular is how many locks, the first ones, are wanted by many.
const popular = int(kinds)

// Locks are all locks of a round: some that are wanted by many, some with hostile
// names, and n others.
func Locks(n int) []Lock {
	var all []Lock
	add := func(name string) {
		all = append(all, Lock{name, Kind(len(all) % int(kinds))})
	}
	for i := range popular {
		add(fmt.Sprintf("popular-%d", i))
	}
	for _, name := range hostile {
		add(name)
	}
	for i := range n {
		add(fmt.Sprintf("lock-%d", i))
	}
	return all
}

// options are those of a mode of lock.
func options(mode history.Mode) []locker.Option {
	switch mode {
	case history.Fenced:
		return []locker.Option{locker.Fenced()}
	case history.Reentrant:
		return []locker.Option{locker.Reentrant(), locker.Fenced()}
	case history.Read:
		return []locker.Option{locker.ForReading(), locker.Fenced()}
	case history.Write:
		return []locker.Option{locker.ForWriting(), locker.Fenced()}
	default:
		return nil
	}
}

// strictest is the mode in which a lock of that kind is had by one alone.
func (k Kind) strictest() history.Mode {
	return [...]history.Mode{history.Plain, history.Fenced, history.Reentrant, history.Write}[k]
}

// owned tells whether holds of a lock have an owner, who may have several.
func (k Kind) owned() bool { return k == Reentrant || k == ReadWrite }
