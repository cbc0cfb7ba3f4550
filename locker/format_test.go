package locker

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/holds.golden holds fields of locks with owners as every release so far has
// written them, and what must be read from them: kind of the lock, hold, mode, token,
// owner, label, metadata, or "none". Whoever has such a hold can end it.
func TestHoldsOfAllReleases(t *testing.T) {
	lines := goldenLines(t, "testdata/holds.golden")
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, line := range lines {
			fields := strings.Split(line, "\t")
			h, ok := parseHold(fields[1], time.Now().UnixMilli())
			if fields[2] == "none" {
				assert.False(t, ok, line)
				continue
			}
			token, err := strconv.ParseUint(fields[3], 10, 64)
			require.NoError(t, err)
			remaining := time.Until(time.UnixMilli(1795233600000))
			want := Holder{Mode: Mode(fields[2]), Holds: 1, Token: Token(token), Owner: fields[4], Label: fields[5], Metadata: fields[6], Remaining: remaining}
			assert.Equal(t, want, h, line)

			f.HSet("k", "gl1", fields[0], goldenID(1), fields[1])
			s, err := c.Inspect(t.Context(), "k")
			require.NoError(t, err)
			want.leases = fingerprint(goldenID(1))
			assert.Equal(t, []Holder{want}, s.Holders, line)
			v, err := c.store.link.run(t.Context(), c.store.releaseCall(c.Mutex("k", ForReading()), goldenID(1), "", 0))
			require.NoError(t, err)
			assert.Equal(t, int64(1), v, line)
			assert.False(t, f.Exists("k"))
		}
	})
}

// testdata/state.golden is all that this release stores and says in a play of locks of
// every kind, byte for byte. docs/format.md describes it. A line that has to change
// needs another version of the format, unless no more than the number of a token differs.
func TestWhatThisReleaseStores(t *testing.T) {
	want := goldenLines(t, "testdata/state.golden")
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		p := &goldenPlay{fakeDeployment: f, client: f.client(t, Label("host:17"))}
		p.client.store.link.counts.Store(true)
		messages := f.NewSubscriber()
		defer messages.Close()
		messages.Subscribe("channel")
		heard := make(chan string, 8)
		go func() {
			for m := range messages.Messages() {
				heard <- m.Message
			}
		}()

		p.ask(t, "x", 1, Reentrant(), Fenced(), As(NamedOwner("job")), Metadata("a|b"))
		p.note("one holds a reentrant lock", "x")
		p.ask(t, "rw", 2, ForReading(), As(NamedOwner("reader")), TTL(time.Minute))
		p.ask(t, "rw", 3, ForReading(), As(NamedOwner("other")))
		p.note("two read", "rw")
		p.ask(t, "rw", 4, ForWriting(), Fenced(), As(NamedOwner("writer")))
		p.polls = true
		p.ask(t, "rw", 5, ForReading(), As(NamedOwner("third")), Metadata("a|b"))
		p.polls = false
		p.ask(t, "rw", 6, ForWriting(), As(NamedOwner("reader")))
		p.note("a writer waits, behind it a reader that polls, before it a reader that wants to write", "rw")
		p.end(t, "rw", 3)
		p.note("the other reader has gone", "rw")
		p.end(t, "rw", 2)
		p.end(t, "rw", 6)
		p.note("the next writer's turn", "rw")

		p.ask(t, "m", 8, Fenced())
		p.ask(t, "m", 9, Fenced(), Metadata("a|b"))
		p.note("one waits for a mutex", "m")
		p.end(t, "m", 8)
		p.note("it has it", "m")
		p.ask(t, "m", 10, Fenced())
		_, err := p.client.ForceRelease(t.Context(), "m")
		require.NoError(t, err)
		p.lines = append(p.lines, "# messages, the last of which asks to look")
		for range 4 {
			p.lines = append(p.lines, <-heard)
		}
		assert.Equal(t, want, p.lines, "\n%s", strings.Join(p.lines, "\n"))
	})
}

// A goldenPlay asks for locks under ids that are always the same.
type goldenPlay struct {
	*fakeDeployment
	client *Client
	polls  bool // who asks hears no messages
	lines  []string
}

func goldenID(n int) string { return fmt.Sprintf("%032x", n) }

// ask asks for a lock, and for a place in the queue.
func (p *goldenPlay) ask(t *testing.T, name string, n int, opts ...Option) {
	t.Helper()
	m := p.client.Mutex(name, opts...)
	r := request{name: name, keys: &m.keys, mode: m.mode, id: goldenID(n), owner: m.cfg.owner.name, tail: m.tail, ttl: m.ttl, px: m.px, fenced: m.cfg.fenced}
	at := place{reservation: goldenID(1000 + n), channel: "channel", life: 4 * time.Second}
	if p.polls {
		at.channel = ""
	}
	_, _, err := p.client.store.acquire(t.Context(), &r, at)
	if err != nil {
		require.ErrorIs(t, err, ErrLocked)
	}
}

func (p *goldenPlay) end(t *testing.T, name string, n int) {
	t.Helper()
	mode := ForReading()
	if name == "m" {
		mode = Fenced()
	}
	_, err := p.client.store.link.run(t.Context(), p.client.store.releaseCall(p.client.Mutex(name, mode), goldenID(n), "", time.Minute))
	require.NoError(t, err)
}

// note writes down what is stored for a lock.
func (p *goldenPlay) note(what, name string) {
	p.lines = append(p.lines, "# "+what)
	m := p.client.Mutex(name)
	keys := []string{m.keys.record, m.keys.fence, m.keys.queue, m.keys.entries}
	for _, key := range p.Keys() {
		if strings.HasPrefix(key, m.keys.over("")) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		var fields []string
		switch p.Type(key) {
		case "string":
			text, _ := p.Get(key)
			fields = []string{text}
		case "hash":
			names, _ := p.HKeys(key)
			for _, field := range names {
				fields = append(fields, field+" "+p.HGet(key, field))
			}
		case "zset":
			scores, _ := p.SortedSet(key)
			for member, score := range scores {
				fields = append(fields, fmt.Sprintf("%.0f %s", score, member))
			}
		}
		slices.Sort(fields)
		for _, field := range fields {
			p.lines = append(p.lines, fmt.Sprintf("%s\t%s\t%s", key, p.TTL(key), field))
		}
	}
}

func goldenLines(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var lines []string
	for in := bufio.NewScanner(file); in.Scan(); {
		lines = append(lines, in.Text())
	}
	require.NotEmpty(t, lines)
	return lines
}
