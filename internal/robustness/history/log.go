package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// A Log appends events to a file. It may be used from several goroutines.
type Log struct {
	mu   sync.Mutex
	file *os.File
}

// Create makes the file and returns its log.
func Create(path string) (*Log, error) { return open(path, os.O_CREATE|os.O_EXCL) }

// Open returns the log of a file that there is.
func Open(path string) (*Log, error) { return open(path, 0) }

func open(path string, flag int) (*Log, error) {
	file, err := os.OpenFile(path, flag|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: file}, nil
}

// Add writes an event, whole and at once.
func (l *Log) Add(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// ReadFile calls each with the events of a log, in the order in which they were
// written. A last line that is cut short, because its writer was killed, is passed
// over.
func ReadFile(path string, each func(Event) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}
