package soak

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/round"
)

func firstRounds(c Choice, seed uint64, n int) []round.Spec {
	var specs []round.Spec
	for spec := range c.rounds(seed) {
		if specs = append(specs, spec); len(specs) == n {
			break
		}
	}
	return specs
}

func TestASeedMakesTheSameRoundsAgain(t *testing.T) {
	a, b := firstRounds(Choice{}, 7, 100), firstRounds(Choice{}, 7, 100)
	assert.Equal(t, a, b)
	assert.NotEqual(t, a, firstRounds(Choice{}, 8, 100))
	for _, spec := range a {
		parsed, err := round.Parse(spec.String())
		require.NoError(t, err)
		assert.Equal(t, spec, parsed)
	}
}

// Within one series of rounds, so that a run which is long enough misses none.
func TestEveryFaultMeetsEveryDriverWhereverItCan(t *testing.T) {
	type meeting struct{ fault, kind, driver string }
	left := map[meeting]bool{}
	for _, f := range nemesis.All() {
		for _, kind := range f.Kinds {
			for _, d := range Drivers {
				if !works(d, kind) {
					continue
				}
				if costly(f) {
					kind = "any"
				}
				left[meeting{f.Name, string(kind), d}] = true
			}
		}
	}
	for _, spec := range (Choice{}).series(rand.New(rand.NewPCG(1, 2))) {
		driver := strings.Join(spec.Drivers, "+")
		for _, f := range spec.Faults {
			delete(left, meeting{f, string(spec.Kind), driver})
			delete(left, meeting{f, "any", driver})
		}
	}
	assert.Empty(t, left)
}

func TestOnlyWhatIsChosenIsPlayed(t *testing.T) {
	faults := nemesis.On(rig.Quorum)
	require.NotEmpty(t, faults)
	c := Choice{Kinds: []string{"quorum"}, Drivers: []string{"redigo"}, Faults: []string{faults[0].Name}}
	require.NoError(t, c.check())
	for _, spec := range firstRounds(c, 1, 3) {
		assert.Equal(t, rig.Quorum, spec.Kind)
		assert.Equal(t, []string{"redigo"}, spec.Drivers)
		assert.Equal(t, []string{faults[0].Name}, spec.Faults)
	}
	assert.ErrorContains(t, Choice{Faults: []string{"flood"}}.check(), `no fault "flood"; there are`)
	assert.ErrorContains(t, Choice{Drivers: []string{"rueids"}}.check(), "goredis, rueidis, redigo")
	assert.ErrorContains(t, Choice{Kinds: []string{"sentinels"}}.check(), "single, quorum, sentinel, cluster")
	assert.Empty(t, firstRounds(Choice{Kinds: []string{"cluster"}, Drivers: []string{"redigo"}}, 1, 3), "a choice of nothing ends")
}

func TestAShortRunHasEveryDriverAndDeployment(t *testing.T) {
	var kinds, drivers []string
	for _, spec := range Selection(3) {
		kinds = append(kinds, string(spec.Kind))
		drivers = append(drivers, spec.Drivers...)
		assert.NotEmpty(t, spec.Faults)
	}
	for _, kind := range rig.Kinds {
		assert.Contains(t, kinds, string(kind))
	}
	for _, d := range Drivers {
		if d != mix {
			assert.True(t, slices.Contains(drivers, d), d)
		}
	}
}
