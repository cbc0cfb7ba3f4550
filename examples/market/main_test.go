package main

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestMarket(t *testing.T) {
	demotest.Run(t, program, "rueidis", `WATCH: +80 sold`, `one lock: +80 sold`, `a lock each: +80 sold`)
}

// The audit must be able to find that something was sold twice.
func TestAuditFindsFaults(t *testing.T) {
	db := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer db.Close()
	m := &market{db: db}
	require.NoError(t, m.open(t.Context()))
	faults, err := m.audit(t.Context())
	require.NoError(t, err)
	assert.Len(t, faults, sellers*items+1, "nothing is sold yet")

	for i := range buyers {
		for n := range sellers * items {
			if n%buyers == i || n == 0 {
				require.NoError(t, db.SAdd(t.Context(), m.inventory(buyer(i)), itemName(n)).Err())
			}
		}
	}
	faults, err = m.audit(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "item0 has 8 owners", faults[0])
	assert.Contains(t, faults[1], "paid 0")
}
