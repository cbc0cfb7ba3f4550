package demo

import (
	"fmt"
	"os"
	"strings"
)

// A Journal is a file to which processes append lines, in one order for all of them. It
// stands for the database that a lock guards. The value is its path.
type Journal string

// Write appends a line.
func (j Journal) Write(format string, args ...any) error {
	f, err := os.OpenFile(string(j), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(fmt.Sprintf(format, args...) + "\n") // one write, so lines do not mix
	return err
}

// Lines returns all lines so far.
func (j Journal) Lines() ([]string, error) {
	text, err := os.ReadFile(string(j))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

// Count returns how many lines there are that are line.
func (j Journal) Count(line string) (int, error) {
	lines, err := j.Lines()
	n := 0
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n, err
}
