package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golocker/golocker/locker"
)

// A Stage is one run of an example.
type Stage struct {
	Server
	out, errs io.Writer
	begun     time.Time

	mu     sync.Mutex
	broken bool
	folder string // for journals, removed in the end
	hosts  []*locker.Client
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

// Hosts returns clients of so many hosts, named "host 1" and so on. They are closed in the
// end.
func (s *Stage) Hosts(n int) ([]*locker.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := len(s.hosts)
	for i := range n {
		client, err := s.Open(fmt.Sprintf("host %d", i+1))
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, client)
	}
	return s.hosts[begun:], nil
}

func (s *Stage) leave() {
	for _, client := range s.hosts {
		client.Close()
	}
	if s.folder != "" {
		os.RemoveAll(s.folder)
	}
}
