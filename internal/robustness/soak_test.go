package robustness_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/round"
	"github.com/golocker/golocker/internal/robustness/soak"
)

var (
	length   = flag.Duration("soak", 0, "play rounds for so `long`")
	seed     = flag.Uint64("seed", 0, "the `number` that decides about the rounds; 0 chooses one")
	kinds    = flag.String("kinds", "", "only these kinds of deployments, separated by commas")
	drivers  = flag.String("drivers", "", "only these drivers, separated by commas")
	faults   = flag.String("faults", "", "only these faults, separated by commas")
	parallel = flag.Int("rounds", 4, "how `many` rounds there are at a time")
	file     = flag.String("report", "", "the `file` that the report is written to, besides the output")
	again    = flag.String("again", "", "play this `round` again, as a failed one has been printed")
)

// replay is the command that plays a round again, which is to follow.
const replay = "go test ./internal/robustness -run TestSoak -v -count=1 -args -again="

// TestMixedRun is a short run in which every driver and every kind of deployment meets
// some faults.
func TestMixedRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	run := soak.Run{Seed: *seed, Parallel: 3, Replay: replay}
	if run.Seed == 0 {
		run.Seed = 1
	}
	run.Specs = soak.Selection(run.Seed)
	var text strings.Builder
	require.NoError(t, run.Play(t).Write(&text))
	t.Log(text.String())
}

// TestSoak plays rounds for as long as it is told, or one round again.
func TestSoak(t *testing.T) {
	run := soak.Run{
		Choice: soak.Choice{Kinds: list(*kinds), Drivers: list(*drivers), Faults: list(*faults)},
		Length: *length, Seed: *seed, Parallel: *parallel, Replay: replay,
	}
	switch {
	case *again != "":
		spec, err := round.Parse(*again)
		require.NoError(t, err)
		run.Specs = []round.Spec{spec}
	case *length == 0:
		t.Skip("it runs for as long as -args -soak=30m says, see make soak")
	}
	if run.Seed == 0 {
		run.Seed = rand.Uint64() >> 16
	}
	fmt.Printf("soak: -seed=%d\n", run.Seed)
	report := run.Play(t)
	var text strings.Builder
	require.NoError(t, report.Write(&text))
	_, err := io.WriteString(os.Stdout, text.String())
	require.NoError(t, err)
	if *file != "" {
		require.NoError(t, os.WriteFile(*file, []byte(text.String()), 0o644))
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
