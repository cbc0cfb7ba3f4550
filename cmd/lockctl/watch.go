package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/golocker/golocker/locker"
)

// completionTime is how long a shell waits for names to complete with.
const completionTime = 2 * time.Second

// A snapshot is what was locked at one moment.
type snapshot struct {
	At    time.Time  `json:"at"`
	Locks []lockView `json:"locks,omitzero"` // nil if they are not known
	Error string     `json:"error,omitempty"`
}

func (t *tool) watchCommand() *cobra.Command {
	var interval time.Duration
	var foreign bool
	cmd := &cobra.Command{
		Use:   "watch [NAME-PREFIX]",
		Short: "Show the locks that are held, live",
		Long: `Watch lists the locks again and again. On a terminal the list stays in its place
and q ends it; otherwise, and with --json, each list is written below the one before,
with --json as one object a line.`,
		Args:              atMost(1, "one name prefix at most"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < 100*time.Millisecond {
				return usage("--interval %v: use 100ms or more", interval)
			}
			client, err := t.target.open()
			if err != nil {
				return err
			}
			defer client.Close()
			w := &watcher{client: client, prefix: strings.Join(args, ""), foreign: foreign, interval: interval}
			if !t.json && isTerminal(t.in) && isTerminal(t.out) {
				return w.live(cmd.Context())
			}
			return w.log(cmd.Context(), t)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "time between two looks")
	cmd.Flags().BoolVar(&foreign, "foreign", false, "show strings that expire, too: they may be locks of other libraries")
	return cmd
}

// A watcher looks at the locks of a client.
type watcher struct {
	client   *locker.Client
	prefix   string
	foreign  bool
	interval time.Duration
}

func (w *watcher) look(ctx context.Context) (snapshot, error) {
	locks, err := listLocks(ctx, w.client, w.prefix, w.foreign)
	s := snapshot{At: time.Now(), Locks: locks}
	if err != nil {
		s.Error = err.Error()
	}
	return s, err
}

// log writes one list below the other. A failure of the first look is that of the command, since
// the address is most likely wrong; a later failure passes.
func (w *watcher) log(ctx context.Context, t *tool) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for seen := false; ; seen = true {
		s, err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !seen {
			return err
		}
		if err := w.write(t, s); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *watcher) write(t *tool, s snapshot) error {
	if t.json {
		return json.NewEncoder(t.out).Encode(s)
	}
	_, err := fmt.Fprintf(t.out, "%s\n", s.text(w.prefix))
	return err
}

// text is what a person sees.
func (s snapshot) text(prefix string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  ", s.At.Format(time.TimeOnly))
	switch {
	case s.Error != "":
		b.WriteString(sentence(s.Error))
	case prefix != "":
		fmt.Fprintf(&b, "%d locks that begin with %s", len(s.Locks), printable(prefix))
	default:
		fmt.Fprintf(&b, "%d locks", len(s.Locks))
	}
	b.WriteString("\n\n")
	if s.Locks != nil {
		_ = writeTable(&b, s.Locks)
	}
	return b.String()
}

// live shows the locks in place, until somebody has seen enough.
func (w *watcher) live(ctx context.Context) error {
	final, err := tea.NewProgram(screen{watcher: w, ctx: ctx}, tea.WithContext(ctx), tea.WithFilter(interruptQuits)).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	if s, ok := final.(screen); ok && err == nil {
		err = s.failed
	}
	return err
}

// interruptQuits makes SIGINT the same as q. By itself it is an error.
func interruptQuits(_ tea.Model, msg tea.Msg) tea.Msg {
	if _, ok := msg.(tea.InterruptMsg); ok {
		return tea.QuitMsg{}
	}
	return msg
}

// A screen is what a terminal shows.
type screen struct {
	*watcher
	ctx    context.Context
	latest snapshot
	seen   bool
	failed error
	height int
}

// A looked is the end of one look, and a due the time of the next.
type (
	looked struct {
		snapshot
		err error
	}
	due struct{}
)

func (s screen) Init() tea.Cmd { return s.lookNow }

func (s screen) lookNow() tea.Msg {
	found, err := s.look(s.ctx)
	return looked{found, err}
}

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.height = msg.Height
	case looked:
		if msg.err != nil && !s.seen {
			s.failed = msg.err
			return s, tea.Quit
		}
		if msg.err != nil {
			msg.Locks = s.latest.Locks // the last that were seen, below the error
		}
		s.latest, s.seen = msg.snapshot, true
		return s, tea.Tick(s.interval, func(time.Time) tea.Msg { return due{} })
	case due:
		return s, s.lookNow
	}
	return s, nil
}

func (s screen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

func (s screen) text() string {
	if !s.seen {
		return "looking…\n"
	}
	lines := strings.Split(strings.TrimRight(s.latest.text(s.prefix), "\n"), "\n")
	if room := s.height - 2; room > 1 && len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(lines, "\n") + "\n\nq: quit"
}
