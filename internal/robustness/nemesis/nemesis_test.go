package nemesis_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/rig"
)

// longestTTL is that of the scenes of these tests.
const longestTTL = 400 * time.Millisecond

// A proof checks that a fault does to one server, line or worker what its name says. It
// is run before the fault, and goes on when it is injected and healed.
type proof func(t *testing.T, s *stage, f *incident)

// proofs are those of every fault, on the first of its kinds.
var proofs = map[string]proof{}

func prove(name string, p proof) struct{} {
	proofs[name] = p
	return struct{}{}
}

func TestEveryFaultDoesWhatItsNameSays(t *testing.T) {
	t.Parallel()
	for _, f := range nemesis.All() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, proofs, f.Name, "a fault that nothing is known of")
			s := newStage(t, f.Kinds[0], f.Needs)
			proofs[f.Name](t, s, &incident{t: t, stage: s, fault: f})
		})
	}
}

func TestCatalogue(t *testing.T) {
	all := nemesis.All()
	assert.GreaterOrEqual(t, len(all), 25)
	names := map[string]bool{}
	for _, f := range all {
		assert.False(t, names[f.Name], "%s is there twice", f.Name)
		names[f.Name] = true
		assert.NotEmpty(t, f.Kinds, f.Name)
		for _, a := range f.Allows {
			assert.NotEmpty(t, a.Because, f.Name)
			assert.Subset(t, f.Kinds, a.Kinds, f.Name)
		}
	}
	for name := range proofs {
		assert.Contains(t, names, name, "a proof of a fault that is not there")
	}
	for _, kind := range rig.Kinds {
		for _, f := range nemesis.On(kind) {
			assert.Contains(t, f.Kinds, kind)
		}
	}
}

// A server that is frozen by one fault is not killed by another, which waits instead.
func TestTwoFaultsAreNotDoneToOneServer(t *testing.T) {
	t.Parallel()
	s := newStage(t, rig.Single, rig.Needs{})
	stop := &incident{t: t, stage: s, fault: named(t, "server-stop")}
	stop.inject()
	_, err := named(t, "server-kill-empty").Inject(t.Context(), s.Scene)
	require.ErrorIs(t, err, nemesis.ErrBusy)
	stop.heal()
	again := &incident{t: t, stage: s, fault: named(t, "server-kill-empty")}
	again.inject()
	again.heal()
}

func TestLossAndClockTogetherMayBreakTheOrderOfTokens(t *testing.T) {
	flush, clock := named(t, "flushall"), named(t, "clock-back")
	assert.NotContains(t, flush.Allowed(rig.Single), lawI3)
	assert.NotContains(t, flush.Allowed(rig.Single, named(t, "server-stop")), lawI3)
	assert.Contains(t, flush.Allowed(rig.Single, clock), lawI3)
	assert.Contains(t, clock.Allowed(rig.Single, flush), lawI3)
	assert.Zero(t, flush.Lasts(named(t, "server-stop")))
	assert.Equal(t, time.Minute, flush.Lasts(clock), "until the clocks have caught up")
	assert.Contains(t, flush.Allowed(rig.Single), lawI1)
	assert.NotContains(t, flush.Allowed(rig.Quorum), lawI1)
}

func named(t *testing.T, name string) nemesis.Fault {
	t.Helper()
	all := nemesis.All()
	i := slices.IndexFunc(all, func(f nemesis.Fault) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// An incident is a fault under test.
type incident struct {
	t     *testing.T
	stage *stage
	fault nemesis.Fault
	undo  nemesis.Heal
}

func (i *incident) inject() {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), patience)
	defer cancel()
	var err error
	i.undo, err = i.fault.Inject(ctx, i.stage.Scene)
	require.NoError(i.t, err)
}

func (i *incident) heal() {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), patience)
	defer cancel()
	require.NoError(i.t, i.undo(ctx))
}
