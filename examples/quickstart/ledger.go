package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/golocker/golocker/locker"
)

const prizes = 10

// An entry is what a worker tells the ledger.
type entry struct {
	Worker string
	Job    string // "lottery" or "market"
	Token  locker.Token
	Prize  int
	Name   string
}

// A state is what a worker reads before it writes.
type state struct {
	Winners []string
	Buyer   string
}

// The ledger is the resource that the lock guards. By itself it keeps nobody from
// writing nonsense; all it does is to refuse a fencing token that is smaller than
// the largest it has seen. Besides, it watches for violations.
type ledger struct {
	stage stage

	mu       sync.Mutex
	state    state
	tokens   map[string]locker.Token // the largest of each job
	changed  chan struct{}           // closed and renewed with each larger token
	inside   map[string]string       // job → worker
	idle     map[string]bool         // workers that cannot run: killed or stopped
	refused  int
	killed   int
	failures []string

	// pause is asked between a worker's reading and writing.
	pause func(worker string)
}

// A stage is where the ledger tells what happens.
type stage interface {
	Say(format string, args ...any)
	Print(format string, args ...any)
}

func newLedger(s stage) *ledger {
	return &ledger{
		stage:  s,
		tokens: map[string]locker.Token{}, changed: make(chan struct{}),
		inside: map[string]string{}, idle: map[string]bool{},
		pause: func(string) {},
	}
}

func (l *ledger) handler() http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, do func(entry) (state, bool)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var e entry
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			s, ok := do(e)
			if !ok {
				w.WriteHeader(http.StatusConflict)
				return
			}
			json.NewEncoder(w).Encode(s)
		})
	}
	serve("/enter", l.enter)
	serve("/leave", l.leave)
	serve("/write", l.write)
	serve("/pause", func(e entry) (state, bool) { l.pause(e.Worker); return state{}, true })
	return mux
}

func (l *ledger) violation(format string, args ...any) {
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
	l.stage.Say("VIOLATION: "+format, args...)
}

func (l *ledger) enter(e entry) (state, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.inside[e.Job]; other != "" && !l.idle[other] {
		l.violation("%s and %s hold the lock %q at the same time", other, e.Worker, e.Job)
	}
	if e.Token <= l.tokens[e.Job] {
		l.violation("%s was granted token %v after %v", e.Worker, e.Token, l.tokens[e.Job])
	} else {
		l.tokens[e.Job] = e.Token
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.inside[e.Job] = e.Worker
	delete(l.idle, e.Worker) // it runs
	return l.state, true
}

func (l *ledger) leave(e entry) (state, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[e.Job] == e.Worker {
		delete(l.inside, e.Job)
	}
	return l.state, true
}

func (l *ledger) write(e entry) (state, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Token < l.tokens[e.Job] {
		l.refused++
		l.stage.Say("%s wants to write with token …%06d: refused, …%06d has been here", e.Worker, e.Token%1e6, l.tokens[e.Job]%1e6)
		return l.state, false
	}
	switch e.Job {
	case "lottery":
		l.draw(e)
	case "market":
		if l.state.Buyer != "" {
			l.violation("the last ticket is sold to %s and again to %s", l.state.Buyer, e.Name)
		}
		l.state.Buyer = e.Name
		l.stage.Say("%s buys the last ticket", e.Name)
	}
	return l.state, true
}

func (l *ledger) draw(e entry) {
	for _, name := range l.state.Winners {
		if name == e.Name {
			l.violation("%s wins twice", name)
		}
	}
	if e.Prize != len(l.state.Winners)+1 || e.Prize > prizes {
		l.violation("prize %d is drawn when it is the turn of %d", e.Prize, len(l.state.Winners)+1)
	}
	l.state.Winners = append(l.state.Winners, e.Name)
	l.stage.Say("%s draws prize %2d: %s", e.Worker, e.Prize, e.Name)
}

// summary prints what happened and tells whether all went well.
func (l *ledger) summary() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.state.Winners) != prizes {
		l.violation("%d winners instead of %d", len(l.state.Winners), prizes)
	}
	if l.state.Buyer == "" {
		l.violation("the last ticket was not sold")
	}
	l.stage.Print(`
Winners drawn:              %d of %d
Last ticket sold to:        %s
Workers killed in the act:  %d
Late writes refused:        %d
Violations:                 %d
`, len(l.state.Winners), prizes, l.state.Buyer, l.killed, l.refused, len(l.failures))
	return len(l.failures) == 0
}
