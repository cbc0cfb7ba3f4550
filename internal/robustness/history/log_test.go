package history_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/history"
)

func TestEventsComeBackAsTheyWereWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	log, err := history.Create(path)
	require.NoError(t, err)
	want := []history.Event{
		{At: history.Now(), What: history.Asked, Worker: "w1/2", Op: 1, Name: "a\n{b", Mode: history.Fenced, TTL: 5e9},
		{At: history.Now(), What: history.Granted, Worker: "w1/2", Op: 1, Name: "a\n{b", Token: 1<<53 + 1},
		{At: history.Now(), Since: 1, What: history.Sampled, Keys: 3, Immortal: []string{"k"}},
	}
	for _, e := range want {
		require.NoError(t, log.Add(e))
	}
	require.NoError(t, log.Close())

	_, err = history.Create(path)
	require.ErrorIs(t, err, os.ErrExist, "a history is never written over")
	assert.Equal(t, want, read(t, path))
}

func TestALineThatWasCutShortIsPassedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(path, []byte(`{"at":1,"what":"asked"}`+"\n"+`{"at":2,"wh`), 0o600))
	assert.Equal(t, []history.Event{{At: 1, What: history.Asked}}, read(t, path))
}

func TestALineThatIsNoEventIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600))
	err := history.ReadFile(path, func(history.Event) error { return nil })
	require.ErrorContains(t, err, "events:2")
}

func read(t *testing.T, path string) []history.Event {
	t.Helper()
	var events []history.Event
	require.NoError(t, history.ReadFile(path, func(e history.Event) error {
		events = append(events, e)
		return nil
	}))
	return events
}
