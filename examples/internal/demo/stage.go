package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Stage is one run of an example.
type Stage struct {
	Server
	out, errs io.Writer
	begun     time.Time

	mu     sync.Mutex
	broken bool
	folder string // for journals, removed in the end
}

// Say prints a line with the time since the beginning.
func (s *Stage) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%7.3fs  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

// Print prints text as it is.
func (s *Stage) Print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

// complain prints a line to the error output.
func (s *Stage) complain(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.errs, line)
}

// Promise prints what was promised and whether it was kept. A promise that was not makes
// the program fail.
func (s *Stage) Promise(kept bool, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verdict := "kept:  "
	if !kept {
		s.broken, verdict = true, "BROKEN:"
	}
	fmt.Fprintf(s.out, "%s %s\n", verdict, fmt.Sprintf(format, args...))
}

// Journal returns an empty journal.
func (s *Stage) Journal() (Journal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == "" {
		folder, err := os.MkdirTemp("", "golocker-example-")
		if err != nil {
			return "", err
		}
		s.folder = folder
	}
	f, err := os.CreateTemp(s.folder, "journal-")
	if err != nil {
		return "", err
	}
	return Journal(f.Name()), f.Close()
}

// Path returns the path of a new file that is removed in the end.
func (s *Stage) Path(name string) (string, error) {
	journal, err := s.Journal()
	return filepath.Join(filepath.Dir(string(journal)), name), err
}

func (s *Stage) leave() {
	if s.folder != "" {
		os.RemoveAll(s.folder)
	}
}
