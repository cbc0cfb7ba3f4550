package nemesis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sets is a proof that the server's clock is off by d, and by how much after the heal.
func sets(d, after time.Duration) proof {
	return func(t *testing.T, s *stage, f *incident) {
		off := func() time.Duration {
			seconds, err := strconv.ParseInt(s.ask("TIME").([]any)[0].(string), 10, 64)
			require.NoError(t, err)
			return time.Until(time.Unix(seconds, 0))
		}
		assert.InDelta(t, 0, off(), float64(30*time.Second))
		f.inject()
		assert.InDelta(t, d, off(), float64(30*time.Second))
		f.heal()
		assert.InDelta(t, after, off(), float64(30*time.Second))
	}
}

var (
	_ = prove("clock-forward", sets(time.Minute, time.Minute))
	_ = prove("clock-back", sets(-2*time.Minute, 0))
	_ = prove("clock-back-for-good", sets(-2*time.Minute, -2*time.Minute))
)
