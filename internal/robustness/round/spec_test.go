package round_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/round"
)

func TestTheTextOfASpecMakesTheSameRound(t *testing.T) {
	spec := round.Spec{
		Load: round.Light, Kind: rig.Quorum, Drivers: []string{"goredis", "redigo"}, Faults: []string{"worker-kill", "server-stop"},
		Mixed: true, Seed: 1<<63 + 5,
	}
	const text = "light:quorum:goredis+redigo:mixed:9223372036854775813:worker-kill+server-stop"
	assert.Equal(t, text, spec.String())
	parsed, err := round.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, spec, parsed)

	for _, text := range []string{"", "a:b:c", "heavy:single:goredis:alone:x:f", "heavy:single:goredis:both:1:f"} {
		_, err := round.Parse(text)
		assert.ErrorContains(t, err, "round: ", text)
	}
}
