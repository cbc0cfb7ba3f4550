// Package report keeps what the scenarios have measured, as lines of JSON, and makes
// tables of it.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
)

// A Cell is what is measured in each round.
type Cell struct {
	Scenario   string `json:"scenario"`
	Params     string `json:"params"` // such as "goroutines=16 cs=1ms"
	Contestant string `json:"contestant"`
}

// A Sample is one measurement of a cell.
type Sample struct {
	Cell
	Round int                `json:"round"`
	M     map[string]float64 `json:"m"` // metrics by their key
	Note  string             `json:"note,omitempty"`
	Errs  map[string]int     `json:"errs,omitempty"` // how many errors of each text

	run int // which of the runs that were loaded it belongs to
}

// Meta says what was measured with, and where.
type Meta struct {
	Time   string            `json:"time"`
	Args   []string          `json:"args"`
	Go     string            `json:"go"`
	Server string            `json:"server"`
	System string            `json:"system"`
	CPU    string            `json:"cpu"`
	CPUs   int               `json:"cpus"`
	Load   float64           `json:"load"` // average of the minute before
	Deps   map[string]string `json:"deps"` // versions of modules
}

// line is one line of a file of samples.
type line struct {
	Meta *Meta `json:"meta,omitempty"`
	*Sample
}

// A Recorder keeps samples and writes each as a line of JSON. It may be used from
// several goroutines.
type Recorder struct {
	mu  sync.Mutex
	set Set
	raw *json.Encoder // nil: they are kept only
	log io.Writer
}

// NewRecorder begins a run. Samples go to raw, if that is not nil, and what
// happens is told to log.
func NewRecorder(raw, log io.Writer, meta Meta) (*Recorder, error) {
	r := &Recorder{log: log}
	r.set.begin(meta)
	if raw == nil {
		return r, nil
	}
	r.raw = json.NewEncoder(raw)
	return r, r.raw.Encode(line{Meta: &meta})
}

// Add records a sample.
func (r *Recorder) Add(s Sample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, v := range s.M {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			delete(s.M, key) // a cell in which nothing happened has no averages
		}
	}
	r.set.add(s)
	fmt.Fprintf(r.log, "  %s [%s] round %d: %s\n", s.Scenario, s.Params, s.Round, s.Contestant)
	if s.M["violations"]+s.M["lost_updates"] > 0 {
		fmt.Fprintf(r.log, "!! MUTUAL EXCLUSION BROKEN by %s: %v overlaps, %v lost updates\n",
			s.Contestant, s.M["violations"], s.M["lost_updates"])
	}
	if r.raw == nil {
		return nil
	}
	return r.raw.Encode(line{Sample: &s})
}

// Set returns what has been recorded.
func (r *Recorder) Set() *Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.set
}
