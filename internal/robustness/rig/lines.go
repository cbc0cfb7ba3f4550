package rig

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/golocker/golocker/conformance/wire"
)

// lines are the lines of every worker, so that each can be cut off alone.
type lines struct {
	mu   sync.Mutex
	laid map[string][]*wire.Wire // by worker
}

func newLines(tb testing.TB) *lines {
	l := &lines{laid: map[string][]*wire.Wire{}}
	tb.Cleanup(func() {
		for worker := range l.laid {
			if err := l.remove(worker); err != nil {
				tb.Error(err)
			}
		}
	})
	return l
}

// lay makes a worker's lines to the addresses and returns where they begin.
func (l *lines) lay(worker string, addrs []string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.laid[worker] != nil {
		return nil, fmt.Errorf("rig: there are lines of a worker %q already", worker)
	}
	var through []string
	for _, addr := range addrs {
		w := wire.New(wire.TCP(addr))
		l.laid[worker] = append(l.laid[worker], w)
		begin, err := w.Listen()
		if err != nil {
			return nil, err
		}
		through = append(through, begin)
	}
	return through, nil
}

func (l *lines) of(worker string) []*wire.Wire {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.laid[worker]
}

func (l *lines) remove(worker string) error {
	l.mu.Lock()
	laid := l.laid[worker]
	delete(l.laid, worker)
	l.mu.Unlock()
	var errs []error
	for _, w := range laid {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
