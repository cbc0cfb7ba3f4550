package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var program = Program{
	Name: "demo", Title: "A demo", TTL: time.Second,
	Parts: map[string]func(context.Context, *Part) error{
		"writer": func(_ context.Context, p *Part) error {
			p.Say("writes")
			return Journal(p.Args[0]).Write("%s", p.Name)
		},
		"crasher": func(_ context.Context, p *Part) error { p.Crash(); return nil },
		"failure": func(context.Context, *Part) error { return errors.New("out of order") },
	},
}

func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func run(play func(context.Context, *Stage) error, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	p := program
	p.Play = play
	status = p.Run(args, &o, &e)
	return status, o.String(), e.String()
}

func TestExitStatus(t *testing.T) {
	status, out, _ := run(func(_ context.Context, s *Stage) error { s.Promise(true, "fine"); return nil })
	assert.Zero(t, status)
	assert.Contains(t, out, "kept:   fine\n")

	status, out, _ = run(func(_ context.Context, s *Stage) error {
		s.Promise(false, "bad")
		s.Promise(true, "fine")
		return nil
	})
	assert.Equal(t, 1, status, "a broken promise is not forgotten")
	assert.Contains(t, out, "BROKEN: bad\n")

	status, _, errs := run(func(context.Context, *Stage) error { return errors.New("no paper") })
	assert.Equal(t, 1, status)
	assert.Equal(t, "demo: no paper\n", errs)

	status, _, errs = run(nil, "-h")
	assert.Zero(t, status)
	assert.Contains(t, errs, "-url")
	status, _, _ = run(nil, "-nonsense")
	assert.Equal(t, 2, status)
	status, _, errs = run(nil, "-ttl", "2s", "redis://localhost:6379")
	assert.Equal(t, 2, status, "it is not told a server in vain")
	assert.Equal(t, "demo: there is no argument \"redis://localhost:6379\", only flags: -h lists them\n", errs)
}

func TestProcesses(t *testing.T) {
	var folder string
	status, out, errs := run(func(ctx context.Context, s *Stage) error {
		journal, err := s.Journal()
		assert.NoError(t, err)
		folder = s.folder
		start := func(role string) error {
			cmd, err := s.Start(ctx, role, "the "+role, string(journal))
			assert.NoError(t, err)
			return cmd.Wait()
		}
		assert.NoError(t, start("writer"))
		assert.Error(t, start("crasher"))
		assert.Error(t, start("failure"))
		n, err := journal.Count("the writer")
		assert.NoError(t, err)
		assert.Equal(t, 1, n)
		return nil
	})
	assert.Zero(t, status)
	assert.Contains(t, out, "s  the writer writes\n")
	assert.Equal(t, "demo: the failure: out of order\n", errs)
	assert.NoDirExists(t, folder)
}

func TestDataWantsASingleServer(t *testing.T) {
	_, err := Server{URL: "redis://localhost:1?mode=cluster"}.Data()
	assert.ErrorContains(t, err, "single server")
	_, err = Server{URL: "redis://:hunter2@localhost:1?nonsense=1"}.Data()
	assert.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}
