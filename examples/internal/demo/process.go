package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const partVariable = "GOLOCKER_EXAMPLE_PART"

// A Part is what a process plays that Stage.Start has started.
type Part struct {
	Server
	Role string // which of Program.Parts
	Name string // of this process
	Args []string
}

// Start starts this program again, to play the part of Program.Parts with the given role
// under the given name. What it says is printed. Wait must be called for the process.
func (s *Stage) Start(ctx context.Context, role, name string, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	description, err := json.Marshal(Part{Server: s.Server, Role: role, Name: name, Args: args})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), partVariable+"="+string(description))
	cmd.Stdout = &lines{say: func(line string) { s.Say("%s %s", name, line) }}
	cmd.Stderr = &lines{say: s.complain}
	if _, err := cmd.StdinPipe(); err != nil { // ends when this process does
		return nil, err
	}
	return cmd, cmd.Start()
}

// lines says what is written to it, line by line.
type lines struct {
	say  func(line string)
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		l.say(string(line))
		l.rest = rest
	}
}

// playPart plays the part that is described. It ends when the process ends that has
// started this one and holds the other end of the standard input.
func (p Program) playPart(description string) int {
	var part Part
	if err := json.Unmarshal([]byte(description), &part); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := p.Parts[part.Role](ctx, &part); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", p.Name, part.Name, err)
		return 1
	}
	return 0
}

// Say prints a line, as said by this process.
func (p *Part) Say(format string, args ...any) {
	fmt.Println(fmt.Sprintf(format, args...))
}

// Crash ends the process as kill -9 and a power failure do: nothing is cleaned up.
func (p *Part) Crash() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // until the signal is there
}
