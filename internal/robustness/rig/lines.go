package rig

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/golocker/golocker/conformance/wire"
)

// lines are those of every worker, so that each can be cut off alone.
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

// lay makes a worker's lines and returns the addresses at which they begin.
func (l *lines) lay(worker string, ends []wire.Backend) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.laid[worker] != nil {
		return nil, fmt.Errorf("rig: the worker %q has its lines already", worker)
	}
	var begins []string
	for _, end := range ends {
		w := wire.New(end)
		w.Forget()
		l.laid[worker] = append(l.laid[worker], w)
		begin, err := w.Listen()
		if err != nil {
			return nil, err
		}
		begins = append(begins, begin)
	}
	return begins, nil
}

func (l *lines) of(worker string) []*wire.Wire {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.laid[worker])
}

// remove closes a worker's lines. That a client or server did not speak the protocol
// is an error: then the faults have not been what they are said to be.
func (l *lines) remove(worker string) error {
	l.mu.Lock()
	laid := l.laid[worker]
	delete(l.laid, worker)
	l.mu.Unlock()
	var errs []error
	for _, w := range laid {
		errs = append(errs, w.Close())
		for _, what := range w.Broken() {
			errs = append(errs, fmt.Errorf("rig: a line of the worker %q: %s", worker, what))
		}
	}
	return errors.Join(errs...)
}
