//go:build linux

package harness

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHoldersInTurnDoNotOverlap(t *testing.T) {
	w, err := NewWitness()
	require.NoError(t, err)
	first := w.Enter(1, Now())
	assert.Zero(t, first.Handoff)
	w.Exit(first)
	second := w.Enter(2, Now())
	assert.Positive(t, second.Handoff)
	assert.False(t, second.Retaken)
	w.Exit(second)
	third := w.Enter(2, Now())
	assert.True(t, third.Retaken)
	w.Exit(third)

	assert.EqualValues(t, 3, w.Entries())
	assert.Zero(t, w.Overlaps())
	assert.Zero(t, w.Lost(w.Entries()))
}

func TestAnOverlapIsSeen(t *testing.T) {
	for name, orders := range map[string][]string{
		"one after the other": {"enter 1", "enter 2", "exit 1", "exit 2"},
		"one within another":  {"enter 1", "enter 2", "exit 2", "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWitness()
			require.NoError(t, err)
			visits := map[string]Visit{}
			for _, o := range orders {
				who := o[len(o)-1:]
				if o == "enter "+who {
					visits[who] = w.Enter(int64(who[0]), Now())
				} else {
					w.Exit(visits[who])
				}
			}
			assert.Positive(t, w.Overlaps())
			assert.EqualValues(t, 1, w.Lost(w.Entries()))
		})
	}
}

// Two mappings of one file are what two processes have.
func TestAnOverlapBetweenProcessesIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "witness")
	a, err := OpenWitness(file)
	require.NoError(t, err)
	b, err := OpenWitness(file)
	require.NoError(t, err)

	inA := a.Enter(1, Now())
	inB := b.Enter(2, Now())
	b.Exit(inB)
	a.Exit(inA)
	assert.Positive(t, a.Overlaps()+b.Overlaps())
	assert.EqualValues(t, 1, a.Lost(a.Entries()+b.Entries()))
}
